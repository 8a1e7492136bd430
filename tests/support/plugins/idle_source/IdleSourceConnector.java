package idle_source;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.source.SourceConnector;

/** As many tasks as are allowed, which do nothing. Compiled by Janino: no inference. */
public class IdleSourceConnector extends SourceConnector {
    private Map props;

    public void start(Map props) {
        this.props = props;
    }

    public Class taskClass() {
        return IdleSourceTask.class;
    }

    public List taskConfigs(int maxTasks) {
        List configs = new ArrayList();
        for (int each = 0; each < maxTasks; each++) {
            configs.add(props);
        }
        return configs;
    }

    public void stop() {}

    public ConfigDef config() {
        return new ConfigDef();
    }

    public String version() {
        return "1";
    }
}
