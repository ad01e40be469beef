import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.storage.internals.log.OffsetIndex;
import org.apache.kafka.storage.internals.log.TimeIndex;

/**
 * Kafka's own record classes, kept warm: reads "MODE FILE" from standard input, does the work once, and answers
 * "seconds records checksum". The modes are those that compare.py asks for.
 */
public final class Peer {
    private long records;
    private long check;

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ", 2);
            Peer peer = new Peer();
            double seconds = peer.run(words[0], new File(words[1]));
            System.out.println(seconds + " " + peer.records + " " + peer.check);
        }
    }

    /** Nanoseconds of this thread's processor time, or of the clock on the wall. */
    private static long now() {
        return Boolean.getBoolean("cpu") ? ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() : System.nanoTime();
    }

    private double run(String mode, File file) throws Exception {
        if (mode.startsWith("build-")) {
            return build(CompressionType.forName(mode.substring("build-".length())), file);
        }
        long start = now();
        if (mode.equals("recover")) {
            recover(file);
        } else {
            read(mode, file);
        }
        return (now() - start) / 1e9;
    }

    private void read(String mode, File file) throws Exception {
        try (FileRecords all = FileRecords.open(file, false)) {
            for (FileChannelRecordBatch batch : all.batches()) {
                if (!batch.isValid()) {
                    throw new IllegalStateException("a checksum does not match at " + batch.position());
                }
                if (mode.equals("shallow")) {
                    records++;
                    continue;
                }
                for (Record record : batch) {
                    records++;
                    check += record.offset() + record.timestamp();
                    copy(record.key());
                    copy(record.value());
                    check += record.headers().length;
                }
            }
        }
    }

    private void copy(ByteBuffer field) {
        if (field != null) {
            check += Utils.readBytes(field).length;
        }
    }

    /** What LogSegment.recover does for each batch: checksum, largest timestamp, index entries every 4096 bytes. */
    private void recover(File file) throws Exception {
        Path folder = Files.createTempDirectory("peer");
        File offsets = folder.resolve("0.index").toFile();
        File times = folder.resolve("0.timeindex").toFile();
        int position = 0;
        int lastEntry = 0;
        long newest = RecordBatch.NO_TIMESTAMP;
        long newestOffset = 0;
        try (FileRecords all = FileRecords.open(file, false);
                OffsetIndex offsetIndex = new OffsetIndex(offsets, 0, 10 << 20);
                TimeIndex timeIndex = new TimeIndex(times, 0, 10 << 20)) {
            for (FileChannelRecordBatch batch : all.batches()) {
                batch.ensureValid();
                records++;
                if (batch.maxTimestamp() > newest) {
                    newest = batch.maxTimestamp();
                    newestOffset = batch.lastOffset();
                }
                if (position - lastEntry > 4096) {
                    offsetIndex.append(batch.lastOffset(), position);
                    timeIndex.maybeAppend(newest, newestOffset);
                    lastEntry = position;
                }
                position += batch.sizeInBytes();
            }
            timeIndex.maybeAppend(newest, newestOffset, true);
            offsetIndex.trimToValidSize();
            timeIndex.trimToValidSize();
        }
        Files.delete(offsets.toPath());
        Files.delete(times.toPath());
        Files.delete(folder);
        check = newest;
    }

    /** Batches of 16 KiB from the records of a file, which are read before the clock starts. */
    private double build(CompressionType type, File file) throws Exception {
        List<byte[]> keys = new ArrayList<>();
        List<byte[]> values = new ArrayList<>();
        long timestamp = -1;
        try (FileRecords all = FileRecords.open(file, false)) {
            for (FileChannelRecordBatch batch : all.batches()) {
                for (Record record : batch) {
                    keys.add(record.key() == null ? null : Utils.readBytes(record.key()));
                    values.add(record.value() == null ? null : Utils.readBytes(record.value()));
                    timestamp = record.timestamp();
                }
                if (keys.size() > 300_000) {
                    break;
                }
            }
        }
        ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
        long start = now();
        int next = 0;
        while (next < keys.size()) {
            buffer.clear();
            MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, RecordBatch.MAGIC_VALUE_V2,
                Compression.of(type).build(), TimestampType.CREATE_TIME, next, timestamp,
                RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE, false, 0);
            int bytes = 0;
            while (next < keys.size() && bytes < 16000) {
                builder.appendWithOffset(next, timestamp, keys.get(next), values.get(next));
                bytes += 20 + values.get(next).length;
                next++;
            }
            MemoryRecords built = builder.build();
            check += built.sizeInBytes();
        }
        records = next;
        return (now() - start) / 1e9;
    }
}
