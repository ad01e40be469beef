package interop;

import java.io.FileOutputStream;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own clients against a live broker ("bootstrap"). The verb says what:
 *
 *   create          topic, partitions, replicas, config
 *   create_all      topics {name: partitions}
 *   alter           topic, config
 *   elect           topic, partition; an unclean election
 *   delete          topic
 *   produce         topic, records [{partition, ts, k, v, h}], flush_every, producer: {client properties}; returns the offsets
 *   transaction     transactional_id, records with topic, end commit|abort|open; a producer left open stays open in this process
 *   flood           topic, partitions, value_bytes, out, producer: in the background, until sends fail; acknowledged "partition offset" lines go to out
 *   flood_state     sent, acknowledged and whether the flood has ended
 *   consume         topics {name: how many partitions, or which}, isolation, timeout_ms; returns every record and the offsets
 *   committed       group; the offsets that the group coordinator has for it, as [topic, partition, offset, metadata]
 *   delete_records  topic, partition, before
 *   ready           waits until the broker answers
 */
final class Client implements Operation {
    private static final Map<String, KafkaProducer<byte[], byte[]>> OPEN = new ConcurrentHashMap<>();
    private static final Map<String, Flood> FLOODS = new ConcurrentHashMap<>();
    private static final long POLL_MS = 200;

    private static final class Flood {
        final AtomicLong sent = new AtomicLong();
        final AtomicLong acknowledged = new AtomicLong();
        final AtomicBoolean failed = new AtomicBoolean();
        volatile boolean ended;
    }

    @Override
    public Object run(Request request) throws Throwable {
        switch (request.text("verb")) {
            case "create": return create(request);
            case "create_all": return createAll(request);
            case "alter": return alter(request);
            case "delete": return delete(request);
            case "elect": return elect(request);
            case "committed": return committed(request);
            case "delete_records": return deleteRecords(request);
            case "ready": return ready(request);
            case "produce": return produce(request);
            case "transaction": return transaction(request);
            case "flood": return flood(request);
            case "flood_state": return floodState(request);
            case "consume": return consume(request);
            default: throw new IllegalArgumentException("unknown verb " + request.text("verb"));
        }
    }

