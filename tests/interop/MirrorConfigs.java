package tests.interop;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.mirror.MirrorCheckpointConfig;
import org.apache.kafka.connect.mirror.MirrorCheckpointConnector;
import org.apache.kafka.connect.mirror.MirrorCheckpointTaskConfig;
import org.apache.kafka.connect.mirror.MirrorHeartbeatConfig;
import org.apache.kafka.connect.mirror.MirrorHeartbeatConnector;
import org.apache.kafka.connect.mirror.MirrorMakerConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.MirrorSourceTaskConfig;
import org.apache.kafka.connect.mirror.SourceAndTarget;
import org.apache.kafka.connect.source.SourceConnector;

/**
 * What MirrorMaker 2's configuration classes and connectors decide, without any cluster.
 *
 * Compiled in memory by Janino, so no lambdas and no inference. The question is a JSON file,
 * {files, validate, connectors, acls, settings, offsets}, as java_mirror_configs.py writes it; the answer another.
 */
public class MirrorConfigs {
    private static final Class[] NONE = new Class[0];

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        Map asked = (Map) mapper.readValue(new File(arguments[0]), Map.class);
        Map found = new TreeMap();
        found.put("definitions", definitions());
        found.put("files", files((List) asked.get("files")));
        List validated = new ArrayList();
        for (Iterator each = ((List) asked.get("validate")).iterator(); each.hasNext();) {
            validated.add(validated((Map) each.next()));
        }
        found.put("validate", validated);
        List parsed = new ArrayList();
        for (Iterator each = ((List) asked.get("connectors")).iterator(); each.hasNext();) {
            parsed.add(parsed((Map) each.next()));
        }
        found.put("connectors", parsed);
        List acls = new ArrayList();
        for (Iterator each = ((List) asked.get("acls")).iterator(); each.hasNext();) {
            acls.add(acl((Map) each.next()));
        }
        found.put("acls", acls);
        List settings = new ArrayList();
        for (Iterator each = ((List) asked.get("settings")).iterator(); each.hasNext();) {
            settings.add(settings((Map) each.next()));
        }
        found.put("settings", settings);
        List offsets = new ArrayList();
        for (Iterator each = ((List) asked.get("offsets")).iterator(); each.hasNext();) {
            offsets.add(altered((Map) each.next()));
        }
        found.put("offsets", offsets);
        mapper.writeValue(new File(arguments[1]), found);
        System.exit(0);
    }

    // Definitions

    private static Map definitions() throws Exception {
        Map found = new TreeMap();
        found.put("source", keys(constant("MirrorSourceConfig", "CONNECTOR_CONFIG_DEF")));
        found.put("checkpoint", keys(constant("MirrorCheckpointConfig", "CONNECTOR_CONFIG_DEF")));
        found.put("heartbeat", keys(constant("MirrorHeartbeatConfig", "CONNECTOR_CONFIG_DEF")));
        found.put("client", keys(constant("MirrorClientConfig", "CLIENT_CONFIG_DEF")));
        found.put("common", keys(org.apache.kafka.connect.runtime.ConnectorConfig.configDef()));
        Method top = MirrorMakerConfig.class.getDeclaredMethod("config", NONE);
        top.setAccessible(true);
        found.put("top", keys((ConfigDef) top.invoke(null, new Object[0])));
        return found;
    }

    private static ConfigDef constant(String owner, String name) throws Exception {
        Field field = Class.forName("org.apache.kafka.connect.mirror." + owner).getDeclaredField(name);
        field.setAccessible(true);
        return (ConfigDef) field.get(null);
    }

    private static List keys(ConfigDef definition) {
        List found = new ArrayList();
        for (Iterator each = definition.configKeys().values().iterator(); each.hasNext();) {
            ConfigDef.ConfigKey key = (ConfigDef.ConfigKey) each.next();
            Map told = new TreeMap();
            told.put("name", key.name);
            told.put("type", key.type.toString());
            told.put("required", Boolean.valueOf(!key.hasDefault()));
            told.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            told.put("importance", key.importance.toString());
            told.put("validator", key.validator == null ? null : key.validator.toString());
            told.put("group", key.group);
            told.put("width", key.width.toString());
            told.put("display", key.displayName);
            told.put("dependents", key.dependents);
            found.add(told);
        }
        return found;
    }

    // Properties files

    private static Map files(List paths) throws Exception {
        Map found = new TreeMap();
        for (Iterator each = paths.iterator(); each.hasNext();) {
            String path = (String) each.next();
            Map properties = Utils.propsToStringMap(Utils.loadProps(path));
            properties.put("plugin.discovery", "service_load"); // only how Connect looks for plugins
            found.put(path, file(new MirrorMakerConfig(properties)));
        }
        return found;
    }

    private static Map file(MirrorMakerConfig config) throws Exception {
        Map found = new TreeMap();
        List pairs = new ArrayList();
        Map workers = new TreeMap();
        Map connectors = new TreeMap();
        for (Iterator each = config.clusterPairs().iterator(); each.hasNext();) {
            pairs.add(each.next().toString());
        }
        Map clients = new TreeMap();
        for (Iterator one = new TreeSet(config.clusters()).iterator(); one.hasNext();) {
            String source = (String) one.next();
            clients.put(source, texts(config.clientConfig(source).originals()));
            for (Iterator two = new TreeSet(config.clusters()).iterator(); two.hasNext();) {
                String target = (String) two.next();
                if (!source.equals(target)) {
                    SourceAndTarget pair = new SourceAndTarget(source, target);
                    workers.put(pair.toString(), new TreeMap(config.workerConfig(pair)));
                    Map three = new TreeMap();
                    three.put("source", config.connectorBaseConfig(pair, MirrorSourceConnector.class));
                    three.put("heartbeat", config.connectorBaseConfig(pair, MirrorHeartbeatConnector.class));
                    three.put("checkpoint", config.connectorBaseConfig(pair, MirrorCheckpointConnector.class));
                    connectors.put(pair.toString(), three);
                }
            }
        }
        found.put("pairs", pairs);
        found.put("workers", workers);
        found.put("connectors", connectors);
        found.put("clients", clients);
        return found;
    }

    // Validation

    private static Map validated(Map question) throws Exception {
        Connector connector = connector((String) question.get("kind"));
        Map properties = (Map) question.get("properties");
        Map found = new TreeMap();
        Map errors = new TreeMap();
        for (Iterator each = connector.validate(properties).configValues().iterator(); each.hasNext();) {
            ConfigValue value = (ConfigValue) each.next();
            if (!value.errorMessages().isEmpty()) {
                errors.put(value.name(), value.errorMessages());
            }
        }
        found.put("errors", errors);
        Object support = ((SourceConnector) connector).exactlyOnceSupport(properties);
        found.put("exactly once", support == null ? null : support.toString());
        return found;
    }

    private static Connector connector(String kind) {
        if (kind.equals("source")) {
            return new MirrorSourceConnector();
        }
        return kind.equals("checkpoint") ? (Connector) new MirrorCheckpointConnector() : (Connector) new MirrorHeartbeatConnector();
    }

    // Configurations that are right

    private static final String[] ROLES = new String[] {
        "sourceConsumerConfig", "targetConsumerConfig", "sourceProducerConfig",
        "targetProducerConfig", "sourceAdminConfig", "targetAdminConfig",
    };

    private static Map parsed(Map question) throws Exception {
        String kind = (String) question.get("kind");
        Map properties = (Map) question.get("properties");
        int most = ((Integer) question.get("tasks")).intValue();
        Map found = new TreeMap();
        Object config;
        List tasks = new ArrayList();
        if (kind.equals("source")) {
            config = new MirrorSourceConfig(properties);
            tasks = sourceTasks((MirrorSourceConfig) config, (List) question.get("partitions"), most);
            found.put("read", readPartitions(tasks));
        } else if (kind.equals("checkpoint")) {
            config = new MirrorCheckpointConfig(properties);
            tasks = checkpointTasks((MirrorCheckpointConfig) config, (List) question.get("groups"), most);
            found.put("read", readGroups(tasks));
        } else {
            config = new MirrorHeartbeatConfig(properties);
        }
        found.put("tasks", tasks);
        String[] none = new String[] {
            "offsetSyncsTopic", "checkpointsTopic", "heartbeatsTopic", "refreshTopicsInterval",
            "syncTopicConfigsInterval", "syncTopicAclsInterval", "refreshGroupsInterval",
            "emitCheckpointsInterval", "syncGroupOffsetsInterval", "emitHeartbeatsInterval",
            "maxOffsetLag", "enabled", "adminTimeout", "entityLabel",
        };
        for (int at = 0; at < none.length; at++) {
            Method method = method(config, none[at], NONE);
            if (method != null) {
                found.put(none[at], String.valueOf(method.invoke(config, new Object[0])));
            }
        }
        for (int at = 0; at < ROLES.length; at++) {
            Method method = method(config, ROLES[at], new Class[] {String.class});
            found.put(ROLES[at], texts((Map) method.invoke(config, new Object[] {"role"})));
        }
        return found;
    }

    private static List sourceTasks(MirrorSourceConfig config, List names, int most) throws Exception {
        List partitions = new ArrayList();
        for (Iterator each = names.iterator(); each.hasNext();) {
            List pair = (List) each.next();
            partitions.add(new TopicPartition((String) pair.get(0), ((Integer) pair.get(1)).intValue()));
        }
        Constructor made = MirrorSourceConnector.class.getDeclaredConstructor(
            new Class[] {List.class, MirrorSourceConfig.class});
        made.setAccessible(true);
        return ((MirrorSourceConnector) made.newInstance(new Object[] {partitions, config})).taskConfigs(most);
    }

    private static List readPartitions(List tasks) throws Exception {
        List found = new ArrayList();
        for (Iterator each = tasks.iterator(); each.hasNext();) {
            Object config = new MirrorSourceTaskConfig((Map) each.next());
            List told = new ArrayList();
            Iterator read = ((Iterable) method(config, "taskTopicPartitions", NONE).invoke(config, new Object[0])).iterator();
            while (read.hasNext()) {
                TopicPartition partition = (TopicPartition) read.next();
                List pair = new ArrayList();
                pair.add(partition.topic());
                pair.add(Integer.valueOf(partition.partition()));
                told.add(pair);
            }
            found.add(told);
        }
        return found;
    }

    private static List checkpointTasks(MirrorCheckpointConfig config, List groups, int most) throws Exception {
        Class[] types = new Class[] {java.util.Set.class, MirrorCheckpointConfig.class};
        Constructor made = MirrorCheckpointConnector.class.getDeclaredConstructor(types);
        made.setAccessible(true);
        Object connector = made.newInstance(new Object[] {new java.util.LinkedHashSet(groups), config});
        return ((MirrorCheckpointConnector) connector).taskConfigs(most);
    }

    private static List readGroups(List tasks) throws Exception {
        List found = new ArrayList();
        for (Iterator each = tasks.iterator(); each.hasNext();) {
            Object config = new MirrorCheckpointTaskConfig((Map) each.next());
            found.add(new TreeSet((java.util.Set) method(config, "taskConsumerGroups", NONE).invoke(config, new Object[0])));
        }
        return found;
    }

    // What a connector decides of topics

    /** A source connector that knows policy and filters, and no cluster. */
    private static Object planning(Map properties) throws Exception {
        MirrorSourceConfig config = new MirrorSourceConfig(properties);
        Object policy = method(config, "replicationPolicy", NONE).invoke(config, new Object[0]);
        Object topics = method(config, "topicFilter", NONE).invoke(config, new Object[0]);
        Object settings = method(config, "configPropertyFilter", NONE).invoke(config, new Object[0]);
        Constructor made = null;
        Constructor[] all = MirrorSourceConnector.class.getDeclaredConstructors();
        for (int at = 0; at < all.length; at++) {
            if (all[at].getParameterTypes().length == 5) {
                made = all[at];
            }
        }
        made.setAccessible(true);
        SourceAndTarget pair = new SourceAndTarget(
            (String) properties.get("source.cluster.alias"), (String) properties.get("target.cluster.alias"));
        return made.newInstance(new Object[] {pair, policy, topics, settings, Boolean.TRUE});
    }

    /** As create-time settings, and as the operations of a periodic sync. */
    private static Map settings(Map question) throws Exception {
        Object connector = planning((Map) question.get("properties"));
        List entries = new ArrayList();
        for (Iterator each = ((List) question.get("entries")).iterator(); each.hasNext();) {
            List told = (List) each.next();
            entries.add(new ConfigEntry((String) told.get(0), (String) told.get(1),
                ConfigEntry.ConfigSource.valueOf((String) told.get(2)), ((Boolean) told.get(3)).booleanValue(),
                ((Boolean) told.get(4)).booleanValue(), new ArrayList(), ConfigEntry.ConfigType.STRING, ""));
        }
        Method target = method(connector, "targetConfig", new Class[] {Config.class, boolean.class});
        Map made = new TreeMap();
        Iterator first = ((Config) target.invoke(connector, new Object[] {new Config(entries), Boolean.FALSE})).entries().iterator();
        while (first.hasNext()) {
            ConfigEntry entry = (ConfigEntry) first.next();
            made.put(entry.name(), entry.value());
        }
        Map synced = new TreeMap();
        Iterator later = ((Config) target.invoke(connector, new Object[] {new Config(entries), Boolean.TRUE})).entries().iterator();
        while (later.hasNext()) {
            ConfigEntry entry = (ConfigEntry) later.next();
            boolean left = entry.isDefault() && !is(connector, "shouldReplicateSourceDefault", String.class, entry.name());
            synced.put(entry.name(), left ? null : entry.value());
        }
        Map found = new TreeMap();
        found.put("created", made);
        found.put("synced", synced);
        return found;
    }

    /** Why the connector does not let the offset be altered; null if it does. */
    private static String altered(Map question) {
        try {
            Map offsets = new HashMap();
            offsets.put(question.get("partition"), question.get("offset"));
            ((SourceConnector) connector((String) question.get("kind"))).alterOffsets(new HashMap(), offsets);
            return null;
        } catch (RuntimeException refused) {
            return refused.getMessage();
        }
    }

    private static List acl(Map question) throws Exception {
        Object connector = planning((Map) question.get("properties"));
        List found = new ArrayList();
        for (Iterator each = ((List) question.get("bindings")).iterator(); each.hasNext();) {
            List told = (List) each.next();
            AclBinding binding = new AclBinding(
                new ResourcePattern(ResourceType.fromString((String) told.get(0)), (String) told.get(1),
                    PatternType.fromString((String) told.get(2))),
                new AccessControlEntry((String) told.get(3), (String) told.get(4),
                    AclOperation.fromString((String) told.get(5)), AclPermissionType.fromString((String) told.get(6))));
            boolean wanted = binding.pattern().resourceType() == ResourceType.TOPIC
                && binding.pattern().patternType() == PatternType.LITERAL
                && is(connector, "shouldReplicateAcl", AclBinding.class, binding)
                && is(connector, "shouldReplicateTopic", String.class, binding.pattern().name());
            if (wanted) {
                Method target = method(connector, "targetAclBinding", new Class[] {AclBinding.class});
                found.add(told((AclBinding) target.invoke(connector, new Object[] {binding})));
            }
        }
        return found;
    }

    private static boolean is(Object owner, String name, Class type, Object argument) throws Exception {
        Method found = method(owner, name, new Class[] {type});
        return ((Boolean) found.invoke(owner, new Object[] {argument})).booleanValue();
    }

    private static List told(AclBinding binding) {
        List found = new ArrayList();
        found.add(binding.pattern().resourceType().toString());
        found.add(binding.pattern().name());
        found.add(binding.pattern().patternType().toString());
        found.add(binding.entry().principal());
        found.add(binding.entry().host());
        found.add(binding.entry().operation().toString());
        found.add(binding.entry().permissionType().toString());
        return found;
    }

    private static Map texts(Map config) {
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

    private static Method method(Object owner, String name, Class[] types) {
        for (Class each = owner.getClass(); each != null; each = each.getSuperclass()) {
            try {
                Method found = each.getDeclaredMethod(name, types);
                found.setAccessible(true);
                return found;
            } catch (NoSuchMethodException elsewhere) {
                continue;
            }
        }
        return null;
    }
}
