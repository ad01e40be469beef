"""Decode and encode the text files of a log directory: checkpoints, `leader-epoch-checkpoint`, `partition.metadata`,
`meta.properties`, `.kafka_cleanshutdown`. Line layouts are declared once, in `layout.text_files`. The rules are those
of `CheckpointFile`, `OffsetCheckpointFile`, `LeaderEpochCheckpointFile`, `PartitionMetadata` and `MetaProperties`:
decoders accept what a broker accepts, and their errors name the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from construct import Struct

from kafkalog.codec.common.errors import FormatError, LimitExceeded
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.common.wording import NEWER, counted
from kafkalog.codec.derive import DerivationError, fields_of, names_of
from kafkalog.codec.layout.text_files import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCH_LINE,
    META_PROPERTIES_V0,
    META_PROPERTIES_V1,
    OFFSET_CHECKPOINT_LINE,
    PARTITION_METADATA,
)
from kafkalog.codec.layout.text_values import Decimal, uuid_bytes, uuid_text
from kafkalog.codec.model import field_names
from kafkalog.codec.names import parse_java_long
from kafkalog.codec.parsing.properties import decode_properties, encode_properties, parse_properties

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
    """One line of `leader-epoch-checkpoint`: a leader epoch and the first offset written in it."""

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
    """Split into lines as Java's readers do: only CR, LF and CR LF end a line."""
    lines = _LINE_END.split(text)
    return lines if lines[-1] else lines[:-1]


def _integer(text: str, line: int, source: str | None, bits: int = 64) -> int:
    value = parse_java_long(text, bits)
    if value is None:
        shown = text[: 40 if text.isprintable() else 10]
        raise _invalid(f"{shown!r} is not a number", line, source)
    return value


def _words(line: str) -> list[str]:
    """Split at white space as Java does: an empty first word is kept, empty last words are dropped."""
    words = _WHITE_SPACE.split(line)
    while len(words) > 1 and not words[-1]:
        words.pop()
    return words


def _decode_lines(data: bytes, layout: Struct, source: str | None, limits: Limits) -> list[tuple[str | int, ...]]:
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
    """Decode a `recovery-point-`, `log-start-`, `replication-` or `cleaner-offset-checkpoint`; return its lines in file
    order, none for an empty file. Raises `FormatError` if a broker could not read it, `LimitExceeded` if it is larger
    than `limits.checkpoint_bytes`.
    """
    return [OffsetCheckpointEntry(*row) for row in _decode_lines(data, OFFSET_CHECKPOINT_LINE, source, limits)]  # type: ignore[arg-type]


def encode_offset_checkpoint(entries: Iterable[OffsetCheckpointEntry]) -> bytes:
    """Encode an offset checkpoint, with its lines in the given order."""
    return _encode_lines(entries)


