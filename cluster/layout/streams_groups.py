"""Records of streams groups (KIP-1071) in `__consumer_offsets`; Kafka's schemas are those of `group-coordinator`."""

from __future__ import annotations

from kafkalog.cluster.layout.consumer_offsets import GROUP_KEY, MEMBER_KEY, target_metadata
from kafkalog.cluster.layout.message import Message, message

__all__ = ["VALUES"]

_METADATA = message("StreamsGroupMetadataValue", """
    epoch                              int32
    metadata_hash                      int64
    validated_topology_epoch           int32      0+ tag 0  = -1
    last_assignment_configs            []struct?  0+ tag 1  = None
        key                            string
        value                          string
    stored_description_topology_epoch  int32      0+ tag 2  = -1
    failed_description_topology_epoch  int32      0+ tag 3  = -1
    """)  # fmt: skip

_MEMBER = message("StreamsGroupMemberMetadataValue", """
    instance_id           string?
    rack_id               string?
    client_id             string
    client_host           string
    rebalance_timeout_ms  int32
    topology_epoch        int32
    process_id            string
    user_endpoint         struct?
        host              string
        port              uint16
    client_tags           []struct
        key               string
        value             string
    """)  # fmt: skip


def _tasks(*names: str, epochs: bool) -> str:
    tagged = "\n        assignment_epochs  []int32?  0+ tag 0  = None" if epochs else ""
    return "\n".join(
        f"    {name}  []struct\n        subtopology_id  string\n        partitions  []int32{tagged}" for name in names
    )


_TARGET_MEMBER = message(
    "StreamsGroupTargetAssignmentMemberValue", _tasks("active_tasks", "standby_tasks", "warmup_tasks", epochs=False)
)
_CURRENT_MEMBER = message(
    "StreamsGroupCurrentMemberAssignmentValue",
    "    member_epoch  int32\n    previous_member_epoch  int32\n    state  int8\n"
    + _tasks(
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "active_tasks_pending_revocation",
        "standby_tasks_pending_revocation",
        "warmup_tasks_pending_revocation",
        epochs=True,
    ),
)

_TOPIC_INFO = """
        {name}                  []struct
            name                string
            partitions          int32
            replication_factor  int16
            topic_configs       []struct
                key             string
                value           string
"""
_TOPOLOGY = message("StreamsGroupTopologyValue", """
    epoch                              int32
    subtopologies                      []struct
        subtopology_id                 string
        source_topics                  []string
        source_topic_regex             []string
""" + _TOPIC_INFO.format(name="state_changelog_topics") + """
        repartition_sink_topics        []string
""" + _TOPIC_INFO.format(name="repartition_source_topics") + """
        copartition_groups             []struct
            source_topics              []int16
            source_topic_regex         []int16
            repartition_source_topics  []int16
    """)  # fmt: skip

_RESOLVED = message("StreamsGroupTargetAssignmentResolvedTopicIdsValue", """
    assignment_epoch                   int32
    resolved_topic_ids_by_subtopology  []struct
        subtopology_id                 string
        topic_ids                      []uuid
    """)  # fmt: skip

VALUES: dict[int, tuple[str, Message, tuple[Message, ...]]] = {
    17: ("StreamsGroupMetadata", GROUP_KEY, (_METADATA,)),
    19: ("StreamsGroupMemberMetadata", MEMBER_KEY, (_MEMBER,)),
    20: (
        "StreamsGroupTargetAssignmentMetadata",
        GROUP_KEY,
        (target_metadata("StreamsGroupTargetAssignmentMetadataValue"),),
    ),
    21: ("StreamsGroupTargetAssignmentMember", MEMBER_KEY, (_TARGET_MEMBER,)),
    22: ("StreamsGroupCurrentMemberAssignment", MEMBER_KEY, (_CURRENT_MEMBER,)),
    23: ("StreamsGroupTopology", GROUP_KEY, (_TOPOLOGY,)),
    24: ("StreamsGroupTargetAssignmentResolvedTopicIds", GROUP_KEY, (_RESOLVED,)),
}
"""Key type of `__consumer_offsets` -> name, key layout, value layouts."""
