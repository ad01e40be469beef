"""Offsets that are missing between the segments of a log: a segment is gone, or the end of one.

A broker begins a segment where the one before it ends (`LocalLog.roll`), and only compaction ever takes offsets out of
the middle of a log (`Cleaner`).  Compaction leaves gaps inside of segments too, so where there is one, a gap between
two segments proves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog.codec.errors import FormatError
from kafkalog.codec.index_files import TIME_ENTRY
from kafkalog.codec.legacy import first_offset
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import BatchHeader, RecordBatch
from kafkalog.codec.plain import PLAIN
from kafkalog.codec.source import Source

if TYPE_CHECKING:
    from kafkalog.codec.headers.runs import BatchRun
    from kafkalog.codec.headers.table import HeaderRun

__all__ = ["MissingOffsets", "first_offset_of", "was_emptied"]


def first_offset_of(batch: RecordBatch, limits: Limits = DEFAULT_LIMITS) -> int:
    """The offset of the first record, which old wrappers do not say in their header; the last one if it is hidden."""
    header = batch.header
    if isinstance(header, BatchHeader):
        return header.base_offset
    try:
        return first_offset(batch, limits, PLAIN)
    except FormatError:
        return header.last_offset


def was_emptied(log_size: int, time_index: Source | None) -> bool:
    """Whether a log without a byte held batches once: whoever rolls a segment that does writes a time index entry.

    What the cleaner leaves empty has an empty index too (`LogSegment.onBecomeInactiveSegment`, `Cleaner`).
    """
    return log_size == 0 and time_index is not None and any(time_index.read(0, TIME_ENTRY.size))


class MissingOffsets:
    """Told of segments and their sound batches in the order of the log."""

    def __init__(self) -> None:
        self._next_offset = 0
        """after the offsets so far"""
        self._next_base: int | None = None
        self._has_batches = self._was_emptied = False
        self._is_hurt = False
        """nothing sound follows the last damage yet, which may hide what is missing"""
        self._gaps = 0
        """inside of segments, and not because of damage"""
        self._leapt = self._went_back = False
        """the batch before begins above the offset that was its turn, or below"""
        self._between: list[tuple[int, int]] = []

    @property
    def found(self) -> list[tuple[int, int]]:
        """First and last offset of what is missing between two segments; nothing where there are other gaps."""
        return [] if self._gaps else list(self._between)

    def segment(self, base: int, next_base: int | None, *, was_emptied: bool = False) -> None:
        """A segment begins, after which another one begins at `next_base`; `was_emptied`: see there."""
        if (self._has_batches or self._was_emptied) and base > self._next_offset and not self._is_hurt:
            self._between.append((self._next_offset, base - 1))
        self._was_emptied = was_emptied
        self._is_hurt = self._leapt = self._went_back = False
        self._next_base = next_base
        self._next_offset = max(self._next_offset, base)

    def batches(self, first: int, last: int, *, has_gaps: bool = False) -> None:
        """One batch, or several with or without offsets missing between them."""
        leaps = self._has_batches and first > self._next_offset
        goes_back = self._has_batches and first < self._next_offset
        if goes_back and self._leapt:
            self._gaps -= 1  # no gap, but one batch whose offset is wrong
        self._leapt = leaps and not self._is_hurt and not self._went_back
        self._gaps += self._leapt + has_gaps
        self._went_back = goes_back
        self._has_batches, self._is_hurt = True, False
        end = last + 1 if self._next_base is None else min(last + 1, self._next_base)
        if first < end:  # else an offset that was damaged: what follows is lower
            self._next_offset = max(self._next_offset, end)

    def run(self, run: HeaderRun | BatchRun) -> None:
        """Many v2 batches."""
        first, last = run["base_offset"], run.last_offsets
        steps = first[1:] - last[:-1]
        if (steps < 1).any():  # one of them has a wrong offset
            for pair in zip(first.tolist(), last.tolist(), strict=True):
                self.batches(*pair)
        else:
            self.batches(int(first[0]), int(last[-1]), has_gaps=bool((steps > 1).any()))

    def damaged(self, last: int | None = None) -> None:
        """Bytes of this segment cannot be read; `last` is the last offset in them, where that is certain.

        Where it is not, what is missing from here to the next sound batch may have been in them.
        """
        self._is_hurt = last is None
        self._leapt = self._went_back = False
        if last is not None:
            self._has_batches = True
            self._next_offset = max(self._next_offset, last + 1)
