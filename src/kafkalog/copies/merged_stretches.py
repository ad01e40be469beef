"""Choose the batches of a merged log from several copies of a partition, by leader epochs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.copies.copy_cursor import BatchPlace, Cursor
from kafkalog.copies.stretches import Row, Stretch

__all__ = ["Lineages", "MergedStretches", "Taken", "Tally"]


class Taken:
    """Consecutive batches of one stretch that belong to the merged log: numbers `start` to `end` (exclusive) in
    `stretch`; `copy` is the number of the contributing copy.
    """

    def __init__(self, copy: int, stretch: Stretch, start: int, end: int) -> None:
        self.copy = copy
        self.stretch = stretch
        self.start = start
        self.end = end


class Tally(Struct, kw_only=True):
    """Contribution of one copy to the merged log, and the records that it lacks."""

    batches: int = 0
    """batches included from it"""
    records: int = 0
    """records in these batches from the log start on"""
    lacks_records: int = 0
    """records of the merged log that it does not have"""
    lacks: int | None = None
    """first offset that it lacks; None if it lacks nothing"""
    dropped_batches: int = 0
    """batches that do not fit the leader epochs of the merged log"""
    dropped_records: int = 0
    dropped: BatchPlace | None = None
    """place of the first replaced batch"""
    passed_batches: int = 0
    """batches whose offsets another copy contributed with other bytes"""
    passed: BatchPlace | None = None
    """place of the first such batch"""
    cleaned_batches: int = 0
    """batches that compaction removed from the best copy or treated otherwise there"""


class Lineages(Struct, frozen=True):
    """Leader epochs of the merged log: those of the leader, which is the copy that reaches furthest.

    A batch of another copy belongs to the merged log only if the leader's lineage has its epoch at its offsets: the
    copy would keep it if it followed the leader. If damage removed batches from the leader's log and it has no epoch
    checkpoint, the epochs in between are from the other copies.
    """

    leader: int
    """number of the leader's copy"""
    trusted: frozenset[int]
    """epochs that some copy's lineage has; any other is damage, as the checksum does not cover the epoch"""
    entries: tuple[LeaderEpoch, ...]
    """strictly increasing in both epoch and offset"""

    def epoch_of(self, row: Row) -> int:
        """Leader epoch of a batch; -1 if no lineage has it."""
        return row.epoch if row.epoch in self.trusted else -1

    def bounds_of(self, epoch: int) -> tuple[int, int | None]:
        """Return the offset at which an epoch begins in the lineage, and the offset at which the next epoch begins
        (None for the last epoch). If the lineage does not have the epoch, both are the start of the next higher epoch,
        or 0 if there is none.
        """
        number = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        end = self.entries[number].start_offset if number < len(self.entries) else None
        entry = self.entries[number - 1] if number else None
        if entry is None or entry.epoch != epoch:
            return (end or 0), end or 0
        return entry.start_offset, end

    def replaced(self, copy: int, row: Row) -> bool:
        """Whether the batch `row` of copy number `copy` does not belong to the lineage, because another leader wrote
        its offsets. False for the leader's own batches, and if the batch's epoch or the lineage is unknown.
        """
        epoch = self.epoch_of(row)
        if copy == self.leader or epoch < 0 or not self.entries:
            return False
        start, end = self.bounds_of(epoch)
        return row.first < start or (end is not None and end <= row.last)


class _Cursor(Cursor):
    """Cursor on the next batch of one copy."""

    def __init__(self, copy: int, stretches: Iterable[Stretch], start: int) -> None:
        super().__init__(stretches, start)
        self.copy = copy


