"""The text files of a log directory: checkpoints, `leader-epoch-checkpoint`, `partition.metadata`, `meta.properties`.

Line layouts are declared once in `layout.text_files`; reading and writing follow from them.  Decided by
`CheckpointFile`, `OffsetCheckpointFile`, `LeaderEpochCheckpointFile`, `PartitionMetadata` and `MetaProperties`.  The
readers here accept what the broker accepts and name the line that they cannot read.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from construct import Struct

from kafkalog.codec.derive import DerivationError, fields_of, names_of
from kafkalog.codec.errors import FormatError, LimitExceeded
from kafkalog.codec.layout.text_files import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCH_LINE,
    META_PROPERTIES_V0,
    META_PROPERTIES_V1,
    OFFSET_CHECKPOINT_LINE,
    PARTITION_METADATA,
)
from kafkalog.codec.layout.text_values import Decimal, uuid_bytes
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import field_names
from kafkalog.codec.names import parse_java_long
from kafkalog.codec.properties import decode_properties, encode_properties, parse_properties
from kafkalog.codec.wording import NEWER, counted

__all__ = [
    "CHECKPOINT_VERSION",
    "NEW_CLEAN_SHUTDOWN",
    "CleanShutdown",
    "LeaderEpoch",
    "MetaProperties",
    "OffsetCheckpointEntry",
    "PartitionMetadata",
    "decode_clean_shutdown",
    "decode_leader_epochs",
    "decode_meta_properties",
    "decode_offset_checkpoint",
    "decode_partition_metadata",
    "decode_uuid",
    "encode_clean_shutdown",
    "encode_leader_epochs",
    "encode_meta_properties",
    "encode_offset_checkpoint",
    "encode_partition_metadata",
    "encode_uuid",
    "meta_properties",
    "parse_properties",
]

CHECKPOINT_VERSION = 0
_LINE_END = re.compile(r"\r\n|\r|\n")
_WHITE_SPACE = re.compile(r"[ \t\n\x0b\f\r]+")
_NAME_END = re.compile(r":[ \t\n\x0b\f\r]+")
_ZERO_UUID = bytes(16)
_VERSION, _BROKER_ID, _CLUSTER_ID = "version", "broker.id", "cluster.id"
_NODE_ID, _DIRECTORY_ID = "node.id", "directory.id"


class OffsetCheckpointEntry(NamedTuple):
    """One line of an offset checkpoint: `topic partition offset`."""

    topic: str
    partition: int
    offset: int


class LeaderEpoch(NamedTuple):
    """One line of `leader-epoch-checkpoint`: the first offset of an epoch."""

    epoch: int
    start_offset: int


class LeaderEpochJson(msgspec.Struct, frozen=True):
    """An entry of leader-epoch-checkpoint."""

    epoch: int
    """leader epoch"""
    start_offset: int
    """the first offset that was written in it"""


for _row, _layout in ((OffsetCheckpointEntry, OFFSET_CHECKPOINT_LINE), (LeaderEpoch, LEADER_EPOCH_LINE)):
    if _row._fields != names_of(_layout):
        raise DerivationError(f"{_row.__name__} does not mirror its declaration")


_COMMON = {_VERSION, _CLUSTER_ID, _DIRECTORY_ID}
for _name, _layout, _fields in (
    ("meta.properties of version 0", META_PROPERTIES_V0, {*_COMMON, _BROKER_ID}),
    ("meta.properties of version 1", META_PROPERTIES_V1, {*_COMMON, _NODE_ID}),
):
    if set(names_of(_layout)) != _fields:
        raise DerivationError(f"{_name} has other fields than its declaration")


def _text(data: bytes, source: str | None, limits: Limits) -> str:
    if len(data) > limits.checkpoint_bytes:
        raise LimitExceeded("a text file is too large", limit="checkpoint_bytes", source=source)
    return data.decode("utf-8", "surrogateescape")


def _invalid(message: str, line: int, source: str | None) -> FormatError:
    return FormatError(f"line {line}: {message}", source=source, code="checkpoint_invalid")


def _lines(text: str) -> list[str]:
    """Lines as Java's readers see them: no other line ends than CR and LF."""
    lines = _LINE_END.split(text)
    return lines if lines[-1] else lines[:-1]


def _integer(text: str, line: int, source: str | None, bits: int = 64) -> int:
    value = parse_java_long(text, bits)
    if value is None:
        raise _invalid(f"{text[:40]!r} is not a number", line, source)
    return value


