"""Track which bytes of the original logs are still held after a recovery."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from msgspec import Struct

from kafkalog.codec.names import SWAP, FileKind
from kafkalog.log.storage.content import Content, Slice

__all__ = ["KeptBytes"]

_LOGS = (FileKind.LOG.value, FileKind.LOG.value + SWAP)


class _Ranges(Struct, frozen=True):
    """Disjoint ranges in ascending order, ends exclusive; adjacent ones are joined."""

    starts: list[int] = []
    ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Add a range of bytes, `end` exclusive; ranges must be added in ascending order of `start`. A range that
        overlaps or touches the last one is joined to it.
        """
        if self.ends and start <= self.ends[-1]:
            self.ends[-1] = max(self.ends[-1], end)
        else:
            self.starts.append(start)
            self.ends.append(end)


class KeptBytes:
    """Byte ranges of original files that the given contents hold. A look-up takes time proportional to the number of
    ranges that it meets.
    """

    def __init__(self, contents: Iterable[Content]) -> None:
        slices: dict[str, list[tuple[int, int]]] = {}
        self.size = 0
        """total bytes of logs; bytes that are held twice count twice"""
        for part in (part for content in contents for part in content.parts):
            if isinstance(part, Slice):
                slices.setdefault(part.origin, []).append((part.start, part.start + part.length))
                self.size += part.length if part.origin.endswith(_LOGS) else 0
        self._ranges: dict[str, _Ranges] = {}
        for path, found in slices.items():
            ranges = self._ranges[path] = _Ranges()
            for start, end in sorted(found):
                ranges.add(start, end)

    def holds(self, path: str, position: int) -> bool:
        """Whether the byte at a position of an original log is kept."""
        ranges = self._ranges.get(path, _Ranges())
        number = bisect_right(ranges.ends, position)
        return number < len(ranges.ends) and ranges.starts[number] <= position

    def holds_all(self, content: Content) -> bool:
        """Whether a content consists of bytes of original files that are all kept, in any order."""
        return all(
            isinstance(part, Slice) and not list(self.missing(part.origin, part.start, part.start + part.length))
            for part in content.parts
        )

    def missing(self, path: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of bytes from `start` to `end` of the original log `path` that are not kept, in order, ends
        exclusive. The whole range if nothing of the file is kept.
        """
        ranges = self._ranges.get(path, _Ranges())
        number = bisect_right(ranges.ends, start)
        while number < len(ranges.ends) and ranges.starts[number] < end:
            if start < ranges.starts[number]:
                yield start, ranges.starts[number]
            start = ranges.ends[number]
            number += 1
        if start < end:
            yield start, end
