"""State of a scan of a segment: position, expected offset, and how to treat the next batch. Every reader of a log has
one. It reads runs through `judged`, or calls `judge` for each batch; at bytes that are not a batch it calls `ended`,
and then `resume`.

The reader itself decodes batches, because decoding checks and decompresses in one pass. The rules about the expected
offset are in `codec.rules.batches.Continuity`: it is one more than the highest offset so far, and at first the
segment's base offset. A scan that begins elsewhere or continues after damage accepts the first batch there with any
offset. A batch with an unexpected offset is judged by reading the header after it; without one, as for the last batch
of a log, the offset is accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING

from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.common.source import Source
from kafkalog.codec.headers.one_batch import AnyRun, OneBatch
from kafkalog.codec.model import NO_PARTITION_LEADER_EPOCH, AnyHeader, Codec, LegacyHeader, RecordBatch
from kafkalog.codec.plain.records import first_offset_of
from kafkalog.codec.plain.scanner import offsets_behind
from kafkalog.codec.rules.batches import BatchVerdict, Continuity, below_segment, highest_offset
from kafkalog.log.walk.ending import EndOfWalk, FinishedWalk, end_of_walk
from kafkalog.log.walk.resync import Expected, Resync

if TYPE_CHECKING:
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["ENDING", "ENDING_CODES", "Cursor", "judged"]

ENDING = frozenset({BatchVerdict.STOP, BatchVerdict.DISPLACED})
"""Verdicts at which a reader stops, unless it continues after damage."""
ENDING_CODES = codes_with(Trait.ENDS_READING)
"""Codes of findings about a batch with a valid checksum at which consumers stop reading."""
_FEW, _MANY = 16, 1 << 16
"""Batches that are judged at once after one with a finding, and at most."""
_SINGLY = 256
"""Most batches that are yielded one by one before several are judged again."""


class Cursor:
    """State of one scan of an open log, from `position` on. `expected` is the offset that should come there, None if
    unknown; at position 0 it is the segment's. `next_base` is the base offset of the next segment, None if this is the
    last.
    """

    def __init__(
        self,
        source: Source,
        base_offset: int,
        next_base: int | None = None,
        *,
        position: int = 0,
        expected: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._source = source
        self._next_base = next_base
        self._limits = limits
        self._resync = Resync(source, limits)
        self.position = position
        self.continuity = Continuity(base_offset, next_segment=next_base, begins=position == 0, expected=expected)
        self.highest = highest_offset(base_offset, next_base)
        """highest offset that a batch may have if it does not continue the one before it"""
        self._reached = base_offset if expected is None else expected
        self.found: list[Finding] = []
        """findings about the last batch that was judged"""

    @property
    def expected(self) -> int | None:
        """Offset that should come next; None if any is accepted."""
        return self.continuity.expected

    @property
    def is_at_base(self) -> bool:
        """Whether no batch so far has reached the base offset of the segment, and none is missing."""
        return self.expected == self.continuity.base_offset

    @property
    def next_offset(self) -> int:
        """Offset after the highest one so far, also before damage; the segment's base offset if there was none."""
        return self._reached if self.expected is None else max(self.expected, self._reached)

    def judge(self, batch: RecordBatch) -> BatchVerdict:
        """Return the verdict about the next batch and advance; set `found` to its findings. After a batch with the
        verdict STOP, any offset is accepted, as after other damage: its own offsets prove nothing. Raises
        `StorageError` if the log cannot be read.
        """
        continuity, reached, is_at_base = self.continuity, self.next_offset, self.is_at_base
        self.found = continuity.check(batch, *self.behind(batch.header, batch.position + batch.size))
        if is_at_base and isinstance(batch.header, LegacyHeader):
            self._check_first_offset(batch)
        if continuity.verdict is BatchVerdict.STOP:
            self._reached = reached
            continuity.goes_on()
        return continuity.verdict

    def _check_first_offset(self, batch: RecordBatch) -> None:
        """Append a finding to `found` if a wrapper begins below the segment's base offset and ends at or above it. The
        wrapper is decompressed for that, because its header has only its last offset.
        """
        base = self.continuity.base_offset
        if base is None or batch.header.codec == Codec.NONE or batch.last_offset < base:
            return
        first = first_offset_of(batch, self._limits)
        if first < base:
            code, detail = below_segment(first, base)
            self.found.append(Finding.of(code, batch.position, first, detail))

    def behind(self, header: AnyHeader, end: int) -> tuple[int | None, int | None]:
        """Return the base offsets of the two headers after the next batch. An offset is None if it is not needed to
        judge the batch, or cannot be read. Raises `StorageError` if the log cannot be read.
        """
        return offsets_behind(self._source, header, end, self.continuity)

    @property
    def why(self) -> Finding:
        """Finding for which the last judged batch is not read. Raises StopIteration if there is none."""
        return next(finding for finding in self.found if finding.code in ENDING_CODES)

    def one(self, batch: RecordBatch) -> OneBatch:
        """Judge the next batch as `judge` does, and return it as a run with its findings."""
        expected, reached = self.expected, self.next_offset
        verdict = self.judge(batch)
        return OneBatch(batch, verdict, self.found, expected, reached)

    def judged(
        self, scanned: Iterable[BatchRun | RecordBatch], *, gaps: bool
    ) -> Generator[AnyRun, None, None]:
        """Yield the batches of a scanner in order, as runs with their findings: see the function `judged`."""
        return judged(scanned, self.continuity, self.one, gaps=gaps)

    def took(self, next_offset: int, leader_epoch: int = NO_PARTITION_LEADER_EPOCH) -> None:
        """Record that batches up to `next_offset` (exclusive) are certainly in order. `leader_epoch` is the last one's;
        -1 if it has none.
        """
        self.continuity.took(next_offset - 1)
        self.continuity.leader_epoch = max(self.continuity.leader_epoch, leader_epoch)

    def ended(self, walk: FinishedWalk, *, through_damage: bool, end: int | None = None) -> EndOfWalk:
        """Return how the log ends at bytes that are not a batch, and where it continues before byte position `end`
        (None: the end of the file). Raises `StorageError` if the log cannot be read.
        """
        return end_of_walk(walk, self._resync, self._behind, through_damage=through_damage, end=end)

    def search(self, position: int, next_offset: int) -> int | None:
        """Return the position after `position` at which the log continues from an offset; None if it does not in this
        segment.
        """
        return self._resync.next_batch(position, Expected.in_segment(next_offset, self._next_base))

    @property
    def _behind(self) -> Expected:
        """Offsets that a batch after damage must continue."""
        highest = self.next_offset if self._next_base is None else min(self.next_offset, self._next_base)
        return Expected.in_segment(highest, self._next_base)

    def resume(self, position: int) -> None:
        """Continue at a position after damage."""
        self._reached = self.next_offset
        self.position = position
        self.continuity.goes_on()


