"""What decoding gives: Arrow batches, and between them the batches of the log whose records cannot be read."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
from msgspec import Struct

from kafkalog.codec.findings import Finding
from kafkalog.codec.model import MICROSECONDS, RecordBatch, to_int64

__all__ = ["Fault", "Part", "Piece", "to_microseconds"]

_MIN, _MAX = -(1 << 63), (1 << 63) - 1


class Part(Struct, frozen=True):
    """One log batch, and which of its offsets are wanted: from `low` up to, not including, `high`."""

    batch: RecordBatch
    low: int
    high: int
    payload: bytes | memoryview = b""
    """record bytes, decompressed (magic 2)"""


class Fault(Struct, frozen=True):
    """A batch whose records cannot be read from some point on."""

    batch: RecordBatch
    finding: Finding


Piece: TypeAlias = pa.RecordBatch | Fault


def to_microseconds(milliseconds: int) -> int | None:
    """Microseconds of a timestamp, or None where they do not fit: there is no such moment."""
    value = to_int64(milliseconds) * MICROSECONDS
    return value if _MIN <= value <= _MAX else None
