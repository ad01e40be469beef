"""Reading a log that is being written: segments are looked up in memory, as `LogSegments` has them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
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
    """What a log holds, while its lock is held."""

    changes: int
    """how many segments came or went so far"""
    log_start_offset: int
    end_offset: int
    sealed: list[SealedSegment]
    """all segments but the last, by base offset"""
    active: SealedSegment
    """the last one"""


class LiveLog:
    """A log that is written, for those who read it meanwhile; `look` and `listed` tell what it holds.

    Each segment is looked up when it is asked for.  One that goes between its look-up and its opening is looked up
    again: what the log holds then decides.
    """

    def __init__(
        self, path: str, guard: OwnLock, look: Callable[[], LiveState], listed: Callable[[], Partition]
    ) -> None:
        self._path = path
        self._guard = guard
        self._look = look
        self._listed = listed
        self._latest: tuple[tuple[int, int], Partition] | None = None
        """what the log held after so many changes, with which start"""

    @property
    def log_start_offset(self) -> int:
        """First offset that may be read."""
        with self._guard:
            return self._look().log_start_offset

    def log_end_offset(self, *, limits: Limits = DEFAULT_LIMITS) -> int:
        """Offset that the next record gets; nothing needs to be read for it."""
        with self._guard:
            return self._look().end_offset

    def segments_from(self, offset: int) -> Iterator[Segment]:
        """The segment that holds `offset`, if any does, and those after it."""
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
        """One of the segments for reading by offset, from memory; when it was changed is not known."""
        if number > len(state.sealed):
            return None
        found = state.active if number == len(state.sealed) else state.sealed[number]
        kinds = (FileKind.LOG, FileKind.OFFSET_INDEX)
        files = {kind: f"{self._path}/{segment_file(found.base_offset, kind)}" for kind in kinds}
        log = files[FileKind.LOG]
        return Segment(found.base_offset, log, found.size, NO_TIMESTAMP, files, {FileKind.LOG: found.size})

    def read(self, offset: int, max_bytes: int, max_chunk_bytes: int, reset: Reset | None = None) -> Chunk:
        """See `Log.read`."""
        while True:
            end = self.log_end_offset()
            try:
                return fetch(self, offset, max_bytes, end_offset=end, max_chunk_bytes=max_chunk_bytes, reset=reset)
            except MissingFileError as error:
                if any(segment.path == error.filename for segment in self.segments_from(offset)):
                    raise

    def offset_for_timestamp(self, timestamp: int) -> OffsetAndTimestamp | None:
        """See `Log.offset_for_timestamp`; the directory is listed again when segments came or went."""
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
    """Number of the first segment that begins above an offset; one more than there are if none does."""
    if offset >= state.active.base_offset:
        return len(state.sealed) + 1
    return bisect_right(state.sealed, offset, key=lambda segment: segment.base_offset)
