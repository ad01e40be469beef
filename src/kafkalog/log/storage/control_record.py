"""Parse transaction markers as the broker does, with the same exceptions (`ControlRecordType`,
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
    """Return the type in the key of a control record, known or not (`ControlRecordType.parseTypeId`). Raises the
    broker's exceptions.
    """
    if key is None:
        raise NullPointerError("a control record without a key")
    if len(key) < CONTROL_KEY.size:
        raise InvalidRecordError(f"Invalid value size found for end control record key: {len(key)}")
    version, kind = CONTROL_KEY.struct.unpack_from(key)
    if version < 0:
        raise InvalidRecordError("Invalid version found for control record")
    return int(kind)


def read_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker:
    """Return the marker of a control record. Raises the broker's exceptions."""
    kind = control_type(key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise IllegalArgumentError(f"Invalid control record type for end transaction marker {kind}")
    if value is None:
        raise NullPointerError("a transaction marker without a value")
    if len(value) < _BEHIND_VERSION:
        raise BufferUnderflowError("a transaction marker that is too short")
    version, coordinator_epoch = END_MARKER.struct.unpack(value[: END_MARKER.size].ljust(END_MARKER.size, b"\0"))
    if version < 0:
        raise InvalidRecordError("Invalid version found for end transaction marker")
    if len(value) < END_MARKER.size:
        raise BufferUnderflowError("a transaction marker that is too short")
    return EndTransactionMarker(ControlType(kind), coordinator_epoch)
