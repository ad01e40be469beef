"""Framed records: the values in `__cluster_metadata` with its snapshots, and in `__remote_log_metadata`.

A value is a frame version, a type and a version, all unsigned varints, then the message and no more bytes; the key is
null. Follows `AbstractApiMessageSerde`. KRaft's control records have no frame.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kafkalog.cluster.layout import cluster_metadata, kraft_control, remote_log_metadata
from kafkalog.cluster.records.messages import Decoded, choose, decode, encode
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.layout.primitives import LayoutError, UnsignedVarint
from kafkalog.codec.messages.control import control_version
from kafkalog.codec.messages.leaves import Input
from kafkalog.codec.messages.message import Message
from kafkalog.codec.names import REMOTE_LOG_METADATA_TOPIC

__all__ = [
    "REMOTE_LOG_METADATA_TOPIC",
    "FramedRecord",
    "decode_control",
    "decode_metadata",
    "decode_remote_log_metadata",
    "encode_framed",
    "encode_remote_log_metadata",
    "record_type_name",
]

_LARGEST = 0x7FFF


class FramedRecord(Struct, frozen=True):
    """The value of one record; `decoded` is None if it could not be decoded."""

    type: int | None
    version: int | None
    raw: bytes | None
    decoded: Decoded | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """Name of the record's schema, or UNKNOWN."""
        return self.decoded.message.name if self.decoded is not None else "UNKNOWN"


def record_type_name(message: Message) -> str:
    """`PartitionChangeRecord` -> `PARTITION_CHANGE_RECORD`, as Kafka's dump tool writes it."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", message.name).upper()


def _bad(code: FindingCode, detail: str) -> tuple[Finding, ...]:
    return (Finding(code, Severity.ERROR, None, None, detail),)


def _decode(layouts: Mapping[int, tuple[Message, ...]], value: bytes | None) -> FramedRecord:
    if not value:
        return FramedRecord(None, None, value, findings=_bad(FindingCode.TYPED_RECORD_INVALID, "there is no value"))
    stream = Input(value)
    try:
        frame, kind, version = [UnsignedVarint.parse_stream(stream) for _ in range(3)]
    except LayoutError:
        return FramedRecord(
            None, None, value, findings=_bad(FindingCode.TYPED_RECORD_INVALID, "the frame is cut short")
        )
    if frame != cluster_metadata.FRAME_VERSION or kind > _LARGEST or version > _LARGEST:
        detail = f"frame version {frame}, type {kind}, version {version}"
        return FramedRecord(None, None, value, findings=_bad(FindingCode.TYPED_RECORD_INVALID, detail))
    candidates = layouts.get(kind)
    if candidates is None:
        detail = f"record type {kind} is unknown"
        return FramedRecord(kind, version, value, findings=_bad(FindingCode.RECORD_TYPE_UNKNOWN, detail))
    if not any(version in candidate.versions for candidate in candidates):
        detail = f"{candidates[0].name} version {version} is not known"
        return FramedRecord(kind, version, value, findings=_bad(FindingCode.RECORD_VERSION_UNKNOWN, detail))
    try:
        decoded, ambiguous = choose(candidates, version, value, position=stream.tell())
    except FormatError as error:
        return FramedRecord(kind, version, value, findings=_bad(FindingCode.TYPED_RECORD_INVALID, str(error)))
    if stream.tell() + decoded.size != len(value):
        detail = f"{len(value) - stream.tell() - decoded.size} bytes after {decoded.message.name}"
        return FramedRecord(kind, version, value, findings=_bad(FindingCode.TYPED_RECORD_INVALID, detail))
    findings: tuple[Finding, ...] = ()
    if ambiguous:
        detail = f"{decoded.message.name} fits the layouts of several releases; read as {decoded.message.written_by}"
        findings = (Finding.of(FindingCode.TYPED_RECORD_AMBIGUOUS, None, None, detail),)
    return FramedRecord(kind, version, value, decoded, findings)


def decode_metadata(value: bytes | None) -> FramedRecord:
    """Decode a record of `__cluster_metadata` or of a snapshot; never raises for bad data."""
    return _decode(cluster_metadata.VALUES, value)


def decode_remote_log_metadata(value: bytes | None) -> FramedRecord:
    """Decode a record of `__remote_log_metadata`; never raises for bad data."""
    return _decode(remote_log_metadata.VALUES, value)


def encode_framed(record: FramedRecord) -> bytes | None:
    """Encode the value of a framed record: frame version, type, version, fields. A record that was not decoded keeps
    its raw bytes, or None.

    Raises `FormatError` if a field's value does not fit the layout.
    """
    if record.decoded is None or record.type is None:
        return record.raw
    stream = Input()
    for number in (cluster_metadata.FRAME_VERSION, record.type, record.decoded.version):
        UnsignedVarint.build_stream(number, stream)
    return stream.getvalue() + encode(record.decoded.message, record.decoded.version, record.decoded.fields)


def encode_remote_log_metadata(name: str, fields: Mapping[str, Any]) -> bytes:
    """Encode a record of `__remote_log_metadata` in version 0, its current one. `name` must be the name of one of its
    schemas; missing fields get their defaults. Raises `FormatError` if a field's value does not fit the layout.
    """
    kind, message = next(
        (kind, each) for kind, known in remote_log_metadata.VALUES.items() for each in known if each.name == name
    )
    stream = Input()
    for number in (cluster_metadata.FRAME_VERSION, kind, 0):
        UnsignedVarint.build_stream(number, stream)
    return stream.getvalue() + encode(message, 0, fields)


def decode_control(kind: int, value: bytes | None) -> FramedRecord:
    """Decode the value of a KRaft control record; `kind` is the type in its key.

    Never raises for bad data. The record has only raw bytes and a finding if the type is unknown or the value is
    missing or too short. The same applies if the value can be decoded neither in the version of its first field nor in
    version 0.
    """
    layout = kraft_control.VALUES.get(kind)
    if layout is None:
        detail = f"control record type {kind} is not one of KRaft's"
        return FramedRecord(kind, None, value, findings=_bad(FindingCode.RECORD_TYPE_UNKNOWN, detail))
    version = None if value is None else control_version(value)
    if value is None or version is None:
        detail = f"{layout.name} is cut short"
        return FramedRecord(kind, None, value, findings=_bad(FindingCode.TYPED_RECORD_INVALID, detail))
    for candidate in (version, 0):
        if candidate not in layout.versions:
            continue
        try:
            return FramedRecord(kind, candidate, value, decode(layout, candidate, value))
        except FormatError as error:
            problem = str(error)
    if version not in layout.versions:
        problem = f"{layout.name} version {version} is not known"
    return FramedRecord(kind, version, value, findings=_bad(FindingCode.TYPED_RECORD_INVALID, problem))
