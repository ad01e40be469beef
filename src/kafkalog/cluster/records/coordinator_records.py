"""Records of coordinator topics: a key that begins with its type, and a value that begins with its version.

Follows `CoordinatorRecordSerde` and the older `GroupMetadataManager` and `TransactionLog`. The layout of a value is
determined by the type of its key, never by its version alone. Records of unknown types and versions keep their bytes
and get a finding.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

import msgspec
from msgspec.structs import replace

from kafkalog.cluster.layout.record_types import KeyedTypes, keyed_types
from kafkalog.cluster.records.messages import Decoded, choose, decode, encode
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.messages.message import Message
from kafkalog.codec.names import (
    CONSUMER_OFFSETS_TOPIC,
    COORDINATOR_TOPICS,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)

__all__ = [
    "CONSUMER_OFFSETS_TOPIC",
    "SHARE_GROUP_STATE_TOPIC",
    "TOPICS",
    "TRANSACTION_STATE_TOPIC",
    "CoordinatorRecord",
    "decode_record",
    "encode_record",
]

TOPICS: dict[str, KeyedTypes] = {topic: keyed_types(topic) for topic in COORDINATOR_TOPICS}
"""Topic -> key type -> name, key layout, value layouts, newest first."""

_SHORT = Struct(">h")
_REMOVED_TYPE = 18
"""Streams partition metadata, which only development builds wrote"""


class CoordinatorRecord(msgspec.Struct, frozen=True):
    """A record of a coordinator topic, as far as it could be decoded.

    `type` is None if the key is missing or too short; `key` and `value` are None if they cannot be decoded. `value` is
    also None for a tombstone; then `raw_value` is None too.
    """

    type: int | None
    name: str
    raw_key: bytes | None
    raw_value: bytes | None
    key: Decoded | None = None
    value: Decoded | None = None
    key_tail: bytes = b""
    value_tail: bytes = b""
    findings: tuple[Finding, ...] = ()

    @property
    def is_tombstone(self) -> bool:
        """Whether the record has no value, so that it removes the entry of its key."""
        return self.raw_value is None

    @property
    def understood(self) -> bool:
        """Whether key and value (or tombstone) were decoded."""
        return self.key is not None and (self.value is not None or self.is_tombstone)

    def key_field(self, name: str) -> Any:
        """A field of the key; None if the key was not decoded."""
        return None if self.key is None else self.key.fields[name]


def _finding(code: FindingCode, detail: str, severity: Severity = Severity.WARNING) -> Finding:
    return Finding(code, severity, None, None, detail)


def _invalid(error: FormatError) -> Finding:
    return _finding(FindingCode.TYPED_RECORD_INVALID, str(error), Severity.ERROR)


def decode_record(topic: str, key: bytes | None, value: bytes | None) -> CoordinatorRecord:
    """Decode a record of a coordinator topic. `topic` must be in `TOPICS`.

    Never raises for bad data: parts that cannot be decoded stay raw bytes, and the record's `findings` say why. The
    value is not decoded if the key cannot be. A tombstone has no value. The type is None if the key is missing or too
    short.
    """
    layouts = TOPICS[topic]
    if key is None or len(key) < _SHORT.size:
        finding = _finding(FindingCode.TYPED_RECORD_INVALID, "the key is missing or too short", Severity.ERROR)
        return CoordinatorRecord(None, "UNKNOWN", key, value, findings=(finding,))
    (kind,) = _SHORT.unpack_from(key)
    record_type = layouts.get(kind)
    if record_type is None:
        severity = Severity.INFO if kind == _REMOVED_TYPE else Severity.WARNING
        finding = _finding(FindingCode.RECORD_TYPE_UNKNOWN, f"record type {kind} of {topic} is not known", severity)
        return CoordinatorRecord(kind, "UNKNOWN", key, value, findings=(finding,))
    name, key_layout, value_layouts = record_type
    try:
        decoded_key = decode(key_layout, key_layout.versions[-1], key, position=_SHORT.size)
    except FormatError as error:
        return CoordinatorRecord(kind, name, key, value, findings=(_invalid(error),))
    record = CoordinatorRecord(kind, name, key, value, decoded_key, key_tail=key[_SHORT.size + decoded_key.size :])
    findings = [_trailing("key", record.key_tail)] if record.key_tail else []
    if value is None:
        return replace(record, findings=tuple(findings))
    record, more = _with_value(record, value_layouts, value)
    return replace(record, findings=(*findings, *more))


def _trailing(what: str, tail: bytes) -> Finding:
    return _finding(FindingCode.TYPED_RECORD_TRAILING_BYTES, f"{len(tail)} bytes after the {what}")


def _with_value(
    record: CoordinatorRecord, layouts: tuple[Message, ...], value: bytes
) -> tuple[CoordinatorRecord, list[Finding]]:
    if len(value) < _SHORT.size:
        detail = f"a value of {len(value)} bytes: neither a tombstone nor a version"
        return record, [_finding(FindingCode.TYPED_RECORD_INVALID, detail, Severity.ERROR)]
    (version,) = _SHORT.unpack_from(value)
    if not any(version in layout.versions for layout in layouts):
        detail = f"{layouts[0].name} version {version} is unknown; no broker loads a partition that holds it"
        return record, [_finding(FindingCode.RECORD_VERSION_UNKNOWN, detail, Severity.ERROR)]
    try:
        decoded, ambiguous = choose(layouts, version, value, position=_SHORT.size)
    except FormatError as error:
        return record, [_invalid(error)]
    findings = []
    tail = value[_SHORT.size + decoded.size :]
    if tail:
        findings.append(_trailing("value", tail))
    if ambiguous:
        detail = f"{decoded.message.name} fits the layouts of several releases; read as {decoded.message.written_by}"
        findings.append(_finding(FindingCode.TYPED_RECORD_AMBIGUOUS, detail, Severity.INFO))
    return replace(record, value=decoded, value_tail=tail), findings


def encode_record(record: CoordinatorRecord) -> tuple[bytes | None, bytes | None]:
    """Encode key and value of a record; return the bytes of both, None for a missing one.

    Parts that were not decoded keep their raw bytes; trailing bytes after decoded parts are kept. Raises `FormatError`
    if a field's value does not fit the layout.
    """
    key, value = record.raw_key, record.raw_value
    if record.key is not None and record.type is not None:
        key = (
            _SHORT.pack(record.type)
            + encode(record.key.message, record.key.version, record.key.fields)
            + record.key_tail
        )
    if record.value is not None:
        decoded = record.value
        value = (
            _SHORT.pack(decoded.version) + encode(decoded.message, decoded.version, decoded.fields) + record.value_tail
        )
    return key, value