def _words(line: str) -> list[str]:
    """Java's split at white space: an empty word in front stays, empty words at the end do not."""
    words = _WHITE_SPACE.split(line)
    while len(words) > 1 and not words[-1]:
        words.pop()
    return words


def _decode_lines(
    data: bytes, layout: Struct, source: str | None, limits: Limits
) -> list[tuple[str | int, ...]]:
    lines = _lines(_text(data, source, limits))
    if not lines:
        return []
    version = _integer(lines[0], 1, source, 32)
    if version != CHECKPOINT_VERSION:
        raise _invalid(f"version {version}", 1, source)
    if len(lines) == 1:
        return []
    count = _integer(lines[1], 2, source, 32)
    names = names_of(layout)
    widths = [leaf.bits if isinstance(leaf, Decimal) else None for _name, _doc, leaf in fields_of(layout)]
    rows: list[tuple[str | int, ...]] = []
    for number, line in enumerate(lines[2:], 3):
        words = _words(line)
        if len(words) != len(names):
            raise _invalid(f"{counted(len(words), 'field')} where {' '.join(names)} are needed", number, source)
        rows.append(
            tuple(
                [
                    word if width is None else _integer(word, number, source, width)
                    for word, width in zip(words, widths, strict=True)
                ]
            )
        )
    if len(rows) != count:
        raise _invalid(f"{count} entries announced, {len(rows)} there", 2, source)
    return rows


def _encode_lines(rows: Iterable[tuple[str | int, ...]]) -> bytes:
    lines = [" ".join(str(field) for field in row) for row in rows]
    return "".join(f"{line}\n" for line in [str(CHECKPOINT_VERSION), str(len(lines)), *lines]).encode(
        "utf-8", "surrogateescape"
    )


