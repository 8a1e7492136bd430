package idle_source;

import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.source.SourceTask;

/** Waits, a second at a time, until it is stopped. */
public class IdleSourceTask extends SourceTask {
    private boolean stopped;

    public void start(Map props) {}

    public synchronized List poll() throws InterruptedException {
        if (!stopped) {
            wait(1000);
        }
        return null;
    }

    public synchronized void stop() {
        stopped = true;
        notifyAll();
    }

    public String version() {
        return "1";
    }
}
