package org.apache.kafka.connect.mirror;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * What the classes of MirrorMaker 2 answer, many questions in one JVM.
 *
 * In their package, since most of them are seen there alone. Janino compiles it: no lambdas and no
 * inference. The arguments are a JSON file of questions, each with its "kind", and one for the
 * answers; bytes are hexadecimal, partitions [topic, number].
 */
public class MirrorOracle {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        List found = new ArrayList();
        List asked = (List) mapper.readValue(new File(arguments[0]), List.class);
        for (Iterator each = asked.iterator(); each.hasNext();) {
            Map question = (Map) each.next();
            Object kind = question.get("kind");
            if (kind.equals("write")) {
                found.add(write(question));
            } else if (kind.equals("read")) {
                found.add(read(question));
            } else if (kind.equals("store")) {
                found.add(store(question));
            } else if (kind.equals("writer")) {
                found.add(writer(question));
            } else if (kind.equals("task")) {
                found.add(task(question));
            } else if (kind.equals("client")) {
                found.add(client(question));
            } else {
                found.add(live(question));
            }
        }
        mapper.writeValue(new File(arguments[1]), found);
        System.exit(0);
    }

    // Records

    private static Object write(Map question) {
        List values = (List) question.get("values");
        Object type = question.get("type");
        byte[] key;
        byte[] value;
        if (type.equals("sync")) {
            OffsetSync sync = new OffsetSync(partition(values), number(values, 2), number(values, 3));
            key = sync.recordKey();
            value = sync.recordValue();
        } else if (type.equals("checkpoint")) {
            Checkpoint point = checkpoint(values);
            key = point.recordKey();
            value = point.recordValue();
        } else {
            Heartbeat beat =
                new Heartbeat((String) values.get(0), (String) values.get(1), number(values, 2));
            key = beat.recordKey();
            value = beat.recordValue();
        }
        return list(new Object[] {hexadecimal(key), hexadecimal(value)});
    }

    /** The values, or null where Java finds no record. */
    private static Object read(Map question) {
        ConsumerRecord record = record((String) question.get("key"), (String) question.get("value"));
        Object type = question.get("type");
        try {
            if (type.equals("sync")) {
                return values(OffsetSync.deserializeRecord(record));
            } else if (type.equals("checkpoint")) {
                return values(Checkpoint.deserializeRecord(record));
            } else {
                Heartbeat beat = Heartbeat.deserializeRecord(record);
                return list(new Object[] {beat.sourceClusterAlias(), beat.targetClusterAlias(),
                    Long.valueOf(beat.timestamp())});
            }
        } catch (org.apache.kafka.common.protocol.types.SchemaException error) {
            return null;
        }
    }

    // Offset syncs, read

    private static class Store extends OffsetSyncStore {
        private final Iterator loaded;

        Store(Iterator loaded) {
            this.loaded = loaded;
        }

        void backingStoreStart() {
            while (loaded.hasNext()) {
                sync((List) loaded.next());
            }
        }

        void sync(List values) {
            OffsetSync sync = new OffsetSync(partition(values), number(values, 2), number(values, 3));
            handleRecord(new ConsumerRecord("s", 0, 3L, sync.recordKey(), sync.recordValue()));
        }
    }

    /** After loading and after each sync: the slots as [first slot, upstream], and translations. */
    private static Object store(Map question) {
        Store store = new Store(((List) question.get("loaded")).iterator());
        store.start(((Boolean) question.get("must read to end")).booleanValue());
        List found = new ArrayList();
        found.add(state(store, question));
        for (Iterator each = ((List) question.get("then")).iterator(); each.hasNext();) {
            store.sync((List) each.next());
            found.add(state(store, question));
        }
        return found;
    }

    private static Object state(Store store, Map question) {
        TopicPartition partition = partition((List) question.get("partition"));
        List slots = new ArrayList();
        for (int at = 0; at < 64; at++) {
            OffsetSync sync;
            try {
                sync = store.syncFor(partition, at);
            } catch (IllegalArgumentException none) {
                break;
            }
            if (at == 0 || sync != store.syncFor(partition, at - 1)) {
                slots.add(list(new Object[] {Integer.valueOf(at), Long.valueOf(sync.upstreamOffset())}));
            }
        }
        List told = new ArrayList();
        for (Iterator each = ((List) question.get("asked")).iterator(); each.hasNext();) {
            OptionalLong answer =
                store.translateDownstream("g", partition, ((Number) each.next()).longValue());
            told.add(answer.isPresent() ? (Object) Long.valueOf(answer.getAsLong()) : null);
        }
        return list(new Object[] {slots, told});
    }

    // Offset syncs, written

    /** Made without its constructor: keeps what it is to send. */
    public static class Producer extends KafkaProducer {
        List sent;
        List callbacks;

        public Producer() {
            super(new HashMap());
        }

        public Future send(ProducerRecord record, Callback callback) {
            sent.add(values(OffsetSync.deserializeRecord(new ConsumerRecord(
                record.topic(), 0, 0L, record.key(), record.value()))));
            callbacks.add(callback);
            return null;
        }
    }

    /** Steps: [topic, partition, upstream, downstream], or "commit", "fire", "answer". */
    private static Object writer(Map question) throws Exception {
        Producer producer = (Producer) made(Producer.class);
        producer.callbacks = new ArrayList();
        int permits = ((Number) question.get("permits")).intValue();
        OffsetSyncWriter writer = new OffsetSyncWriter(producer, "syncs", new Semaphore(permits),
            ((Number) question.get("lag")).longValue());
        List found = new ArrayList();
        for (Iterator each = ((List) question.get("steps")).iterator(); each.hasNext();) {
            Object step = each.next();
            producer.sent = new ArrayList();
            if (step.equals("commit")) {
                writer.promoteDelayedOffsetSyncs();
            } else if (step.equals("fire")) {
                writer.firePendingOffsetSyncs();
            } else if (step.equals("answer")) {
                if (!producer.callbacks.isEmpty()) {
                    ((Callback) producer.callbacks.remove(0)).onCompletion(null, null);
                }
            } else {
                List values = (List) step;
                writer.maybeQueueOffsetSyncs(partition(values), number(values, 2), number(values, 3));
            }
            found.add(list(new Object[] {producer.sent,
                all(writer.getPendingOffsetSyncs()), all(writer.getDelayedOffsetSyncs())}));
        }
        return found;
    }

    private static List all(Map syncs) {
        List found = new ArrayList();
        for (Iterator each = syncs.values().iterator(); each.hasNext();) {
            found.add(values((OffsetSync) each.next()));
        }
        return found;
    }

    // Checkpoints

    /**
     * Checkpoints made of "rounds" of committed offsets, [topic, partition, offset or null, note],
     * and what is then to be written over "idle", offsets on the target by group.
     */
    private static Object task(Map question) throws Exception {
        Store store = new Store(Collections.EMPTY_LIST.iterator());
        store.start(true);
        Map standing = new HashMap();
        for (Iterator each = ((List) question.get("standing")).iterator(); each.hasNext();) {
            Checkpoint point = checkpoint((List) each.next());
            if (!standing.containsKey(point.consumerGroupId())) {
                standing.put(point.consumerGroupId(), new HashMap());
            }
            ((Map) standing.get(point.consumerGroupId())).put(point.topicPartition(), point);
        }
        CheckpointStore checkpoints = new CheckpointStore(standing);
        Map idle = new HashMap();
        Map given = (Map) question.get("idle");
        for (Iterator each = given.keySet().iterator(); each.hasNext();) {
            Object group = each.next();
            idle.put(group, committed((List) given.get(group)));
        }
        MirrorCheckpointTask task = new MirrorCheckpointTask(
            (String) question.get("source"), (String) question.get("target"), policy(question),
            store, new HashSet(), idle, checkpoints);
        List made = new ArrayList();
        for (Iterator each = ((List) question.get("rounds")).iterator(); each.hasNext();) {
            Map round = (Map) each.next();
            for (Iterator sync = ((List) round.get("syncs")).iterator(); sync.hasNext();) {
                store.sync((List) sync.next());
            }
            String group = (String) round.get("group");
            Map points = task.checkpointsForGroup(committed((List) round.get("committed")), group);
            checkpoints.update(group, points);
            TreeMap sorted = new TreeMap();
            for (Iterator one = points.values().iterator(); one.hasNext();) {
                Checkpoint point = (Checkpoint) one.next();
                sorted.put(point.topicPartition().toString(), values(point));
            }
            made.add(new ArrayList(sorted.values()));
        }
        Map written = new TreeMap();
        Map groups = task.syncGroupOffset();
        for (Iterator each = groups.keySet().iterator(); each.hasNext();) {
            Object group = each.next();
            written.put(group, offsets((Map) groups.get(group)));
        }
        return list(new Object[] {made, written});
    }

    /** An offset of null stands for a position of none. */
    private static Map committed(List given) {
        Map found = new HashMap();
        for (Iterator each = given.iterator(); each.hasNext();) {
            List values = (List) each.next();
            Object offset = values.get(2) == null ? null
                : (Object) new OffsetAndMetadata(number(values, 2), (String) values.get(3));
            found.put(partition(values), offset);
        }
        return found;
    }

    // The client

    private static class Client extends MirrorClient {
        private final Map question;

        Client(Map question) {
            super(null, policy(question), Collections.EMPTY_MAP);
            this.question = question;
        }

        Set listTopics() {
            return new HashSet((List) question.get("topics"));
        }

        Consumer consumer() {
            TopicPartition partition =
                new TopicPartition((String) question.get("checkpoints topic"), 0);
            List records = (List) question.get("records");
            final MockConsumer consumer = new MockConsumer("earliest");
            consumer.updateBeginningOffsets(Collections.singletonMap(partition, Long.valueOf(0L)));
            consumer.updateEndOffsets(
                Collections.singletonMap(partition, Long.valueOf(records.size())));
            consumer.schedulePollTask(new Fill(consumer, partition, records));
            return consumer;
        }
    }

    private static class Fill implements Runnable {
        private final MockConsumer consumer;
        private final TopicPartition partition;
        private final List records;

        Fill(MockConsumer consumer, TopicPartition partition, List records) {
            this.consumer = consumer;
            this.partition = partition;
            this.records = records;
        }

        public void run() {
            long offset = 0L;
            for (Iterator each = records.iterator(); each.hasNext();) {
                List pair = (List) each.next();
                consumer.addRecord(new ConsumerRecord(partition.topic(), 0, offset,
                    bytes((String) pair.get(0)), bytes((String) pair.get(1))));
                offset++;
            }
        }
    }

    private static Object client(Map question) throws Exception {
        Client client = new Client(question);
        Map found = new TreeMap();
        Map hops = new TreeMap();
        Map remote = new TreeMap();
        for (Iterator each = ((List) question.get("aliases")).iterator(); each.hasNext();) {
            String alias = (String) each.next();
            hops.put(alias, Integer.valueOf(client.replicationHops(alias)));
            remote.put(alias, new TreeSet(client.remoteTopics(alias)));
        }
        found.put("hops", hops);
        found.put("remote of", remote);
        found.put("heartbeats", new TreeSet(client.heartbeatTopics()));
        found.put("checkpoints", new TreeSet(client.checkpointTopics()));
        found.put("upstream", new TreeSet(client.upstreamClusters()));
        found.put("remote", new TreeSet(client.remoteTopics()));
        String alias = (String) question.get("remote alias");
        Duration timeout = Duration.ofSeconds(20L);
        Map offsets = new TreeMap();
        for (Iterator each = ((List) question.get("groups")).iterator(); each.hasNext();) {
            String group = (String) each.next();
            offsets.put(group, offsets(client.remoteConsumerOffsets(group, alias, timeout)));
        }
        found.put("offsets", offsets);
        Map matching = new TreeMap();
        Pattern pattern = Pattern.compile((String) question.get("pattern"));
        Map groups = client.remoteConsumerOffsets(pattern, alias, timeout);
        for (Iterator each = groups.keySet().iterator(); each.hasNext();) {
            Object group = each.next();
            matching.put(group, offsets((Map) groups.get(group)));
        }
        found.put("matching", matching);
        return found;
    }

    /** Of a cluster that "properties" lead to. */
    private static Object live(Map question) throws Exception {
        Map properties = (Map) question.get("properties");
        String alias = (String) question.get("alias");
        String farther = (String) question.get("farther");
        Duration timeout = Duration.ofSeconds(30L);
        Map found = new TreeMap();
        found.put("hops", Integer.valueOf(RemoteClusterUtils.replicationHops(properties, alias)));
        found.put("farther",
            Integer.valueOf(RemoteClusterUtils.replicationHops(properties, farther)));
        found.put("heartbeats", new TreeSet(RemoteClusterUtils.heartbeatTopics(properties)));
        found.put("checkpoints", new TreeSet(RemoteClusterUtils.checkpointTopics(properties)));
        found.put("upstream", new TreeSet(RemoteClusterUtils.upstreamClusters(properties)));
        found.put("offsets", offsets(RemoteClusterUtils.translateOffsets(
            properties, alias, (String) question.get("group"), timeout)));
        Map matching = new TreeMap();
        Map groups = RemoteClusterUtils.translateOffsets(
            properties, alias, Pattern.compile((String) question.get("pattern")), timeout);
        for (Iterator each = groups.keySet().iterator(); each.hasNext();) {
            Object group = each.next();
            matching.put(group, offsets((Map) groups.get(group)));
        }
        found.put("matching", matching);
        return found;
    }

    // Values

    private static ReplicationPolicy policy(Map question) {
        Map settings = (Map) question.get("policy");
        DefaultReplicationPolicy found = settings.containsKey("source.cluster.alias")
            ? new IdentityReplicationPolicy() : new DefaultReplicationPolicy();
        found.configure(settings);
        return found;
    }

    private static Checkpoint checkpoint(List values) {
        return new Checkpoint((String) values.get(0),
            new TopicPartition((String) values.get(1), ((Number) values.get(2)).intValue()),
            number(values, 3), number(values, 4), (String) values.get(5));
    }

    private static List values(Checkpoint point) {
        TopicPartition partition = point.topicPartition();
        return list(new Object[] {point.consumerGroupId(), partition.topic(),
            Integer.valueOf(partition.partition()), Long.valueOf(point.upstreamOffset()),
            Long.valueOf(point.downstreamOffset()), point.metadata()});
    }

    private static List values(OffsetSync sync) {
        TopicPartition partition = sync.topicPartition();
        return list(new Object[] {partition.topic(), Integer.valueOf(partition.partition()),
            Long.valueOf(sync.upstreamOffset()), Long.valueOf(sync.downstreamOffset())});
    }

    private static List offsets(Map found) {
        TreeMap sorted = new TreeMap();
        for (Iterator each = found.keySet().iterator(); each.hasNext();) {
            TopicPartition partition = (TopicPartition) each.next();
            OffsetAndMetadata offset = (OffsetAndMetadata) found.get(partition);
            sorted.put(partition.toString(), list(new Object[] {partition.topic(),
                Integer.valueOf(partition.partition()), Long.valueOf(offset.offset()),
                offset.metadata()}));
        }
        return new ArrayList(sorted.values());
    }

    private static TopicPartition partition(List values) {
        return new TopicPartition((String) values.get(0), ((Number) values.get(1)).intValue());
    }

    private static long number(List values, int at) {
        return ((Number) values.get(at)).longValue();
    }

    private static ConsumerRecord record(String key, String value) {
        return new ConsumerRecord("t", 0, 0L, bytes(key), bytes(value));
    }

    private static List list(Object[] values) {
        List found = new ArrayList();
        for (int at = 0; at < values.length; at++) {
            found.add(values[at]);
        }
        return found;
    }

    private static Object made(Class type) throws Exception {
        Field field = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Object unsafe = field.get(null);
        Method allocate = unsafe.getClass().getMethod("allocateInstance", new Class[] {Class.class});
        return allocate.invoke(unsafe, new Object[] {type});
    }

    private static String hexadecimal(byte[] content) {
        StringBuilder found = new StringBuilder();
        for (int at = 0; at < content.length; at++) {
            found.append(String.format("%02x", new Object[] {Byte.valueOf(content[at])}));
        }
        return found.toString();
    }

    private static byte[] bytes(String text) {
        byte[] found = new byte[text.length() / 2];
        for (int at = 0; at < found.length; at++) {
            found[at] = (byte) Integer.parseInt(text.substring(2 * at, 2 * at + 2), 16);
        }
        return found;
    }
}
