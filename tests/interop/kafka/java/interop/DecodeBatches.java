package interop;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.MemoryRecords;               //@ <4.3
import org.apache.kafka.common.record.MutableRecordBatch;          //@ <4.3
import org.apache.kafka.common.record.Record;                      //@ <4.3
import org.apache.kafka.common.record.RecordBatch;                 //@ <4.3
import org.apache.kafka.common.record.internal.MemoryRecords;      //@ >=4.3
import org.apache.kafka.common.record.internal.MutableRecordBatch; //@ >=4.3
import org.apache.kafka.common.record.internal.Record;             //@ >=4.3
import org.apache.kafka.common.record.internal.RecordBatch;        //@ >=4.3
import org.apache.kafka.common.utils.BufferSupplier;               //@ <4.4
import org.apache.kafka.common.utils.CloseableIterator;            //@ <4.4
import org.apache.kafka.common.utils.internals.BufferSupplier;     //@ >=4.4
import org.apache.kafka.common.utils.internals.CloseableIterator;  //@ >=4.4

/**
 * Many buffers of batches in one request, each read as Kafka's own classes read it: {"buffers": [base64, ...]}.
 * What throws stands as the class's name; keys and values longer than SHOWN bytes stand as size and MD5.
 */
final class DecodeBatches implements Operation {
    private static final int SHOWN = 24;

    private interface Value {
        Object get() throws Throwable;
    }

    @Override
    public Object run(Request request) throws Throwable {
        List<Object> answers = new ArrayList<>();
        for (Object buffer : request.list("buffers")) answers.add(read(Request.decode(buffer)));
        return answers;
    }

    static Map<String, Object> read(byte[] data) throws Throwable {
        List<Object> batches = new ArrayList<>();
        String failure = null;
        try {
            Iterator<MutableRecordBatch> walk = MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches().iterator();
            while (walk.hasNext()) batches.add(batch(walk.next()));
        } catch (Throwable t) {
            failure = t.getClass().getSimpleName();
        }
        return Json.object("batches", batches, "failure", failure);
    }

    /** The value, or in its place the class of what was thrown. */
    private static Object or(Value value) {
        try {
            return value.get();
        } catch (Throwable t) {
            return "!" + t.getClass().getSimpleName();
        }
    }

    private static Map<String, Object> batch(RecordBatch batch) throws Throwable {
        Map<String, Object> answer = Json.object(
            "valid", or(batch::isValid),
            "ensure_valid", or(() -> {
                batch.ensureValid();
                return "";
            }),
            "magic", batch.magic(), "size", batch.sizeInBytes(), "checksum", or(batch::checksum),
            "base_offset", or(batch::baseOffset), "last_offset", or(batch::lastOffset), "next_offset", or(batch::nextOffset), "count", or(batch::countOrNull),
            "codec", or(() -> batch.compressionType().id), "timestamp_type", or(() -> batch.timestampType().id), "max_timestamp", or(batch::maxTimestamp),
            "producer_id", batch.producerId(), "producer_epoch", batch.producerEpoch(), "has_producer_id", batch.hasProducerId(),
            "base_sequence", batch.baseSequence(), "last_sequence", batch.lastSequence(), "leader_epoch", batch.partitionLeaderEpoch(),
            "transactional", batch.isTransactional(), "control", batch.isControlBatch(),
            "delete_horizon", Version.MAJOR < 3 ? null : or(() -> Reflect.optionalLong(Reflect.call(batch, "deleteHorizonMs"))));
        List<Object> records = new ArrayList<>();
        answer.put("failure", or(() -> {
            try (CloseableIterator<Record> walk = batch.streamingIterator(BufferSupplier.NO_CACHING)) {
                while (walk.hasNext()) {
                    Record next = walk.next();
                    next.ensureValid();  // as a consumer does with check.crcs: the checksums of messages inside a wrapper
                    records.add(record(next));
                }
            }
            return "";
        }));
        answer.put("records", records);
        return answer;
    }

    private static List<Object> record(Record record) throws Throwable {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) headers.add(Arrays.asList(header.key(), shown(header.value())));
        return Arrays.asList(record.offset(), record.timestamp(), record.sequence(), shown(bytes(record.key())), shown(bytes(record.value())), headers);
    }

    private static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) return null;
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    private static String shown(byte[] bytes) throws Throwable {
        if (bytes == null || bytes.length <= SHOWN) return Json.base64(bytes);
        return bytes.length + ":" + Base64.getEncoder().encodeToString(MessageDigest.getInstance("MD5").digest(bytes));
    }
}
