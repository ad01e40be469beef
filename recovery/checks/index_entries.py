"""Iterate over the increasing entries of an index: one by one, or thousands at a time as columns.

`EntryArrays` in `entry_arrays` does so with numpy columns, for batches that are columns too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import and_, le, lt
from typing import Any, NamedTuple

__all__ = ["Entries", "Entry", "Order", "Passed"]


class Order(NamedTuple):
    """Order of the entries of a kind of index: the first field strictly increases; the second as given here."""

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
    """Columns of consecutive entries that were passed, and the slot number of the first."""

    slot: int
    firsts: Sequence[int]
    seconds: Sequence[int]


class Entries:
    """Cursor over the entries of an index from its beginning, read piece by piece (`slots_by_piece`). Passing an entry
    moves the cursor behind it. Entries that do not increase are left out: `at_end` is called with the slot number of
    the first one, after all entries before it were passed, and the cursor ends there.
    """

    def __init__(self, pieces: Iterator[tuple[int, Any]], order: Order, at_end: Callable[[int], None]) -> None:
        self._pieces = pieces
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
        """Move the cursor behind all entries whose second field is at most `bound`; return these entries as one column
        (sequence) for each field, with the slot number of the first. With `and_next` the next entry is returned too, if
        there is one, but not passed. The columns are empty if there are no entries. May read further pieces, and call
        `at_end`.
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
        return Passed(begin, self._joined(firsts), self._joined(seconds))

    def _fill(self) -> None:
        """Load the next piece with increasing entries if all loaded entries were passed; at the end keep the last piece
        loaded. If an entry that does not increase comes next, call `at_end` with its slot number and drop all further
        pieces.
        """
        while self._at == len(self._firsts):
            if self._stops_behind:
                self._stops_behind, self._pieces = False, iter(())
                self._at_end(self._slot + self._at)
            piece = next(self._pieces, None)
            if piece is None:
                return
            slot, entries = piece
            firsts, seconds = self._columns(entries)
            count = self._increasing(firsts, seconds)
            self._stops_behind = count < len(entries)
            if count:
                self._before = self.last
                self._firsts, self._seconds = firsts[1 : count + 1], seconds[1 : count + 1]
                self._slot, self._at = slot, 0

    def _columns(self, entries: Any) -> tuple[Sequence[int], Sequence[int]]:
        """Both fields of the entries of a piece, preceded by those of the last entry in the present columns."""
        firsts, seconds = map(list, zip((self._firsts[-1], self._seconds[-1]), *entries, strict=True))
        return firsts, seconds

    def _increasing(self, firsts: Sequence[int], seconds: Sequence[int]) -> int:
        """Return how many entries after the first increase without interruption, 0 if the second does not. The first
        field must strictly increase, the second too unless `Order.may_repeat`; an entry equal to `Order.never`
        interrupts.
        """
        of_second = le if self._order.may_repeat else lt
        increase = map(and_, map(lt, firsts, firsts[1:]), map(of_second, seconds, seconds[1:]))
        if self._order.never is not None:
            increase = map(and_, increase, map(self._order.never.__ne__, zip(firsts[1:], seconds[1:], strict=True)))
        return next((number for number, is_larger in enumerate(increase) if not is_larger), len(firsts) - 1)

    def _joined(self, parts: list[Sequence[int]]) -> Sequence[int]:
        """Join parts of a column."""
        return parts[0] if len(parts) == 1 else [*chain.from_iterable(parts)]
