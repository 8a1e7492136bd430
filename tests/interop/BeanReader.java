package tests.interop;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * The metrics of a running JVM: its port, a pattern of object names, and a file for the answer.
 *
 * The answer is a list of [domain, tags, attributes]. Janino compiles this.
 */
public class BeanReader {
    public static void main(String[] arguments) throws Exception {
        String address = "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + arguments[0] + "/jmxrmi";
        JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(address), null);
        List found = new ArrayList();
        try {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            Iterator each = server.queryNames(new ObjectName(arguments[1]), null).iterator();
            while (each.hasNext()) {
                found.add(bean(server, (ObjectName) each.next()));
            }
        } finally {
            connector.close();
        }
        new ObjectMapper().writeValue(new File(arguments[2]), found);
    }

    static List bean(MBeanServerConnection server, ObjectName name) throws Exception {
        Map tags = new HashMap();
        Iterator keys = name.getKeyPropertyList().keySet().iterator();
        while (keys.hasNext()) {
            String key = (String) keys.next();
            String value = name.getKeyProperty(key);
            tags.put(key, value.startsWith("\"") ? ObjectName.unquote(value) : value);
        }
        Map attributes = new HashMap();
        MBeanAttributeInfo[] every = server.getMBeanInfo(name).getAttributes();
        for (int i = 0; i < every.length; i++) {
            Object value = server.getAttribute(name, every[i].getName());
            attributes.put(every[i].getName(), String.valueOf(value));
        }
        List bean = new ArrayList();
        bean.add(name.getDomain());
        bean.add(tags);
        bean.add(attributes);
        return bean;
    }
}
