"""Records of `__consumer_offsets`: offset commits, classic groups, groups of the new protocol (KIP-848).

Kafka's schemas are `group-coordinator/src/main/resources/common/message`.  Early-access releases wrote other layouts
under the same version 0: they stand behind the final one, and whichever takes all bytes is meant.
"""

from __future__ import annotations

from kafkalog.cluster.layout.message import NEVER, Message, message

__all__ = ["GROUP_KEY", "MEMBER_KEY", "OFFSET_KEY", "REGULAR_EXPRESSION_KEY", "VALUES"]

OFFSET_KEY = message("OffsetCommitKey", """
    group      string
    topic      string
    partition  int32
    """, flexible=NEVER)  # fmt: skip

GROUP_KEY = message("GroupKey", """
    group_id  string
    """, flexible=NEVER)  # fmt: skip

CLASSIC_GROUP_KEY = message("GroupMetadataKey", """
    group  string
    """, flexible=NEVER)  # fmt: skip

MEMBER_KEY = message("MemberKey", """
    group_id   string
    member_id  string
    """, flexible=NEVER)  # fmt: skip

REGULAR_EXPRESSION_KEY = message("ConsumerGroupRegularExpressionKey", """
    group_id            string
    regular_expression  string
    """, flexible=NEVER)  # fmt: skip

OFFSET_COMMIT_VALUE = message("OffsetCommitValue", """
    offset            int64
    leader_epoch      int32   3+         = -1
    metadata          string
    commit_timestamp  int64
    expire_timestamp  int64   1-1        = -1
    topic_id          uuid    4+ tag 0
    """, versions=4, flexible=4)  # fmt: skip

GROUP_METADATA_VALUE = message("GroupMetadataValue", """
    protocol_type            string
    generation               int32
    protocol                 string?
    leader                   string?
    current_state_timestamp  int64    2+  = -1
    members                  []struct
        member_id            string
        group_instance_id    string?  3+  = None
        client_id            string
        client_host          string
        rebalance_timeout    int32    1+
        session_timeout      int32
        subscription         bytes
        assignment           bytes
    """, versions=4, flexible=4)  # fmt: skip

_CONSUMER_METADATA = message("ConsumerGroupMetadataValue", """
    epoch             int32
    metadata_hash     int64  0+ tag 0  = 0
    creation_time_ms  int64  0+ tag 1  = -1
    """)  # fmt: skip

_TOPICS_WITH_RACKS = """
    topics                  []struct
        topic_id            uuid
        topic_name          string
        num_partitions      int32
        partition_metadata  []struct
            partition       int32
            racks           []string
    """

_PARTITION_METADATA = (
    message("ConsumerGroupPartitionMetadataValue", _TOPICS_WITH_RACKS, written_by="3.8+"),
    message("ConsumerGroupPartitionMetadataValue", "    epoch  int32" + _TOPICS_WITH_RACKS, written_by="3.6-3.7"),
    message("ConsumerGroupPartitionMetadataValue", """
    epoch               int32
    topics              []struct
        topic_id        uuid
        num_partitions  int32
    """, written_by="3.5"),
)  # fmt: skip

_OLD_ASSIGNORS = """
    assignors            []struct
        name             string
        minimum_version  int16
        maximum_version  int16
        reason           int8
        version          int16
        metadata         bytes
"""
_MEMBER = """
    instance_id             string?
    rack_id                 string?
    client_id               string
    client_host             string
    subscribed_topic_names  []string
    subscribed_topic_regex  string?
"""
_MEMBER_METADATA = (
    message("ConsumerGroupMemberMetadataValue", _MEMBER + """
    rebalance_timeout_ms      int32
    server_assignor           string?
    classic_member_metadata   struct?  0+ tag 0
        session_timeout_ms    int32
        supported_protocols   []struct
            name              string
            metadata          bytes
    """, written_by="3.8+"),
    message("ConsumerGroupMemberMetadataValue", _MEMBER + """
    rebalance_timeout_ms      int32
    server_assignor           string?
    """ + _OLD_ASSIGNORS, written_by="3.6-3.7"),
    message("ConsumerGroupMemberMetadataValue", "    group_epoch  int32" + _MEMBER + _OLD_ASSIGNORS, written_by="3.5"),
)  # fmt: skip

