"""Where a walk over a segment is, what should come there, and what is to be done with what does.

Everything that reads a log holds one: it asks `judge` about each batch, or takes `parts` of a run without findings,
and where bytes are no batch it asks `ended` how the log ends there, and `resume`s behind.  What it does with a batch,
and when it decodes it, is its own affair: decoding checks and unpacks in one pass.

What is expected is one recipe, `codec.rules.Continuity`: the offset after the highest so far, at first the segment's.
A walk that begins elsewhere, and one that goes on behind damage, takes the first batch there as it is.  A batch that
begins with another offset is judged with the header behind it, which is read for that; the last one of a log has none,
so what it says is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kafkalog.codec.finding_codes import Trait, codes_with
from kafkalog.codec.findings import Finding
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import AnyHeader, RecordBatch
from kafkalog.codec.rules import Continuity, Verdict, highest_offset
from kafkalog.codec.scanner import offsets_behind
from kafkalog.codec.source import Source
from kafkalog.log.walk.ending import EndOfWalk, FinishedWalk, end_of_walk
from kafkalog.log.walk.resync import Expected, Resync

if TYPE_CHECKING:
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["ENDING", "ENDING_CODES", "Cursor", "sound_parts"]

ENDING = frozenset({Verdict.STOP, Verdict.DISPLACED})
"""What a reader does not read past unless it goes on after damage."""
ENDING_CODES = codes_with(Trait.ENDS_READING)
"""What a batch with a valid checksum can have wrong that no consumer reads past."""
_FEW, _MANY = 16, 1 << 16
"""Batches that are judged at a time after one with a finding, and at most."""
_SINGLY = 256
"""Batches that are given one by one, at most, before several are judged again."""


class Cursor:
    """One walk over the opened log of a segment, from `position` on.

    `expected` is the offset that should come there, None where nobody knows; at the first byte it is the segment's.
    `next_base` is the base offset of the segment after it, None if it is the last.
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
        self._resync = Resync(source, limits)
        self.position = position
        self.continuity = Continuity(base_offset, next_segment=next_base, begins=position == 0, expected=expected)
        self.highest = highest_offset(base_offset, next_base)
        """the last offset that may come without following on the one before it"""
        self._reached = base_offset if expected is None else expected
        self.found: list[Finding] = []
        """what is wrong with the batch that was judged last"""

    @property
    def expected(self) -> int | None:
        """The offset that should come next; None if nobody knows."""
        return self.continuity.expected

    @property
    def next_offset(self) -> int:
        """The offset after all there was, before damage too, or that of the segment."""
        return self._reached if self.expected is None else max(self.expected, self._reached)

    def judge(self, batch: RecordBatch) -> Verdict:
        """What to do with the next batch; `found` is what is wrong with it."""
        continuity = self.continuity
        self.found = continuity.check(batch, *self.behind(batch.header, batch.position + batch.size))
        return continuity.verdict

    def behind(self, header: AnyHeader, end: int) -> tuple[int | None, int | None]:
        """What the two headers behind the next batch begin with, as far as it takes them to judge it."""
        return offsets_behind(self._source, header, end, self.continuity)

    @property
    def why(self) -> Finding:
        """The finding for which the batch that was judged last is not read."""
        return next(each for each in self.found if each.code in ENDING_CODES)

    def parts(self, found: BatchRun | RecordBatch, *, gaps: bool) -> Iterable[BatchRun | RecordBatch]:
        """The parts of a run without findings, and the batches between them, which are still to be judged."""
        return (found,) if isinstance(found, RecordBatch) else sound_parts(found, self.continuity, gaps=gaps)

    def took(self, next_offset: int) -> None:
        """Batches up to an offset were there, beyond doubt in order."""
        self.continuity.took(next_offset - 1)

    def ended(self, walk: FinishedWalk, *, through_damage: bool, end: int | None = None) -> EndOfWalk:
        """How the log ends where a scanner came to bytes that are no batch, and where, before `end`, it goes on."""
        return end_of_walk(walk, self._resync, self._behind, through_damage=through_damage, end=end)

    def search(self, position: int, next_offset: int) -> int | None:
        """Where the log goes on, from an offset on, behind damage at a position; None: nowhere in this segment."""
        return self._resync.next_batch(position, Expected.in_segment(next_offset, self._next_base))

    @property
    def _behind(self) -> Expected:
        """What a batch behind damage must continue."""
        highest = self.next_offset if self._next_base is None else min(self.next_offset, self._next_base)
        return Expected.in_segment(highest, self._next_base)

    def resume(self, position: int) -> None:
        """Go on behind damage."""
        self._reached = self.next_offset
        self.position = position
        self.continuity.goes_on()


def sound_parts(run: BatchRun, continuity: Continuity, *, gaps: bool) -> Iterator[BatchRun | RecordBatch]:
    """The run in pieces without findings; what is between them is still to be checked.

    With `gaps` offsets may be missing inside of a piece, or before it.  Where one batch after the other has findings,
    batches are given one by one for a while.
    """
    from kafkalog.codec.headers.continuity import sound_prefix
    from kafkalog.codec.native.tables import HeaderColumn

    number, size, singly = 0, _MANY, 1
    while number < len(run):
        part = run.part(number, min(number + size, len(run)))
        count = sound_prefix(continuity, part, gaps=gaps)
        if count:
            yield part.part(0, count)
        number += count
        if count == len(part):
            size, singly = _MANY, 1
            continue
        singly = 1 if count >= _FEW // 2 else min(2 * singly, _SINGLY)
        for number in range(number, min(number + singly, len(run))):  # noqa: B020 - goes on from where it was
            continuity.behind = (
                run.value(HeaderColumn.BASE_OFFSET, number + 1) if number + 1 < len(run) else None
            )
            yield run.batch(number)
        number, size = number + 1, _FEW
