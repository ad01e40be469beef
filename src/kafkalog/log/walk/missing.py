"""Find offsets that are missing between the segments of a log, which show that a segment, or the end of one, was lost.
A broker begins a segment at the end offset of the previous one (`LocalLog.roll`), and only compaction removes offsets
from the middle of a log (`Cleaner`). Compaction leaves gaps inside segments too; if there is one, a gap between two
segments proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.common.source import Source
from kafkalog.codec.files.index_files import TIME_ENTRY
from kafkalog.codec.headers.one_batch import AnyRun
from kafkalog.codec.native.tables import HeaderColumn, RunFacts

if TYPE_CHECKING:
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["MOST_GAPS", "MissingOffsets", "was_emptied"]

MOST_GAPS = 16
"""Most gaps inside segments that are reported. A log with more was compacted while its topic had that setting."""


def was_emptied(log_size: int, time_index: Source | None) -> bool:
    """Whether a log once had batches although it is empty now: `log_size` is 0, and the first entry of the time index
    is not all zeros. A broker writes such an entry when it rolls a segment that has batches. False without a time
    index, and for a segment that the cleaner emptied: its index is empty too (`LogSegment.onBecomeInactiveSegment`,
    `Cleaner`).
    """
    return log_size == 0 and time_index is not None and any(time_index.read(0, TIME_ENTRY.size))


class MissingOffsets:
    """Collects the ranges of offsets that are missing between segments, in `found`. Call its methods for segments,
    batches and damage in the order of the log. Offsets below `cleaned_until` may have been removed by compaction and
    are not counted as missing.
    """

    def __init__(self, cleaned_until: int = 0) -> None:
        self._cleaned_until = cleaned_until
        self._next_offset = 0
        """offset after the highest so far"""
        self._next_base: int | None = None
        self._has_batches = self._was_emptied = False
        self._is_hurt = False
        """whether no sound batch has followed the last damage yet, which may hide the missing offsets"""
        self._gaps = 0
        """number of gaps inside segments that are not due to damage"""
        self._leapt = self._went_back = False
        """whether the previous batch began above the expected offset, or below it"""
        self._leapt_to = 0
        """first offset of the last batch that began above the expected one"""
        self._is_cleaned = False
        """whether a batch has fewer records than offsets, which only compaction leaves"""
        self._final: int | None = None
        """first offset of the last batch, if no segment has begun after it"""
        self._between: list[tuple[int, int]] = []
        self._inside: list[tuple[int, int]] = []
        """ranges inside segments, also before the first batch"""
        self._bases: set[int] = set()
        """base offsets of segments at which such a range begins"""
        self._base = 0
        """base offset of the current segment"""
        self._beyond: list[tuple[int, int]] = []
        """ranges of batches at or above the base offset of the next segment"""

    @property
    def found(self) -> list[tuple[int, int]]:
        """First and last offset (inclusive) of each range missing between two segments; empty if there are other
        gaps.
        """
        return [] if self.has_gaps else self._absent(self._between)

    @property
    def has_gaps(self) -> bool:
        """Whether offsets are missing inside segments that neither damage nor a wrong offset explains."""
        return self._gaps > 0

    @property
    def found_if_uncleaned(self) -> list[tuple[int, int]]:
        """Missing ranges (first and last offset, inclusive), sorted, for a log that the log cleaner never reached; only
        the cleaner removes batches from a segment. The ranges are those between two segments, whatever other gaps there
        are, and those before the first batch of a segment. If a batch or the number of gaps shows that the cleaner
        reached the log, they are the ranges of `found`. A range before the first batch of a segment is left out if this
        batch is the last one of the log: its offset, which no checksum covers, may be wrong.
        """
        if self.was_cleaned:
            return self.found
        heads = [gap for gap in self._inside if gap[0] in self._bases and gap[1] + 1 != self._final]
        return self._absent({*self._between, *heads})

    @property
    def inside_if_uncleaned(self) -> list[tuple[int, int]]:
        """Missing ranges (first and last offset, inclusive) between two batches of one segment, sorted, for a log that
        the log cleaner never reached. Salvage leaves such gaps; a crash does not. Empty if a batch or the number of
        gaps shows that the cleaner reached the log. A gap before the last batch of the log is left out, because the
        offset of this batch may be wrong.
        """
        inside = [gap for gap in self._inside if gap[0] not in self._bases and gap[1] + 1 != self._final]
        return [] if self.was_cleaned else self._absent(inside)

    @property
    def was_cleaned(self) -> bool:
        """Whether a batch or the number of gaps shows that compaction removed records."""
        return self._is_cleaned or self._gaps > len(self._inside)

    def _absent(self, ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the ranges (first and last offset) without the offsets that batches of an earlier segment have beyond
        its end. Such offsets have a finding of their own. The result is sorted and has no duplicates.
        """
        left = list(ranges)
        for low, high in self._beyond:
            below = [(first, min(last, low - 1)) for first, last in left]
            above = [(max(first, high + 1), last) for first, last in left]
            left = [(first, last) for first, last in (*below, *above) if first <= last]
        return sorted(set(left))

    def segment(self, base: int, next_base: int | None, *, was_emptied: bool = False) -> None:
        """Begin the next segment, with base offset `base`. Note the offsets that are missing between the previous batch
        and `base`; later batches decide whether they become part of `found`. Nothing is noted if the previous segment
        ends in damage with unknown offsets. Nothing is noted before the first batch, unless the previous segment was
        emptied.

        `next_base` is the base offset of the segment after this one, None if there is none. `was_emptied` says that the
        log of this segment is empty but once had batches (see the function `was_emptied`).
        """
        first = max(self._next_offset, self._cleaned_until)
        if (self._has_batches or self._was_emptied) and base > first and not self._is_hurt:
            self._between.append((first, base - 1))
        self._was_emptied = was_emptied
        self._is_hurt = self._leapt = self._went_back = False
        self._final = None
        self._base, self._next_base = base, next_base
        self._next_offset = max(self._next_offset, base)

    def batches(
        self,
        first: int,
        last: int,
        gaps: Iterable[tuple[int, int]] = (),
        *,
        final: int | None = None,
        is_cleaned: bool = False,
    ) -> None:
        """Record one or several consecutive batches with offsets from `first` to `last` (inclusive). `gaps` are the
        offset before and the offset after each gap between these batches. A gap between or before them may mean that
        the log is compacted: `found` is then empty. Gaps below `cleaned_until` and gaps that damage or a wrong offset
        explains do not count. `final` is the first offset of the last of these batches; None: there is only one.
        `is_cleaned` says that a batch has fewer records than offsets.
        """
        leaps = self._has_batches and first > self._next_offset
        goes_back = self._has_batches and first < self._next_offset
        is_beyond = self._next_base is not None and first >= self._next_base
        if self._next_base is not None and last >= self._next_base:
            low = max(first, self._next_base)
            if self._beyond and self._beyond[-1][1] + 1 == low:
                low, _ = self._beyond.pop()
            self._beyond = [*self._beyond[-MOST_GAPS:], (low, last)]
        if first < self._base:
            self._found_below(first, last)
        if goes_back and self._leapt:
            self._gaps -= 1  # not a gap: the previous batch had a wrong offset
            self._inside = [gap for gap in self._inside if gap[1] + 1 != self._leapt_to]
        is_sure = not (is_beyond or self._is_hurt or self._went_back)
        self._leapt = leaps and is_sure and first > self._cleaned_until
        if self._leapt:
            self._leapt_to = first
            self._gap(self._next_offset, first)
        for before, following in gaps:
            self._gap(before + 1, following)
        self._is_cleaned = self._is_cleaned or is_cleaned
        self._final = first if final is None else final
        self._went_back = goes_back or is_beyond
        self._has_batches, self._is_hurt = True, False
        end = last + 1 if self._next_base is None else min(last + 1, self._next_base)
        if first < end:  # else an offset that was damaged: what follows is lower
            self._next_offset = max(self._next_offset, end)

    def _found_below(self, first: int, last: int) -> None:
        """Leave out offsets that were noted as missing before the current segment, because they are in it. Batches of a
        segment with a wrong name have them.
        """
        low, high = self._between[-1] if self._between else (0, -1)
        if high == self._base - 1 and low <= first:
            self._between.pop()
            left = ((low, first - 1), (last + 1, high))
            self._between += [(start, end) for start, end in left if start <= end]

    def run(self, run: AnyRun, limits: Limits = DEFAULT_LIMITS) -> None:
        """Record all batches of a run and the gaps between them; calling `batches` for each batch has the same result.
        `limits` bounds the decompression of a v0 or v1 wrapper, whose first offset is inside it.
        """
        columns = run.columns()
        if columns is None or len(run) == 1:
            for first, last, _ in run.ranges(limits):
                self.batches(first, last, is_cleaned=run.is_cleaned)
        elif columns.fact(RunFacts.NOT_ABOVE) or self._is_odd(columns):
            for number, first in enumerate(columns.row(HeaderColumn.BASE_OFFSET)):
                self.batches(first, columns.last_offset(number), is_cleaned=columns.is_cleaned)
        else:
            first, final = columns.first_offset, columns.final_base
            gaps = [(before, following) for before, following, _position in columns.gaps() if before >= first]
            self.batches(first, columns.final_offset, gaps, final=final, is_cleaned=columns.is_cleaned)
            self._leapt = bool(gaps) and gaps[-1][1] == final > self._cleaned_until
            self._leapt_to = final

    def _is_odd(self, run: BatchRun) -> bool:
        """Whether batches of a run begin below the expected offset or reach the next segment's base offset."""
        ends_beyond = self._next_base is not None and run.final_offset >= self._next_base
        return ends_beyond or run.first_offset < self._next_offset

    def _gap(self, first: int, following: int) -> None:
        """Count a gap inside a segment, from offset `first` to the offset before `following`. The first `MOST_GAPS`
        gaps are kept as ranges, without the offsets that compaction may have removed. The gap does not count if
        compaction may have removed all of it. It does not count either if `following` must be wrong, because it is not
        below the next segment's base offset.
        """
        is_beyond = self._next_base is not None and following >= self._next_base
        if following > self._cleaned_until and not is_beyond:
            self._gaps += 1
            if len(self._inside) < MOST_GAPS:
                self._inside.append((max(first, self._cleaned_until), following - 1))
                if self._inside[-1][0] == self._base:
                    self._bases.add(self._base)

    def damaged(self, last: int | None = None) -> None:
        """Record that bytes of the current segment cannot be read. `last` is the last offset in them, if it is certain;
        missing offsets are then counted from the one after it. If it is None, all offsets that are missing before the
        next valid batch are attributed to the damage.
        """
        self._is_hurt = last is None
        self._leapt = self._went_back = False
        if last is not None:
            self._has_batches = True
            self._next_offset = max(self._next_offset, last + 1)
