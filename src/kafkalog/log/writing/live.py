"""Read a log while this process writes it. Segments are looked up in memory, as in `LogSegments`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

from msgspec import Struct

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


class LiveState(Struct, frozen=True, kw_only=True):
    """Offsets and segments of a log at a moment when its lock is held."""

    changes: int
    """number of times that a segment was added or removed"""
    log_start_offset: int
    end_offset: int
    sealed: list[SealedSegment]
    """all segments but the last, by base offset"""
    active: SealedSegment
    """last segment"""


class LiveLog:
    """Reader of a log that this process is writing. `look` returns the present state, `listed` lists the partition
    directory; both are called while `guard` is held. If a segment is deleted before it is opened, the read is repeated
    with the new state.
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
        """Yield the segment that contains `offset` and all later ones; the active segment is the last. Yield nothing if
        `offset` is below the log start. If `offset` is at or after the log end, yield the active segment. The state is
        looked up again for each segment, so segments that were added or deleted meanwhile are noticed.
        """
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
        """Return segment `number` of `state` as a `Segment` for reading by offset, without accessing the disk. It has
        no modification time, and only the paths of log and offset index. None if the number is above that of the active
        segment.
        """
        if number > len(state.sealed):
            return None
        sealed = state.active if number == len(state.sealed) else state.sealed[number]
        kinds = (FileKind.LOG, FileKind.OFFSET_INDEX)
        files = {kind: f"{self._path}/{segment_file(sealed.base_offset, kind)}" for kind in kinds}
        log = files[FileKind.LOG]
        return Segment(
            base_offset=sealed.base_offset, path=log, size=sealed.size, modified_ns=NO_TIMESTAMP, files=files,
            sizes={FileKind.LOG: sealed.size},
        )  # fmt: skip

    def read(self, offset: int, max_bytes: int, max_chunk_bytes: int, reset: Reset | None = None) -> Chunk:
        """Return a chunk of whole batches from `offset` on, see `Log.read`. If a segment is deleted during the read,
        the log end is looked up again and the read is repeated. `MissingFileError` is raised only if a missing log file
        belongs to the present state. Raises `OffsetOutOfRangeError` for an offset outside the log (without `reset`).
        Raises `FormatError` for damage. Raises `LimitExceeded` for a batch above `max_chunk_bytes`. Raises `UsageError`
        for invalid sizes. Raises `StorageError` for I/O errors.
        """
        while True:
            end = self.log_end_offset()
            try:
                return fetch(self, offset, max_bytes, end_offset=end, max_chunk_bytes=max_chunk_bytes, reset=reset)
            except MissingFileError as error:
                if any(segment.path == error.filename for segment in self.segments_from(offset)):
                    raise

    def offset_for_timestamp(self, timestamp: int) -> OffsetAndTimestamp | None:
        """Return offset and timestamp of the first record with `timestamp` (ms) or a later one; None if there is none.
        See `Log.offset_for_timestamp`. The directory listing is cached until segments are added or removed or the log
        start moves.

        If a file is missing because its segment was deleted during the search, the search is repeated. If a file is
        missing although nothing changed, `MissingFileError` is raised. Raises `FormatError` for damage before the
        record, `StorageError` if a file cannot be read.
        """
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
    """Return the number of the first segment whose base offset is above `offset`; if there is none, the number of
    segments.
    """
    if offset >= state.active.base_offset:
        return len(state.sealed) + 1
    return bisect_right(state.sealed, offset, key=lambda segment: segment.base_offset)
