"""Interface of an execution: an implementation that decodes a header, the records of a batch, or a message, according
to the declarations. `plain` is derived from the declarations, and is always used. The tests have another one that runs
the Construct trees themselves. Both must agree on every input, in values, fault and position.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from msgspec import Struct

from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.layout import primitives
from kafkalog.codec.model import BatchHeader, LegacyHeader

__all__ = ["FAULT_OF_LEAF", "Execution", "MessageContent", "RawRecord", "RecordFault"]


class RawRecord(NamedTuple):
    """Stored fields of one record, with deltas."""

    attributes: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


MessageContent = tuple[bytes | None, bytes | None]
"""Key and value of a message of magic 0 or 1 as they are stored; None is null."""


class RecordFault(Struct, frozen=True):
    """First fault in the records of a batch, or in a message. `position` counts from the first decompressed byte; in a
    message, from the start of its bytes.
    """

    code: FindingCode
    position: int


FAULT_OF_LEAF = {
    primitives.TRUNCATED: FindingCode.RECORD_TRUNCATED,
    primitives.LENGTH_INVALID: FindingCode.RECORD_TRUNCATED,
    primitives.VARINT_TOO_LONG: FindingCode.VARINT_TOO_LONG,
    primitives.NULL_NOT_ALLOWED: FindingCode.HEADER_KEY_INVALID,
    primitives.COUNT_INVALID: FindingCode.HEADER_COUNT_INVALID,
    primitives.COUNT_LIMIT: FindingCode.LIMIT_EXCEEDED,
}


class Execution(Protocol):
    """An implementation that decodes headers and records."""

    name: str

    def batch_header(self, buffer: bytes | memoryview, position: int) -> BatchHeader:
        """Decode the v2 header at `position`. The caller has checked that the buffer contains it."""

    def legacy_header(self, buffer: bytes | memoryview, position: int) -> LegacyHeader:
        """Decode the v0 or v1 header at `position`. The caller has checked that the buffer contains it."""

    def records(
        self, payload: bytes | memoryview, count: int, limits: Limits
    ) -> tuple[list[RawRecord], RecordFault | None]:
        """Decode `count` records from decompressed bytes. Return the records before the first fault, and the fault
        (None if all are sound).
        """

    def message_content(self, data: bytes | memoryview, position: int) -> MessageContent | RecordFault:
        """Decode key and value at `position` of a whole v0 or v1 entry, or return the fault. Bytes after them are
        ignored.
        """
