package tests.interop;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other in this one JVM.
 *
 * <p>The first argument is a file with a line for each: the main class and its arguments, separated
 * by tabs. The second is the file for the answers: a line "exit code, bytes that follow" each, and
 * what the tool printed.
 */
public class RunTools {
    /** With what the tool wanted to end first: some catch what ends them, and end again. */
    static Integer code;

    /** Instead of ending the JVM. */
    static class Ended extends RuntimeException {}

    static class Ender implements Exit.Procedure {
        public void execute(int status, String message) {
            if (code == null) {
                code = Integer.valueOf(status);
            }
            throw new Ended();
        }
    }

    public static void main(String[] args) throws Exception {
        Exit.setExitProcedure(new Ender());
        Exit.setHaltProcedure(new Ender());
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream answers = new ByteArrayOutputStream();
        Iterator lines = Files.readAllLines(Paths.get(args[0], new String[0])).iterator();
        while (lines.hasNext()) {
            String[] words = ((String) lines.next()).split("\t");
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(printed, true);
            System.setOut(both);
            System.setErr(both);
            code = null;
            run(words[0], (String[]) Arrays.copyOfRange(words, 1, words.length), both);
            both.flush();
            System.setOut(out);
            System.setErr(err);
            String head = (code == null ? 0 : code.intValue()) + " " + printed.size() + "\n";
            answers.write(head.getBytes(StandardCharsets.UTF_8));
            answers.write(printed.toByteArray());
        }
        Files.write(Paths.get(args[1], new String[0]), answers.toByteArray());
    }

    static void run(String name, String[] words, PrintStream both) {
        try {
            Class.forName(name)
                .getMethod("main", new Class[] {String[].class})
                .invoke(null, new Object[] {words});
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Ended)) {
                error.getCause().printStackTrace(both);
                code = Integer.valueOf(1);
            }
        } catch (Exception error) {
            error.printStackTrace(both);
            code = Integer.valueOf(1);
        }
    }
}
