"""Load one partition as the broker does at its start (`LogLoader`, `UnifiedLog`, `LocalLog`), and close it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from kafkalog.codec.names import CLEANED, DELETED, INDEX_KINDS, SWAP, FileKind, parse_segment_file, segment_file
from kafkalog.log.storage.disk import Disk
from kafkalog.log.storage.java import (
    AlreadyOfflineError,
    CorruptIndexError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidOffsetError,
    JavaIOError,
    NoSuchElementError,
    NoSuchFileError,
    NumberFormatError,
    OffsetOutOfRangeError,
    OffsetOverflowError,
    offset_of,
)
from kafkalog.log.storage.leader_epochs import LeaderEpochCheckpointFile, LeaderEpochFileCache
from kafkalog.log.storage.log_file import LogBatch
from kafkalog.log.storage.producers.known_producers import ProducerStateManager
from kafkalog.log.storage.producers.snapshots import Snapshots
from kafkalog.log.storage.replay import rebuild_producer_state
from kafkalog.log.storage.segment import LogLossError, LogSegment
from kafkalog.log.storage.segments import LogSegments
from kafkalog.log.storage.settings import StorageSettings

__all__ = ["LoadRequest", "LoadedLog", "LogLoader"]

_MAX_OFFSET = 2**63 - 1
_SPLIT_CHUNK = 1024 * 1024

Result = TypeVar("Result")


class LoadRequest(Struct, frozen=True, kw_only=True):
    """Facts about a partition that the broker knows before it opens the log."""

    directory: str
    settings: StorageSettings
    now_ms: int
    clean: bool
    recovery_point: int
    log_start_offset: int
    has_remote_log: bool = False
    """whether the topic has remote storage, so that its log may begin there"""
    offline: Callable[[], bool] = lambda: False
    """function that returns whether the directory is already going offline"""
    keeps_log: bool = False
    """whether to raise `LogLossError` before a log is truncated, deleted or replaced, as a broker would; foreign files
    are kept then
    """
    on_recovered: Callable[[LogSegment], None] = lambda segment: None
    """function called with each recovered segment; it may close the segment's files until they are needed"""


class LoadedLog(Struct, kw_only=True):
    """Facts about a partition that the broker knows after it opened the log."""

    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    segments: list[LogSegment]
    first_scanned: int | None
    cut_at: int | None
    emptied: tuple[str, int] | None
    """log file and position of the batch because of which a segment was emptied; None if none was"""