def decode_offset_checkpoint(
    data: bytes, *, source: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> list[OffsetCheckpointEntry]:
    """Lines of `recovery-point-`, `log-start-`, `replication-` or `cleaner-offset-checkpoint`, in file order."""
    return [OffsetCheckpointEntry(*row) for row in _decode_lines(data, OFFSET_CHECKPOINT_LINE, source, limits)]  # type: ignore[arg-type]


def encode_offset_checkpoint(entries: Iterable[OffsetCheckpointEntry]) -> bytes:
    """The bytes of an offset checkpoint, lines in the given order."""
    return _encode_lines(entries)


def decode_leader_epochs(
    data: bytes, *, source: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> list[LeaderEpoch]:
    """Lines of `leader-epoch-checkpoint`, in file order."""
    return [LeaderEpoch(*row) for row in _decode_lines(data, LEADER_EPOCH_LINE, source, limits)]  # type: ignore[arg-type]


def encode_leader_epochs(entries: Iterable[LeaderEpoch]) -> bytes:
    """The bytes of a `leader-epoch-checkpoint`."""
    return _encode_lines(entries)


def decode_uuid(text: str) -> bytes:
    """The 16 bytes of Kafka's text of a UUID (`org.apache.kafka.common.Uuid`); `FormatError` if it is none."""
    try:
        return uuid_bytes(text)
    except ValueError as error:
        raise FormatError(str(error)) from None


def encode_uuid(value: bytes) -> str:
    """Kafka's text of a UUID."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


class PartitionMetadata(msgspec.Struct, frozen=True):
    """`partition.metadata`: the topic id of the replica (`PartitionMetadataFile`)."""

    version: int
    topic_id: str


if names_of(PARTITION_METADATA) != field_names(PartitionMetadata):
    raise DerivationError("PartitionMetadata does not mirror its declaration")


def decode_partition_metadata(data: bytes, *, source: str | None = None) -> PartitionMetadata:
    """The first two lines; a zero or unreadable topic id is an error, what follows is ignored."""
    lines = _lines(data.decode("utf-8", "surrogateescape"))
    values: list[str] = []
    for name, line in zip(names_of(PARTITION_METADATA), [*lines, "", ""], strict=False):
        words = _NAME_END.split(line)
        if len(words) != 2 or words[0] != name:
            raise FormatError(f"no line {name!r}", source=source, code="partition_metadata_invalid")
        values.append(words[1])
    version = parse_java_long(values[0], 32)
    if version is None or version < 0:
        raise FormatError(f"version {values[0][:40]!r}", source=source, code="partition_metadata_invalid")
    try:
        topic_id = decode_uuid(values[1])
    except FormatError as error:
        raise FormatError(error.message, source=source, code="partition_metadata_invalid") from None
    if topic_id == _ZERO_UUID:
        raise FormatError("the topic id is zero", source=source, code="partition_metadata_invalid")
    return PartitionMetadata(version, values[1])


def encode_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """The bytes of a `partition.metadata`; there is no final newline."""
    values = (metadata.version, metadata.topic_id)
    named = zip(names_of(PARTITION_METADATA), values, strict=True)
    return "\n".join(f"{name}: {value}" for name, value in named).encode()


class MetaProperties(msgspec.Struct, frozen=True):
    """`meta.properties`: whose log directory this is.  `version` 0 is ZooKeeper's time, 1 is KRaft."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None
    properties: Mapping[str, str]
    comments: tuple[str, ...] = ()
    """lines that begin with `#`, without it; Kafka writes an empty one and the date"""


def decode_meta_properties(
    data: bytes, *, source: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> MetaProperties:
    """Java properties; version 0 (or none) needs nothing, version 1 needs `cluster.id` and `node.id`.

    As in Kafka's `MetaProperties`, blanks around the version do not count, and around a node id they do.
    """
    text = _text(data, source, limits)
    properties = decode_properties(data)

    def integer(name: str) -> int | None:
        if name not in properties:
            return None
        text = properties[name]
        value = parse_java_long(text.strip() if name == _VERSION else text, 32)
        if value is None:
            raise FormatError(f"{name} is {properties[name][:40]!r}", source=source, code="meta_properties_invalid")
        return value

    version = integer(_VERSION) or 0
    if version not in (0, 1):
        detail = f"version {version}: damaged, or {NEWER}, which knows 0 and 1"
        raise FormatError(detail, source=source, code="meta_properties_invalid")
    node = integer(_NODE_ID if version else _BROKER_ID)
    if version and (node is None or _CLUSTER_ID not in properties):
        raise FormatError(f"{_CLUSTER_ID} or {_NODE_ID} is missing", source=source, code="meta_properties_invalid")
    comments = tuple(line[1:] for line in _lines(text) if line.startswith("#"))
    return MetaProperties(
        version, properties.get(_CLUSTER_ID), node, properties.get(_DIRECTORY_ID), properties, comments
    )


def encode_meta_properties(meta: MetaProperties) -> bytes:
    """The bytes of a `meta.properties`: comments and properties in the order they have in `meta`."""
    return encode_properties(meta.properties, meta.comments)


def meta_properties(
    *, version: int, node_id: int | None, cluster_id: str | None, directory_id: str | None = None, comment: str = ""
) -> MetaProperties:
    """A new `meta.properties` of either version; `comment` is the second line, where Kafka writes the date."""
    named = {
        _NODE_ID if version else _BROKER_ID: None if node_id is None else str(node_id),
        _DIRECTORY_ID: directory_id,
        _VERSION: str(version),
        _CLUSTER_ID: cluster_id,
    }
    properties = {name: value for name, value in named.items() if value is not None}
    return decode_meta_properties(encode_properties(properties, ("", comment)))


class CleanShutdown(msgspec.Struct, frozen=True):
    """`.kafka_cleanshutdown`: only its existence matters to recovery; `broker_epoch` is None where it says nothing."""

    version: int | None
    broker_epoch: int | None


if names_of(CLEAN_SHUTDOWN) != ("version", "brokerEpoch"):
    raise DerivationError("CleanShutdown does not mirror its declaration")
NEW_CLEAN_SHUTDOWN = CleanShutdown(0, -1)
"""What is written where no broker's epoch is known."""


def decode_clean_shutdown(data: bytes) -> CleanShutdown:
    """Empty up to Kafka 3.6, JSON since; unreadable content loses the epoch only."""
    try:
        value = json.loads(data)
        return CleanShutdown(*(int(value[name]) for name in names_of(CLEAN_SHUTDOWN)))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return CleanShutdown(None, None)


def encode_clean_shutdown(marker: CleanShutdown) -> bytes:
    """The bytes of a `.kafka_cleanshutdown`: those of Kafka 3.7 and later, or nothing where there is no version."""
    if marker.version is None:
        return b""
    values = zip(names_of(CLEAN_SHUTDOWN), (marker.version, marker.broker_epoch), strict=True)
    return json.dumps(dict(values), separators=(",", ":")).encode()
