"""Decide where the segments of a merged log begin: at the base offsets of the contributing copy, or earlier if a
segment is full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kafkalog.codec.rules.batches import MAX_RELATIVE_OFFSET
from kafkalog.copies.merged_stretches import Taken
from kafkalog.log.walk.segment import Segment

__all__ = ["Piece", "Rolling"]


class Piece:
    """Whole batches of one copy to be written one after another: `size` bytes from byte `start` of the file `path`.
    `base_offset` is the base offset of the segment that they are written to.
    """

    def __init__(self, taken: Taken, base_offset: int, path: str, start: int, size: int) -> None:
        self.taken = taken
        self.base_offset = base_offset
        self.path = path
        self.start = start
        self.size = size


class Rolling:
    """Splitter of the batches chosen for a merged log into pieces that lie in one segment each.

    A segment is full at `segment_bytes`, or at the size of the contributing file if that is larger, or if an index
    could not hold its offsets (relative offsets have 32 bits). The first one begins at the log start offset, or at
    the first batch if this begins below it or too far above it. `sources` are the segments of the copies by path.
    """

    def __init__(self, log_start_offset: int, segment_bytes: int, sources: Mapping[str, Segment]) -> None:
        self._log_start_offset = log_start_offset
        self._segment_bytes = segment_bytes
        self._sources = sources

    def pieces(self, choice: Iterable[Taken]) -> Iterator[Piece]:
        """Yield the chosen batches in order, as pieces that lie in one file of a copy and in one segment. A new segment
        begins if the contributing copy stays and its file changes, or if the segment is full. A batch larger than a
        segment has one of its own.
        """
        base: int | None = None
        size = 0
        before: Taken | None = None
        for taken in choice:
            start = taken.start
            while start < taken.end:
                path, begin = taken.stretch.path, taken.stretch.position(start)
                rolls_there = before is not None and before.copy == taken.copy and before.stretch.path != path
                end = start if base is None or rolls_there else self._end(taken, start, base, size)
                if base is None or end == start:
                    base, size = self._base(base, taken, start), 0
                    end = max(self._end(taken, start, base, 0), start + 1)
                last = end - 1
                length = taken.stretch.position(last) + taken.stretch.row(last).size - begin
                before = Taken(taken.copy, taken.stretch, start, end)
                yield Piece(before, base, path, begin, length)
                size += length
                start = end

    def _base(self, before: int | None, taken: Taken, start: int) -> int:
        first = taken.stretch.row(start).first
        wanted = self._log_start_offset if before is None else self._sources[taken.stretch.path].base_offset
        fits = (before is None or before < wanted) and wanted <= first and first - wanted < MAX_RELATIVE_OFFSET
        # a segment that begins where the copy's does must not reach back over what the one before holds
        return wanted if fits and (before is None or taken.stretch.position(start) == 0) else first

    def _end(self, taken: Taken, start: int, base: int, size: int) -> int:
        """Return how far the batches of `taken`, from number `start` on, fit into a segment with base offset `base` and
        `size` bytes so far: the number after the last one that fits, or `start` if none does. A segment is full at the
        maximum segment size, or at the size of the copy's file if this is larger. A batch does not fit either if its
        last offset is more than `MAX_RELATIVE_OFFSET` above `base`.
        """
        stretch, begin = taken.stretch, taken.stretch.position(start)
        room = max(self._segment_bytes, self._sources[stretch.path].size) - size
        low, high = start, taken.end
        while low < high:
            middle = (low + high + 1) // 2
            row = stretch.row(middle - 1)
            behind = stretch.position(middle - 1) + row.size
            fits = row.last - base <= MAX_RELATIVE_OFFSET and behind - begin <= room
            low, high = (middle, high) if fits else (low, middle - 1)
        return low