class MergedStretches:
    """Iterator over the parts of the merged log, in order of offsets. Each is a `Taken`: consecutive batches of one
    copy. `tallies` has the contribution of each copy.

    `start` is the log start offset: batches that end below it are skipped. `best` is the number of the copy that
    contributes batches that several copies have. Batches that compaction removed from that copy are not restored,
    unless it is damaged there: otherwise a deleted value would come back. `cleaned` are the offsets up to which each
    copy was compacted, `begin` their log start offsets.
    """

    def __init__(
        self,
        copies: Sequence[Iterable[Stretch]],
        lineages: Lineages,
        *,
        start: int,
        best: int,
        cleaned: Sequence[int],
        begin: Sequence[int],
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._start = start
        self._cursors = [_Cursor(number, copy, start) for number, copy in enumerate(copies)]
        self._lineages = lineages
        self._best = self._cursors[best]
        self._best_begin = begin[best]
        self._cleaned = cleaned
        self._cleaned_until = cleaned[best]
        self._limits = limits
        self._current = 0
        self._has_begun = False
        self.end_offset = start
        """offset after the last batch so far"""
        self.tallies = [Tally() for _ in copies]
        self.gaps: list[tuple[int, int]] = []
        """first and last offset of the first ranges that no copy has, at most `_MOST_GAPS`, without what compaction
        removed
        """
        self.gap_count = 0
        self.offsets_missing = 0

    def __iter__(self) -> Iterator[Taken]:
        while cursors := [cursor for cursor in self._cursors if cursor.stretch is not None]:
            lead = min(cursors, key=self._order)
            row = lead.row()
            if self._lineages.replaced(lead.copy, row):
                self._drop(lead)
            elif row.first < self.end_offset and self._has_begun:  # the log start may lie inside the first batch
                self._pass(lead)
            elif row.last < self._cleaned_until and lead is not self._best and not self._is_hole(row):
                self._leave_cleaned(lead)
            else:
                lead = self._readable(lead, cursors)
                yield self._take(lead, lead.row(), [cursor for cursor in cursors if cursor is not lead])

    def _readable(self, lead: _Cursor, cursors: Sequence[_Cursor]) -> _Cursor:
        """Return the cursor of the copy whose next batch is included. This is `lead`, unless other copies have
        different bytes at this offset in the same leader epoch. The batches are then decompressed, and a copy whose
        records can be decoded is preferred: a valid checksum does not guarantee this. Among equal copies, `lead` comes
        first.
        """
        row = lead.row()
        epoch = self._lineages.epoch_of(row)
        rivals = [
            cursor for cursor in cursors
            if cursor.row().first == row.first and self._lineages.epoch_of(cursor.row()) == epoch
            and not self._lineages.replaced(cursor.copy, cursor.row())
            and not lead.here.same(lead.number, cursor.here, cursor.number)
        ]  # fmt: skip
        if not rivals:
            return lead
        return min([lead, *sorted(rivals, key=self._order)], key=self._insides)

    def _insides(self, cursor: _Cursor) -> int:
        return cursor.here.insides(cursor.number, self._limits).rank

    def _order(self, cursor: _Cursor) -> tuple[int, int, bool, bool, int]:
        """Sort key: lower offsets first, then higher epochs, the best copy, and the copy that contributed the batch
        before.
        """
        row = cursor.row()
        epoch = self._lineages.epoch_of(row)
        return row.first, -epoch, cursor is not self._best, cursor.copy != self._current, cursor.copy

    def _is_hole(self, row: Row) -> bool:
        """Whether the best copy may lack the batch `row` for another reason than compaction: it has ended, its next
        batch comes after damage, or the batch is before its log begins.
        """
        best = self._best
        return best.stretch is None or best.is_behind_damage() or row.first < self._best_begin

    def _leave_cleaned(self, lead: _Cursor) -> None:
        """Skip the next batches of a copy that compaction removed from the best copy, at least one, and count them as
        cleaned in the copy's tally.
        """
        end = min(self._cleaned_until, self._best.row().first)
        count = min(max(lead.here.ending_below(end) - lead.number, 1), self._belonging(lead))
        self.tallies[lead.copy].cleaned_batches += count
        lead.advance(count)

    def _drop(self, lead: _Cursor) -> None:
        """Skip the next batches of a copy because the lineage has other batches at their offsets. Count them as dropped
        in the copy's tally. All following batches of this leader epoch in the stretch are skipped. If the lineage
        begins the epoch at a higher offset, only the batches below this offset are skipped. At least one batch is
        skipped. Raises `StorageError` if the copy can no longer be read.
        """
        count = lead.here.of_one_epoch(lead.number)
        row = lead.row()
        start, end = self._lineages.bounds_of(self._lineages.epoch_of(row))
        if row.first < start and start != end:
            count = max(min(count, lead.here.ending_below(start) - lead.number), 1)
        tally = self.tallies[lead.copy]
        tally.dropped = tally.dropped or lead.place()
        tally.dropped_batches += count
        tally.dropped_records += lead.here.records(lead.number, lead.number + count, self._limits)
        lead.advance(count)

    def _pass(self, lead: _Cursor) -> None:
        """Skip the next batch of a copy, and batches after it that end below `end_offset`, because another copy
        contributed these offsets. They count as cleaned in the copy's tally if compaction may have changed them,
        otherwise as passed. The skipped batches have one leader epoch and count in one way; the first other one is left
        for the next call.
        Raises `StorageError` if the copy can no longer be read.
        """
        count = min(max(lead.here.ending_below(self.end_offset) - lead.number, 1), self._belonging(lead))
        tally = self.tallies[lead.copy]
        cleaned = lead.here.ending_below(max(self._cleaned_until, self._cleaned[lead.copy])) - lead.number
        if cleaned > 0:
            count = min(count, cleaned)
            tally.cleaned_batches += count
        else:
            tally.passed = tally.passed or lead.place()
            tally.passed_batches += count
        lead.advance(count)

    def _belonging(self, lead: _Cursor) -> int:
        """Return how many of the next batches of a copy have the leader epoch of the first one and belong to the
        lineage. The result is at least 1: the first one must belong to it.
        """
        count, epoch = lead.here.of_one_epoch(lead.number), self._lineages.epoch_of(lead.row())
        limit = None if epoch < 0 or lead.copy == self._lineages.leader else self._lineages.bounds_of(epoch)[1]
        if limit is None or not self._lineages.entries:
            return count
        return min(count, max(lead.here.ending_below(limit) - lead.number, 1))

    def _take(self, lead: _Cursor, row: Row, others: Sequence[_Cursor]) -> Taken:
        stretch, start = lead.here, lead.number
        count = self._belonging(lead)
        if lead is not self._best and row.first < self._best_begin:  # what comes after it, compaction may have removed
            before = stretch.ending_below(self._best_begin)
            count = min(count, max(before - start, 1))
        agreeing, parted = [], []
        for other in others:
            same = stretch.same(start, other.here, other.number)
            if same:
                agreeing.append(other)
                count = min(count, same)
            else:
                parted.append(other)
                count = min(count, max(stretch.ending_below(other.row().first) - start, 1))
        is_hole = self._is_hole(row)
        if row.first > self.end_offset:
            self._gap(self.end_offset, row.first - 1, is_hole)
        for first, last in stretch.gaps(start, start + count):
            self._gap(first, last, is_hole and lead is not self._best)
        records = self._records(stretch, start, start + count)
        agreeing_copies = {lead.copy, *(other.copy for other in agreeing)}
        last = stretch.row(start + count - 1).last
        for copy, tally in enumerate(self.tallies):
            if copy not in agreeing_copies and last >= self._cleaned[copy]:
                # compaction may have removed those before
                first = max(stretch.ending_below(self._cleaned[copy]), start)
                tally.lacks = stretch.row(first).first if tally.lacks is None else tally.lacks
                tally.lacks_records += records if first == start else self._records(stretch, first, start + count)
        self.tallies[lead.copy].batches += count
        self.tallies[lead.copy].records += records
        self._current, self._has_begun = lead.copy, True
        self.end_offset = last + 1
        for cursor in (lead, *agreeing):
            cursor.advance(count)
        return Taken(lead.copy, stretch, start, start + count)

    def _records(self, stretch: Stretch, start: int, end: int) -> int:
        """Return the number of records in batches `start` to `end` (exclusive), without those below the log start
        offset, which no consumer is given.
        """
        records = stretch.records(start, end, self._limits)
        if stretch.row(start).first < self._start:
            records -= stretch.records_below(self._start, self._limits) - stretch.records(0, start, self._limits)
        return records

    def _gap(self, first: int, last: int, is_hole: bool) -> None:
        if last < self._cleaned_until and not is_hole:
            return
        self.gap_count += 1
        self.offsets_missing += last - first + 1
        if len(self.gaps) < _MOST_GAPS:
            self.gaps.append((first, last))


_MOST_GAPS = 1000
"""Most gaps that are listed; all are counted."""
