//@file >=4.1 <4.2
package org.apache.kafka.clients.producer.internals;

import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.ArrayList;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;

/** Kafka's own accumulator without a broker; its random numbers are given. In Kafka's package, whose methods are not public. */
public final class ScriptedAccumulator {
    private static final String TOPIC = "t";
    private static final long MEMORY = 256L << 20;

    private final int partitions;
    private final Cluster cluster;
    private final RecordAccumulator accumulator;
    private final Metrics metrics = new Metrics();

    public ScriptedAccumulator(int partitions, int batchSize, Iterator<Integer> randoms) {
        this.partitions = partitions;
        Node node = new Node(0, "localhost", 9092);
        List<PartitionInfo> infos = new ArrayList<>();
        for (int p = 0; p < partitions; p++) infos.add(new PartitionInfo(TOPIC, p, node, new Node[] {node}, new Node[] {node}));
        cluster = new Cluster("c", List.of(node), infos, Set.of(), Set.of());
        BufferPool pool = new BufferPool(MEMORY, batchSize, metrics, Time.SYSTEM, "m");
        accumulator = new RecordAccumulator(new LogContext(), batchSize, Compression.of(CompressionType.NONE).build(), Integer.MAX_VALUE, 0L, 0L, Integer.MAX_VALUE, metrics, "m", Time.SYSTEM, null, pool) {
            @Override
            BuiltInPartitioner createBuiltInPartitioner(LogContext context, String topic, int stickyBatchSize) {
                return new BuiltInPartitioner(context, topic, stickyBatchSize) {
                    @Override
                    int randomPartition() {
                        return randoms.next();
                    }
                };
            }
        };
    }

    /** The partition that a record went to; one with a key goes where KafkaProducer sends it. */
    public int append(byte[] key, byte[] value, Header[] headers, long timestamp) throws InterruptedException {
        int wanted = key == null ? RecordMetadata.UNKNOWN_PARTITION : BuiltInPartitioner.partitionForKey(key, partitions);
        int[] found = {-1};
        RecordAccumulator.AppendCallbacks callbacks = new RecordAccumulator.AppendCallbacks() {
            @Override
            public void setPartition(int partition) {
                found[0] = partition;
            }

            @Override
            public void onCompletion(RecordMetadata metadata, Exception failure) {
            }
        };
        accumulator.append(TOPIC, wanted, timestamp, key, value, headers, callbacks, 0L, Time.SYSTEM.milliseconds(), cluster);
        return found[0];
    }

    /** Takes all batches out, as a sender that may send everything does: partition, records and bytes of each. */
    public List<Object> drain() {
        List<Object> result = new ArrayList<>();
        for (int p = 0; p < partitions; p++) {
            Deque<ProducerBatch> queue = accumulator.getDeque(new TopicPartition(TOPIC, p));
            if (queue == null) continue;
            for (ProducerBatch batch = queue.pollFirst(); batch != null; batch = queue.pollFirst()) {
                batch.close();
                result.add(List.of(p, batch.recordCount, batch.records().sizeInBytes()));
                accumulator.deallocate(batch);
            }
        }
        return result;
    }
}
