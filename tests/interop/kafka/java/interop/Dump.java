package interop;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Exit;            //@ <4.4
import org.apache.kafka.common.utils.internals.Exit;  //@ >=4.4

/** Runs DumpLogSegments with the given arguments and returns what it printed, also when it gives up. */
final class Dump implements Operation {
    private static final class Exited extends RuntimeException {
        private static final long serialVersionUID = 1L;
        final int code;

        Exited(int code) {
            this.code = code;
        }
    }

    @Override
    public Object run(Request request) throws Throwable {
        String[] arguments = request.list("args").stream().map(Object::toString).toArray(String[]::new);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        PrintStream printOut = new PrintStream(out, true, StandardCharsets.UTF_8);
        PrintStream printErr = new PrintStream(err, true, StandardCharsets.UTF_8);
        PrintStream standardOut = System.out;
        PrintStream standardErr = System.err;
        Class<?> tool = Reflect.type("org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments");
        Throwable failure = null;
        int code = 0;
        System.setOut(printOut);
        System.setErr(printErr);
        Exit.setExitProcedure((status, message) -> { throw new Exited(status); });
        try {
            scala.Function0<Object> main = () -> {
                try {
                    return tool.getMethod("main", String[].class).invoke(null, (Object) arguments);
                } catch (InvocationTargetException e) {
                    throw sneak(e.getCause());
                } catch (ReflectiveOperationException e) {
                    throw new IllegalStateException(e);
                }
            };
            scala.Console.withOut(printOut, () -> scala.Console.withErr(printErr, main));
        } catch (Exited e) {
            code = e.code;
        } catch (Throwable t) {
            failure = t;
        } finally {
            Exit.resetExitProcedure();
            System.setOut(standardOut);
            System.setErr(standardErr);
        }
        return Json.object("stdout", out.toString(StandardCharsets.UTF_8), "stderr", err.toString(StandardCharsets.UTF_8), "exit_code", code,
            "exception", failure == null ? null : Failure.describe(failure, null));
    }

    @SuppressWarnings("unchecked")
    private static <T extends Throwable> RuntimeException sneak(Throwable t) throws T {
        throw (T) t;
    }
}
