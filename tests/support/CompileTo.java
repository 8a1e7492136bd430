package tests.support;

import java.io.File;
import org.codehaus.janino.Compiler;

/** Compiles files of Java: the folder for the classes, a class path, and the files. */
public class CompileTo {
    public static void main(String[] arguments) throws Exception {
        String[] path = arguments[1].split(File.pathSeparator);
        Compiler compiler = new Compiler();
        compiler.setClassPath(files(path, 0));
        compiler.setDestinationDirectory(new File(arguments[0]), false);
        compiler.compile(files(arguments, 2));
    }

    private static File[] files(String[] names, int first) {
        File[] found = new File[names.length - first];
        for (int each = first; each < names.length; each++) {
            found[each - first] = new File(names[each]);
        }
        return found;
    }
}
