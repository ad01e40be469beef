"""The text files of a log directory: the fields of a line, of a `name: value` file or of a JSON object, in order.

Decided by `CheckpointFile` and its formatters, `PartitionMetadataFile`, `MetaProperties`, `CleanShutdownFileHandler`
and `FileQuorumStateStore`. `codec.parsing.text_layouts` defines how lines, names and JSON divide a file.
"""

from construct import Struct

from kafkalog.codec.layout.text_values import Decimal, TextLeaf, UuidText, VoterIds, Word

__all__ = [
    "CLEAN_SHUTDOWN",
    "LEADER_EPOCH_LINE",
    "META_PROPERTIES_V0",
    "META_PROPERTIES_V1",
    "OFFSET_CHECKPOINT_LINE",
    "PARTITION_METADATA",
    "QUORUM_STATE_V0",
    "QUORUM_STATE_V1",
]

OFFSET_CHECKPOINT_LINE = Struct(
    "topic" / Word() * "topic name; never contains white space",
    "partition" / Decimal(32) * "partition number",
    "offset" / Decimal(64) * "recovery point, log start offset, high watermark or first dirty offset",
)

LEADER_EPOCH_LINE = Struct(
    "epoch" / Decimal(32) * "leader epoch; increases from line to line",
    "start_offset" / Decimal(64) * "first offset that the leader of this epoch wrote",
)

PARTITION_METADATA = Struct(
    "version" / Decimal(32) * "0",
    "topic_id" / UuidText() * "id of the topic; never zero",
)

META_PROPERTIES_V0 = Struct(
    "version" / Decimal(32) * "0, or missing",
    "broker.id" / Decimal(32) * "id of the broker; may be missing",
    "cluster.id" / TextLeaf() * "id of the cluster; may be missing",
    "directory.id" / UuidText() * "id of this log directory; since Kafka 3.7, may be missing",
)

META_PROPERTIES_V1 = Struct(
    "version" / Decimal(32) * "1",
    "cluster.id" / TextLeaf() * "id of the cluster",
    "node.id" / Decimal(32) * "id of the node",
    "directory.id" / UuidText() * "id of this log directory; since Kafka 3.7, may be missing",
)

CLEAN_SHUTDOWN = Struct(
    "version" / Decimal(32) * "0",
    "brokerEpoch" / Decimal(64) * "epoch of the broker when it stopped; -1 under ZooKeeper",
)

QUORUM_STATE_V0 = Struct(
    "clusterId" / TextLeaf() * "written empty",
    "leaderId" / Decimal(32) * "leader known last; -1 none",
    "leaderEpoch" / Decimal(32) * "epoch known last",
    "votedId" / Decimal(32) * "candidate voted for in this epoch; -1 none",
    "appliedOffset" / Decimal(64) * "written 0",
    "currentVoters" / VoterIds() * "ids of the static voters, as objects with voterId",
    "data_version" / Decimal(32) * "0",
)

QUORUM_STATE_V1 = Struct(
    "leaderId" / Decimal(32) * "leader known last; -1 none",
    "leaderEpoch" / Decimal(32) * "epoch known last",
    "votedId" / Decimal(32) * "candidate voted for in this epoch; -1 none",
    "votedDirectoryId" / UuidText() * "directory of that candidate; zero if none",
    "data_version" / Decimal(32) * "1",
)
