"""Represent sets of offsets as ranges, in bounded memory."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

__all__ = ["OffsetRanges"]

_MOST = 100_000
"""Most separate ranges; above it, neighbors are joined, and the offsets between them count as covered."""


class OffsetRanges:
    """Set of offsets as disjoint ranges in ascending order, both ends inclusive; adjacent ranges are joined."""

    def __init__(self) -> None:
        self._first = array("q")
        self._last = array("q")

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._first, self._last, strict=True)

    def __len__(self) -> int:
        return len(self._first)

    def __bool__(self) -> bool:
        return bool(self._first)

    def add(self, first: int, last: int) -> None:
        """Add all offsets from `first` to `last`, both inclusive; join the range with overlapping and adjacent ones. If
        more than 100,000 ranges result, pairs of neighbors are joined, and the offsets between them count as covered.
        """
        if not self._last or first > self._last[-1] + 1:
            self._first.append(first)
            self._last.append(last)
        else:
            low = bisect_left(self._last, first - 1)
            high = bisect_right(self._first, last + 1)
            if low < high:
                first, last = min(first, self._first[low]), max(last, self._last[high - 1])
            self._first[low:high] = array("q", [first])
            self._last[low:high] = array("q", [last])
        if len(self._first) > _MOST:
            self._coarsen()

    def covers(self, first: int, last: int) -> bool:
        """Whether all offsets from `first` to `last` are in the set."""
        number = bisect_left(self._last, last)
        return number < len(self._last) and self._first[number] <= first

    def touches(self, first: int, last: int) -> bool:
        """Whether some of the offsets from `first` to `last` are in the set."""
        number = bisect_left(self._last, first)
        return number < len(self._last) and self._first[number] <= last

    def absent(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of offsets from `first` to `last` that are not in the set, in ascending order. All ends are
        inclusive.
        """
        number = bisect_left(self._last, first)
        while first <= last and number < len(self._last) and self._first[number] <= last:
            if self._first[number] > first:
                yield first, self._first[number] - 1
            first, number = self._last[number] + 1, number + 1
        if first <= last:
            yield first, last

    def _coarsen(self) -> None:
        self._first, self._last = (
            self._first[::2],
            self._last[1::2] + (self._last[-1:] if len(self._last) % 2 else array("q")),
        )
