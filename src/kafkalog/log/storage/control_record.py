"""Parse transaction markers as the broker does, and raise its exceptions (`ControlRecordType`,
`EndTransactionMarker`).
"""

from __future__ import annotations

from kafkalog.codec.model import ControlType, EndTransactionMarker
from kafkalog.codec.plain.control import CONTROL_KEY, END_MARKER
from kafkalog.log.storage.java import (
    BufferUnderflowError,
    IllegalArgumentError,
    InvalidRecordError,
    NullPointerError,
)

__all__ = ["control_type", "read_marker"]

_BEHIND_VERSION = END_MARKER.position("coordinator_epoch")


def control_type(key: bytes | None) -> int:
    """Return the type number in the key of a control record, even if the type is unknown
    (`ControlRecordType.parseTypeId`). Raises `NullPointerError` without a key, and `InvalidRecordError` if the key is
    too short or its version negative.
    """
    if key is None:
        raise NullPointerError('Cannot invoke "java.nio.ByteBuffer.remaining()" because "key" is null')
    if len(key) < CONTROL_KEY.size:
        raise InvalidRecordError(f"Invalid value size found for end control record key: {len(key)}")
    version, kind = CONTROL_KEY.struct.unpack_from(key)
    if version < 0:
        raise InvalidRecordError("Invalid version found for control record")
    return int(kind)


def read_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker:
    """Return type and coordinator epoch of a transaction marker. Raises `IllegalArgumentError` for another control type
    than abort or commit, `NullPointerError` without key or value. Raises `InvalidRecordError` for a bad key or a
    negative version. Raises `BufferUnderflowError` for a value that is too short.
    """
    kind = control_type(key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise IllegalArgumentError(f"Invalid control record type for end transaction marker {kind}")
    if value is None:
        raise NullPointerError('Cannot invoke "java.nio.ByteBuffer.getShort()" because "value" is null')
    if len(value) < _BEHIND_VERSION:
        raise BufferUnderflowError("")
    version, coordinator_epoch = END_MARKER.struct.unpack(value[: END_MARKER.size].ljust(END_MARKER.size, b"\0"))
    if version < 0:
        raise InvalidRecordError("Invalid version found for end transaction marker")
    if len(value) < END_MARKER.size:
        raise BufferUnderflowError("")
    return EndTransactionMarker(ControlType(kind), coordinator_epoch)