_TOPIC_PARTITIONS = """
    topic_partitions  []struct
        topic_id      uuid
        partitions    []int32
"""
_TARGET_MEMBER = (
    message("ConsumerGroupTargetAssignmentMemberValue", _TOPIC_PARTITIONS, written_by="3.8+"),
    message(
        "ConsumerGroupTargetAssignmentMemberValue",
        "    error  int8" + _TOPIC_PARTITIONS + "    metadata_version  int16\n    metadata_bytes  bytes",
        written_by="3.5-3.7",
    ),
)

_CURRENT_MEMBER = (
    message("ConsumerGroupCurrentMemberAssignmentValue", """
    member_epoch                   int32
    previous_member_epoch          int32
    state                          int8
    assigned_partitions            []struct
        topic_id                   uuid
        partitions                 []int32
        assignment_epochs          []int32?  0+ tag 0  = None
    partitions_pending_revocation  []struct
        topic_id                   uuid
        partitions                 []int32
        assignment_epochs          []int32?  0+ tag 0  = None
    """, written_by="3.8+"),
    message("ConsumerGroupCurrentMemberAssignmentValue", """
    member_epoch                   int32
    previous_member_epoch          int32
    target_member_epoch            int32
    assigned_partitions            []struct
        topic_id                   uuid
        partitions                 []int32
    partitions_pending_revocation  []struct
        topic_id                   uuid
        partitions                 []int32
    partitions_pending_assignment  []struct
        topic_id                   uuid
        partitions                 []int32
    error                          int8
    metadata_version               int16
    metadata_bytes                 bytes
    """, written_by="3.6-3.7"),
    message(
        "ConsumerGroupCurrentMemberAssignmentValue",
        "    member_epoch  int32\n    error  int8"
        + _TOPIC_PARTITIONS
        + "    metadata_version  int16\n    metadata_bytes  bytes",
        written_by="3.5",
    ),
)  # fmt: skip


def target_metadata(name: str) -> Message:
    """The epoch that a group's target assignment belongs to; consumer, share and streams groups write the same."""
    return message(name, """
    assignment_epoch      int32
    assignment_timestamp  int64  0+ tag 0  = 0
    """)  # fmt: skip


_REGULAR_EXPRESSION = message("ConsumerGroupRegularExpressionValue", """
    topics     []string
    version    int64
    timestamp  int64
    """)  # fmt: skip

VALUES: dict[int, tuple[str, Message, tuple[Message, ...]]] = {
    0: ("OffsetCommit", OFFSET_KEY, (OFFSET_COMMIT_VALUE,)),
    1: ("OffsetCommit", OFFSET_KEY, (OFFSET_COMMIT_VALUE,)),
    2: ("GroupMetadata", CLASSIC_GROUP_KEY, (GROUP_METADATA_VALUE,)),
    3: ("ConsumerGroupMetadata", GROUP_KEY, (_CONSUMER_METADATA,)),
    4: ("ConsumerGroupPartitionMetadata", GROUP_KEY, _PARTITION_METADATA),
    5: ("ConsumerGroupMemberMetadata", MEMBER_KEY, _MEMBER_METADATA),
    6: (
        "ConsumerGroupTargetAssignmentMetadata",
        GROUP_KEY,
        (target_metadata("ConsumerGroupTargetAssignmentMetadataValue"),),
    ),
    7: ("ConsumerGroupTargetAssignmentMember", MEMBER_KEY, _TARGET_MEMBER),
    8: ("ConsumerGroupCurrentMemberAssignment", MEMBER_KEY, _CURRENT_MEMBER),
    16: ("ConsumerGroupRegularExpression", REGULAR_EXPRESSION_KEY, (_REGULAR_EXPRESSION,)),
}
"""Key type -> name, key layout, value layouts from the newest to the oldest."""
