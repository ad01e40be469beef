"""Finding the next real batch behind damage.

A Kafka log that was stored inside Kafka values holds perfect batches with valid checksums, so a checksum alone proves
nothing.  A batch counts only if it also continues offsets and epochs, and if the chain of batches that it begins ends
where it must: at the end of the file, or at another damaged batch whose own header continues the chain and whose own
length leads to a sound batch.  What is merely found is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkalog.codec.findings import StopReason
from kafkalog.codec.limits import DEFAULT_LIMITS
from kafkalog.codec.model import BATCH, LOG_OVERHEAD, BatchHeader, RecordBatch
from kafkalog.codec.scan import MAGIC_POSITION, Scanner
from kafkalog.codec.source import Source, Window, next_data

__all__ = ["Expected", "find_next_batch"]

_EFFORT = 64
"""Bytes checked per byte searched, at most: crafted headers must not make the search quadratic."""
_MAGIC_BYTE = b"\x02"
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Expected:
    """What a batch behind the damage must continue: offsets from `next_offset` to below `end_offset`, and epochs."""

    next_offset: int
    end_offset: int
    epoch: int


def _is_plausible(header: BatchHeader, expected: Expected) -> bool:
    return (
        header.magic == 2
        and expected.next_offset <= header.base_offset
        and header.last_offset_delta >= 0
        and header.last_offset < expected.end_offset
        and 0 <= header.records_count <= header.last_offset_delta + 1
        and 0 <= header.attributes < 1 << 7
        and (header.partition_leader_epoch == -1 or header.partition_leader_epoch >= expected.epoch)
        and header.size >= BATCH.size
    )


def _behind(header: BatchHeader, expected: Expected) -> Expected:
    """What the batch behind this one must continue."""
    return Expected(header.next_offset, expected.end_offset, max(header.partition_leader_epoch, expected.epoch))


def _candidates(source: Source, start: int) -> Iterator[int]:
    """Positions from `start` on whose magic byte is that of v2."""
    base = start
    while base + MAGIC_POSITION < source.size:
        base = next_data(source, base + MAGIC_POSITION, source.size) - MAGIC_POSITION
        piece = bytes(source.read(base + MAGIC_POSITION, _PIECE))
        found = piece.find(_MAGIC_BYTE)
        while found >= 0:
            yield base + found
            found = piece.find(_MAGIC_BYTE, found + 1)
        base += len(piece)
        if not piece:
            return


def _header_at(window: Window, position: int, size: int) -> BatchHeader | None:
    if position + BATCH.size > size:
        return None
    view = window.view(position, BATCH.size)
    return BatchHeader(*BATCH.struct.unpack_from(view)) if len(view) >= BATCH.size else None


def _chain_end(source: Source, position: int, expected: Expected) -> tuple[int, StopReason, RecordBatch | None]:
    """Where the chain of continuing sound batches from `position` ends, why, and its last batch."""
    scanner = Scanner(source, position=position)
    last: RecordBatch | None = None
    following = expected
    for batch in scanner:
        header = batch.header
        if not isinstance(header, BatchHeader) or not _is_plausible(header, following):
            return batch.position, StopReason.CORRUPT, last
        following = _behind(header, following)
        last = batch
    return scanner.valid_bytes, scanner.stop or StopReason.END, last


def _is_proven(source: Source, window: Window, position: int, expected: Expected) -> bool:
    """The chain from here ends where it must."""
    end, stop, last = _chain_end(source, position, expected)
    if last is None or not isinstance(last.header, BatchHeader):
        return False
    if stop in (StopReason.END, StopReason.ZERO_TAIL):
        return True
    damaged = _header_at(window, end, source.size)
    if damaged is None:
        return True  # fewer bytes than a header to the end: a torn tail
    after = _behind(last.header, expected)
    if damaged.base_offset != after.next_offset or damaged.magic != 2 or damaged.size < BATCH.size:
        return False
    if end + damaged.size >= source.size:
        return True  # the last batch, torn or damaged
    behind = _chain_end(source, end + damaged.size, after)[2]
    return behind is not None


def find_next_batch(source: Source, damaged_at: int, expected: Expected) -> int | None:
    """Position of the first proven batch behind the damaged one; None if there is none.

    The damaged batch's own length is tried first: if it leads to a proven batch, nothing inside the damaged one is even
    looked at.
    """
    window = Window(source, DEFAULT_LIMITS.read_window_bytes)
    own = _header_at(window, damaged_at, source.size)
    if own is not None and own.size >= BATCH.size and damaged_at + own.size < source.size:
        behind = damaged_at + own.size
        if _is_proven(source, window, behind, expected):
            return behind
    effort = _EFFORT * (source.size - damaged_at)
    for position in _candidates(source, damaged_at + 1):
        header = _header_at(window, position, source.size)
        if header is None:
            return None
        if not _is_plausible(header, expected) or position + LOG_OVERHEAD.size + header.batch_length > source.size:
            continue
        effort -= source.size - position
        if effort < 0:
            return None
        if _is_proven(source, window, position, expected):
            return position
    return None
