"""The text files of a log directory: checkpoints, `leader-epoch-checkpoint`, `partition.metadata`, `meta.properties`.

Line layouts are declared once as tuples of fields; reading and writing follow from them.  Decided by `CheckpointFile`,
`OffsetCheckpointFile`, `LeaderEpochCheckpointFile`, `PartitionMetadata` and `MetaProperties`.  The readers here accept
what the broker accepts and name the line they stumble over.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafkalog.codec.errors import FormatError, LimitExceeded
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "CHECKPOINT_VERSION",
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
    "encode_leader_epochs",
    "encode_offset_checkpoint",
    "encode_partition_metadata",
    "encode_uuid",
]

CHECKPOINT_VERSION = 0
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_ZERO_UUID = bytes(16)


class OffsetCheckpointEntry(NamedTuple):
    """One line of an offset checkpoint: `topic partition offset`."""

    topic: str
    partition: int
    offset: int


class LeaderEpoch(NamedTuple):
    """One line of `leader-epoch-checkpoint`: the first offset of an epoch."""

    epoch: int
    start_offset: int


_Line = type[OffsetCheckpointEntry] | type[LeaderEpoch]


def _text(data: bytes, source: str | None, limits: Limits) -> str:
    if len(data) > limits.checkpoint_bytes:
        raise LimitExceeded("a text file is too large", limit="checkpoint_bytes", source=source)
    return data.decode("utf-8", "surrogateescape")


def _invalid(message: str, line: int, source: str | None) -> FormatError:
    return FormatError(f"line {line}: {message}", source=source, code="checkpoint_invalid")


def _integer(text: str, line: int, source: str | None) -> int:
    if not _INTEGER.match(text) or not -(2**63) <= int(text) < 2**63:
        raise _invalid(f"{text[:40]!r} is not a number", line, source)
    return int(text)


def _decode_lines(data: bytes, kind: _Line, source: str | None, limits: Limits) -> list[tuple[str | int, ...]]:
    lines = _text(data, source, limits).splitlines()
    if not lines:
        return []
    version = _integer(lines[0].strip(), 1, source)
    if version != CHECKPOINT_VERSION:
        raise _invalid(f"version {version}", 1, source)
    if len(lines) == 1:
        return []
    count = _integer(lines[1].strip(), 2, source)
    rows: list[tuple[str | int, ...]] = []
    for number, line in enumerate(lines[2:], 3):
        words = line.split()
        if len(words) != len(kind._fields):
            raise _invalid(f"{len(words)} fields where {' '.join(kind._fields)} are needed", number, source)
        rows.append(
            tuple(
                word if field == "topic" else _integer(word, number, source)
                for word, field in zip(words, kind._fields, strict=True)
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
    return [OffsetCheckpointEntry(*row) for row in _decode_lines(data, OffsetCheckpointEntry, source, limits)]  # type: ignore[arg-type]


def encode_offset_checkpoint(entries: Iterable[OffsetCheckpointEntry]) -> bytes:
    """The bytes of an offset checkpoint, lines in the given order."""
    return _encode_lines(entries)


def decode_leader_epochs(
    data: bytes, *, source: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> list[LeaderEpoch]:
    """Lines of `leader-epoch-checkpoint`, in file order."""
    return [LeaderEpoch(*row) for row in _decode_lines(data, LeaderEpoch, source, limits)]  # type: ignore[arg-type]


def encode_leader_epochs(entries: Iterable[LeaderEpoch]) -> bytes:
    """The bytes of a `leader-epoch-checkpoint`."""
    return _encode_lines(entries)


def decode_uuid(text: str) -> bytes:
    """The 16 bytes of Kafka's URL-safe base64 text of a UUID (`org.apache.kafka.common.Uuid`)."""
    try:
        value = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        value = b""
    if "+" in text or "/" in text:  # Python takes the ordinary alphabet too, Java's URL decoder does not
        value = b""
    if len(value) != len(_ZERO_UUID):
        raise FormatError(f"{text[:40]!r} is not a UUID")
    return value


def encode_uuid(value: bytes) -> str:
    """Kafka's text of a UUID."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """`partition.metadata`: the topic id of the replica (`PartitionMetadataFile`)."""

    version: int
    topic_id: str


def decode_partition_metadata(data: bytes, *, source: str | None = None) -> PartitionMetadata:
    """The first two lines; a zero or unreadable topic id is an error, what follows is ignored."""
    lines = data.decode("utf-8", "surrogateescape").splitlines()
    values: list[str] = []
    for name, line in zip(("version", "topic_id"), [*lines, "", ""], strict=False):
        words = re.split(r":\s+", line)
        if len(words) != 2 or words[0] != name:
            raise FormatError(f"no line {name!r}", source=source, code="partition_metadata_invalid")
        values.append(words[1])
    version = _integer(values[0], 1, source)
    if version < 0:
        raise FormatError(f"version {version}", source=source, code="partition_metadata_invalid")
    if decode_uuid(values[1]) == _ZERO_UUID:
        raise FormatError("the topic id is zero", source=source, code="partition_metadata_invalid")
    return PartitionMetadata(version, values[1])


def encode_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """The bytes of a `partition.metadata`; there is no final newline."""
    return f"version: {metadata.version}\ntopic_id: {metadata.topic_id}".encode()


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """`meta.properties`: whose log directory this is.  `version` 0 is ZooKeeper's time, 1 is KRaft."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None
    properties: Mapping[str, str]


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        word = match.group(1)
        return chr(int(word[1:], 16)) if len(word) == 5 else _ESCAPES.get(word, word)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", replace, text)


def _properties(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t]*", r"\1", text).splitlines():
        stripped = line.lstrip()
        if not stripped or stripped[0] in "#!":
            continue
        match = re.match(r"((?:\\.|[^\\:=\s])*)\s*[:=]?\s*(.*)\Z", stripped, re.DOTALL)
        if match:
            found[_unescape(match.group(1))] = _unescape(match.group(2))
    return found


def decode_meta_properties(
    data: bytes, *, source: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> MetaProperties:
    """Java properties; version 0 (or none) needs nothing, version 1 needs `cluster.id` and `node.id`."""
    properties = _properties(_text(data, source, limits))

    def integer(name: str) -> int | None:
        text = properties.get(name)
        if text is None:
            return None
        if not _INTEGER.match(text.strip()):
            raise FormatError(f"{name} is {text[:40]!r}", source=source, code="meta_properties_invalid")
        return int(text)

    version = integer("version") or 0
    if version not in (0, 1):
        raise FormatError(f"version {version}", source=source, code="meta_properties_invalid")
    node = integer("node.id" if version else "broker.id")
    if version and (node is None or "cluster.id" not in properties):
        raise FormatError("cluster.id or node.id is missing", source=source, code="meta_properties_invalid")
    return MetaProperties(version, properties.get("cluster.id"), node, properties.get("directory.id"), properties)


@dataclass(frozen=True, slots=True)
class CleanShutdown:
    """`.kafka_cleanshutdown`: only its existence matters to recovery; `broker_epoch` is None where it says nothing."""

    version: int | None
    broker_epoch: int | None


def decode_clean_shutdown(data: bytes) -> CleanShutdown:
    """Empty up to Kafka 3.6, JSON since; unreadable content loses the epoch only."""
    try:
        value = json.loads(data)
        return CleanShutdown(int(value["version"]), int(value["brokerEpoch"]))
    except (ValueError, KeyError, TypeError):
        return CleanShutdown(None, None)