    private static Properties properties(Request request, String more) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", request.text("bootstrap"));
        properties.put("request.timeout.ms", "15000");
        if (more != null) request.object(more).fields.forEach((name, value) -> properties.put(name, value.toString()));
        return properties;
    }

    private static Admin admin(Request request) {
        Properties properties = properties(request, null);
        properties.put("default.api.timeout.ms", "25000");
        return Admin.create(properties);
    }

    private static Object ready(Request request) throws Exception {
        try (Admin admin = admin(request)) {
            return Json.object("cluster", admin.describeCluster().clusterId().get(), "nodes", admin.describeCluster().nodes().get().size());
        }
    }

    private static Object create(Request request) throws Exception {
        Map<String, String> config = new HashMap<>();
        request.object("config").fields.forEach((name, value) -> config.put(name, value.toString()));
        NewTopic topic = new NewTopic(request.text("topic"), (int) request.number("partitions", 1), (short) request.number("replicas", 1)).configs(config);
        try (Admin admin = admin(request)) {
            admin.createTopics(List.of(topic)).all().get();
        }
        return Json.object();
    }

    private static Object createAll(Request request) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        request.object("topics").fields.forEach((name, partitions) -> topics.add(new NewTopic(name, ((Number) partitions).intValue(), (short) 1)));
        try (Admin admin = admin(request)) {
            admin.createTopics(topics).all().get();
        }
        return Json.object();
    }

    private static Object committed(Request request) throws Exception {
        List<Object> result = new ArrayList<>();
        try (Admin admin = admin(request)) {
            admin.listConsumerGroupOffsets(request.text("group")).partitionsToOffsetAndMetadata().get().forEach((partition, offset) ->
                result.add(Arrays.asList(partition.topic(), partition.partition(), offset.offset(), offset.metadata(), offset.leaderEpoch().orElse(null))));
        }
        return Json.object("offsets", result);
    }

    private static Object alter(Request request) throws Exception {
        Collection<AlterConfigOp> ops = new ArrayList<>();
        request.object("config").fields.forEach((name, value) -> ops.add(new AlterConfigOp(new ConfigEntry(name, value.toString()), AlterConfigOp.OpType.SET)));
        try (Admin admin = admin(request)) {
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, request.text("topic")), ops)).all().get();
        }
        return Json.object();
    }

    /** An unclean election, which is the last way to a leader. */
    private static Object elect(Request request) throws Exception {
        TopicPartition partition = new TopicPartition(request.text("topic"), (int) request.number("partition", 0));
        try (Admin admin = admin(request)) {
            admin.electLeaders(ElectionType.UNCLEAN, Set.of(partition)).all().get();
        }
        return Json.object();
    }

    private static Object delete(Request request) throws Exception {
        try (Admin admin = admin(request)) {
            admin.deleteTopics(List.of(request.text("topic"))).all().get();
        }
        return Json.object();
    }

    private static Object deleteRecords(Request request) throws Exception {
        TopicPartition partition = new TopicPartition(request.text("topic"), (int) request.number("partition", 0));
        try (Admin admin = admin(request)) {
            return Json.object("low_watermark", admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(request.number("before", -1)))).lowWatermarks().get(partition).get().lowWatermark());
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(Request request) {
        Properties properties = new Properties();
        properties.put("acks", "all");
        properties.put("linger.ms", "20");
        properties.put("max.request.size", "4000000");
        properties.put("enable.idempotence", "false");
        properties.put("delivery.timeout.ms", "20000");
        properties.putAll(properties(request, "producer"));
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static ProducerRecord<byte[], byte[]> record(Map<String, Object> fields, String topic) {
        Request record = new Request(fields);
        List<Header> headers = new ArrayList<>();
        for (Object header : record.list("h")) headers.add(new RecordHeader(((List<?>) header).get(0).toString(), Request.decode(((List<?>) header).get(1))));
        Long timestamp = record.has("ts") ? (Long) record.number("ts", 0) : null;
        return new ProducerRecord<>(record.text("topic", topic), (int) record.number("partition", 0), timestamp, record.bytes("k"), record.bytes("v"), headers);
    }

    private static List<Object> send(KafkaProducer<byte[], byte[]> producer, Request request) throws Exception {
        long every = request.number("flush_every", 10);
        List<Object> offsets = new ArrayList<>();
        List<Future<RecordMetadata>> waiting = new ArrayList<>();
        List<Map<String, Object>> records = request.objects("records");
        for (int i = 0; i < records.size(); i++) {
            waiting.add(producer.send(record(records.get(i), request.text("topic", null))));
            if (waiting.size() < every && i < records.size() - 1) continue;
            producer.flush();
            for (Future<RecordMetadata> sent : waiting) offsets.add(List.of(sent.get().topic(), sent.get().partition(), sent.get().offset()));
            waiting.clear();
        }
        return offsets;
    }

    private static Object produce(Request request) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(request)) {
            return Json.object("offsets", send(producer, request));
        }
    }

    private static Object transaction(Request request) throws Exception {
        String id = request.text("transactional_id");
        KafkaProducer<byte[], byte[]> producer = OPEN.remove(id);
        if (producer == null) {
            Map<String, Object> settings = new HashMap<>(request.object("producer").fields);
            settings.putIfAbsent("transaction.timeout.ms", "600000");
            settings.put("transactional.id", id);
            settings.put("enable.idempotence", "true");
            Map<String, Object> fields = new HashMap<>(request.fields);
            fields.put("producer", settings);
            producer = producer(new Request(fields));
            producer.initTransactions();
        }
        producer.beginTransaction();
        List<Object> offsets = send(producer, request);
        switch (request.text("end", "commit")) {
            case "commit": producer.commitTransaction(); break;
            case "abort": producer.abortTransaction(); break;
            case "open": return Json.object("offsets", offsets);        // neither ended nor closed: as a producer that is still at work
            default: throw new IllegalArgumentException("a transaction ends with commit, abort or open");
        }
        if (request.flag("keep", true)) OPEN.put(id, producer);
        else producer.close();
        return Json.object("offsets", offsets);
    }

    private static Object flood(Request request) throws Exception {
        Flood flood = new Flood();
        FLOODS.put(request.text("topic"), flood);
        int partitions = (int) request.number("partitions", 1);
        byte[] value = new byte[(int) request.number("value_bytes", 300)];
        Arrays.fill(value, (byte) 'x');
        long pace = request.number("pace_ms", 1);
        KafkaProducer<byte[], byte[]> producer = producer(request);
        Thread thread = new Thread(() -> {
            try (PrintStream out = new PrintStream(new FileOutputStream(request.text("out")), true)) {
                for (int i = 0; !flood.failed.get(); i++) {
                    byte[] key = Integer.toString(i).getBytes(java.nio.charset.StandardCharsets.UTF_8);
                    producer.send(new ProducerRecord<>(request.text("topic"), i % partitions, key, value), (metadata, failure) -> {
                        if (failure != null) {
                            flood.failed.set(true);
                            return;
                        }
                        synchronized (out) {
                            out.println(metadata.partition() + " " + metadata.offset() + " " + new String(key, java.nio.charset.StandardCharsets.UTF_8));
                        }
                        flood.acknowledged.incrementAndGet();
                    });
                    flood.sent.incrementAndGet();
                    if (i % 10 == 9) Thread.sleep(pace);
                }
            } catch (Exception e) {
                flood.failed.set(true);
            } finally {
                producer.close(Duration.ZERO);
                flood.ended = true;
            }
        });
        thread.setDaemon(true);
        thread.start();
        return Json.object();
    }

    private static Object floodState(Request request) {
        Flood flood = FLOODS.get(request.text("topic"));
        if (flood == null) throw new IllegalArgumentException("no flood into " + request.text("topic"));
        return Json.object("sent", flood.sent.get(), "acknowledged", flood.acknowledged.get(), "ended", flood.ended);
    }

    private static Object consume(Request request) {
        Properties properties = new Properties();
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("fetch.max.wait.ms", "20");
        properties.put("max.partition.fetch.bytes", "4000000");
        properties.put("isolation.level", request.text("isolation", "read_uncommitted"));
        properties.putAll(properties(request, "consumer"));
        Map<String, Object> result = new TreeMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            for (Map.Entry<String, Object> topic : request.object("topics").fields.entrySet())
                for (int p : numbers(topic.getValue()))
                    result.put(topic.getKey() + "-" + p, partition(consumer, new TopicPartition(topic.getKey(), p), request.number("timeout_ms", 20000)));
        }
        return Json.object("partitions", result);
    }

    /** All partitions below a number, or those that are listed. */
    private static List<Integer> numbers(Object given) {
        List<Integer> found = new ArrayList<>();
        if (given instanceof List) for (Object each : (List<?>) given) found.add(((Number) each).intValue());
        else for (int p = 0; p < ((Number) given).intValue(); p++) found.add(p);
        return found;
    }

    private static Object partition(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long timeout) {
        consumer.assign(List.of(partition));
        long end = consumer.endOffsets(List.of(partition)).get(partition);
        long start = consumer.beginningOffsets(List.of(partition)).get(partition);
        consumer.seekToBeginning(Collections.singleton(partition));
        List<Object> records = new ArrayList<>();
        long deadline = System.currentTimeMillis() + timeout;
        while (consumer.position(partition) < end) {
            if (System.currentTimeMillis() > deadline) throw new IllegalStateException("the consumer of " + partition + " stopped at " + consumer.position(partition) + " before " + end);
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(POLL_MS))) {
                List<Object> headers = new ArrayList<>();
                for (Header header : record.headers()) headers.add(Arrays.asList(header.key(), Json.base64(header.value())));
                records.add(Json.object("offset", record.offset(), "timestamp", record.timestamp(), "timestamp_type", record.timestampType().toString(),
                    "leader_epoch", record.leaderEpoch().orElse(null), "key", Json.base64(record.key()), "value", Json.base64(record.value()), "headers", headers));
            }
        }
        return Json.object("start", start, "end", end, "records", records);
    }
}
