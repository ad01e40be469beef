//@file >=4.1
package interop;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.storage.internals.log.CleanerConfig;
import org.apache.kafka.storage.internals.log.LogCleaner;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogCleaningState;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * Loads a log directory, lets the log cleaner make one round for each partition that is compacted, and closes in an orderly way.
 * Changes the directory. The high watermark is the log end, or what replication-offset-checkpoint says where that is lower.
 */
final class Clean implements Operation {
    private static final int DEFAULT_IO = 524288;
    private static final int LARGEST_MESSAGE = 1048588;
    /** Room for more keys than any log here has; Kafka's own 128 MiB would be cleared twice for every pass. */
    private static final int ENOUGH = 4194304;

    @Override
    public Object run(Request request) throws Throwable {
        File directory = request.directory("dir");
        Request params = request.object("params");
        Map<String, Object> result = Json.object("kafka", Version.TEXT);
        LogDirectory loaded = LogDirectory.load(directory, params);
        if (loaded.error != null || loaded.offline) {
            result.put("outcome", loaded.offline ? "dir_offline" : "start_fails");
            result.put("exception", loaded.error == null ? null : Failure.describe(loaded.error, directory));
            return result;
        }
        ConcurrentMap<TopicPartition, UnifiedLog> logs = new ConcurrentHashMap<>();
        Map<TopicPartition, Long> watermarks = watermarks(directory);
        for (Object each : loaded.logs()) {
            UnifiedLog log = (UnifiedLog) each;
            long end = log.logEndOffset();
            log.updateHighWatermark(Math.min(end, watermarks.getOrDefault(log.topicPartition(), end)));
            logs.put(log.topicPartition(), log);
        }
        result.put("partitions", clean(directory, params, logs));
        loaded.scheduler.drain();
        loaded.close(params.number("broker_epoch", 42));
        loaded.scheduler.drain();
        result.put("outcome", "loaded");
        return result;
    }

    private static Map<String, Object> clean(File directory, Request params, ConcurrentMap<TopicPartition, UnifiedLog> logs) throws Throwable {
        StillClock clock = new StillClock(params.number("now_ms", System.currentTimeMillis()));
        LogCleaner cleaner = new LogCleaner(config(params), List.of(directory), logs, new LogDirFailureChannel(10), clock);
        Map<String, Object> result = new TreeMap<>();
        try {
            LogCleanerManager manager = cleaner.cleanerManager();
            LogCleaner.CleanerThread thread = cleaner.new CleanerThread(0);
            Set<TopicPartition> sorted = new TreeSet<>(Comparator.comparing(TopicPartition::toString));
            sorted.addAll(logs.keySet());
            for (TopicPartition own : sorted) {
                if (!logs.get(own).config().compact) continue;
                Set<TopicPartition> paused = new HashSet<>(logs.keySet());
                paused.remove(own);
                for (TopicPartition other : paused) Reflect.call(manager, "setCleaningState", other, LogCleaningState.logCleaningPaused(1));
                boolean cleaned = (Boolean) Reflect.call(thread, "tryCleanFilthiestLog");
                manager.resumeCleaning(paused);
                boolean uncleanable = manager.uncleanablePartitions(directory.getAbsolutePath()).contains(own);
                result.put(own.toString(), Json.object("cleaned", cleaned, "uncleanable", uncleanable));
            }
        } finally {
            cleaner.removeMetrics();
        }
        return result;
    }

    private static CleanerConfig config(Request params) {
        int threads = (int) params.number("log.cleaner.threads", 1);
        long buffer = params.number("log.cleaner.dedupe.buffer.size", ENOUGH);
        double load = Double.parseDouble(params.text("log.cleaner.io.buffer.load.factor", "0.9"));
        int io = (int) params.number("log.cleaner.io.buffer.size", DEFAULT_IO);
        int message = (int) params.number("message.max.bytes", LARGEST_MESSAGE);
        return new CleanerConfig(threads, buffer, load, io, message, Double.MAX_VALUE, 15000, true);
    }

    private static Map<TopicPartition, Long> watermarks(File directory) throws IOException {
        Map<TopicPartition, Long> found = new HashMap<>();
        File file = new File(directory, "replication-offset-checkpoint");
        if (!file.isFile()) return found;
        List<String> lines = Files.readAllLines(file.toPath());
        for (String line : lines.subList(Math.min(2, lines.size()), lines.size())) {
            String[] words = line.split(" ");
            found.put(new TopicPartition(words[0], Integer.parseInt(words[1])), Long.parseLong(words[2]));
        }
        return found;
    }
}
