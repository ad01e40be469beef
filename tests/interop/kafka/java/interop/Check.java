package interop;

import java.io.File;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;

/** Acceptance: does Kafka leave a directory exactly as it is? Works on a copy. */
final class Check implements Operation {
    @Override
    public Object run(Request request) throws Throwable {
        File copy = Files.createTempDirectory("check").toFile();
        try {
            Trees.copy(request.directory("dir"), copy);
            Request params = request.object("params");
            if (params.flag("force_unclean", false)) Files.deleteIfExists(new File(copy, ".kafka_cleanshutdown").toPath());
            return judge(Recover.recover(copy, params));
        } finally {
            Trees.remove(copy);
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> judge(Map<String, Object> result) {
        Map<String, Object> before = (Map<String, Object>) result.remove("before");
        Map<String, Object> loaded = (Map<String, Object>) result.remove("after_load");
        Map<String, Object> closed = (Map<String, Object>) result.remove("after_close");
        Map<String, Object> after = closed == null ? loaded : closed;
        List<String> changed = new ArrayList<>();
        List<String> removed = new ArrayList<>();
        List<String> created = new ArrayList<>();
        List<String> top = new ArrayList<>();
        Set<String> names = new TreeSet<>(before.keySet());
        names.addAll(after.keySet());
        boolean data = true;
        boolean index = true;
        boolean state = true;
        for (String name : names) {
            Object old = before.get(name);
            Object now = after.get(name);
            if (Objects.equals(old, now)) continue;
            (!name.contains("/") ? top : old == null ? created : now == null ? removed : changed).add(name);
            if (!name.contains("/")) continue;
            if (name.endsWith(".log") || name.endsWith(".deleted")) data = false;
            else if (name.endsWith("index")) index = false;
            else state = false;
        }
        boolean loads = "loaded".equals(result.get("outcome"));
        result.put("changed", changed);
        result.put("removed", removed);
        result.put("created", created);
        result.put("log_dir_files_changed", top);
        result.put("log_bytes_untouched", loads && data);
        result.put("indexes_untouched", loads && index);
        result.put("snapshots_and_epochs_untouched", loads && state);
        result.put("accepted", loads && data && index && state);
        return result;
    }
}
