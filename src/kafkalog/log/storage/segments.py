"""Keep the segments of a log by base offset, in order (`LogSegments`)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from kafkalog.log.storage.java import IllegalArgumentError
from kafkalog.log.storage.segment import LogSegment

__all__ = ["LogSegments"]


class LogSegments:
    """Open segments of one log, each registered under a base offset. While a log is being split, that key may differ
    from the base offset of the segment itself.
    """

    def __init__(self) -> None:
        self._segments: dict[int, LogSegment] = {}
        self.bases: list[int] = []
        """sorted base offsets"""

    def __len__(self) -> int:
        return len(self.bases)

    def __contains__(self, base: int) -> bool:
        return base in self._segments

    def __getitem__(self, base: int) -> LogSegment:
        return self._segments[base]

    def put(self, segment: LogSegment, base: int) -> None:
        """Add a segment, or replace the one with this base offset."""
        if base not in self._segments:
            insort(self.bases, base)
        self._segments[base] = segment

    def remove(self, base: int) -> None:
        """Remove a segment if it is known."""
        if self._segments.pop(base, None) is not None:
            del self.bases[bisect_left(self.bases, base)]

    def clear(self) -> None:
        """Remove all segments."""
        self._segments.clear()
        self.bases.clear()

    @property
    def last(self) -> LogSegment:
        """Segment with the largest base offset. Raises `IndexError` if there is none."""
        return self._segments[self.bases[-1]]

    def floor(self, offset: int) -> LogSegment | None:
        """Return the segment with the largest base offset at or below an offset; None if there is none."""
        number = bisect_right(self.bases, offset)
        return self._segments[self.bases[number - 1]] if number else None

    def higher(self, base: int) -> LogSegment | None:
        """Return the segment with the smallest base offset above `base`; None after the last."""
        number = bisect_right(self.bases, base)
        return self._segments[self.bases[number]] if number < len(self.bases) else None

    def between(self, start: int, end: int) -> list[LogSegment]:
        """Return the segments from the one that contains offset `start` to the last one with a base offset below `end`,
        in order (`LogSegments.values`). If `start` is below the first base offset, the list begins with the first
        segment. Empty if `start` equals `end` or no segment begins below `end`. Raises `IllegalArgumentError` if `end`
        is below `start`.
        """
        if start == end:
            return []
        if end < start:
            raise IllegalArgumentError(f"Invalid log segment range: {start} is greater than limit offset {end}")
        first = max(bisect_right(self.bases, start) - 1, 0)
        return [self._segments[base] for base in self.bases[first : bisect_left(self.bases, end)]]

    def all(self) -> list[LogSegment]:
        """Return all segments in order."""
        return [self._segments[base] for base in self.bases]