def decode_leader_epochs(
    data: bytes, *, source: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> list[LeaderEpoch]:
    """Decode a `leader-epoch-checkpoint`; return its lines in file order, none for an empty file. Raises `FormatError`
    if a broker could not read it, `LimitExceeded` if it is larger than `limits.checkpoint_bytes`.
    """
    return [LeaderEpoch(*row) for row in _decode_lines(data, LEADER_EPOCH_LINE, source, limits)]  # type: ignore[arg-type]


def encode_leader_epochs(entries: Iterable[LeaderEpoch]) -> bytes:
    """Encode a `leader-epoch-checkpoint`, with its lines in the given order."""
    return _encode_lines(entries)


def decode_uuid(text: str) -> bytes:
    """Decode Kafka's text form of a UUID (`org.apache.kafka.common.Uuid`) to 16 bytes. Raises `FormatError` for any
    other text.
    """
    try:
        return uuid_bytes(text)
    except ValueError as error:
        raise FormatError(str(error)) from None


def encode_uuid(value: bytes) -> str:
    """Encode 16 bytes in Kafka's text form of a UUID."""
    return uuid_text(value)


class PartitionMetadata(msgspec.Struct, frozen=True):
    """Content of `partition.metadata`: the topic id of the replica (`PartitionMetadataFile`)."""

    version: int
    topic_id: str


if names_of(PARTITION_METADATA) != field_names(PartitionMetadata):
    raise DerivationError("PartitionMetadata does not mirror its declaration")


def decode_partition_metadata(data: bytes, *, source: str | None = None) -> PartitionMetadata:
    """Decode the first two lines of `partition.metadata`, version and topic id. Like a broker, it ignores the other
    lines, and the text before the colon of each line (even a byte order mark). `source` is a file name for messages
    only. Raises `FormatError` if a line is missing or wrong, the topic id is zero, or the file is not UTF-8.
    """
    try:
        lines = _lines(data.decode())
    except UnicodeDecodeError:
        raise FormatError("not UTF-8", source=source, code="partition_metadata_invalid") from None
    values: list[str] = []
    for name, line in zip(names_of(PARTITION_METADATA), [*lines, "", ""], strict=False):
        words = _NAME_END.split(line)
        if len(words) != 2:
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
    """Encode a `partition.metadata`. It has no final newline."""
    values = (metadata.version, metadata.topic_id)
    named = zip(names_of(PARTITION_METADATA), values, strict=True)
    return "\n".join(f"{name}: {value}" for name, value in named).encode()


class MetaProperties(msgspec.Struct, frozen=True, kw_only=True):
    """Content of `meta.properties`: the cluster, node and directory to which a log directory belongs. `version` is 0
    with ZooKeeper and 1 with KRaft.
    """

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
    """Decode a `meta.properties`. Version 0 (also a missing version) requires no property and has the node id in
    `broker.id`; version 1 requires `cluster.id` and `node.id`. Values that are missing become None. As in Kafka's
    `MetaProperties`, white space around the version is ignored, but white space around a node id is an error. `source`
    is a file name for messages only. Raises `FormatError` for an invalid file, `LimitExceeded` if it is larger than
    `limits.checkpoint_bytes`.
    """
    text = _text(data, source, limits)
    try:
        properties = decode_properties(data)
    except FormatError as error:
        raise FormatError(error.message, source=source, code="meta_properties_invalid") from None

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
        version=version,
        cluster_id=properties.get(_CLUSTER_ID),
        node_id=node,
        directory_id=properties.get(_DIRECTORY_ID),
        properties=properties,
        comments=comments,
    )


def encode_meta_properties(meta: MetaProperties) -> bytes:
    """Encode a `meta.properties`, with comments and properties in the order that they have in `meta`."""
    return encode_properties(meta.properties, meta.comments)


def meta_properties(
    *, version: int, node_id: int | None, cluster_id: str | None, directory_id: str | None = None, comment: str = ""
) -> MetaProperties:
    """Return a new `MetaProperties` of version 0 or 1; nothing is written. Values that are None are omitted, and a node
    id is `broker.id` in version 0. `comment` becomes the second line, in which Kafka writes the date. Raises
    `FormatError` for another version, a node id beyond 32 bits, or if version 1 lacks a node id or cluster id.
    """
    named = {
        _NODE_ID if version else _BROKER_ID: None if node_id is None else str(node_id),
        _DIRECTORY_ID: directory_id,
        _VERSION: str(version),
        _CLUSTER_ID: cluster_id,
    }
    properties = {name: value for name, value in named.items() if value is not None}
    return decode_meta_properties(encode_properties(properties, ("", comment)))


class CleanShutdown(msgspec.Struct, frozen=True):
    """Content of `.kafka_cleanshutdown`. Recovery depends only on the file's existence. Both fields are None if the
    content cannot be parsed or is empty.
    """

    version: int | None
    broker_epoch: int | None


if names_of(CLEAN_SHUTDOWN) != ("version", "brokerEpoch"):
    raise DerivationError("CleanShutdown does not mirror its declaration")
NEW_CLEAN_SHUTDOWN = CleanShutdown(0, -1)
"""Content to write if the broker's epoch is unknown."""


def decode_clean_shutdown(data: bytes) -> CleanShutdown:
    """Decode a `.kafka_cleanshutdown` to its version and broker epoch. The file is empty up to Kafka 3.6, and JSON in
    later releases. Both fields are None if the content is empty or cannot be parsed; nothing is raised.
    """
    try:
        value = json.loads(data)
        return CleanShutdown(*(int(value[name]) for name in names_of(CLEAN_SHUTDOWN)))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return CleanShutdown(None, None)


def encode_clean_shutdown(marker: CleanShutdown) -> bytes:
    """Encode a `.kafka_cleanshutdown` as Kafka 3.7 and later do. Return empty bytes, as earlier releases write, if
    `version` is None.
    """
    if marker.version is None:
        return b""
    values = zip(names_of(CLEAN_SHUTDOWN), (marker.version, marker.broker_epoch), strict=True)
    return json.dumps(dict(values), separators=(",", ":")).encode()
