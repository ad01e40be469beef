//@file >=4.0
package interop;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ScheduledFuture;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.ControlRecordType;              //@ <4.3
import org.apache.kafka.common.record.EndTransactionMarker;           //@ <4.3
import org.apache.kafka.common.record.MemoryRecords;                  //@ <4.3
import org.apache.kafka.common.record.MemoryRecordsBuilder;           //@ <4.3
import org.apache.kafka.common.record.RecordBatch;                    //@ <4.3
import org.apache.kafka.common.record.RecordVersion;                  //@ <4.3
import org.apache.kafka.common.record.internal.ControlRecordType;     //@ >=4.3
import org.apache.kafka.common.record.internal.EndTransactionMarker;  //@ >=4.3
import org.apache.kafka.common.record.internal.MemoryRecords;         //@ >=4.3
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;  //@ >=4.3
import org.apache.kafka.common.record.internal.RecordBatch;           //@ >=4.3
import org.apache.kafka.common.record.internal.RecordVersion;         //@ >=4.3
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.server.common.RequestLocal;  //@ >=4.4
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;  //@ >=4.4
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Writes one partition directory through Kafka's own append path, following a script:
 * {"dir", "now_ms", "config": {LogConfig properties}, "topic_id", "log_start", "ops": [...]}.
 * Any op may carry now_ms. k, v and header values are base64 or null.
 *
 *   append         records [{ts, k, v, h, offset?}], codec, magic, ts_type, pid, epoch, seq, txn, leader_epoch, origin;
 *                  role follower: batches [the same], base
 *   marker         pid, epoch, type COMMIT|ABORT, coord_epoch, leader_epoch, ts
 *   roll, flush    .
 *   hw             to
 *   delete_before  offset, retention
 *   truncate       offset
 *   clean          from, to, io
 *   reopen         close and load again
 *   copy           to: the directory as a crash would leave it now
 *   mark           name: remember (log end, recovery point, log start)
 *   close          orderly
 */
final class Generate implements Operation {
    private static final int BUFFER = 1 << 20;

    private final StillClock clock;
    private final File directory;
    private final Properties config = new Properties();
    private final Uuid topicId;
    private final long logStart;
    private final Map<String, Object> marks = Json.object();
    private UnifiedLog log;
    private boolean closed;

    Generate() {
        this(null);
    }

    private Generate(Request script) {
        clock = new StillClock(script == null ? 0 : script.number("now_ms", 1700000000000L));
        directory = script == null ? null : script.directory("dir");
        topicId = script == null || !script.has("topic_id") ? null : Uuid.fromString(script.text("topic_id"));
        logStart = script == null ? 0 : script.number("log_start", 0);
        if (script != null) script.object("config").fields.forEach((name, value) -> config.put(name.equals("segment.bytes") ? "internal.segment.bytes" : name, value.toString()));
    }

    @Override
    public Object run(Request script) throws Throwable {
        return new Generate(script).write(script);
    }

    private Object write(Request script) throws Exception {
        Files.createDirectories(directory.toPath());
        open();
        for (Map<String, Object> op : script.objects("ops")) perform(new Request(op));
        List<Object> segments = new ArrayList<>();
        for (LogSegment segment : log.logSegments()) segments.add(List.of(segment.baseOffset(), segment.size()));
        Object result = Json.object("recovery_point", log.recoveryPoint(), "log_start_offset", log.logStartOffset(), "log_end_offset", log.logEndOffset(), "segments", segments, "marks", marks);
        if (!closed) log.closeHandlers();  //@ <4.4
        if (!closed) log.closeQuietly();   //@ >=4.4
        return result;
    }

    private void open() throws IOException {
        log = UnifiedLog.create(directory, new LogConfig(config), logStart, 0L, new Inline(), new BrokerTopicStats(false), clock, 900000,
            new ProducerStateManagerConfig(86400000, false), 600000, new LogDirFailureChannel(10), true, Optional.ofNullable(topicId));
    }

    private void perform(Request op) throws Exception {
        clock.now = op.number("now_ms", clock.now);
        switch (op.text("op")) {
            case "append": append(op); break;
            case "marker": marker(op); break;
            case "roll": log.roll(); break;
            case "flush": log.flush(false); break;
            case "hw": log.updateHighWatermark(op.number("to", log.logEndOffset())); break;
            case "delete_before":
                log.updateHighWatermark(log.logEndOffset());
                log.maybeIncrementLogStartOffset(op.number("offset", 0), LogStartOffsetIncrementReason.ClientRecordDeletion);
                if (op.flag("retention", false)) log.deleteOldSegments();
                break;
            case "truncate": log.truncateTo(op.number("offset", 0)); break;
            case "clean": clean(op); break;
            case "reopen":
                log.close();
                open();
                break;
            case "copy": copyFiles(op.directory("to")); break;
            case "mark": marks.put(op.text("name"), List.of(log.logEndOffset(), log.recoveryPoint(), log.logStartOffset())); break;
            case "close":
                log.close();
                closed = true;
                break;
            default: throw new IllegalArgumentException("unknown op " + op.text("op"));
        }
    }

