"""Records of `__remote_log_metadata` (tiered storage); Kafka's schemas are `storage/src/main/resources/message`.

Releases before 3.6 had no custom metadata, under the same version.
"""

from __future__ import annotations

from kafkalog.cluster.layout.message import Message, message

__all__ = ["VALUES"]

_ID = """
    remote_log_segment_id   struct
        topic_id_partition  struct
            name            string
            id              uuid
            partition       int32
        id                  uuid
"""
_TIMES = """
    broker_id              int32
    max_timestamp_ms       int64
    event_timestamp_ms     int64
    segment_leader_epochs  []struct
        leader_epoch       int32
        offset             int64
    segment_size_in_bytes  int32
"""
_CUSTOM = "    custom_metadata  bytes?\n"
_STATE = "    remote_log_segment_state  int8\n"
_EMPTY = "    txn_index_empty  bool  0+ tag 0  = False\n"
_OFFSETS = "    start_offset  int64\n    end_offset  int64\n"


def _both(name: str, before: str, after: str) -> tuple[Message, Message]:
    return (
        message(name, before + _CUSTOM + after, written_by="3.6+"),
        message(name, before + after, written_by="3.0-3.5"),
    )


VALUES: dict[int, tuple[Message, ...]] = {
    0: _both("RemoteLogSegmentMetadataRecord", _ID + _OFFSETS + _TIMES, _STATE + _EMPTY),
    1: _both(
        "RemoteLogSegmentMetadataUpdateRecord",
        _ID + "    broker_id  int32\n    event_timestamp_ms  int64\n",
        _STATE,
    ),
    2: (message("RemotePartitionDeleteMetadataRecord", """
    topic_id_partition             struct
        name                       string
        id                         uuid
        partition                  int32
    broker_id                      int32
    event_timestamp_ms             int64
    remote_partition_delete_state  int8
    """),),
    3: _both("RemoteLogSegmentMetadataSnapshotRecord", "    segment_id  uuid\n" + _OFFSETS + _TIMES, _STATE + _EMPTY),
}  # fmt: skip
"""Record type -> layouts from the newest to the oldest."""
