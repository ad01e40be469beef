package interop;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentMap;
import java.util.function.Function;

/** A log directory loaded by Kafka's own LogManager, exactly as a broker loads it at start, and closed as at an orderly stop. */
final class LogDirectory {
    private static final String[] PASSED_ON = {
        "message.timestamp.type", "cleanup.policy", "preallocate", "retention.ms", "retention.bytes", "segment.ms", "file.delete.delay.ms",
        "compression.type", "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "max.compaction.lag.ms", "delete.retention.ms"
    };

    private static final long LOADERS_MS = 10_000;

    final HeldScheduler scheduler = new HeldScheduler();
    final File directory;
    private Object manager;
    Throwable error;
    boolean offline;
    double seconds;
    double cpuSeconds;

    private LogDirectory(File directory) {
        this.directory = directory;
    }

    /** Loads; a load that throws is a result (error), not an exception. */
    static LogDirectory load(File directory, Request params) {
        LogDirectory result = new LogDirectory(directory);
        try {
            result.loadLogs(params);
        } catch (Throwable t) {
            result.error = t;
            awaitLoaders();
        }
        return result;
    }

    /** A start that fails throws while other partitions are still loading; a broker would end, this process goes on. */
    private static void awaitLoaders() {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (!thread.getName().startsWith("log-recovery") && !thread.getName().matches("pool-\\d+-thread-\\d+")) continue;
            if (thread == Thread.currentThread()) continue;
            try {
                thread.join(LOADERS_MS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return;
            }
        }
    }

    private void loadLogs(Request params) throws Throwable {
        Object config = config(params);
        Object failures = Reflect.make(Reflect.type("org.apache.kafka.storage.internals.log.LogDirFailureChannel", "kafka.server.LogDirFailureChannel"), 10);
        manager = manager(params, config, failures);
        com.sun.management.OperatingSystemMXBean os = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long cpu = os.getProcessCpuTime();
        long start = System.nanoTime();
        if (Version.MAJOR == 2) {
            Reflect.call(manager, "loadLogs", scala.jdk.javaapi.CollectionConverters.asScala(new HashMap<String, Object>()));
        } else {
            // only KRaft knows stray replicas: those whose directory has no readable partition.metadata
            boolean strays = params.flag("strays", isOfKRaft());
            boolean inJava = isWrittenInJava(manager.getClass());
            Object stray = Reflect.proxy(inJava ? Function.class : scala.Function1.class,
                (proxy, method, arguments) -> method.getName().startsWith("apply") ? (Object) (strays && Reflect.list(Reflect.call(arguments[0], "topicId")).isEmpty()) : null);
            Map<String, Object> overrides = new HashMap<>();
            Reflect.call(manager, "loadLogs", config, inJava ? overrides : scala.jdk.javaapi.CollectionConverters.asScala(overrides), stray);
        }
        scheduler.drain();
        seconds = (System.nanoTime() - start) / 1e9;
        cpuSeconds = (os.getProcessCpuTime() - cpu) / 1e9;
        offline = isOffline(failures);
    }

    private static boolean isWrittenInJava(Class<?> manager) {
        return manager.getName().startsWith("org.apache.kafka.storage.");
    }

    /** Both names are there in every 4.x, and one of them has nothing but static methods: from 4.4 on the manager is written in Java. */
    private static Class<?> managerType() {
        Class<?> scala = Reflect.type("kafka.log.LogManager");
        return scala.getDeclaredConstructors().length > 0 ? scala : Reflect.type("org.apache.kafka.storage.internals.log.LogManager");
    }

    /** meta.properties of a ZooKeeper-mode broker has version 0, or there is none. */
    private boolean isOfKRaft() throws IOException {
        Properties properties = new Properties();
        File file = new File(directory, "meta.properties");
        if (!file.isFile()) return false;
        try (InputStream in = new FileInputStream(file)) {
            properties.load(in);
        }
        return "1".equals(properties.getProperty("version"));
    }

    private boolean isOffline(Object failures) throws Throwable {
        if (Version.MAJOR >= 4) return (Boolean) Reflect.call(failures, "hasOfflineLogDir", directory.getAbsolutePath());
        for (Field field : failures.getClass().getDeclaredFields()) {
            if (!ConcurrentMap.class.isAssignableFrom(field.getType())) continue;
            field.setAccessible(true);
            return ((Map<?, ?>) field.get(failures)).containsKey(directory.getAbsolutePath());
        }
        throw new IllegalStateException("LogDirFailureChannel of " + Version.TEXT + " keeps no map of offline directories");
    }

