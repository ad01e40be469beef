//@file >=4.0
package interop;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.AddRaftVoterOptions;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RaftVoterEndpoint;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * What an administrator asks of a KRaft cluster, of its brokers ("bootstrap") or its controllers ("controllers"). The verb says what:
 *
 *   describe   leader, epoch, high watermark, and each voter's and observer's log end
 *   facts      topics with ids and replicas, their own settings, access control entries, offsets of groups, features
 *   grant      an access control entry: user, topic
 *   commit     group, topic, partition, offset
 *   elect      any replica that is alive, for partitions that have no leader
 *   add        a voter: node, directory_id, host, port
 */
final class Quorum implements Operation {
    private static Admin admin(Request request) {
        Properties properties = new Properties();
        if (request.has("controllers")) properties.put("bootstrap.controllers", request.text("controllers"));
        else properties.put("bootstrap.servers", request.text("bootstrap"));
        properties.put("request.timeout.ms", "6000");
        properties.put("default.api.timeout.ms", "12000");
        return Admin.create(properties);
    }

    @Override
    public Object run(Request request) throws Throwable {
        try (Admin admin = admin(request)) {
            switch (request.text("verb")) {
                case "describe": return describe(admin);
                case "facts": return facts(admin);
                case "grant": return grant(admin, request);
                case "commit": return commit(admin, request);
                case "elect": return elect(admin);
                case "add": return add(admin, request);
                default: throw new IllegalArgumentException("unknown verb " + request.text("verb"));
            }
        }
    }

    private static List<Object> replicas(Collection<QuorumInfo.ReplicaState> states) {
        List<Object> found = new ArrayList<>();
        for (QuorumInfo.ReplicaState each : states) found.add(Json.object("node", each.replicaId(), "directory_id", each.replicaDirectoryId().toString(), "end", each.logEndOffset()));
        return found;
    }

    private static Object describe(Admin admin) throws Exception {
        QuorumInfo info = admin.describeMetadataQuorum().quorumInfo().get();
        return Json.object("leader", info.leaderId(), "epoch", info.leaderEpoch(), "high_watermark", info.highWatermark(),
            "voters", replicas(info.voters()), "observers", replicas(info.observers()));
    }

    private static Object facts(Admin admin) throws Exception {
        Set<String> names = admin.listTopics().names().get();
        Map<String, Object> topics = new TreeMap<>();
        List<ConfigResource> resources = new ArrayList<>();
        for (TopicDescription each : admin.describeTopics(names).allTopicNames().get().values()) {
            List<Object> partitions = new ArrayList<>();
            each.partitions().forEach(partition -> partitions.add(Json.object("number", partition.partition(), "replicas", Arrays.asList(partition.replicas().stream().map(node -> (Object) node.id()).toArray()))));
            topics.put(each.name(), Json.object("id", each.topicId().toString(), "partitions", partitions));
            resources.add(new ConfigResource(ConfigResource.Type.TOPIC, each.name()));
        }
        Map<String, Object> settings = new TreeMap<>();
        admin.describeConfigs(resources).all().get().forEach((resource, config) -> {
            Map<String, Object> own = new TreeMap<>();
            for (ConfigEntry entry : config.entries()) if (entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG) own.put(entry.name(), entry.value());
            settings.put(resource.name(), own);
        });
        List<String> entries = new ArrayList<>();
        admin.describeAcls(AclBindingFilter.ANY).values().get().forEach(binding -> entries.add(binding.toString()));
        entries.sort(null);
        Map<String, Object> groups = new TreeMap<>();
        for (org.apache.kafka.clients.admin.GroupListing group : admin.listGroups().all().get()) {
            Map<String, Object> offsets = new TreeMap<>();
            admin.listConsumerGroupOffsets(group.groupId()).partitionsToOffsetAndMetadata().get().forEach((partition, offset) -> offsets.put(partition.toString(), offset.offset()));
            groups.put(group.groupId(), offsets);
        }
        Map<String, Object> features = new TreeMap<>();
        admin.describeFeatures().featureMetadata().get().finalizedFeatures().forEach((name, range) -> features.put(name, (int) range.maxVersionLevel()));
        return Json.object("topics", topics, "settings", settings, "acls", new ArrayList<Object>(entries), "groups", groups, "features", features);
    }

    private static Object grant(Admin admin, Request request) throws Exception {
        ResourcePattern topic = new ResourcePattern(ResourceType.TOPIC, request.text("topic"), PatternType.LITERAL);
        AccessControlEntry entry = new AccessControlEntry("User:" + request.text("user"), "*", AclOperation.READ, AclPermissionType.ALLOW);
        admin.createAcls(List.of(new AclBinding(topic, entry))).all().get();
        return Json.object();
    }

    private static Object commit(Admin admin, Request request) throws Exception {
        TopicPartition partition = new TopicPartition(request.text("topic"), (int) request.number("partition", 0));
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        offsets.put(partition, new OffsetAndMetadata(request.number("offset", 0)));
        admin.alterConsumerGroupOffsets(request.text("group"), offsets).all().get();
        return Json.object();
    }

    private static Object elect(Admin admin) throws Exception {
        List<Object> elected = new ArrayList<>();
        admin.electLeaders(ElectionType.UNCLEAN, null).partitions().get().forEach((partition, failure) -> {
            if (failure.isEmpty()) elected.add(partition.toString());
        });
        return Json.object("elected", elected);
    }

    private static Object add(Admin admin, Request request) throws Exception {
        RaftVoterEndpoint endpoint = new RaftVoterEndpoint("CONTROLLER", request.text("host"), (int) request.number("port", 0));
        admin.addRaftVoter((int) request.number("node", 0), Uuid.fromString(request.text("directory_id")), Set.of(endpoint), new AddRaftVoterOptions()).all().get();
        return Json.object();
    }
}
