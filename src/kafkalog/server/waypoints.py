"""Positions remembered from walks over log files, one per 4 KiB, like an offset index in memory."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from threading import Lock

__all__ = ["Waypoints", "WaypointsOfFiles"]

_EACH_BYTES = 4096
_MOST = 1 << 21
"""Limit for all files together, 16 bytes each. The positions of the least recently read file are dropped."""


class Waypoints:
    """Positions in one file, each with an upper bound of all offsets before it. Grows as the file is walked."""

    def __init__(self) -> None:
        self._largest = array("q")
        self._positions = array("q")
        self._highest = -1
        self.reached = 0
        """length of the part walked so far, from the start of the file without a gap"""

    def __len__(self) -> int:
        return len(self._positions)

    def passed(self, start: int, end: int, last_offset: int) -> None:
        """Record a batch."""
        if start == self.reached:
            self._highest = max(self._highest, last_offset)
            self.skipped(start, end)

    def skipped(self, start: int, end: int) -> None:
        """Record that bytes `start` to `end` (exclusive) were passed: `reached` becomes `end`. Do nothing unless
        `start` equals `reached`, the position that was reached before. The position `end` is remembered if it is at
        least 4 KiB after the last remembered one.
        """
        if start != self.reached:
            return
        self.reached = end
        if end - (self._positions[-1] if self._positions else 0) >= _EACH_BYTES:
            self._largest.append(self._highest)
            self._positions.append(end)

    def before(self, offset: int) -> int:
        """Return a position at or before the first batch that reaches `offset`."""
        number = bisect_left(self._largest, offset) - 1
        return self._positions[number] if number >= 0 else 0


class WaypointsOfFiles:
    """The waypoints of all files, by an identity of the file."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._all: OrderedDict[object, Waypoints] = OrderedDict()
        self._lock = Lock()

    def of(self, file: object) -> Waypoints:
        """Return the waypoints of a file, empty for a new one, and mark them as the most recently used.

        `file` is any hashable identity of the file. If all files together have too many positions, the least recently
        used ones are dropped. Safe for several threads.
        """
        with self._lock:
            waypoints = self._all.get(file)
            if waypoints is None:
                waypoints = self._all[file] = Waypoints()
            self._all.move_to_end(file)
            held = sum(map(len, self._all.values())) if len(self._all) > 1 else 0
            while held > self._most and len(self._all) > 1:
                held -= len(self._all.popitem(last=False)[1])
            return waypoints

    def drop(self, file: object) -> None:
        """Drop the waypoints of a file, if there are any."""
        with self._lock:
            self._all.pop(file, None)
