//@file >=4.0
package interop;

import java.io.File;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.FileRecords;           //@ <4.3
import org.apache.kafka.common.record.Record;                //@ <4.3
import org.apache.kafka.common.record.RecordBatch;           //@ <4.3
import org.apache.kafka.common.record.internal.FileRecords;  //@ >=4.3
import org.apache.kafka.common.record.internal.Record;       //@ >=4.3
import org.apache.kafka.common.record.internal.RecordBatch;  //@ >=4.3
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.TopicImage;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.PartitionRegistration;

/**
 * Loads a __cluster_metadata-0 directory, newest snapshot first and then the log behind it, into Kafka's own MetadataImage.
 * "until" is the offset to stop before; without it everything in the files is applied, whether or not it was ever committed.
 * A metadata transaction takes effect where it ends.
 */
final class Image implements Operation {
    private MetadataImage image = MetadataImage.EMPTY;
    private List<ApiMessage> transaction;
    private long next;
    private int epoch;
    private long timestamp;

    @Override
    public Object run(Request request) throws Throwable {
        return new Image().load(request);
    }

    private Object load(Request request) throws Throwable {
        File directory = request.directory("dir");
        long until = request.number("until", Long.MAX_VALUE);
        File snapshot = null;
        long snapshotEnd = 0;
        TreeMap<Long, File> segments = new TreeMap<>();
        for (File file : directory.listFiles()) {
            String name = file.getName();
            if (name.matches("\\d{20}\\.log")) segments.put(Long.parseLong(name.substring(0, 20)), file);
            if (!name.matches("\\d{20}-\\d{10}\\.checkpoint")) continue;
            long end = Long.parseLong(name.substring(0, 20));
            if (end > until || snapshot != null && name.compareTo(snapshot.getName()) < 0) continue;
            snapshot = file;
            snapshotEnd = end;
        }
        if (snapshot != null) {
            apply(snapshot, 0, Long.MAX_VALUE, true);
            next = snapshotEnd;
        }
        for (File segment : segments.values()) apply(segment, next, until, false);
        return describe(snapshot);
    }

    private void apply(File file, long from, long until, boolean snapshot) throws Exception {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        try (FileRecords records = FileRecords.open(file, false)) {
            for (RecordBatch batch : records.batches()) {
                batch.ensureValid();
                for (Record record : batch) {
                    if (record.offset() < from || record.offset() >= until) continue;
                    next = record.offset() + 1;
                    epoch = snapshot ? epoch : batch.partitionLeaderEpoch();
                    timestamp = batch.maxTimestamp();
                    if (!batch.isControlBatch()) replay(delta, MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(record.value()), record.valueSize()).message());
                }
            }
        }
        if (snapshot) delta.finishSnapshot();
        image = delta.apply(new MetadataProvenance(Math.max(next - 1, 0), epoch, timestamp, true));
    }

    private void replay(MetadataDelta delta, ApiMessage message) {
        switch (MetadataRecordType.fromId(message.apiKey())) {
            case BEGIN_TRANSACTION_RECORD: transaction = new ArrayList<>(); break;
            case ABORT_TRANSACTION_RECORD: transaction = null; break;
            case END_TRANSACTION_RECORD:
                transaction.forEach(delta::replay);
                transaction = null;
                break;
            default:
                if (transaction != null) transaction.add(message);
                else delta.replay(message);
        }
    }

    private Object describe(File snapshot) {
        Map<String, Object> topics = new TreeMap<>();
        for (TopicImage topic : image.topics().topicsByName().values()) {
            Map<String, Object> partitions = new TreeMap<>();
            topic.partitions().forEach((number, partition) -> partitions.put(String.valueOf(number), describe(partition)));
            topics.put(topic.name(), Json.object("id", topic.id().toString(), "partitions", partitions));
        }
        Map<String, Object> configs = new TreeMap<>();
        image.configs().resourceData().forEach((resource, config) -> configs.put(resource.type().name().toLowerCase(java.util.Locale.ROOT) + ":" + resource.name(), new TreeMap<>(config.data())));
        Map<String, Object> brokers = new TreeMap<>();
        for (BrokerRegistration broker : image.cluster().brokers().values()) brokers.put(String.valueOf(broker.id()), describe(broker));
        List<String> controllers = new ArrayList<>();
        new TreeMap<>(image.cluster().controllers()).keySet().forEach(id -> controllers.add(String.valueOf(id)));
        Map<String, Object> features = new TreeMap<>(image.features().finalizedVersions());
        image.features().metadataVersion().ifPresent(version -> features.put("metadata.version", version.featureLevel()));
        Map<String, Object> quotas = new TreeMap<>();
        image.clientQuotas().entities().forEach((entity, quota) -> quotas.put(new TreeMap<>(entity.entries()).toString(), new TreeMap<>(quota.quotaMap())));  //@ <4.3
        image.clientQuotas().entities().forEach((entity, quota) -> quotas.put(new TreeMap<>(entity.entries()).toString(), new TreeMap<>(quota.quotas())));    //@ >=4.3
        Map<String, Object> scram = new TreeMap<>();
        image.scram().mechanisms().forEach((mechanism, users) -> scram.put(mechanism.mechanismName(), new ArrayList<>(new TreeMap<>(users).keySet())));
        return Json.object("next_offset", next, "epoch", epoch, "snapshot", snapshot == null ? null : snapshot.getName(), "topics", topics, "configs", configs,
            "brokers", brokers, "controllers", controllers, "features", features, "client_quotas", quotas, "scram_users", scram, "next_producer_id", image.producerIds().nextProducerId(),
            "open_transaction", transaction != null);
    }

    private static Object describe(PartitionRegistration p) {
        return Json.object("replicas", p.replicas, "isr", p.isr, "leader", p.leader, "leader_epoch", p.leaderEpoch, "partition_epoch", p.partitionEpoch,
            "directories", texts(p.directories), "adding_replicas", p.addingReplicas, "removing_replicas", p.removingReplicas, "elr", p.elr, "last_known_elr", p.lastKnownElr,
            "leader_recovery_state", p.leaderRecoveryState.name());
    }

    private static Object describe(BrokerRegistration broker) {
        Map<String, Object> listeners = new TreeMap<>();
        broker.listeners().forEach((name, endpoint) -> listeners.put(name, endpoint.host() + ":" + endpoint.port()));
        Map<String, Object> features = new TreeMap<>();
        broker.supportedFeatures().forEach((name, range) -> features.put(name, List.of(range.min(), range.max())));
        Map<String, Object> described = Json.object("features", features, "epoch", broker.epoch(), "incarnation_id", broker.incarnationId().toString(), "listeners", listeners, "rack", broker.rack().orElse(null),
            "fenced", broker.fenced(), "in_controlled_shutdown", broker.inControlledShutdown(), "directories", texts(broker.directories().toArray(new Uuid[0])));
        List<Uuid> cordoned = broker.cordonedDirectories();  // null of a broker that has not said yet            //@ >=4.3
        described.put("cordoned_directories", texts(cordoned == null ? new Uuid[0] : cordoned.toArray(new Uuid[0])));  //@ >=4.3
        return described;
    }

    private static List<String> texts(Uuid[] ids) {
        List<String> result = new ArrayList<>();
        for (Uuid id : ids) result.add(id.toString());
        return result;
    }
}