    private void append(Request op) throws IOException {
        int leaderEpoch = (int) op.number("leader_epoch", 0);
        if (op.text("role", "leader").equals("follower")) {
            log.appendAsFollower(fetched(op, leaderEpoch), leaderEpoch);
            return;
        }
        MemoryRecords records = build(op, 0, leaderEpoch);
        byte magic = (byte) op.number("magic", 2);
        AppendOrigin origin = op.text("origin", "client").equals("client") ? AppendOrigin.CLIENT : AppendOrigin.COORDINATOR;
        if (magic < 2) log.appendAsLeaderWithRecordVersion(records, leaderEpoch, RecordVersion.lookup(magic));
        else log.appendAsLeader(records, leaderEpoch, origin);
    }

    /** One fetch answer holding several batches, offsets given. */
    private MemoryRecords fetched(Request op, int leaderEpoch) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        long offset = op.number("base", log.logEndOffset());
        for (Map<String, Object> fields : op.objects("batches")) {
            Request batch = new Request(fields);
            offset = batch.number("base", offset);
            MemoryRecords records = build(batch, offset, (int) batch.number("leader_epoch", leaderEpoch));
            ByteBuffer buffer = records.buffer().duplicate();
            byte[] copy = new byte[buffer.remaining()];
            buffer.get(copy);
            bytes.writeBytes(copy);
            for (RecordBatch built : records.batches()) offset = built.lastOffset() + 1;
        }
        return MemoryRecords.readableRecords(ByteBuffer.wrap(bytes.toByteArray()));
    }

    @SuppressWarnings("unchecked")
    private static MemoryRecords build(Request op, long base, int leaderEpoch) {
        byte magic = (byte) op.number("magic", 2);
        TimestampType type = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : op.text("ts_type", "create").equals("append") ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(BUFFER), magic, codec(op.text("codec", "none")), type, base,
            op.number("append_time", RecordBatch.NO_TIMESTAMP), op.number("pid", -1), (short) op.number("epoch", -1), (int) op.number("seq", -1), op.flag("txn", false), leaderEpoch);
        long offset = base;
        for (Map<String, Object> fields : op.objects("records")) {
            Request record = new Request(fields);
            List<Header> headers = new ArrayList<>();
            for (Object header : record.list("h")) headers.add(new RecordHeader(((List<Object>) header).get(0).toString(), Request.decode(((List<Object>) header).get(1))));
            offset = record.number("offset", offset);
            builder.appendWithOffset(offset++, magic == 0 ? RecordBatch.NO_TIMESTAMP : record.number("ts", 0), record.bytes("k"), record.bytes("v"), headers.toArray(new Header[0]));
        }
        return builder.build();
    }

    private static Compression codec(String name) {
        switch (name) {
            case "none": return Compression.NONE;
            case "gzip": return Compression.gzip().build();
            case "snappy": return Compression.snappy().build();
            case "lz4": return Compression.lz4().build();
            case "zstd": return Compression.zstd().build();
            default: throw new IllegalArgumentException("unknown codec " + name);
        }
    }

    private void marker(Request op) throws IOException {
        ControlRecordType type = op.text("type", "COMMIT").equals("COMMIT") ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        int leaderEpoch = (int) op.number("leader_epoch", 0);
        MemoryRecords marker = MemoryRecords.withEndTransactionMarker(0L, op.number("ts", clock.now), leaderEpoch, op.number("pid", 0), (short) op.number("epoch", 0),
            new EndTransactionMarker(type, (int) op.number("coord_epoch", 0)));
        log.appendAsLeader(marker, leaderEpoch, AppendOrigin.COORDINATOR);  //@ <4.4
        // transaction version 1: the marker has the epoch of the transaction
        log.appendAsLeader(marker, leaderEpoch, AppendOrigin.COORDINATOR, RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) 1);  //@ >=4.4
    }

    private void clean(Request op) throws Exception {
        log.updateHighWatermark(log.logEndOffset());
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(BUFFER), (int) op.number("io", 65536), BUFFER, 0.9, new Throttler(Double.MAX_VALUE, 300, "x", "y", clock), clock, partition -> { });
        cleaner.doClean(new LogToClean(log, op.number("from", 0), op.number("to", log.activeSegment().baseOffset()), true), clock.now);
    }

    private void copyFiles(File to) throws IOException {
        Files.createDirectories(to.toPath());
        for (File file : directory.listFiles())
            if (file.isFile()) Files.copy(file.toPath(), new File(to, file.getName()).toPath(), StandardCopyOption.REPLACE_EXISTING);
    }

    /** Runs immediate tasks at once (the flush after a roll), forgets delayed ones (file deletion). */
    private static final class Inline implements Scheduler {
        @Override
        public void startup() {
        }

        @Override
        public void shutdown() {
        }

        @Override
        public void resizeThreadPool(int size) {
        }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
            if (delay <= 0 && period < 0) task.run();
            return HeldScheduler.future();
        }
    }
}
