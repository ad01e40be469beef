package interop;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Exceptions as JSON: class, message, causes and Kafka's innermost frames, without the machine's paths. */
final class Failure {
    private static final int CAUSES = 6;
    private static final int FRAMES = 6;

    private Failure() {
    }

    static String scrub(String text, File directory) {
        if (text == null || directory == null) return text;
        String result = text;
        try {
            result = result.replace(directory.getCanonicalPath(), "<log.dir>");
        } catch (IOException e) {
            // only the absolute path is known, then
        }
        return result.replace(directory.getAbsolutePath(), "<log.dir>").replaceAll("lastModifiedTime=[0-9]+", "lastModifiedTime=<mtime>");
    }

    static Map<String, Object> describe(Throwable failure, File directory) {
        List<Object> chain = new ArrayList<>();
        for (Throwable t = failure; t != null && chain.size() < CAUSES; t = t.getCause() == t ? null : t.getCause())
            chain.add(Json.object("class", t.getClass().getName(), "message", scrub(t.getMessage(), directory)));
        Throwable root = failure;
        while (root.getCause() != null && root.getCause() != root) root = root.getCause();
        List<String> at = new ArrayList<>();
        for (StackTraceElement e : root.getStackTrace())
            if (e.getClassName().contains("kafka") && at.size() < FRAMES) at.add(e.getClassName().replaceAll(".*\\.", "") + "." + e.getMethodName());
        return Json.object("class", failure.getClass().getName(), "message", scrub(failure.getMessage(), directory), "chain", chain, "at", at);
    }
}
