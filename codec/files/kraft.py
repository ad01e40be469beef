"""Decode and encode KRaft's control records: leader changes, voters, header and footer of a snapshot
(`ControlRecordUtils`). Kafka's published schemas (`messages.control`) are interpreted for it, which is fast enough
because a log has few such records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.files.text import decode_uuid, encode_uuid
from kafkalog.codec.messages.control import CONTROL_SCHEMAS, control_layout, control_version
from kafkalog.codec.messages.message import UNKNOWN_TAGS
from kafkalog.codec.model import ControlType, Record
from kafkalog.codec.parsing.reference import build, parse
from kafkalog.codec.plain.control import parse_control_key

__all__ = [
    "KRaftRecord",
    "KRaftVersion",
    "KRaftVoters",
    "LeaderChange",
    "SnapshotFooter",
    "SnapshotHeader",
    "Voter",
    "VoterEndpoint",
    "VoterNode",
    "encode_kraft_value",
    "kraft_record",
    "parse_kraft_value",
]

Tags = tuple[tuple[int, bytes], ...]


class Voter(Struct, frozen=True):
    """A voter in a LEADER_CHANGE record. `directory_id` has 16 bytes; it is None in version 0."""

    voter_id: int
    directory_id: bytes | None = None
    tagged_fields: Tags = ()


class LeaderChange(Struct, frozen=True, kw_only=True):
    """Value of LEADER_CHANGE: a node became leader."""

    version: int
    leader_id: int
    voters: tuple[Voter, ...]
    granting_voters: tuple[Voter, ...]
    tagged_fields: Tags = ()


class SnapshotHeader(Struct, frozen=True):
    """Value of SNAPSHOT_HEADER, the first record of a snapshot. The timestamp is that of the last record that the
    snapshot covers, in ms since 1970.
    """

    version: int
    last_contained_log_timestamp: int
    tagged_fields: Tags = ()


class SnapshotFooter(Struct, frozen=True):
    """Value of SNAPSHOT_FOOTER, the last record of a snapshot."""

    version: int
    tagged_fields: Tags = ()


class KRaftVersion(Struct, frozen=True):
    """Value of KRAFT_VERSION: the finalized level of the feature `kraft.version`."""

    version: int
    kraft_version: int
    tagged_fields: Tags = ()


class VoterEndpoint(Struct, frozen=True, kw_only=True):
    """Address at which a voter listens."""

    name: str
    host: str
    port: int
    tagged_fields: Tags = ()


class VoterNode(Struct, frozen=True, kw_only=True):
    """A voter in a KRAFT_VOTERS record: identity, endpoints, and lowest and highest `kraft.version` that it
    supports.
    """

    voter_id: int
    directory_id: bytes
    endpoints: tuple[VoterEndpoint, ...]
    min_supported_version: int
    max_supported_version: int
    tagged_fields: Tags = ()
    version_tagged_fields: Tags = ()


class KRaftVoters(Struct, frozen=True):
    """Value of KRAFT_VOTERS: all voters."""

    version: int
    voters: tuple[VoterNode, ...]
    tagged_fields: Tags = ()


KRaftRecord = LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | KRaftVoters


Fields = Mapping[str, Any]


def _tags(fields: Fields) -> Tags:
    return tuple(fields.get(UNKNOWN_TAGS, ()))


def _voters(voters: Iterable[Fields]) -> tuple[Voter, ...]:
    return tuple(_voter(voter) for voter in voters)


def _voter(fields: Fields) -> Voter:
    directory = fields.get("voter_directory_id")
    return Voter(fields["voter_id"], None if directory is None else decode_uuid(directory), _tags(fields))


def _voter_node(fields: Fields) -> VoterNode:
    feature = fields["k_raft_version_feature"]
    return VoterNode(
        voter_id=fields["voter_id"],
        directory_id=decode_uuid(fields["voter_directory_id"]),
        endpoints=tuple(
            VoterEndpoint(
                name=endpoint["name"], host=endpoint["host"], port=endpoint["port"], tagged_fields=_tags(endpoint)
            )
            for endpoint in fields["endpoints"]
        ),
        min_supported_version=feature["min_supported_version"],
        max_supported_version=feature["max_supported_version"],
        tagged_fields=_tags(fields),
        version_tagged_fields=_tags(feature),
    )


_READERS: dict[ControlType, Callable[[Fields, int, Tags], KRaftRecord]] = {
    ControlType.LEADER_CHANGE: lambda fields, version, tags: LeaderChange(
        version=version,
        leader_id=fields["leader_id"],
        voters=_voters(fields["voters"]),
        granting_voters=_voters(fields["granting_voters"]),
        tagged_fields=tags,
    ),
    ControlType.SNAPSHOT_HEADER: lambda fields, version, tags: SnapshotHeader(
        version, fields["last_contained_log_timestamp"], tags
    ),
    ControlType.SNAPSHOT_FOOTER: lambda _, version, tags: SnapshotFooter(version, tags),
    ControlType.KRAFT_VERSION: lambda fields, version, tags: KRaftVersion(version, fields["k_raft_version"], tags),
    ControlType.KRAFT_VOTERS: lambda fields, version, tags: KRaftVoters(
        version, tuple(_voter_node(field) for field in fields["voters"]), tags
    ),
}


def parse_kraft_value(kind: ControlType | int, value: bytes | None) -> KRaftRecord:
    """Decode the value of a KRaft control record of type `kind`; return an instance of the class for that type. Bytes
    after the known fields are ignored. Raises `FormatError` if the value is None, too short, invalid or of an unknown
    version. Raises `UsageError` if `kind` is not a type of KRaft's.
    """
    if kind not in CONTROL_SCHEMAS:
        raise UsageError(f"control type {kind} is not one of KRaft's")
    layout = control_layout(ControlType(kind))
    version = None if value is None else control_version(value)
    if value is None or version is None:
        raise FormatError("a KRaft control record's value is too short", field="value", code="control_record_invalid")
    if version not in layout.versions:
        raise FormatError(
            f"version {version} of {ControlType(kind).name}", field="version", code="control_record_invalid"
        )
    try:
        fields = parse(layout.construct(version), value)
    except FormatError as error:
        raise FormatError(
            error.message, position=error.position, field=error.field, code="control_record_invalid"
        ) from None
    return _READERS[ControlType(kind)](fields, version, _tags(fields))


def kraft_record(record: Record) -> KRaftRecord | None:
    """Decode a KRaft control record; return None for a transaction marker or an unknown type. Raises `FormatError` if
    key or value cannot be parsed.
    """
    kind = parse_control_key(record.key)
    return parse_kraft_value(kind.type, record.value) if kind.type in CONTROL_SCHEMAS else None


def _voter_fields(voter: Voter) -> Fields:
    directory = None if voter.directory_id is None else encode_uuid(voter.directory_id)
    return {"voter_id": voter.voter_id, "voter_directory_id": directory, UNKNOWN_TAGS: voter.tagged_fields}


def _node_fields(node: VoterNode) -> Fields:
    return {
        "voter_id": node.voter_id,
        "voter_directory_id": encode_uuid(node.directory_id),
        "endpoints": [
            {"name": endpoint.name, "host": endpoint.host, "port": endpoint.port, UNKNOWN_TAGS: endpoint.tagged_fields}
            for endpoint in node.endpoints
        ],
        "k_raft_version_feature": {
            "min_supported_version": node.min_supported_version,
            "max_supported_version": node.max_supported_version,
            UNKNOWN_TAGS: node.version_tagged_fields,
        },
        UNKNOWN_TAGS: node.tagged_fields,
    }


def _fields(record: KRaftRecord) -> tuple[ControlType, Fields]:
    match record:
        case LeaderChange():
            return ControlType.LEADER_CHANGE, {
                "leader_id": record.leader_id,
                "voters": [_voter_fields(voter) for voter in record.voters],
                "granting_voters": [_voter_fields(voter) for voter in record.granting_voters],
            }
        case SnapshotHeader():
            return ControlType.SNAPSHOT_HEADER, {"last_contained_log_timestamp": record.last_contained_log_timestamp}
        case SnapshotFooter():
            return ControlType.SNAPSHOT_FOOTER, {}
        case KRaftVersion():
            return ControlType.KRAFT_VERSION, {"k_raft_version": record.kraft_version}
        case KRaftVoters():
            return ControlType.KRAFT_VOTERS, {"voters": [_node_fields(node) for node in record.voters]}


def encode_kraft_value(record: KRaftRecord) -> tuple[ControlType, bytes]:
    """Encode a KRaft control record; return its type and its value as bytes, a pair for `build_control_batch`. Raises
    `UsageError` for a version that the record's schema does not have, `FormatError` for a value that does not fit its
    field.
    """
    kind, fields = _fields(record)
    layout = control_layout(kind)
    if record.version not in layout.versions:
        raise UsageError(f"version {record.version} of {kind.name}")
    values = {**fields, "version": record.version, UNKNOWN_TAGS: record.tagged_fields}
    return kind, build(layout.construct(record.version), values, layout.name)
