"""Iterate over the entries of an index as long as they increase: one by one, or thousands at a time as columns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.files.index_files import Bytes
from kafkalog.codec.headers.index_columns import columns_of_entries, increasing, joined

__all__ = ["Entries", "Entry", "Order", "Passed"]


class Order(NamedTuple):
    """The required order of the entries of one kind of index: the first field strictly increases; `may_repeat` says
    whether the second field may stay equal.
    """

    before: tuple[int, int]
    """values that the first entry must exceed"""
    may_repeat: bool
    """whether the second field may stay equal"""
    never: tuple[int, int] | None = None
    """values of an entry that never counts, wherever it is; None if there are none"""


class Entry(NamedTuple):
    """An entry, and the number of its slot."""

    slot: int
    first: int
    second: int


class Passed(NamedTuple):
    """Consecutive entries behind which a cursor has moved, as one column for each field, and the slot number of the
    first.
    """

    slot: int
    firsts: Sequence[int]
    seconds: Sequence[int]


class Entries:
    """Cursor over the entries of an index. `pieces` yields the index's bytes, as `bytes_by_piece` does, and `layout`
    declares the two fields of an entry. To pass an entry means to move the cursor behind it. The cursor ends at the
    first entry that does not increase: `at_end` is called with its slot number after all entries before it were passed,
    and later entries are ignored. Methods raise `StorageError` if the index cannot be read.
    """

    def __init__(
        self, pieces: Iterator[tuple[int, Bytes]], layout: FixedLayout, order: Order, at_end: Callable[[int], None]
    ) -> None:
        self._pieces = pieces
        self._layout = layout
        self._order = order
        self._at_end = at_end
        self._slot = -1
        """slot of the first entry in the columns; at the beginning the columns hold `Order.before`"""
        self._firsts: Sequence[int] = order.before[:1]
        self._seconds: Sequence[int] = order.before[1:]
        self._at = 1
        self._before: Entry | None = None
        """the entry before the columns; None before the first"""
        self._stops_behind = False
        """whether the slot after the columns does not increase"""
        self._fill()

    @property
    def next(self) -> Entry | None:
        """The next entry, which was not passed yet; None at the end."""
        if self._at == len(self._firsts):
            return None
        return self._entry(self._at)

    @property
    def last(self) -> Entry | None:
        """The entry that was passed last, the largest so far; None before the first."""
        return self._entry(self._at - 1) if self._at and self._slot >= 0 else self._before

    def _entry(self, number: int) -> Entry:
        return Entry(self._slot + number, int(self._firsts[number]), int(self._seconds[number]))

    def pass_one(self) -> None:
        """Pass the next entry."""
        self._at += 1
        self._fill()

    def pass_all(self) -> None:
        """Pass all entries."""
        while self._at < len(self._firsts):
            self._at = len(self._firsts)
            self._fill()

    def pass_up_to(self, bound: int, *, and_next: bool = False) -> Passed:
        """Move the cursor behind all entries whose second field is at most `bound`, and return them: one column
        (sequence) for each field, and the slot number of the first entry. With `and_next` the columns also include the
        next entry, if there is one, but the cursor stays before it. The columns are empty if there are no such entries.
        May read further pieces, and call `at_end`.
        """
        begin = self._slot + self._at
        firsts: list[Sequence[int]] = []
        seconds: list[Sequence[int]] = []
        while self._at < len(self._firsts) and self._seconds[self._at] <= bound:
            stop = bisect_right(self._seconds, bound, self._at)
            firsts.append(self._firsts[self._at : stop])
            seconds.append(self._seconds[self._at : stop])
            self._at = stop
            self._fill()
        if and_next:
            firsts.append(self._firsts[self._at : self._at + 1])
            seconds.append(self._seconds[self._at : self._at + 1])
        return Passed(begin, joined(firsts), joined(seconds))

    def _fill(self) -> None:
        """Load the next piece that has increasing entries, once the cursor is behind all loaded entries. At the end the
        last piece stays loaded. If the next entry does not increase, call `at_end` with its slot number and ignore all
        further pieces.
        """
        while self._at == len(self._firsts):
            if self._stops_behind:
                self._stops_behind, self._pieces = False, iter(())
                self._at_end(self._slot + self._at)
            piece = next(self._pieces, None)
            if piece is None:
                return
            slot, data = piece
            firsts, seconds = columns_of_entries(data, self._layout).values()
            before, order = (self._firsts[-1], self._seconds[-1]), self._order
            count = increasing(firsts, seconds, before, may_repeat=order.may_repeat, never=order.never)
            self._stops_behind = count < len(firsts)
            if count:
                self._before = self.last
                self._firsts, self._seconds = firsts[:count], seconds[:count]
                self._slot, self._at = slot, 0
