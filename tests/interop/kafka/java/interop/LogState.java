package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What Kafka holds in memory about one loaded log. */
final class LogState {
    private LogState() {
    }

    static Map<String, Object> describe(Object log) throws Throwable {
        List<Object> segments = new ArrayList<>();
        for (Object segment : Reflect.list(Reflect.call(log, "logSegments")))
            segments.add(Json.object("base", Reflect.call(segment, "baseOffset"), "bytes", Reflect.call(segment, "size")));
        Object producers = Reflect.call(log, "producerStateManager");
        List<Object> epochs = new ArrayList<>();
        for (Object cache : Reflect.list(Reflect.call(log, "leaderEpochCache")))
            for (Object entry : Reflect.list(Reflect.call(cache, "epochEntries"))) epochs.add(List.of(Reflect.field(entry, "epoch"), Reflect.field(entry, "startOffset")));
        List<Object> id = Reflect.list(Reflect.call(log, "topicId"));
        return Json.object(
            "log_start_offset", Reflect.call(log, "logStartOffset"), "log_end_offset", Reflect.call(log, "logEndOffset"),
            "recovery_point", Reflect.call(log, "recoveryPoint"), "segments", segments, "producers", producers(producers),
            "first_undecided_offset", Reflect.optionalLong(Reflect.call(producers, "firstUndecidedOffset")), "epochs", epochs,
            "topic_id", id.isEmpty() ? null : id.get(0).toString());
    }

    private static Map<String, Object> producers(Object manager) throws Throwable {
        Map<String, Object> result = new TreeMap<>();
        for (Object entry : Reflect.list(Reflect.call(manager, "activeProducers"))) {
            List<Object> batches = new ArrayList<>();
            for (Object b : Reflect.list(Reflect.call(entry, "batchMetadata")))
                batches.add(List.of(Reflect.field(b, "lastSeq"), Reflect.field(b, "lastOffset"), Reflect.field(b, "offsetDelta"), Reflect.field(b, "timestamp")));
            result.put(String.valueOf(Reflect.call(entry, "producerId")), Json.object(
                "epoch", Reflect.call(entry, "producerEpoch"), "first_seq", Reflect.call(entry, "firstSeq"), "last_seq", Reflect.call(entry, "lastSeq"),
                "first_offset", Reflect.call(entry, "firstDataOffset"), "last_offset", Reflect.call(entry, "lastDataOffset"),
                "offset_delta", Reflect.call(entry, "lastOffsetDelta"), "timestamp", Reflect.call(entry, "lastTimestamp"),
                "coordinator_epoch", Reflect.call(entry, "coordinatorEpoch"),
                "txn_first_offset", Reflect.optionalLong(Reflect.call(entry, "currentTxnFirstOffset")), "batches", batches));
        }
        return result;
    }
}