def judged(
    scanned: Iterable[BatchRun | RecordBatch],
    continuity: Continuity,
    judge: Callable[[RecordBatch], OneBatch],
    *,
    gaps: bool,
) -> Generator[AnyRun, None, None]:
    """Yield the batches that a scanner finds as runs, in order. Consecutive batches without findings are yielded
    together as one run. Every other batch is passed to `judge`, which returns the run of one batch to yield. After such
    a batch, up to 256 batches are judged one by one, because more of them are likely to need it.

    Advances `continuity` over the runs; `judge` must advance it over its batch. With `gaps`, missing offsets inside a
    run or before it are accepted.
    """
    for found in scanned:
        if isinstance(found, RecordBatch):
            yield judge(found)
        else:
            yield from _judged_run(found, continuity, judge, gaps=gaps)


def _judged_run(
    run: BatchRun, continuity: Continuity, judge: Callable[[RecordBatch], OneBatch], *, gaps: bool
) -> Iterator[AnyRun]:
    from kafkalog.codec.headers.continuity import sound_prefix
    from kafkalog.codec.native.tables import HeaderColumn

    number, size, singly = 0, _MANY, 1
    while number < len(run):
        part = run.part(number, min(number + size, len(run)))
        before = continuity.last_offset
        count = sound_prefix(continuity, part, gaps=gaps)
        if count:
            sound = part.part(0, count)
            sound.last_before = before
            yield sound
        number += count
        if count == len(part):
            size, singly = _MANY, 1
            continue
        singly = 1 if count >= _FEW // 2 else min(2 * singly, _SINGLY)
        for number in range(number, min(number + singly, len(run))):  # noqa: B020 - goes on from where it was
            continuity.behind = (
                run.value(HeaderColumn.BASE_OFFSET, number + 1) if number + 1 < len(run) else None
            )
            yield judge(run.batch(number))
        number, size = number + 1, _FEW
