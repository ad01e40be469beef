"""Compare the contents of two copies of a log batch by batch, in one walk over both.

Only the first difference of each kind and totals are kept. Each broker compacts its log by itself. So batches that only
one copy has, or that have other records in it, are not a difference below the offset up to which either copy was
compacted.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.plain.insides import Insides
from kafkalog.copies.copy_cursor import BatchPlace, Cursor
from kafkalog.copies.stretches import Stretch

__all__ = ["CopyDifference", "compare_contents"]


class CopyDifference(Struct, kw_only=True):
    """Difference of one copy ("here") from another ("there"), from the higher log start offset on."""

    other_bytes: tuple[BatchPlace, BatchPlace] | None = None
    """first two batches, here and there, that share offsets and are not equal; None if there are none"""
    other_batches: int = 0
    """number of batches here that differ from those there"""
    unreadable_batches: int = 0
    """number of these that cannot be read here"""
    unreadable_there_batches: int = 0
    """number of these that cannot be read there"""
    only_epoch_differs: bool = False
    """whether all of these differ only in the leader epoch, which no checksum covers"""
    lacks: BatchPlace | None = None
    """first batch that is there and not here; None if there is none"""
    lacks_records: int = 0
    lacks_for_damage: bool = False
    """whether this copy is damaged at that place"""
    has_alone: BatchPlace | None = None
    """first batch that is here and not there; None if there is none"""
    has_alone_records: int = 0
    has_alone_for_damage: bool = False
    """whether the other copy is damaged at that place"""
    cleaned: int = 0
    """number of batches that compaction treated differently here and there"""

    @property
    def other_bytes_here(self) -> BatchPlace | None:
        """The first batch here whose offsets have other bytes there; None if there is none."""
        return None if self.other_bytes is None else self.other_bytes[0]

    @property
    def other_bytes_there(self) -> BatchPlace | None:
        """The first batch there whose offsets have other bytes here; None if there is none."""
        return None if self.other_bytes is None else self.other_bytes[1]

    @property
    def is_none(self) -> bool:
        """Whether nothing differs except by compaction."""
        return self.other_bytes is None and self.lacks is None and self.has_alone is None


class _Side(Cursor):
    """Position in one copy, and the records of the next batches."""

    def __init__(self, stretches: Iterable[Stretch], start: int, limits: Limits) -> None:
        super().__init__(stretches, start)
        self._limits = limits

    def records_of_one(self) -> int:
        """Number of records in the next batch."""
        return self.here.records(self.number, self.number + 1, self._limits)

    def is_unreadable(self) -> bool:
        """Whether the records of the next batch cannot be read; decompresses it."""
        return self.here.insides(self.number, self._limits) is Insides.UNREADABLE

    def rest(self) -> int:
        """Return the number of records, without control records, from the next batch to the end of the copy. Moves the
        cursor to the end. Raises `StorageError` if the copy cannot be read.
        """
        records = 0
        while self.stretch is not None:
            records += self.stretch.records(self.number, len(self.stretch), self._limits)
            self.next_stretch()
        return records


class _Comparison:
    """Comparison of two copies in progress, "here" and "there"; `found` has the differences so far."""

    def __init__(self, here: _Side, there: _Side, cleaned_until: int, ends_in_damage: tuple[bool, bool]) -> None:
        self._here = here
        self._there = there
        self._cleaned_until = cleaned_until
        self._here_is_torn, self._there_is_torn = ends_in_damage
        self.found = CopyDifference()

    def run(self) -> CopyDifference:
        here, there = self._here, self._there
        while here.stretch is not None and there.stretch is not None:
            count = here.stretch.same(here.number, there.stretch, there.number)
            if count:
                here.advance(count)
                there.advance(count)
            else:
                self._part()
        if there.stretch is not None:
            place = there.place()
            self._lacks(place, there.rest(), self._here_is_torn)
        if here.stretch is not None:
            place = here.place()
            self._has_alone(place, here.rest(), self._there_is_torn)
        return self.found

    def _part(self) -> None:
        """Compare the next batches of both copies, which are not equal. Record in `found` that one copy lacks the
        batch, or that the copies differ at the same offsets. Below `cleaned_until` the difference counts as made by
        compaction. Then advance the copy whose batch ends first, or both if they end together. Raises `StorageError` if
        a copy cannot be read.
        """
        here, there = self._here, self._there
        if here.stretch is None or there.stretch is None:
            raise AssertionError
        mine, its = here.stretch.row(here.number), there.stretch.row(there.number)
        if max(mine.last, its.last) < self._cleaned_until:
            self.found.cleaned += 1
            # the smaller one is passed, or both where they end together
            if mine.last <= its.last:
                here.advance(1)
            if its.last <= mine.last:
                there.advance(1)
        elif its.last < mine.first:
            if its.last >= self._cleaned_until:
                self._lacks(there.place(), there.records_of_one(), here.is_behind_damage())
            else:
                self.found.cleaned += 1
            there.advance(1)
        elif mine.last < its.first:
            if mine.last >= self._cleaned_until:
                self._has_alone(here.place(), here.records_of_one(), there.is_behind_damage())
            else:
                self.found.cleaned += 1
            here.advance(1)
        else:
            self._other(replace(mine, epoch=0) == replace(its, epoch=0))
            if mine.last <= its.last:
                here.advance(1)
            if its.last <= mine.last:
                there.advance(1)

    def _other(self, only_epoch: bool) -> None:
        copy_difference = self.found
        if copy_difference.other_bytes is None:
            copy_difference.other_bytes = self._here.place(), self._there.place()
            copy_difference.only_epoch_differs = only_epoch
        copy_difference.only_epoch_differs = copy_difference.only_epoch_differs and only_epoch
        copy_difference.other_batches += 1
        if not only_epoch:  # else the records are the same
            copy_difference.unreadable_batches += self._here.is_unreadable()
            copy_difference.unreadable_there_batches += self._there.is_unreadable()

    def _lacks(self, place: BatchPlace, records: int, for_damage: bool) -> None:
        if self.found.lacks is None:
            self.found.lacks, self.found.lacks_for_damage = place, for_damage
        self.found.lacks_records += records

    def _has_alone(self, place: BatchPlace, records: int, for_damage: bool) -> None:
        if self.found.has_alone is None:
            self.found.has_alone, self.found.has_alone_for_damage = place, for_damage
        self.found.has_alone_records += records


def compare_contents(
    here: Iterable[Stretch],
    there: Iterable[Stretch],
    *,
    start: int,
    cleaned_until: int = 0,
    ends_in_damage: tuple[bool, bool] = (False, False),
    limits: Limits = DEFAULT_LIMITS,
) -> CopyDifference:
    """Compare two copies, `here` and `there`, from offset `start` on; return the difference. Below `cleaned_until`
    compaction may have removed records from either. `ends_in_damage` says for here and for there whether the copy ends
    in damage: batches missing at its end were lost. Reads both to their ends; raises `StorageError` if that fails.
    """
    return _Comparison(_Side(here, start, limits), _Side(there, start, limits), cleaned_until, ends_in_damage).run()
