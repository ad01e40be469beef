"""Parse keys and values of control records (`ControlRecordType`, `EndTransactionMarker`)."""

from __future__ import annotations

from kafkalog.codec import derive
from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.layout import record_batch
from kafkalog.codec.model import ControlRecordType, ControlType, EndTransactionMarker, Record

__all__ = ["CONTROL_KEY", "END_MARKER", "end_transaction_marker", "parse_control_key", "parse_end_transaction_marker"]

CONTROL_KEY = derive.fixed(record_batch.CONTROL_RECORD_KEY, ("version", "type"))
END_MARKER = derive.fixed(record_batch.END_TRANSACTION_MARKER, ("version", "coordinator_epoch"))
_MARKERS = frozenset({ControlType.ABORT, ControlType.COMMIT})


def parse_control_key(key: bytes | None) -> ControlRecordType:
    """Parse version and type in a control record's key; more bytes are ignored, and unknown types are accepted. Raises
    `FormatError` if the key is None or too short, or the version negative.
    """
    if key is None or len(key) < CONTROL_KEY.size:
        raise FormatError("a control record's key is too short", field="key", code="control_record_invalid")
    version, kind = CONTROL_KEY.struct.unpack_from(key)
    if version < 0:
        raise FormatError(f"control record version {version}", field="key.version", code="control_record_invalid")
    return ControlRecordType(version, kind)


def parse_end_transaction_marker(kind: ControlRecordType, value: bytes | None) -> EndTransactionMarker:
    """Parse the coordinator epoch in the value of a COMMIT or ABORT record; more bytes are ignored. Raises
    `UsageError` for another type, `FormatError` if the value is None or too short, or its version negative.
    """
    if kind.type not in _MARKERS:
        raise UsageError(f"control type {kind.type} does not end a transaction")
    if value is None or len(value) < END_MARKER.size:
        raise FormatError("a transaction marker's value is too short", field="value", code="control_record_invalid")
    version, coordinator_epoch = END_MARKER.struct.unpack_from(value)
    if version < 0:
        raise FormatError(f"transaction marker version {version}", field="value", code="control_record_invalid")
    return EndTransactionMarker(ControlType(kind.type), coordinator_epoch)


def end_transaction_marker(record: Record) -> EndTransactionMarker | None:
    """Parse a COMMIT or ABORT record; return None for another type. Raises `FormatError` if key or value cannot be
    parsed.
    """
    kind = parse_control_key(record.key)
    return parse_end_transaction_marker(kind, record.value) if kind.type in _MARKERS else None