class LogLoader:
    """Loader of one partition directory: opens its segments, recovers those that need it, and rebuilds leader epochs
    and producer state.
    """

    def __init__(self, disk: Disk, request: LoadRequest, epochs: LeaderEpochFileCache | None = None) -> None:
        self._disk = disk
        self._request = request
        self._directory = request.directory
        self._segments = LogSegments()
        self._listed: Snapshots | None = None
        """snapshots after the recovery of the previous segment; None before the first recovery"""
        self._first_scanned: int | None = None
        self._cut_at: int | None = None
        self._emptied: tuple[str, int] | None = None
        checkpoint = LeaderEpochCheckpointFile(disk, request.directory)
        self.epochs = LeaderEpochFileCache(checkpoint) if epochs is None else epochs
        self.producers = self._new_producers()

    @property
    def segments(self) -> LogSegments:
        """Open segments, after `load`."""
        return self._segments

    def _new_producers(self, snapshots: Snapshots | None = None) -> ProducerStateManager:
        request = self._request
        return ProducerStateManager(
            self._disk, self._directory, request.now_ms, request.settings.producer_id_expiration_ms, snapshots
        )

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _names(self) -> list[str]:
        return self._disk.names(self._directory)

    # -- loading -----------------------------------------------------------------------------------------------------

    def load(self) -> LoadedLog:
        """Load the log in the broker's order of steps; return its offsets and segments. First, temporary files are
        removed and swaps are completed. Then segments with bad indexes are recovered, and after an unclean shutdown all
        segments from the recovery point on; recovery may truncate or delete segments. Segments whose offsets overflow
        are split. A log that ends below its start offset is deleted. Leader epochs and producer snapshots are
        rewritten. If there is no segment, a new one is created. In a directory named `…-delete` only segments with bad
        indexes are recovered, and the log end offset is 0.

        Raises the `JavaError` that a broker would throw. Raises `LogLossError` if `keeps_log` is set and the broker
        would remove log data. Raises `StorageError` for I/O errors.
        """
        request = self._request
        self._resolve_swaps(self._remove_temporaries())
        self._retry_on_overflow(self._open_segments)
        if self._directory.endswith("-delete"):
            if not self._segments:
                self._segments.put(LogSegment(self._disk, self._directory, 0, request.settings), 0)
            recovery_point = next_offset = 0
        else:
            recovery_point, next_offset = self._retry_on_overflow(self._recover_log)
            self._segments.last.resize_indexes()
        self.epochs.truncate_from_end(next_offset)
        log_start = self._log_start()
        self.epochs.truncate_from_start(request.log_start_offset)
        if not self.producers.is_empty:
            raise IllegalStateError("Producer state must be empty during log initialization")
        self.producers.remove_stray_snapshots(self._segments.bases)
        rebuild_producer_state(self.producers, self._segments, log_start, next_offset, reload_from_clean=request.clean)
        log_start = max(log_start, self._log_start())
        self._read_first_unstable(log_start, next_offset)
        segments = self._segments.all()
        for segment in segments:
            segment.store()
        return LoadedLog(
            log_start_offset=log_start,
            log_end_offset=next_offset,
            recovery_point=recovery_point,
            segments=segments,
            first_scanned=self._first_scanned,
            cut_at=self._cut_at,
            emptied=self._emptied,
        )

    def _log_start(self) -> int:
        """Return the log start offset: the requested one, but without remote storage at least the base offset of the
        first segment.
        """
        request = self._request
        return request.log_start_offset if request.has_remote_log else max(
            request.log_start_offset, self._segments.bases[0]
        )  # fmt: skip

    def _read_first_unstable(self, log_start: int, end: int) -> None:
        """Read one byte at the first open transaction, as the broker does (`LocalLog.read`); do nothing if no
        transaction is open. If the transaction begins below `log_start`, read at `log_start`. The byte is not used:
        only the exceptions matter.

        Raises `AlreadyOfflineError` if the log directory is going offline, `OffsetOutOfRangeError` if the offset is
        above `end`, or the `JavaError` of the read. Raises `StorageError` if the log cannot be read.
        """
        unstable = self.producers.first_unstable_offset()
        if unstable is None:
            return
        if self._request.offline():
            raise AlreadyOfflineError("The log dir is already offline due to a previous IO exception.")
        offset = max(unstable, log_start)
        if offset > end:
            raise OffsetOutOfRangeError(
                f"Received request for offset {offset} for partition {self._directory}, but we only have log segments "
                f"upto {end}."
            )
        segment = self._segments.floor(offset) if offset < end else None
        while segment is not None and segment.read(offset, 1) is None:  # the log continues in the next one
            segment = self._segments.higher(segment.base_offset)

    def _remove_temporaries(self) -> list[str]:
        swaps, cleaned = [], []
        smallest_cleaned = _MAX_OFFSET
        for name in self._names():
            if name.endswith(DELETED) and self._goes(name):
                self._disk.delete(self._path(name))
            elif name.endswith(CLEANED):
                smallest_cleaned = min(smallest_cleaned, offset_of(name))
                cleaned.append(name)
            elif name.endswith(SWAP):
                swaps.append(name)
        kept = [name for name in swaps if offset_of(name) < smallest_cleaned]
        for name in [*(name for name in swaps if name not in kept), *cleaned]:
            self._disk.delete(self._path(name))
        return kept

    def _goes(self, name: str) -> bool:
        if self._request.keeps_log:
            return parse_segment_file(name) is not None  # another file may be the only copy of its content
        return not name.endswith(FileKind.KRAFT_SNAPSHOT.value + DELETED)

    def _resolve_swaps(self, swaps: list[str]) -> None:
        low, high = _MAX_OFFSET, -_MAX_OFFSET - 1
        for name in swaps:
            if not name.removesuffix(SWAP).endswith(FileKind.LOG.value):
                continue
            segment = LogSegment(self._disk, self._directory, offset_of(name), self._request.settings, SWAP)
            low = min(low, segment.base_offset)
            high = max(high, segment.read_next_offset())
            segment.close_handlers()
        if not swaps:
            return
        for name in self._names():
            if name.endswith(SWAP):
                continue
            try:
                offset = offset_of(name)
            except NumberFormatError:
                continue  # without a number it does not belong to the replaced segments
            if low <= offset < high:
                self._disk.delete(self._path(name))
        for name in self._names():
            if name.endswith(SWAP):
                self._disk.rename(self._path(name), self._path(name.removesuffix(SWAP)))

    def _open_segments(self) -> None:
        self._segments.clear()
        for name in self._names():
            if name.endswith(INDEX_KINDS):
                log = self._path(segment_file(offset_of(name), FileKind.LOG))
                if not self._disk.exists(log):
                    self._disk.delete(self._path(name))
            elif name.endswith(FileKind.LOG.value):
                self._open_segment(offset_of(name))

    def _open_segment(self, base_offset: int) -> None:
        time_index = self._path(segment_file(base_offset, FileKind.TIME_INDEX))
        time_index_is_new = not self._disk.exists(time_index)
        segment = LogSegment(self._disk, self._directory, base_offset, self._request.settings)
        try:
            segment.sanity_check(time_index_is_new=time_index_is_new)
        except (NoSuchFileError, CorruptIndexError):
            self._recover_segment(segment)  # the number of bytes it truncates is ignored: later segments are kept
        self._segments.put(segment, base_offset)

    def _recover_segment(self, segment: LogSegment) -> int:
        listed = self._listed if self._listed is not None and self._listed.is_current else None
        producers = self._new_producers(listed)
        self._listed = producers.snapshots
        rebuild_producer_state(producers, self._segments, self._request.log_start_offset, segment.base_offset)
        truncated = segment.recover(producers, self.epochs, keeps_log=self._request.keeps_log)
        producers.take_snapshot()
        self._request.on_recovered(segment)
        return truncated

    def _recover_log(self) -> tuple[int, int]:
        request = self._request
        if not request.clean:
            self._recover_unflushed()
        end = self._end_unless_below_start()
        if not self._segments:
            base = request.log_start_offset
            self._segments.put(LogSegment(self._disk, self._directory, base, request.settings), base)
        if request.clean and end is not None:
            return end, end
        end = self._segments.last.read_next_offset() if end is None else end
        return min(request.recovery_point, end), end

    def _recover_unflushed(self) -> None:
        unflushed = self._segments.between(self._request.recovery_point, _MAX_OFFSET)
        for number, segment in enumerate(unflushed):
            if self._first_scanned is None:
                self._first_scanned = segment.base_offset
            try:
                truncated = self._recover_segment(segment)
            except (InvalidOffsetError, JavaIOError) as error:
                self._lose(segment, 0 if error.position is None else error.position)
                if error.segment_path is not None and error.position is not None:
                    self._emptied = self._emptied or (error.segment_path, error.position)
                truncated = segment.truncate_to(segment.base_offset)
            if truncated > 0:
                self._cut_at = segment.base_offset
                self._delete_segments(unflushed[number + 1 :])
                return

    def _lose(self, segment: LogSegment, position: int) -> None:
        """Raise `LogLossError` if the log must be kept. To be called before bytes from `position` on are removed from a
        segment.
        """
        if self._request.keeps_log:
            raise LogLossError(segment.path(FileKind.LOG), position)

    def _delete_segments(self, segments: list[LogSegment]) -> None:
        for segment in segments:
            self._lose(segment, 0)
            self._segments.remove(segment.base_offset)
            segment.delete_files()
        self.producers.delete_snapshots_of([segment.base_offset for segment in segments])

    def _end_unless_below_start(self) -> int | None:
        if not self._segments:
            return None
        end = self._segments.last.read_next_offset()
        if end >= self._request.log_start_offset:
            return end
        self._delete_segments(self._segments.all())
        self.epochs.clear()
        self.producers.truncate_fully(self._request.log_start_offset)
        return None

    # -- overflow ----------------------------------------------------------------------------------------------------

    def _retry_on_overflow(self, step: Callable[[], Result]) -> Result:
        while True:
            try:
                return step()
            except OffsetOverflowError as overflow:
                if not isinstance(overflow.segment, LogSegment):
                    raise
                self._split(overflow.segment)

    def _split(self, segment: LogSegment) -> None:
        """Replace a segment whose offsets do not fit its indexes by several segments that fit
        (`LocalLog.splitOverflowedSegment`). The new segments are written as `.cleaned` files, which are then renamed,
        and the old segment is removed.

        If `keeps_log` is set, raises `LogLossError` before any change. Raises `IllegalArgumentError` if no offset
        overflows, `NoSuchElementError` or `IllegalStateError` if not all bytes can be split into batches. Raises also
        the `JavaError` of a malformed batch, and `StorageError` for I/O errors.
        """
        self._lose(segment, 0)
        if not segment.has_overflow:
            raise IllegalArgumentError(
                "requirement failed: Split operation is only permitted for segments with overflow"
            )
        parts: list[LogSegment] = []
        position = 0
        while position < segment.log.size:
            first = next(segment.log.batches(position), None)
            if first is None:
                raise NoSuchElementError("no batch where a split goes on")
            part = LogSegment(self._disk, self._directory, first.base_offset, self._request.settings, CLEANED)
            parts.append(part)
            appended = self._append_from(part, segment, position)
            if appended == 0:
                raise IllegalStateError(f"Failed to append records from position {position}")
            position += appended
        for part in parts:
            part.become_inactive()
        if sum(part.log.size for part in parts) != segment.log.size:
            raise IllegalStateError("Inconsistent segment sizes after split")
        self._replace(segment, sorted(parts, key=lambda part: part.base_offset))

    def _append_from(self, part: LogSegment, source: LogSegment, start: int) -> int:
        """Append batches of `source`, from byte position `start` on, to `part` until an offset does not fit its
        indexes. Return the number of bytes appended, 0 if the first batch does not fit. Raises `JavaError` for a
        malformed batch or a full index. Raises `StorageError` if a file cannot be read or written.
        """
        position = start
        while position < source.log.size:
            chunk: list[LogBatch] = []
            size = 0
            for batch in source.log.batches(position):
                if not part.can_hold(batch.last_offset) or (chunk and size + batch.size >= _SPLIT_CHUNK):
                    break
                chunk.append(batch)
                size += batch.size
            if not chunk:
                break
            part.append_from(source, chunk)
            position += size
        return position - start

    def _replace(self, old: LogSegment, parts: list[LogSegment]) -> None:
        """Replace a segment by its parts: register the parts, delete the old files, and rename the files of the parts
        from `.cleaned` to their final names. If no part begins at the old base offset, the producer snapshot there is
        deleted. If `old` overflowed while it was being opened, it is not registered yet; its snapshot, and those of its
        files that no part replaces, are then kept. Raises `StorageError` for I/O errors.
        """
        is_known = old.base_offset in self._segments
        old.store()
        for part in parts:
            self._segments.put(part, part.base_offset)
        if is_known:
            if old.base_offset != parts[0].base_offset:
                self._segments.remove(old.base_offset)
            old.delete_files()
        for part in parts:
            part.change_suffix("")
        if is_known and old.base_offset not in {part.base_offset for part in parts}:
            self.producers.delete_snapshots_of([old.base_offset])

    # -- stop --------------------------------------------------------------------------------------------------------

    def close(self, loaded: LoadedLog) -> None:
        """Close the log as the broker does at shutdown: flush segments after the recovery point, take a producer
        snapshot if the state has advanced, append the last time index entries and trim indexes. Raises `StorageError`
        (a real disk) or `JavaError` (a virtual one) if a file cannot be written.
        """
        if loaded.log_end_offset > loaded.recovery_point:
            for segment in self._segments.between(loaded.recovery_point, loaded.log_end_offset):
                segment.flush()
        self.producers.take_snapshot()
        for segment in loaded.segments:
            segment.close()
