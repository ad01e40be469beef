"""Transaction markers as the broker reads them (`ControlRecordType`, `EndTransactionMarker`), exceptions included."""

from __future__ import annotations

from kafkalog.codec.model import ControlType, EndTransactionMarker
from kafkalog.log.storage.java import (
    BufferUnderflowError,
    IllegalArgumentError,
    InvalidRecordError,
    NullPointerError,
)

__all__ = ["read_marker"]

_KEY_SIZE = 4
_MARKER_SIZE = 6
_VERSION_SIZE = 2


def read_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker:
    """The marker of a control record, or the exception that reading it raises."""
    if key is None:
        raise NullPointerError("a control record without a key")
    if len(key) < _KEY_SIZE:
        raise InvalidRecordError(f"Invalid value size found for end control record key: {len(key)}")
    if int.from_bytes(key[:2], "big", signed=True) < 0:
        raise InvalidRecordError("Invalid version found for control record")
    kind = int.from_bytes(key[2:4], "big", signed=True)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise IllegalArgumentError(f"Invalid control record type for end transaction marker {kind}")
    if value is None:
        raise NullPointerError("a transaction marker without a value")
    if len(value) < _VERSION_SIZE:
        raise BufferUnderflowError("a transaction marker that is too short")
    if int.from_bytes(value[:2], "big", signed=True) < 0:
        raise InvalidRecordError("Invalid version found for end transaction marker")
    if len(value) < _MARKER_SIZE:
        raise BufferUnderflowError("a transaction marker that is too short")
    return EndTransactionMarker(ControlType(kind), int.from_bytes(value[2:6], "big", signed=True))