    private Object manager(Request params, Object config, Object failures) throws Throwable {
        Object scheduling = Reflect.proxy(Reflect.type("org.apache.kafka.server.util.Scheduler", "kafka.utils.Scheduler"), scheduler);
        Object repository = Reflect.proxy(Reflect.type("org.apache.kafka.metadata.ConfigRepository", "kafka.server.metadata.ConfigRepository"),
            (proxy, method, arguments) -> method.getReturnType() == Properties.class ? new Properties() : method.getReturnType() == int.class ? 1 : null);
        Object stats = Version.MAJOR == 2 ? Reflect.make(Reflect.type("kafka.server.BrokerTopicStats"))
            : Reflect.make(Reflect.type("org.apache.kafka.storage.log.metrics.BrokerTopicStats", "kafka.server.BrokerTopicStats"), false);
        StillClock clock = new StillClock(params.number("now_ms", System.currentTimeMillis()));
        int expiry = (int) params.number("producer.id.expiration.ms", 86400000);
        int threads = (int) params.number("num.recovery.threads.per.data.dir", 1);
        Class<?> type = managerType();
        scala.collection.Seq<File> directories = Reflect.seq(List.of(directory));
        scala.collection.Seq<File> none = Reflect.seq(new ArrayList<File>());
        long period = 60000;
        if (Version.MAJOR == 2) {
            Object cleaner = Reflect.make(Reflect.type("kafka.log.CleanerConfig"), 1, 4194304L, 0.9d, 524288, 33554432, Double.MAX_VALUE, 15000L, false, "MD5");
            return Reflect.make(type, directories, none, repository, config, cleaner, threads, period, period, period, period, expiry, scheduling, stats, failures, clock, true);
        }
        Object cleaner = Reflect.make(Reflect.type("org.apache.kafka.storage.internals.log.CleanerConfig"), false);
        Object producers = Reflect.make(Reflect.type("org.apache.kafka.storage.internals.log.ProducerStateManagerConfig"), expiry, false);
        if (Version.MAJOR == 3) {
            Object latest = Reflect.call(Reflect.type("org.apache.kafka.server.common.MetadataVersion"), "latestProduction");
            return Reflect.make(type, directories, none, repository, config, cleaner, threads, period, period, period, period, 900000, producers, 600000, latest, scheduling, stats, failures, clock, true, false, 30000L);
        }
        if (isWrittenInJava(type)) {
            Object noCleaner = Reflect.proxy(Reflect.type("org.apache.kafka.storage.internals.log.LogManager$LogCleanerBuilder"), (proxy, method, arguments) -> null);
            return Reflect.make(type, List.of(directory), List.of(), repository, config, cleaner, threads, period, period, period, period, 900000, producers, 600000, scheduling, stats, failures, clock, false, 30000L, noCleaner);
        }
        List<Object> arguments = new ArrayList<>(List.of(directories, none, repository, config, cleaner, threads, period, period, period, period, 900000, producers, 600000, scheduling, stats, failures, clock, false, 30000L));
        // parameters that later versions appended, all with defaults
        for (int wanted = type.getDeclaredConstructors()[0].getParameterCount(); arguments.size() < wanted; )
            arguments.add(Reflect.call(type, "$lessinit$greater$default$" + (arguments.size() + 1)));
        return Reflect.make(type, arguments.toArray());
    }

    private static Object config(Request params) throws Throwable {
        Properties properties = new Properties();
        properties.put(Version.MAJOR >= 4 ? "internal.segment.bytes" : "segment.bytes", String.valueOf(params.number("segment.bytes", 1 << 30)));
        properties.put("segment.index.bytes", String.valueOf(params.number("segment.index.bytes", 10485760)));
        properties.put("index.interval.bytes", String.valueOf(params.number("index.interval.bytes", 4096)));
        properties.put("max.message.bytes", String.valueOf(params.number("max.message.bytes", 1048588)));
        for (String name : PASSED_ON) if (params.has(name)) properties.put(name, params.text(name));
        Class<?> type = Reflect.type("org.apache.kafka.storage.internals.log.LogConfig", "kafka.log.LogConfig");
        if (Version.MAJOR > 2) return Reflect.make(type, properties);
        return Reflect.make(type, properties, Reflect.call(Reflect.type("scala.collection.immutable.Set$EmptySet$").getField("MODULE$").get(null), "empty"));
    }

    List<Object> logs() throws Throwable {
        return Reflect.list(Reflect.call(manager, "allLogs"));
    }

    void close(long brokerEpoch) throws Throwable {
        if (Version.MAJOR == 2) Reflect.call(manager, "shutdown");
        else Reflect.call(manager, "shutdown", brokerEpoch);
    }
}
