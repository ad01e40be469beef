"""Values of KRaft's control records, in Kafka's flexible encoding.

Decided by the schemas `LeaderChangeMessage`, `SnapshotHeaderRecord`, `SnapshotFooterRecord`, `KRaftVersionRecord` and
`VotersRecord` (`clients/src/main/resources/common/message`).  Each value begins with its version.
"""

from construct import Int16sb, Int16ub, Int32sb, Int64sb, Struct

from kafkalog.codec.layout.primitives import CompactArray, CompactString, TaggedFields, Uuid

__all__ = [
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
    "LEADER_CHANGE_V0",
    "LEADER_CHANGE_V1",
    "SNAPSHOT_FOOTER",
    "SNAPSHOT_HEADER",
]

_TAGS = "fields of later versions; normally none"

_VOTER_V0 = Struct("voter_id" / Int32sb * "node id", "tagged_fields" / TaggedFields * _TAGS)
_VOTER_V1 = Struct(
    "voter_id" / Int32sb * "node id",
    "voter_directory_id" / Uuid * "its metadata log directory",
    "tagged_fields" / TaggedFields * _TAGS,
)

LEADER_CHANGE_V0 = Struct(
    "version" / Int16sb * "0",
    "leader_id" / Int32sb * "node that became leader",
    "voters" / CompactArray(_VOTER_V0, smallest=5) * "all voters",
    "granting_voters" / CompactArray(_VOTER_V0, smallest=5) * "those that voted for it",
    "tagged_fields" / TaggedFields * _TAGS,
)

LEADER_CHANGE_V1 = Struct(
    "version" / Int16sb * "1",
    "leader_id" / Int32sb * "node that became leader",
    "voters" / CompactArray(_VOTER_V1, smallest=21) * "all voters",
    "granting_voters" / CompactArray(_VOTER_V1, smallest=21) * "those that voted for it",
    "tagged_fields" / TaggedFields * _TAGS,
)

SNAPSHOT_HEADER = Struct(
    "version" / Int16sb * "0",
    "last_contained_log_timestamp" / Int64sb * "ms; append time of the last record that the snapshot includes",
    "tagged_fields" / TaggedFields * _TAGS,
)

SNAPSHOT_FOOTER = Struct(
    "version" / Int16sb * "0",
    "tagged_fields" / TaggedFields * _TAGS,
)

KRAFT_VERSION = Struct(
    "version" / Int16sb * "0",
    "kraft_version" / Int16sb * "0 static voters, 1 voters that can change",
    "tagged_fields" / TaggedFields * _TAGS,
)

_ENDPOINT = Struct(
    "name" / CompactString * "listener name",
    "host" / CompactString * "",
    "port" / Int16ub * "",
    "tagged_fields" / TaggedFields * _TAGS,
)

_VERSION_RANGE = Struct(
    "min_supported_version" / Int16sb * "smallest kraft.version that the voter knows",
    "max_supported_version" / Int16sb * "largest kraft.version that the voter knows",
    "tagged_fields" / TaggedFields * _TAGS,
)

_VOTER = Struct(
    "voter_id" / Int32sb * "node id",
    "voter_directory_id" / Uuid * "its metadata log directory",
    "endpoints" / CompactArray(_ENDPOINT, smallest=5) * "where it listens",
    "kraft_version_feature" / _VERSION_RANGE * "versions that it supports",
    "tagged_fields" / TaggedFields * _TAGS,
)

KRAFT_VOTERS = Struct(
    "version" / Int16sb * "0",
    "voters" / CompactArray(_VOTER, smallest=27) * "all voters",
    "tagged_fields" / TaggedFields * _TAGS,
)
