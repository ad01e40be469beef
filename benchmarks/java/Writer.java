import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;

/**
 * A segment written as Kafka's producer writes its batches, with the producer's own builder:
 * "FILE CODEC MAGIC RECORDS-A-BATCH HEADERS START-MS", values on standard input, each behind its length (int32).
 */
public final class Writer {
    private static final int MAX_BATCH = 64 << 20;

    public static void main(String[] arguments) throws Exception {
        Compression compression = Compression.of(CompressionType.forName(arguments[1])).build();
        byte magic = Byte.parseByte(arguments[2]);
        int perBatch = Integer.parseInt(arguments[3]);
        int headers = Integer.parseInt(arguments[4]);
        long start = Long.parseLong(arguments[5]);
        Random random = new Random(start);
        long offset = 0;
        boolean more = true;
        try (DataInputStream values = new DataInputStream(new BufferedInputStream(System.in, 1 << 20));
                FileOutputStream file = new FileOutputStream(arguments[0]);
                FileChannel channel = file.getChannel()) {
            ByteBuffer buffer = ByteBuffer.allocate(1 << 16);
            while (more) {
                List<byte[]> batch = new ArrayList<>(perBatch);
                int size = 0;
                while (batch.size() < perBatch) {
                    byte[] value = next(values);
                    if (value == null) {
                        more = false;
                        break;
                    }
                    batch.add(value);
                    size += value.length + 100 + 40 * headers;
                }
                if (batch.isEmpty()) {
                    break;
                }
                if (size > MAX_BATCH) {
                    throw new IllegalArgumentException("a batch of " + size + " bytes");
                }
                if (buffer.capacity() < size) {
                    buffer = ByteBuffer.allocate(size);
                }
                buffer.clear();
                MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, magic, compression, TimestampType.CREATE_TIME,
                    offset, RecordBatch.NO_TIMESTAMP, RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH,
                    RecordBatch.NO_SEQUENCE, false, 0);
                for (byte[] value : batch) {
                    byte[] key = String.format("%010d", random.nextInt(Integer.MAX_VALUE)).getBytes(StandardCharsets.US_ASCII);
                    builder.appendWithOffset(offset, magic == 0 ? RecordBatch.NO_TIMESTAMP : start + offset / 7, key, value,
                        made(headers, random));
                    offset++;
                }
                MemoryRecords built = builder.build();
                built.writeFullyTo(channel);
            }
        }
        System.out.println(offset);
    }

    private static byte[] next(DataInputStream values) throws Exception {
        try {
            byte[] value = new byte[values.readInt()];
            values.readFully(value);
            return value;
        } catch (EOFException end) {
            return null;
        }
    }

    private static Header[] made(int count, Random random) {
        Header[] headers = new Header[count];
        for (int number = 0; number < count; number++) {
            byte[] value = String.format("%08d", random.nextInt(100_000_000)).getBytes(StandardCharsets.US_ASCII);
            headers[number] = new RecordHeader("name-" + number, value);
        }
        return headers;
    }
}
