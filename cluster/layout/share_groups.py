"""Records of share groups (KIP-932): in `__consumer_offsets` who is in them, in `__share_group_state` how far they are.

Kafka's schemas are those of `group-coordinator` and `share-coordinator`.  Early-access releases wrote other layouts
under the same version.
"""

from __future__ import annotations

from kafkalog.cluster.layout.consumer_offsets import GROUP_KEY, MEMBER_KEY, target_metadata
from kafkalog.cluster.layout.message import NEVER, Message, message

__all__ = ["STATE_VALUES", "VALUES"]

_TOPICS = """
    {name}          []struct
        topic_id    uuid
        topic_name  string
        partitions  []int32
"""
_DELETING = """
    deleting_topics  []struct
        topic_id     uuid
        topic_name   string
"""

_PARTITION_METADATA = (
    message("ShareGroupPartitionMetadataValue", """
    topics                  []struct
        topic_id            uuid
        topic_name          string
        num_partitions      int32
        partition_metadata  []struct
            partition       int32
            racks           []string
    """, written_by="4.0"),
    message(
        "ShareGroupPartitionMetadataValue",
        _TOPICS.format(name="initialized_topics") + _DELETING,
        written_by="3.9",
    ),
)  # fmt: skip

_MEMBER_METADATA = message("ShareGroupMemberMetadataValue", """
    rack_id                 string?
    client_id               string
    client_host             string
    subscribed_topic_names  []string
    """)  # fmt: skip

_METADATA = (
    message("ShareGroupMetadataValue", """
    epoch          int32
    metadata_hash  int64
    """, written_by="4.1+"),
    message("ShareGroupMetadataValue", "    epoch  int32", written_by="3.9-4.0"),
)  # fmt: skip

_TARGET_MEMBER = message("ShareGroupTargetAssignmentMemberValue", """
    topic_partitions  []struct
        topic_id      uuid
        partitions    []int32
    """)  # fmt: skip

_CURRENT_MEMBER = message("ShareGroupCurrentMemberAssignmentValue", """
    member_epoch           int32
    previous_member_epoch  int32
    state                  int8
    assigned_partitions    []struct
        topic_id           uuid
        partitions         []int32
    """)  # fmt: skip

_STATE_PARTITIONS = (
    message(
        "ShareGroupStatePartitionMetadataValue",
        _TOPICS.format(name="initializing_topics") + _TOPICS.format(name="initialized_topics") + _DELETING,
        written_by="4.1+",
    ),
    message(
        "ShareGroupStatePartitionMetadataValue",
        _TOPICS.format(name="initialized_topics") + _DELETING,
        written_by="4.0",
    ),
)

VALUES: dict[int, tuple[str, Message, tuple[Message, ...]]] = {
    9: ("ShareGroupPartitionMetadata", GROUP_KEY, _PARTITION_METADATA),
    10: ("ShareGroupMemberMetadata", MEMBER_KEY, (_MEMBER_METADATA,)),
    11: ("ShareGroupMetadata", GROUP_KEY, _METADATA),
    12: (
        "ShareGroupTargetAssignmentMetadata",
        GROUP_KEY,
        (target_metadata("ShareGroupTargetAssignmentMetadataValue"),),
    ),
    13: ("ShareGroupTargetAssignmentMember", MEMBER_KEY, (_TARGET_MEMBER,)),
    14: ("ShareGroupCurrentMemberAssignment", MEMBER_KEY, (_CURRENT_MEMBER,)),
    15: ("ShareGroupStatePartitionMetadata", GROUP_KEY, _STATE_PARTITIONS),
}
"""Key type of `__consumer_offsets` -> name, key layout, value layouts from the newest to the oldest."""

_STATE_KEY = message("ShareGroupStateKey", """
    group_id   string
    topic_id   uuid
    partition  int32
    """, flexible=NEVER)  # fmt: skip

_BATCHES = """
    state_batches       []struct
        first_offset    int64
        last_offset     int64
        delivery_state  int8
        delivery_count  int16
"""
_SNAPSHOT = (
    message("ShareSnapshotValue", """
    snapshot_epoch           int32
    state_epoch              int32
    leader_epoch             int32
    start_offset             int64
    create_timestamp         int64
    write_timestamp          int64
    """ + _BATCHES + """
    delivery_complete_count  int32  0+ tag 0  = -1
    """, written_by="4.1+"),
    message("ShareSnapshotValue", """
    snapshot_epoch  uint16
    state_epoch     int32
    leader_epoch    int32
    start_offset    int64
    """ + _BATCHES, written_by="4.0"),
)  # fmt: skip
# builds of October 2024 wrote version 1 before an update, with the same fields
_UPDATE = (
    message("ShareUpdateValue", """
    snapshot_epoch           int32
    leader_epoch             int32
    start_offset             int64
    """ + _BATCHES + """
    delivery_complete_count  int32  0+ tag 0  = -1
    """, versions=1, written_by="4.1+"),
    message("ShareUpdateValue", """
    snapshot_epoch  uint16
    leader_epoch    int32
    start_offset    int64
    """ + _BATCHES, versions=1, written_by="4.0"),
)  # fmt: skip

STATE_VALUES: dict[int, tuple[str, Message, tuple[Message, ...]]] = {
    0: ("ShareSnapshot", _STATE_KEY, _SNAPSHOT),
    1: ("ShareUpdate", _STATE_KEY, _UPDATE),
}
"""Key type of `__share_group_state` -> name, key layout, value layouts from the newest to the oldest."""
