//@file >=3.9 <4.0
package interop;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

/**
 * Between message formats, the last Kafka that can: {"items": [{"data", "to", "way": "down", "first_offset"} or
 * {"data", "to", "way": "up", "base_offset", "codec", "append_time", "now_ms", "leader_epoch"}, ...]}.
 * An answer is the converted bytes or the class of what was thrown.
 */
final class ConvertBatches implements Operation {
    @Override
    public Object run(Request request) {
        List<Object> answers = new ArrayList<>();
        for (Map<String, Object> each : request.objects("items")) {
            Request item = new Request(each);
            try {
                MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(item.bytes("data")));
                byte to = (byte) item.number("to", 2);
                MemoryRecords converted = item.text("way").equals("up") ? up(records, to, item)
                    : records.downConvert(to, item.number("first_offset", 0), Time.SYSTEM).records();
                answers.add(Json.object("data", Json.base64(converted.buffer())));
            } catch (Throwable t) {
                answers.add(Json.object("failure", t.getClass().getSimpleName()));
            }
        }
        return answers;
    }

    private static MemoryRecords up(MemoryRecords records, byte to, Request item) {
        CompressionType target = CompressionType.forId((int) item.number("codec", 0));
        RecordBatch first = records.batches().iterator().next();
        LogValidator validator = new LogValidator(records, new TopicPartition("t", 0), new StillClock(item.number("now_ms", 0)), first.compressionType(),
            Compression.of(target).build(), false, to, item.flag("append_time", false) ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
            Long.MAX_VALUE, Long.MAX_VALUE, (int) item.number("leader_epoch", -1), AppendOrigin.CLIENT, MetadataVersion.latestProduction());
        LogValidator.MetricsRecorder silent = (LogValidator.MetricsRecorder) Reflect.proxy(LogValidator.MetricsRecorder.class, (proxy, method, arguments) -> null);
        return validator.validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(item.number("base_offset", 0)), silent, BufferSupplier.NO_CACHING).validatedRecords;
    }
}
