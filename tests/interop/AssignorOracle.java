package tests.interop;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.distributed.ConnectAssignor;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocolCompatibility;
import org.apache.kafka.connect.runtime.distributed.EagerAssignor;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeAssignor;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator;
import org.apache.kafka.connect.runtime.distributed.WorkerRebalanceListener;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.storage.ConfigBackingStore;

/**
 * What Java's leaders answer and what its members make of answers, for many cases in one JVM.
 *
 * Compiled in memory by Janino, so no lambdas and no inference. A coordinator is made without its
 * constructor, which would want a network; of its fields, only those are set that are looked at.
 * The arguments are a JSON file of questions and one for the answers; bytes are hexadecimal.
 */
public class AssignorOracle implements InvocationHandler {
    private long now;
    private ClusterConfigState newest;
    private List revoked = new ArrayList();

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        Map asked = (Map) mapper.readValue(new File(arguments[0]), Map.class);
        Map found = new TreeMap();
        List leaders = new ArrayList();
        for (Iterator each = ((List) asked.get("leaders")).iterator(); each.hasNext();) {
            leaders.add(new AssignorOracle().lead((Map) each.next()));
        }
        found.put("leaders", leaders);
        List members = new ArrayList();
        for (Iterator each = ((List) asked.get("members")).iterator(); each.hasNext();) {
            members.add(new AssignorOracle().follow((Map) each.next()));
        }
        found.put("members", members);
        mapper.writeValue(new File(arguments[1]), found);
        System.exit(0);
    }

    /** Stands for a clock, for a store of configurations, and for whoever listens to rebalances. */
    public Object invoke(Object proxy, Method method, Object[] values) {
        if (method.getName().equals("milliseconds")) {
            return Long.valueOf(now);
        }
        if (method.getName().equals("snapshot")) {
            return newest;
        }
        if (method.getName().equals("onRevoked")) {
            TreeSet items = new TreeSet();
            for (Iterator each = ((Collection) values[1]).iterator(); each.hasNext();) {
                items.add("connector " + each.next());
            }
            for (Iterator each = ((Collection) values[2]).iterator(); each.hasNext();) {
                items.add("task " + each.next());
            }
            revoked.addAll(items);
        }
        return null;
    }

    /** A case is {delay max ms, rounds}; rounds answered as member to assignment. */
    private List lead(Map question) throws Exception {
        int delay = ((Number) question.get("delay max ms")).intValue();
        WorkerCoordinator coordinator = coordinator("eager", "");
        ConnectAssignor cooperative = null;
        ConnectAssignor eager = new EagerAssignor(new LogContext());
        List found = new ArrayList();
        for (Iterator each = ((List) question.get("rounds")).iterator(); each.hasNext();) {
            Map round = (Map) each.next();
            if (cooperative == null || ((Boolean) round.get("new leader")).booleanValue()) {
                Time clock = (Time) proxy(Time.class);
                cooperative = new IncrementalCooperativeAssignor(new LogContext(), clock, delay);
            }
            now = ((Number) round.get("now ms")).longValue();
            newest = snapshot((Map) round.get("newest"));
            coordinator.configSnapshot(snapshot((Map) round.get("joined with")));
            set(coordinator, "lastCompletedGenerationId", round.get("last completed"));
            set(coordinator, "generation", generation((Number) round.get("generation")));
            ConnectProtocolCompatibility protocol =
                ConnectProtocolCompatibility.fromProtocol((String) round.get("protocol"));
            boolean isEager = protocol == ConnectProtocolCompatibility.EAGER;
            ConnectAssignor assignor = isEager ? eager : cooperative;
            Map answers = assignor.performAssignment(
                (String) round.get("leader"), protocol, members((Map) round.get("members")), coordinator);
            found.add(hexadecimal(answers));
        }
        return found;
    }

    /** A case is {offers, url, steps}; steps answered as {said: protocol to metadata, revoked}. */
    private List follow(Map question) throws Exception {
        WorkerCoordinator coordinator =
            coordinator((String) question.get("offers"), (String) question.get("url"));
        List found = new ArrayList();
        for (Iterator each = ((List) question.get("steps")).iterator(); each.hasNext();) {
            Map step = (Map) each.next();
            revoked = new ArrayList();
            Map offset = new HashMap();
            offset.put("offset", step.get("offset"));
            offset.put("task counts", new HashMap());
            newest = snapshot(offset);
            call(coordinator, "onJoinPrepare", new Object[] {null, Integer.valueOf(-1), ""});
            List before = revoked;
            revoked = new ArrayList();
            Map said = new TreeMap();
            for (Iterator one = coordinator.metadata().iterator(); one.hasNext();) {
                JoinGroupRequestData.JoinGroupRequestProtocol offered =
                    (JoinGroupRequestData.JoinGroupRequestProtocol) one.next();
                said.put(offered.name(), text(ByteBuffer.wrap(offered.metadata())));
            }
            call(coordinator, "onJoinComplete", new Object[] {
                step.get("generation"), "m", step.get("protocol"),
                ByteBuffer.wrap(bytes((String) step.get("answer"))),
            });
            Map answer = new TreeMap();
            answer.put("said", said);
            answer.put("revoked before", before);
            answer.put("revoked", revoked);
            answer.put("rejoins", call(coordinator, "rejoinNeededOrPending", new Object[] {}));
            found.add(answer);
        }
        return found;
    }

    private Object proxy(Class type) {
        return Proxy.newProxyInstance(type.getClassLoader(), new Class[] {type}, this);
    }

    private WorkerCoordinator coordinator(String offers, String url) throws Exception {
        Field field = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Object unsafe = field.get(null);
        Method allocate = unsafe.getClass().getMethod("allocateInstance", new Class[] {Class.class});
        WorkerCoordinator made =
            (WorkerCoordinator) allocate.invoke(unsafe, new Object[] {WorkerCoordinator.class});
        ConnectProtocolCompatibility protocol = ConnectProtocolCompatibility.compatibility(offers);
        set(made, "log", new LogContext().logger(WorkerCoordinator.class));
        set(made, "restUrl", url);
        set(made, "configStorage", proxy(ConfigBackingStore.class));
        set(made, "listener", proxy(WorkerRebalanceListener.class));
        set(made, "protocolCompatibility", protocol);
        set(made, "currentConnectProtocol", protocol);
        set(made, "generation", generation(Integer.valueOf(-1)));
        return made;
    }

    private static Object generation(Number number) throws Exception {
        Class type = Class.forName(
            "org.apache.kafka.clients.consumer.internals.AbstractCoordinator$Generation");
        Constructor made =
            type.getDeclaredConstructor(new Class[] {int.class, String.class, String.class});
        made.setAccessible(true);
        return made.newInstance(new Object[] {Integer.valueOf(number.intValue()), "m", null});
    }

    private static ClusterConfigState snapshot(Map state) {
        Map counts = (Map) state.get("task counts");
        Map configs = new HashMap();
        for (Iterator each = counts.keySet().iterator(); each.hasNext();) {
            configs.put(each.next(), Collections.EMPTY_MAP);
        }
        Map none = Collections.EMPTY_MAP;
        return new ClusterConfigState(
            ((Number) state.get("offset")).longValue(), null, counts, configs, none, none, none,
            none, none, Collections.EMPTY_SET, Collections.EMPTY_SET);
    }

    private static List members(Map said) {
        List found = new ArrayList();
        for (Iterator each = said.entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            JoinGroupResponseData.JoinGroupResponseMember member =
                new JoinGroupResponseData.JoinGroupResponseMember();
            member.setMemberId((String) entry.getKey());
            member.setMetadata(bytes((String) entry.getValue()));
            found.add(member);
        }
        return found;
    }

    private static Map hexadecimal(Map answers) {
        Map found = new TreeMap();
        for (Iterator each = answers.entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            found.put(entry.getKey(), text((ByteBuffer) entry.getValue()));
        }
        return found;
    }

    private static String text(ByteBuffer buffer) {
        StringBuilder found = new StringBuilder();
        while (buffer.hasRemaining()) {
            found.append(String.format("%02x", new Object[] {Byte.valueOf(buffer.get())}));
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

    private static void set(Object of, String name, Object value) throws Exception {
        for (Class type = of.getClass(); type != null; type = type.getSuperclass()) {
            Field[] fields = type.getDeclaredFields();
            for (int at = 0; at < fields.length; at++) {
                if (fields[at].getName().equals(name)) {
                    fields[at].setAccessible(true);
                    fields[at].set(of, value);
                    return;
                }
            }
        }
        throw new IllegalArgumentException(of.getClass() + " has no field " + name);
    }

    private static Object call(Object of, String name, Object[] values) throws Exception {
        Method[] methods = of.getClass().getDeclaredMethods();
        for (int at = 0; at < methods.length; at++) {
            if (methods[at].getName().equals(name)) {
                methods[at].setAccessible(true);
                return methods[at].invoke(of, values);
            }
        }
        throw new IllegalArgumentException(of.getClass() + " has no method " + name);
    }
}
