"""The text files of a log directory: what is on a line, after a name, or in a JSON object, in order.

Decided by `CheckpointFile` and its formatters, `PartitionMetadataFile`, `MetaProperties`, `CleanShutdownFileHandler`
and `FileQuorumStateStore`.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "CLEAN_SHUTDOWN",
    "LEADER_EPOCH_LINE",
    "META_PROPERTIES_V0",
    "META_PROPERTIES_V1",
    "OFFSET_CHECKPOINT_LINE",
    "PARTITION_METADATA",
    "QUORUM_STATE_V0",
    "QUORUM_STATE_V1",
    "TextField",
]


class TextField(NamedTuple):
    """One value: its name in Kafka's file, how it is written, what it means."""

    name: str
    kind: str
    """int32, int64, text, uuid (22 characters of URL-safe base64) or voters (a JSON list)"""
    doc: str


OFFSET_CHECKPOINT_LINE = (
    TextField("topic", "text", "topic name; never contains white space"),
    TextField("partition", "int32", "partition number"),
    TextField("offset", "int64", "recovery point, log start offset, high watermark or first dirty offset"),
)

LEADER_EPOCH_LINE = (
    TextField("epoch", "int32", "leader epoch; increases from line to line"),
    TextField("start_offset", "int64", "first offset that the leader of this epoch wrote"),
)

PARTITION_METADATA = (
    TextField("version", "int32", "0"),
    TextField("topic_id", "uuid", "id of the topic; never zero"),
)

META_PROPERTIES_V0 = (
    TextField("version", "int32", "0, or missing"),
    TextField("broker.id", "int32", "id of the broker; may be missing"),
    TextField("cluster.id", "text", "id of the cluster; may be missing"),
    TextField("directory.id", "uuid", "id of this log directory; since Kafka 3.7, may be missing"),
)

META_PROPERTIES_V1 = (
    TextField("version", "int32", "1"),
    TextField("cluster.id", "text", "id of the cluster"),
    TextField("node.id", "int32", "id of the node"),
    TextField("directory.id", "uuid", "id of this log directory; since Kafka 3.7, may be missing"),
)

CLEAN_SHUTDOWN = (
    TextField("version", "int32", "0"),
    TextField("brokerEpoch", "int64", "epoch of the broker when it stopped; -1 under ZooKeeper"),
)

QUORUM_STATE_V0 = (
    TextField("clusterId", "text", "written empty"),
    TextField("leaderId", "int32", "leader known last; -1 none"),
    TextField("leaderEpoch", "int32", "epoch known last"),
    TextField("votedId", "int32", "candidate voted for in this epoch; -1 none"),
    TextField("appliedOffset", "int64", "written 0"),
    TextField("currentVoters", "voters", "ids of the static voters, as objects with voterId"),
    TextField("data_version", "int32", "0"),
)

QUORUM_STATE_V1 = (
    TextField("leaderId", "int32", "leader known last; -1 none"),
    TextField("leaderEpoch", "int32", "epoch known last"),
    TextField("votedId", "int32", "candidate voted for in this epoch; -1 none"),
    TextField("votedDirectoryId", "uuid", "directory of that candidate; zero if none"),
    TextField("data_version", "int32", "1"),
)
