package interop;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Loads a log directory and closes it in an orderly way, as a broker does that is started and stopped. Changes the directory.
 * The outcome is loaded, start_fails, dir_offline or close_fails.
 */
final class Recover implements Operation {
    private static final int LOG_LINES = 12;
    private static final int LINE_LENGTH = 400;

    @Override
    public Object run(Request request) throws Throwable {
        return recover(request.directory("dir"), request.object("params"));
    }

    static Map<String, Object> recover(File directory, Request params) throws Throwable {
        boolean hashes = params.flag("hash", true);
        Map<String, Object> result = Json.object("kafka", Version.TEXT);
        ByteArrayOutputStream warnings = new ByteArrayOutputStream();
        PrintStream standardError = System.err;
        System.setErr(new PrintStream(warnings, true));
        LogDirectory loaded;
        Throwable closing = null;
        try {
            if (hashes) result.put("before", Trees.list(directory));
            loaded = LogDirectory.load(directory, params);
            if (loaded.error == null) {
                Map<String, Object> partitions = new TreeMap<>();
                for (Object log : loaded.logs()) partitions.put(((File) Reflect.call(log, "dir")).getName(), LogState.describe(log));
                result.put("partitions", partitions);
            }
            if (hashes) result.put("after_load", Trees.list(directory));
            if (params.has("load_copy")) Trees.copy(directory, params.directory("load_copy"));
            if (loaded.error == null && !loaded.offline && params.flag("close", true)) {
                try {
                    loaded.close(params.number("broker_epoch", 42));
                } catch (Throwable t) {
                    closing = t;
                }
                loaded.scheduler.drain();
                if (hashes) result.put("after_close", Trees.list(directory));
            }
        } finally {
            System.err.flush();
            System.setErr(standardError);
        }
        Throwable failure = loaded.error != null ? loaded.error : closing;
        result.put("outcome", loaded.error != null ? "start_fails" : closing != null ? "close_fails" : loaded.offline ? "dir_offline" : "loaded");
        result.put("seconds", loaded.seconds);
        result.put("cpu_seconds", loaded.cpuSeconds);
        result.put("exception", failure == null ? null : Failure.describe(failure, directory));
        result.put("pending_tasks", new ArrayList<>(loaded.scheduler.pending));
        result.put("log", lines(warnings.toString(StandardCharsets.UTF_8), directory));
        return result;
    }

    private static List<String> lines(String text, File directory) {
        List<String> result = new ArrayList<>();
        for (String line : text.split("\n")) {
            if (line.isBlank() || line.startsWith("\tat ") || line.startsWith("\t...") || result.size() >= LOG_LINES) continue;
            String clean = Failure.scrub(line, directory).replaceAll("^\\[[^]]*\\] ", "");
            result.add(clean.length() > LINE_LENGTH ? clean.substring(0, LINE_LENGTH) : clean);
        }
        return result;
    }
}
