"""Results of decoding: Arrow batches, and a fault for each log batch that could not be decoded to its end."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
from msgspec import Struct

from kafkalog.codec.common.findings import Finding
from kafkalog.codec.model import MICROSECONDS, RecordBatch, to_int64

__all__ = ["Fault", "Part", "Piece", "to_microseconds"]

_MIN, _MAX = -(1 << 63), (1 << 63) - 1


class Part(Struct, frozen=True):
    """One log batch with the wanted offsets: from `low` to `high` (exclusive)."""

    batch: RecordBatch
    low: int
    high: int
    payload: bytes | memoryview = b""
    """decompressed record bytes (magic 2 only)"""


class Fault(Struct, frozen=True):
    """A batch in which a record cannot be read. The records before it were yielded, those after it are lost."""

    batch: RecordBatch
    finding: Finding
    next_offset: int | None = None
    """offset after the last record before the fault; None if there is none"""


Piece: TypeAlias = pa.RecordBatch | Fault


def to_microseconds(milliseconds: int) -> int | None:
    """Convert ms to microseconds; return None if the result does not fit 64 bits, as no such time exists."""
    value = to_int64(milliseconds) * MICROSECONDS
    return value if _MIN <= value <= _MAX else None
