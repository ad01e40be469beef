package interop;

import java.io.File;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.Record;                //@ <4.3
import org.apache.kafka.common.record.RecordBatch;           //@ <4.3
import org.apache.kafka.common.record.Records;               //@ <4.3
import org.apache.kafka.common.record.internal.Record;       //@ >=4.3
import org.apache.kafka.common.record.internal.RecordBatch;  //@ >=4.3
import org.apache.kafka.common.record.internal.Records;      //@ >=4.3

/**
 * Everything Kafka reads in a log directory, from a copy: logs, batches with records, segments; from 4.0 also aborted transactions,
 * the offset for each time stamp that occurs, and where a fetch at each offset begins.
 */
final class ReadLogs implements Operation {
    private final List<Object> entries = new ArrayList<>();

    @Override
    public Object run(Request request) throws Throwable {
        File copy = Files.createTempDirectory("read").toFile();
        try {
            Trees.copy(request.directory("dir"), copy);
            Request params = request.object("params");
            LogDirectory loaded = LogDirectory.load(copy, params);
            ReadLogs reading = new ReadLogs();
            if (loaded.error != null) return Json.object("error", Failure.describe(loaded.error, copy), "entries", List.of());
            for (Object log : loaded.logs()) reading.log(log, copy, params);
            loaded.close(42);
            return Json.object("entries", reading.entries);
        } finally {
            Trees.remove(copy);
        }
    }

    private void add(String kind, String partition, Map<String, Object> entry) {
        entry.put("kind", kind);
        entry.put("partition", partition);
        entries.add(entry);
    }

    private void log(Object log, File directory, Request params) throws Throwable {
        String partition = ((File) Reflect.call(log, "dir")).getName();
        add("log", partition, LogState.describe(log));
        if (Version.MAJOR >= 3) Reflect.call(log, "updateHighWatermark", Reflect.call(log, "logEndOffset"));
        TreeSet<Long> timestamps = new TreeSet<>(List.of(-1L, -2L, -3L, 0L));
        for (Object segment : Reflect.list(Reflect.call(log, "logSegments"))) segment(segment, partition, directory, timestamps);
        if (Version.MAJOR < 4) return;
        aborted(log, partition);
        for (long timestamp : timestamps) time(log, partition, timestamp, directory);
        long start = (Long) Reflect.call(log, "logStartOffset");
        long end = (Long) Reflect.call(log, "logEndOffset");
        for (long offset = Math.max(0, start - 1); offset <= end + 1 && offset < start + params.number("max_lookups", 5000); offset++) position(log, partition, offset, directory);
    }

    private void segment(Object segment, String partition, File directory, TreeSet<Long> timestamps) throws Throwable {
        int position = 0;
        try {
            for (RecordBatch batch : ((Records) Reflect.call(segment, "log")).batches()) {
                Map<String, Object> entry = batch(batch, directory, timestamps);
                entry.put("segment", Reflect.call(segment, "baseOffset"));
                entry.put("position", position);
                position += batch.sizeInBytes();
                add("batch", partition, entry);
            }
        } catch (RuntimeException e) {
            add("walk_error", partition, Json.object("position", position, "exception", Failure.describe(e, directory)));
        }
        add("segment", partition, Json.object("base", Reflect.call(segment, "baseOffset"), "bytes", Reflect.call(segment, "size"), "walked", position));
    }

    private static Map<String, Object> batch(RecordBatch batch, File directory, TreeSet<Long> timestamps) throws Throwable {
        Map<String, Object> entry = Json.object(
            "magic", batch.magic(), "size", batch.sizeInBytes(), "base_offset", batch.baseOffset(), "last_offset", batch.lastOffset(),
            "count", batch.countOrNull(), "codec", batch.compressionType().name, "timestamp_type", batch.timestampType().name, "max_timestamp", batch.maxTimestamp(),
            "producer_id", batch.producerId(), "producer_epoch", batch.producerEpoch(), "base_sequence", batch.baseSequence(), "last_sequence", batch.lastSequence(),
            "leader_epoch", batch.partitionLeaderEpoch(), "transactional", batch.isTransactional(), "control", batch.isControlBatch(),
            "crc", batch.checksum(), "crc_valid", batch.isValid());
        if (Version.MAJOR >= 4) entry.put("delete_horizon", Reflect.optionalLong(Reflect.call(batch, "deleteHorizonMs")));
        List<Object> records = new ArrayList<>();
        try {
            for (Record record : batch) {
                List<Object> headers = new ArrayList<>();
                for (Header header : record.headers()) headers.add(Arrays.asList(header.key(), Json.base64(header.value())));
                records.add(Json.object("offset", record.offset(), "timestamp", record.timestamp(), "sequence", record.sequence(),
                    "key", Json.base64(record.key()), "value", Json.base64(record.value()), "headers", headers));
                timestamps.add(record.timestamp());
                timestamps.add(record.timestamp() + 1);
            }
        } catch (RuntimeException e) {
            entry.put("records_error", Failure.describe(e, directory));
        }
        entry.put("records", records);
        return entry;
    }

    private void aborted(Object log, String partition) throws Throwable {
        List<Object> aborted = new ArrayList<>();
        for (Object t : Reflect.list(Reflect.call(log, "collectAbortedTransactions", Reflect.call(log, "logStartOffset"), Reflect.call(log, "logEndOffset"))))
            aborted.add(List.of(Reflect.call(t, "producerId"), Reflect.call(t, "firstOffset"), Reflect.call(t, "lastOffset"), Reflect.call(t, "lastStableOffset")));
        add("aborted_transactions", partition, Json.object("entries", aborted));
    }

    private void time(Object log, String partition, long timestamp, File directory) {
        Map<String, Object> entry = Json.object("query", timestamp);
        try {
            for (Object found : Reflect.list(Reflect.call(Reflect.call(log, "fetchOffsetByTimestamp", timestamp, Optional.empty()), "timestampAndOffsetOpt"))) {
                List<Object> epoch = Reflect.list(Reflect.field(found, "leaderEpoch"));
                entry.put("timestamp", Reflect.field(found, "timestamp"));
                entry.put("offset", Reflect.field(found, "offset"));
                entry.put("leader_epoch", epoch.isEmpty() ? null : epoch.get(0));
            }
        } catch (Throwable t) {
            entry.put("exception", Failure.describe(t, directory));
        }
        add("offset_for_timestamp", partition, entry);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private void position(Object log, String partition, long offset, File directory) {
        Map<String, Object> entry = Json.object("query", offset);
        try {
            Object isolation = Enum.valueOf((Class) Reflect.type("org.apache.kafka.server.storage.log.FetchIsolation"), "LOG_END");
            Object fetched = Reflect.call(log, "read", offset, 1, isolation, true);
            Records records = (Records) Reflect.field(fetched, "records");
            entry.put("bytes", records.sizeInBytes());
            Iterator<? extends RecordBatch> batches = records.batches().iterator();
            if (batches.hasNext()) {
                RecordBatch batch = batches.next();
                entry.put("base_offset", batch.baseOffset());
                entry.put("last_offset", batch.lastOffset());
            }
            Object metadata = Reflect.field(fetched, "fetchOffsetMetadata");
            entry.put("segment", Reflect.field(metadata, "segmentBaseOffset"));
            entry.put("position", Reflect.field(metadata, "relativePositionInSegment"));
        } catch (Throwable t) {
            entry.put("exception", Failure.describe(t, directory));
        }
        add("read_at", partition, entry);
    }
}
