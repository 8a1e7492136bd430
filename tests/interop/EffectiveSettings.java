package tests.interop;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.FileInputStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter;
import org.apache.kafka.connect.mirror.MirrorCheckpointConfig;
import org.apache.kafka.connect.mirror.MirrorCheckpointConnector;
import org.apache.kafka.connect.mirror.MirrorMakerConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.ReplicationPolicy;
import org.apache.kafka.connect.mirror.SourceAndTarget;

/**
 * What MirrorMaker 2 makes of properties files: one JSON document for all of them, on stdout.
 *
 * Compiled in memory by Janino, so no lambdas and no inference. Most of what is asked for is package
 * private: hence the reflection. The argument is a JSON file: {files, properties, topics, groups,
 * configs}; `files` are read as MirrorMaker 2's own, `properties` only as Java's Properties.
 */
public class EffectiveSettings {
    private static Map asked;

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        asked = (Map) mapper.readValue(new File(arguments[0]), Map.class);
        Map found = new TreeMap();
        Map files = new TreeMap();
        for (Iterator each = list("files"); each.hasNext();) {
            String file = (String) each.next();
            files.put(file, read(file));
        }
        found.put("files", files);
        List plain = new ArrayList();
        for (Iterator each = list("properties"); each.hasNext();) {
            plain.add(plainly((String) each.next()));
        }
        found.put("properties", plain);
        found.put("keys", keys());
        mapper.writeValue(new File(arguments[1]), found);
        System.exit(0);
    }

    private static Iterator list(String name) {
        return ((List) asked.get(name)).iterator();
    }

    private static Map plainly(String file) throws Exception {
        Properties properties = new Properties();
        FileInputStream stream = new FileInputStream(file);
        properties.load(stream);
        stream.close();
        return new TreeMap(properties);
    }

    private static Map read(String file) throws Exception {
        Map properties = Utils.propsToStringMap(Utils.loadProps(file));
        properties.put("plugin.discovery", "service_load"); // only how Connect looks for plugins
        MirrorMakerConfig config = new MirrorMakerConfig(properties);
        List pairs = new ArrayList();
        for (Iterator each = config.clusterPairs().iterator(); each.hasNext();) {
            pairs.add(each.next().toString());
        }
        Map flows = new TreeMap();
        for (Iterator one = new TreeSet(config.clusters()).iterator(); one.hasNext();) {
            String source = (String) one.next();
            for (Iterator two = new TreeSet(config.clusters()).iterator(); two.hasNext();) {
                String target = (String) two.next();
                if (!source.equals(target)) {
                    SourceAndTarget pair = new SourceAndTarget(source, target);
                    flows.put(pair.toString(), flow(config, pair, pairs));
                }
            }
        }
        return flows;
    }

    private static Map flow(MirrorMakerConfig config, SourceAndTarget pair, List pairs) throws Exception {
        Map base = filled(config, config.connectorBaseConfig(pair, MirrorSourceConnector.class));
        MirrorSourceConfig source = new MirrorSourceConfig(base);
        Map found = new TreeMap();
        boolean enabled = ((Boolean) call(source, "enabled")).booleanValue();
        found.put("enabled", Boolean.valueOf(enabled && pairs.contains(pair.toString())));
        found.put("tasks.max", source.getInt("tasks.max"));
        found.put("replication.factor", call(source, "replicationFactor"));
        found.put("refresh.topics", call(source, "refreshTopicsInterval").toString());
        found.put("sync.topic.configs", call(source, "syncTopicConfigsInterval").toString());
        found.put("admin.timeout", call(source, "adminTimeout").toString());
        ReplicationPolicy policy = (ReplicationPolicy) call(source, "replicationPolicy");
        found.put("remote topics", remoteTopics(policy, pair.source()));
        found.put("checkpoints topic", policy.checkpointsTopic(pair.source()));
        found.put("topics", topics(source, pair));
        found.put("configs", configs(source));
        found.put("groups", groups(config, pair));
        found.put("consumer", client((Map) call(source, "sourceConsumerConfig", "role")));
        found.put("source admin", client((Map) call(source, "sourceAdminConfig", "role")));
        found.put("target admin", client((Map) call(source, "targetAdminConfig", "role")));
        found.put("producer", client(producer(config, pair, source)));
        return found;
    }

    /** As `Worker.producerConfigs` does it for a source task. */
    private static Map producer(MirrorMakerConfig config, SourceAndTarget pair, MirrorSourceConfig source) {
        Map worker = config.workerConfig(pair);
        Map found = new HashMap();
        found.put("bootstrap.servers", worker.get("bootstrap.servers"));
        found.putAll(Utils.entriesWithPrefix(worker, "producer."));
        found.putAll(source.originalsWithPrefix("producer.override."));
        return found;
    }

    private static Map client(Map config) {
        Map found = new TreeMap();
        for (Iterator each = config.entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            Object value = entry.getValue();
            if (value instanceof Password) {
                value = ((Password) value).value();
            }
            found.put(entry.getKey(), String.valueOf(value));
        }
        return found;
    }

    private static Map remoteTopics(ReplicationPolicy policy, String alias) {
        Map found = new TreeMap();
        for (Iterator each = list("topics"); each.hasNext();) {
            String topic = (String) each.next();
            found.put(topic, policy.formatRemoteTopic(alias, topic));
        }
        return found;
    }

    private static List topics(MirrorSourceConfig source, SourceAndTarget pair) throws Exception {
        Constructor made = null;
        Constructor[] all = MirrorSourceConnector.class.getDeclaredConstructors();
        for (int at = 0; at < all.length; at++) {
            if (all[at].getParameterTypes().length == 5) {
                made = all[at];
            }
        }
        made.setAccessible(true);
        Object connector = made.newInstance(new Object[] {
            pair, call(source, "replicationPolicy"), call(source, "topicFilter"),
            call(source, "configPropertyFilter"), call(source, "heartbeatsReplicationEnabled")
        });
        List found = new ArrayList();
        for (Iterator each = list("topics"); each.hasNext();) {
            String topic = (String) each.next();
            if (((Boolean) call(connector, "shouldReplicateTopic", topic)).booleanValue()) {
                found.add(topic);
            }
        }
        return found;
    }

    private static Map configs(MirrorSourceConfig source) throws Exception {
        DefaultConfigPropertyFilter filter = (DefaultConfigPropertyFilter) call(source, "configPropertyFilter");
        Map found = new TreeMap();
        for (Iterator each = list("configs"); each.hasNext();) {
            String name = (String) each.next();
            List both = new ArrayList();
            both.add(Boolean.valueOf(filter.shouldReplicateConfigProperty(name)));
            both.add(Boolean.valueOf(filter.shouldReplicateSourceDefault(name)));
            found.put(name, both);
        }
        return found;
    }

    private static List groups(MirrorMakerConfig config, SourceAndTarget pair) throws Exception {
        Map base = filled(config, config.connectorBaseConfig(pair, MirrorCheckpointConnector.class));
        Object filter = call(new MirrorCheckpointConfig(base), "groupFilter");
        List found = new ArrayList();
        for (Iterator each = list("groups"); each.hasNext();) {
            String group = (String) each.next();
            if (((Boolean) call(filter, "shouldReplicateGroup", group)).booleanValue()) {
                found.add(group);
            }
        }
        return found;
    }

    /** Every name that the definitions of connectors, clients and workers hold. */
    private static Map keys() throws Exception {
        Map found = new TreeMap();
        String mirror = "org.apache.kafka.connect.mirror.Mirror";
        TreeSet connector = new TreeSet();
        String[] kinds = new String[] {"Source", "Checkpoint", "Heartbeat"};
        for (int at = 0; at < kinds.length; at++) {
            connector.addAll(names(Class.forName(mirror + kinds[at] + "Config"), "CONNECTOR_CONFIG_DEF"));
        }
        found.put("connector", connector);
        found.put("client", new TreeSet(names(Class.forName(mirror + "ClientConfig"), "CLIENT_CONFIG_DEF")));
        Method top = MirrorMakerConfig.class.getDeclaredMethod("config", new Class[0]);
        top.setAccessible(true);
        found.put("top", new TreeSet(((ConfigDef) top.invoke(null, new Object[0])).names()));
        TreeSet clients = new TreeSet();
        clients.addAll(org.apache.kafka.clients.producer.ProducerConfig.configNames());
        clients.addAll(org.apache.kafka.clients.consumer.ConsumerConfig.configNames());
        clients.addAll(org.apache.kafka.clients.admin.AdminClientConfig.configNames());
        found.put("clients", clients);
        return found;
    }

    private static java.util.Set names(Class owner, String name) throws Exception {
        java.lang.reflect.Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return ((ConfigDef) field.get(null)).names();
    }

    private static Map filled(MirrorMakerConfig config, Map properties) throws Exception {
        Method transform = MirrorMakerConfig.class.getDeclaredMethod("transform", new Class[] {Map.class});
        transform.setAccessible(true);
        return (Map) transform.invoke(config, new Object[] {properties});
    }

    private static Object call(Object owner, String name) throws Exception {
        return find(owner, name, new Class[0]).invoke(owner, new Object[0]);
    }

    private static Object call(Object owner, String name, String argument) throws Exception {
        return find(owner, name, new Class[] {String.class}).invoke(owner, new Object[] {argument});
    }

    private static Method find(Object owner, String name, Class[] types) throws Exception {
        for (Class each = owner.getClass(); each != null; each = each.getSuperclass()) {
            try {
                Method found = each.getDeclaredMethod(name, types);
                found.setAccessible(true);
                return found;
            } catch (NoSuchMethodException elsewhere) {
                continue;
            }
        }
        throw new NoSuchMethodException(name);
    }
}
