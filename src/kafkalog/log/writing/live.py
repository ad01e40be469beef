"""Read a log while it is written: segments are looked up in memory, as in `LogSegments`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import NO_TIMESTAMP
from kafkalog.codec.names import FileKind, segment_file
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.process import OwnLock
from kafkalog.log.disk.remote_file import MissingFileError
from kafkalog.log.reading.consumer_view import Reset
from kafkalog.log.reading.fetch import Chunk, fetch
from kafkalog.log.reading.readable import OffsetAndTimestamp
from kafkalog.log.walk.segment import Segment
from kafkalog.log.writing.loading import SealedSegment

__all__ = ["LiveLog", "LiveState"]


class LiveState(NamedTuple):
    """State of a log while its lock is held."""

    changes: int
    """number of times that a segment was added or removed"""
    log_start_offset: int
    end_offset: int
    sealed: list[SealedSegment]
    """all segments but the last, by base offset"""
    active: SealedSegment
    """last segment"""


class LiveLog:
    """Reader of a log that is being written; `look` and `listed` return its state. Each segment is looked up when it is
    needed. One that is removed between its look-up and its opening is looked up again in the new state.
    """

    def __init__(
        self, path: str, guard: OwnLock, look: Callable[[], LiveState], listed: Callable[[], Partition]
    ) -> None:
        self._path = path
        self._guard = guard
        self._look = look
        self._listed = listed
        self._latest: tuple[tuple[int, int], Partition] | None = None
        """number of changes and log start, with the partition that was listed then; None before the first listing"""

    @property
    def log_start_offset(self) -> int:
        """First offset that can be read."""
        with self._guard:
            return self._look().log_start_offset

    def log_end_offset(self, *, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return the offset of the next record, without reading anything."""
        with self._guard:
            return self._look().end_offset

    def segments_from(self, offset: int) -> Iterator[Segment]:
        """Yield the segment that holds `offset`, if one does, and those after it."""
        with self._guard:
            state = self._look()
            number = max(_number_behind(state, offset) - 1, 0)
            segment = None if offset < state.log_start_offset else self._segment(state, number)
        while segment is not None:
            yield segment
            with self._guard:
                state = self._look()
                segment = self._segment(state, _number_behind(state, segment.base_offset))

    def _segment(self, state: LiveState, number: int) -> Segment | None:
        """Return segment `number` for reading by offset, from memory, without its modification time; None if there is
        none.
        """
        if number > len(state.sealed):
            return None
        sealed = state.active if number == len(state.sealed) else state.sealed[number]
        kinds = (FileKind.LOG, FileKind.OFFSET_INDEX)
        files = {kind: f"{self._path}/{segment_file(sealed.base_offset, kind)}" for kind in kinds}
        log = files[FileKind.LOG]
        return Segment(sealed.base_offset, log, sealed.size, NO_TIMESTAMP, files, {FileKind.LOG: sealed.size})

    def read(self, offset: int, max_bytes: int, max_chunk_bytes: int, reset: Reset | None = None) -> Chunk:
        """Implement `Log.read`."""
        while True:
            end = self.log_end_offset()
            try:
                return fetch(self, offset, max_bytes, end_offset=end, max_chunk_bytes=max_chunk_bytes, reset=reset)
            except MissingFileError as error:
                if any(segment.path == error.filename for segment in self.segments_from(offset)):
                    raise

    def offset_for_timestamp(self, timestamp: int) -> OffsetAndTimestamp | None:
        """Implement `Log.offset_for_timestamp`. The directory is listed again after segments were added or removed."""
        while True:
            with self._guard:
                held = self._held()
                if self._latest is None or self._latest[0] != held:
                    self._latest = held, self._listed()
                partition = self._latest[1]
            try:
                return partition.offset_for_timestamp(timestamp)
            except MissingFileError:
                with self._guard:
                    if self._held() == held:
                        raise

    def _held(self) -> tuple[int, int]:
        state = self._look()
        return state.changes, state.log_start_offset


def _number_behind(state: LiveState, offset: int) -> int:
    """Return the number of the first segment that begins above an offset; one more than the last number if none
    does.
    """
    if offset >= state.active.base_offset:
        return len(state.sealed) + 1
    return bisect_right(state.sealed, offset, key=lambda segment: segment.base_offset)
