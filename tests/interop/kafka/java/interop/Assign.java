package interop;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Runs Kafka's assignor classes over one or several rebalances of a group.
 * Members keep their assignor object from round to round, as consumers do: what sticky assignors remember is what they made themselves,
 * unless a member gives its own user_data or owned partitions.
 */
final class Assign implements Operation {
    private static final Map<String, String> CLASSES = Map.of(
        "range", "RangeAssignor", "roundrobin", "RoundRobinAssignor", "sticky", "StickyAssignor", "cooperative-sticky", "CooperativeStickyAssignor");

    @Override
    public Object run(Request request) throws Throwable {
        String assignor = request.text("assignor");
        if (!CLASSES.containsKey(assignor)) throw new IllegalArgumentException("assignor " + assignor + " is none of " + CLASSES.keySet());
        Class<?> type = Class.forName("org.apache.kafka.clients.consumer." + CLASSES.get(assignor));
        Map<String, ConsumerPartitionAssignor> assignors = new HashMap<>();
        Map<String, List<TopicPartition>> owned = new HashMap<>();
        List<Object> result = new ArrayList<>();
        int generation = 0;
        for (Map<String, Object> fields : request.objects("rounds")) {
            Request round = new Request(fields);
            generation = (int) round.number("generation", generation + 1);
            Map<String, ConsumerPartitionAssignor.Subscription> subscriptions = new TreeMap<>();
            String leader = null;
            for (Map<String, Object> member : round.objects("members")) {
                Request m = new Request(member);
                String id = m.text("id");
                leader = leader == null ? id : leader;
                if (!assignors.containsKey(id)) assignors.put(id, (ConsumerPartitionAssignor) type.getDeclaredConstructor().newInstance());
                subscriptions.put(id, subscription(m, assignors.get(id), owned.getOrDefault(id, List.of()), generation - 1));
            }
            ConsumerPartitionAssignor.GroupAssignment assignment = assignors.get(leader).assign(cluster(round.object("partitions")), new ConsumerPartitionAssignor.GroupSubscription(subscriptions));
            assignors.keySet().retainAll(subscriptions.keySet());
            owned.clear();
            Map<String, Object> members = new TreeMap<>();
            for (Map.Entry<String, ConsumerPartitionAssignor.Assignment> e : assignment.groupAssignment().entrySet()) {
                List<TopicPartition> partitions = e.getValue().partitions();
                assignors.get(e.getKey()).onAssignment(e.getValue(), new ConsumerGroupMetadata("g", generation, e.getKey(), Optional.empty()));
                owned.put(e.getKey(), partitions);
                members.put(e.getKey(), Json.object("partitions", pairs(partitions), "user_data", Json.base64(e.getValue().userData())));
            }
            result.add(Json.object("generation", generation, "members", members));
        }
        return Json.object("rounds", result);
    }

    private static ConsumerPartitionAssignor.Subscription subscription(Request member, ConsumerPartitionAssignor assignor, List<TopicPartition> remembered, int generation) throws Throwable {
        List<String> topics = new ArrayList<>();
        for (Object topic : member.list("topics")) topics.add(topic.toString());
        List<TopicPartition> owned = remembered;
        if (member.has("owned")) {
            owned = new ArrayList<>();
            for (Object pair : member.list("owned")) owned.add(new TopicPartition(((List<?>) pair).get(0).toString(), ((Number) ((List<?>) pair).get(1)).intValue()));
        }
        Set<String> names = new HashSet<>(topics);
        ByteBuffer userData = member.has("user_data") ? ByteBuffer.wrap(member.bytes("user_data")) : assignor.subscriptionUserData(names);
        ConsumerPartitionAssignor.Subscription result;
        try {
            Optional<String> rack = Optional.ofNullable(member.text("rack", null));
            result = (ConsumerPartitionAssignor.Subscription) Reflect.make(ConsumerPartitionAssignor.Subscription.class, topics, userData, owned, generation, rack);
        } catch (NoSuchMethodException e) {
            result = new ConsumerPartitionAssignor.Subscription(topics, userData, owned);     // before 3.5
        }
        if (member.has("instance")) result.setGroupInstanceId(Optional.of(member.text("instance")));
        return result;
    }

    private static Cluster cluster(Request partitions) {
        Node node = new Node(0, "localhost", 9092);
        List<PartitionInfo> infos = new ArrayList<>();
        for (Map.Entry<String, Object> e : partitions.fields.entrySet())
            for (int p = 0; p < ((Number) e.getValue()).intValue(); p++) infos.add(new PartitionInfo(e.getKey(), p, node, new Node[] {node}, new Node[] {node}));
        return new Cluster("c", List.of(node), infos, Set.of(), Set.of());
    }

    private static List<Object> pairs(Collection<TopicPartition> partitions) {
        List<TopicPartition> sorted = new ArrayList<>(partitions);
        sorted.sort(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
        List<Object> result = new ArrayList<>();
        for (TopicPartition p : sorted) result.add(List.of(p.topic(), p.partition()));
        return result;
    }
}
