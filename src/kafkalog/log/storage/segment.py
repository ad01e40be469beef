"""Open, recover, truncate, append to and close one segment as the broker does (`LogSegment`, `LazyIndex`)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from kafkalog.codec.common.errors import PortableError
from kafkalog.codec.model import AnyHeader, RecordBatch, to_int32
from kafkalog.codec.names import FileKind, segment_file
from kafkalog.codec.rules.batches import MAX_RELATIVE_OFFSET
from kafkalog.log.storage.disk import Disk
from kafkalog.log.storage.indexes import OffsetIndex, TimeIndex, TimestampOffset, TransactionIndex
from kafkalog.log.storage.java import (
    CorruptRecordError,
    IllegalArgumentError,
    InvalidRecordError,
    JavaError,
    NoSuchFileError,
    int64,
)
from kafkalog.log.storage.leader_epochs import LeaderEpochFileCache
from kafkalog.log.storage.log_file import LogBatch, LogFile
from kafkalog.log.storage.producers.known_producers import ProducerStateManager
from kafkalog.log.storage.rebuild import Rebuild
from kafkalog.log.storage.settings import StorageSettings

if TYPE_CHECKING:
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["LogLossError", "LogSegment", "RollParams", "change_suffixes"]

_V2 = 2
_MANY_BATCHES = 16
"""Least batches of a run for which compiled code makes the index entries."""
_ANY_EPOCH = 2**31 - 1
"""Epoch above all others, so that no leader epoch begins."""
_ALL_KINDS = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)


class RollParams(Struct, frozen=True, kw_only=True):
    """Size and offsets of the batches to append, and limits on size and age of the segment."""

    size: int
    max_timestamp: int
    last_offset: int
    now_ms: int
    max_segment_bytes: int
    max_segment_ms: int


class AnyBatch(Protocol):
    """A batch whose header is decoded."""

    @property
    def header(self) -> AnyHeader:
        """Header of the batch."""

    @property
    def last_offset(self) -> int:
        """Offset of its last record."""

    @property
    def size(self) -> int:
        """Size of the whole batch in bytes."""


class LogLossError(PortableError):
    """A broker would remove a part of a log that must be kept. Nothing was changed."""

    def __init__(self, path: str, position: int) -> None:
        super().__init__(path, position)
        self.path = path
        """path of the log file"""
        self.position = position
        """position from which bytes would be removed"""


class LogSegment:
    """A log file and its indexes, named after the segment's base offset. Indexes are opened, and created if missing,
    when they are first used. `create` True makes a new log file, False requires an existing one, None accepts both.
    With `indexes_first` the indexes are created before the log, since a log without indexes would have to be scanned at
    the next start. Creating one, and all methods that use a file, raise `StorageError` if that fails. Creating one
    raises `KafkaError` for a log of 2 GiB or more.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        settings: StorageSettings,
        suffix: str = "",
        *,
        create: bool | None = None,
        created_ms: int = 0,
        indexes_first: bool = False,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._suffix = suffix
        self.base_offset = base_offset
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        if indexes_first:
            self.open_indexes()
        self._store = disk.open_log(self.path(FileKind.LOG), create=create)
        self.log = LogFile(self._store.source(), self._store.headers())
        self.transaction_index = TransactionIndex(disk, self.path(FileKind.TRANSACTION_INDEX), base_offset)
        self._max: TimestampOffset | None = None
        self._bytes_since_index_entry = 0
        self._created_ms = created_ms
        self._first_timestamp: int | None = None

    def path(self, kind: FileKind) -> str:
        """Return the path of a file of this segment."""
        return f"{self._directory}/{segment_file(self.base_offset, kind)}{self._suffix}"

    @property
    def offset_index(self) -> OffsetIndex:
        """Offset index, opened when first used."""
        if self._offset_index is None:
            path = self.path(FileKind.OFFSET_INDEX)
            self._offset_index = OffsetIndex(self._disk, path, self.base_offset, self._settings.segment_index_bytes)
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """Time index, opened when first used."""
        if self._time_index is None:
            path = self.path(FileKind.TIME_INDEX)
            self._time_index = TimeIndex(self._disk, path, self.base_offset, self._settings.segment_index_bytes)
        return self._time_index

    def sanity_check(self, *, time_index_is_new: bool) -> None:
        """Check the files as the broker does when it opens a segment. Set `time_index_is_new` if the time index did not
        exist before: it is then truncated to length 0. Raises `NoSuchFileError` if the offset index is missing. Raises
        `CorruptIndexError` if a transaction index entry has a last offset below the base offset. Raises `KafkaError` if
        the high byte of an entry's version is 1 to 127. Raises `StorageError` for I/O errors.
        """
        if not self._disk.exists(self.path(FileKind.OFFSET_INDEX)):
            raise NoSuchFileError(f"Offset index file {self.path(FileKind.OFFSET_INDEX)} does not exist")
        if time_index_is_new:
            self.time_index.resize(0)
        self.transaction_index.sanity_check()

    def resize_indexes(self) -> None:
        """Give the indexes of the active segment their full size."""
        self.offset_index.resize(self._settings.segment_index_bytes)
        self.time_index.resize(self._settings.segment_index_bytes)

    def can_hold(self, offset: int) -> bool:
        """Whether an offset fits the indexes: it is at or above the base offset and at most 2^31 - 1 above it."""
        return 0 <= int64(offset - self.base_offset) <= MAX_RELATIVE_OFFSET

    def _max_timestamp(self) -> TimestampOffset:
        if self._max is None:
            self._max = self.time_index.last_entry
        return self._max

    def recover(self, producers: ProducerStateManager, epochs: LeaderEpochFileCache, *, keeps_log: bool = False) -> int:
        """Scan and verify all batches, truncate the log at the first invalid one (after it if only its marker is
        malformed), and rebuild the indexes. Return the number of bytes removed; 0 if all are valid. The scan adds the
        batches to `producers` and `epochs`. With `keeps_log`, `LogLossError` is raised instead of truncating, and a
        full index gets no further entries.

        Raises any other `JavaError` of the broker, with the batch's position; the indexes are then incomplete. Examples
        are `OffsetOverflowError`, `FullIndexError` and errors of producer state.
        """
        offset_index, time_index = self.offset_index, self.time_index
        offset_index.reset()
        time_index.reset()
        self.transaction_index.reset()
        self._max = None
        interval = self._settings.index_interval_bytes
        indexes = (offset_index, time_index, self.transaction_index)
        rebuild = Rebuild(self, self.log, indexes, interval, producers, epochs, while_there_is_room=keeps_log)
        try:
            rebuild.walk()
        except (CorruptRecordError, InvalidRecordError):
            pass  # the broker logs this error and truncates the log at the batch
        except JavaError as error:
            raise error.at(rebuild.position, self.path(FileKind.LOG)) from error.__cause__
        finally:
            self._max = rebuild.largest
        truncated = self.log.size - rebuild.valid_bytes
        if keeps_log and truncated:
            raise LogLossError(self.path(FileKind.LOG), rebuild.valid_bytes)
        self._truncate_log(rebuild.valid_bytes)
        offset_index.trim()
        if keeps_log:
            self.append_largest_timestamp()
        else:
            time_index.maybe_append(*rebuild.largest, skip_full_check=True)
        time_index.trim()
        self.transaction_index.store()
        return truncated

    def _truncate_log(self, size: int) -> None:
        if size < self.log.size:
            self._store.truncate(size)
            self.log = LogFile(self._store.source(), self._store.headers())

    def translate(self, offset: int, start: int = 0) -> LogBatch | None:
        """Return the batch that contains `offset`, otherwise the first batch after it; None if neither exists. The scan
        begins at the position in the offset index, but not before byte position `start` (a batch must begin there).
        Raises `JavaError`, with the path of the log, for a malformed batch before the result.
        """
        position = max(self.offset_index.lookup(offset).position, start)
        try:
            return self.log.search(offset, position)
        except JavaError as error:
            raise error.at(None, self.path(FileKind.LOG)) from error.__cause__

    def read(self, offset: int, max_size: int, max_position: int | None = None) -> tuple[int, int] | None:
        """Return byte position and size of the range that a broker's read from `offset` returns; nothing is read from
        this range. Return None if no batch has this offset or a higher one. The range begins with the batch that
        contains `offset`, or with the next one. It has at most `max_size` bytes and ends at or before `max_position`
        (None: end of the log). Its last batch may be incomplete.

        Raises `IllegalArgumentError` if the batch begins after `max_position` and `max_size` is not 0, `JavaError` for
        a malformed batch.
        """
        limit = self.log.size if max_position is None else max_position
        batch = self.translate(offset)
        if batch is None:
            return None
        if max_size == 0:
            return batch.position, 0
        size = min(to_int32(limit - batch.position), max_size)
        if size < 0:
            raise IllegalArgumentError(f"Invalid size: {size} in read")
        return batch.position, min(size, self.log.size - batch.position)

    def read_next_offset(self) -> int:
        """Return the log end offset (the last offset plus one), found as the broker does: by scanning from the last
        entry of the offset index. If no batch reaches that entry's offset, return the base offset. Raises `JavaError`
        for a malformed batch.
        """
        last_part = self.read(self.offset_index.last_offset, self.log.size)
        if last_part is None:
            return self.base_offset
        try:
            last = self.log.last_batch(*last_part)
        except JavaError as error:
            raise error.at(None, self.path(FileKind.LOG)) from error.__cause__
        return self.base_offset if last is None else int64(last.last_offset + 1)

    @property
    def has_overflow(self) -> bool:
        """Whether the last offset does not fit the indexes."""
        next_offset = self.read_next_offset()
        return next_offset > self.base_offset and not self.can_hold(next_offset - 1)

    def truncate_to(self, offset: int, now_ms: int = 0, *, log_first: bool = False) -> int:
        """Remove the batch that contains `offset`, all later batches, and all index entries at or above `offset`.
        Return the number of bytes removed from the log. Offset and time index get their full size again. If the log is
        empty afterwards, `now_ms` becomes its creation time. Raises `JavaError` if the scan from the offset index's
        entry meets a malformed batch, or a transaction index entry with a version above 255.

        With `log_first` the log is truncated before the indexes. After a crash in between, the indexes have entries
        beyond the end of the log, which the next check detects; it would not detect missing entries.
        """
        batch = self.translate(offset)
        size = self.log.size if batch is None else batch.position
        truncated = self.log.size - size
        if log_first:
            self._truncate_log(size)
        offset_index, time_index = self.offset_index, self.time_index
        offset_index.truncate_to(offset)
        time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        offset_index.resize(offset_index.max_size)
        time_index.resize(time_index.max_size)
        self._truncate_log(size)
        if self.log.size == 0:
            self._created_ms = now_ms
            self._first_timestamp = None
        self._bytes_since_index_entry = 0
        if self._max_timestamp().timestamp >= 0:
            self._max = self._read_largest_timestamp()
        return truncated

    def _read_largest_timestamp(self) -> TimestampOffset:
        last = self.time_index.last_entry
        timestamp, offset = self.log.largest_timestamp_after(self.offset_index.lookup(last.offset).position)
        return TimestampOffset(timestamp, offset) if timestamp > last.timestamp else last

    def flush(self) -> None:
        """Flush all files to disk. Both indexes are opened, and created if missing."""
        self._store.sync()
        self.offset_index.sync()
        self.time_index.sync()
        self.transaction_index.sync()

    def store(self) -> None:
        """Write pending changes of open indexes to the disk."""
        self.transaction_index.store()
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.store()

    def close(self) -> None:
        """Close the segment as a broker does. Append the last time index entry if the largest timestamp is known; a
        `JavaError` is ignored. Truncate opened indexes to their entries, and write pending entries. File handles stay
        open; `close_handlers` closes them.
        """
        if self._max is not None:
            with contextlib.suppress(JavaError):  # the broker ignores all exceptions here
                self.time_index.maybe_append(*self._max, skip_full_check=True)
        if self._offset_index is not None:
            self._offset_index.trim()
        if self._time_index is not None:
            self._time_index.trim()
        self.store()

    def close_handlers(self) -> None:
        """Close the files without writing. They are opened again when needed."""
        for file in (self._store, self._offset_index, self._time_index, self.transaction_index):
            if file is not None:
                file.close()
        self._offset_index = self._time_index = None

    def become_inactive(self) -> None:
        """Write the last time index entry and release unused space, as rolling does with the previous segment."""
        self.time_index.maybe_append(*self._max_timestamp(), skip_full_check=True)
        self.trim()

    def trim(self) -> None:
        """Release the space that log and indexes do not use."""
        self.offset_index.trim()
        self.time_index.trim()
        self._store.trim()

    def delete_files(self) -> None:
        """Remove the files of the segment."""
        self.close_handlers()
        for kind in _ALL_KINDS:
            self._disk.delete(self.path(kind))

    def change_suffix(self, suffix: str) -> None:
        """Rename the existing files of the segment, the log first, to names with `suffix` in place of the present
        suffix. Pending index entries are written before. The segment stays usable under the new names. Raises
        `StorageError` if a file cannot be written or renamed.
        """
        self.store()
        change_suffixes(self._disk, self._directory, self.base_offset, self._suffix, suffix)
        self._suffix = suffix
        self._store.renamed(self.path(FileKind.LOG))
        for kind, index in ((FileKind.OFFSET_INDEX, self._offset_index), (FileKind.TIME_INDEX, self._time_index)):
            if index is not None and self._disk.is_file(self.path(kind)):
                index.renamed(self.path(kind))
        self.transaction_index.renamed(self.path(FileKind.TRANSACTION_INDEX))

    # -- appending ---------------------------------------------------------------------------------------------------

    def reserve(self, size: int) -> None:
        """Reserve space for a log of `size` bytes."""
        self._store.reserve(size)

    def should_roll(self, roll: RollParams) -> bool:
        """Return whether the batches described by `roll` must go to a new segment. This is so if the log would exceed
        `max_segment_bytes`, if an index is full, or if the last offset does not fit the indexes. It is also so if the
        segment has batches and is older than `max_segment_ms`.

        The age is the time from the first batch's largest timestamp to the largest timestamp to append. If the first
        batch has no timestamp, it is the time from the segment's creation to now. Raises `JavaError` if the first batch
        is malformed.
        """
        size = self._store.size
        return (
            size > roll.max_segment_bytes - roll.size
            or (size > 0 and self._waited(roll) > roll.max_segment_ms)
            or self.offset_index.is_full
            or self.time_index.is_full
            or not 0 <= roll.last_offset - self.base_offset <= MAX_RELATIVE_OFFSET
        )

    def _waited(self, roll: RollParams) -> int:
        if self._first_timestamp is None:
            first = next(self.log.batches(), None)
            self._first_timestamp = None if first is None else first.header.max_timestamp
        if self._first_timestamp is not None and self._first_timestamp >= 0:
            return roll.max_timestamp - self._first_timestamp
        return roll.now_ms - self._created_ms

    def append(self, batches: Sequence[RecordBatch]) -> None:
        """Append batches to the log file, and index entries for those before which more than `index.interval.bytes`
        were added since the last entries. The batches are not checked, and nothing is flushed. If an index is full, the
        remaining batches get no entries; a broker would throw after writing the batches.

        Raises `StorageError` if writing fails, and the `InvalidOffsetError` and `IndexOffsetOverflowError` of
        `index_batch`.
        """
        position = self._store.size
        self._store.append(b"".join(bytes(batch.data) for batch in batches))
        for batch in batches:
            self.index_batch(batch, position, while_there_is_room=True)
            position += batch.size

    def index_batch(self, batch: AnyBatch, position: int, *, while_there_is_room: bool = False) -> None:
        """Update the largest timestamp with a batch at byte position `position` of the log. If more than
        `index.interval.bytes` were added since the last index entries, append new entries. The offset index gets the
        batch, and the time index gets the largest timestamp if it has grown. If an index is full at this point, raise
        `FullIndexError`; with `while_there_is_room`, append no entries instead. Raises `InvalidOffsetError` if an entry
        would not be above the last one. Raises `IndexOffsetOverflowError` if the offset of an entry does not fit the
        index. Raises `StorageError` if an index cannot be opened or written.
        """
        largest = self._max or self._max_timestamp()
        if batch.header.max_timestamp > largest.timestamp:
            largest = self._max = TimestampOffset(batch.header.max_timestamp, batch.last_offset)
        if self._bytes_since_index_entry > self._settings.index_interval_bytes:
            offsets, times = self.offset_index, self.time_index
            if not (while_there_is_room and (offsets.is_full or times.is_full)):
                offsets.append(batch.last_offset, position)
                times.maybe_append(*largest)
                self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += batch.size

    def append_from(self, other: LogSegment, batches: Sequence[LogBatch] | BatchRun) -> None:
        """Append consecutive batches of another segment, at least one: copy their bytes from its log file, and append
        the index entries that are due. Raises `StorageError` if a file cannot be read or written. Raises `KafkaError`
        if the log becomes 2 GiB or larger, and the errors of `index_batch` (`FullIndexError`, `InvalidOffsetError`,
        `IndexOffsetOverflowError`); the bytes are written before that.
        """
        position = self.log.size
        if isinstance(batches, Sequence):
            start, end = batches[0].position, batches[-1].position + batches[-1].size
        else:
            start, end = batches.position(0), batches.end
        self._store.append_from(other._store.source(), start, end)
        self.log = LogFile(self._store.source())
        self._index_all(batches, position)

    def _index_all(self, batches: Sequence[AnyBatch] | BatchRun, position: int) -> int:
        """Update largest timestamp and indexes for consecutive batches. The first batch is at byte position `position`;
        return the position after the last. Raises the errors of `index_batch`, such as `FullIndexError`.
        """
        if not isinstance(batches, Sequence) and len(batches) >= _MANY_BATCHES:
            return self._index_run(batches, position)
        for batch in batches:
            self.index_batch(batch, position)
            position += batch.size
        return position

    def _index_run(self, run: BatchRun, position: int) -> int:
        """Update largest timestamp and indexes for a run of batches with compiled code. The first batch is at byte
        position `position`; return the position after the last. The entries are those that recovery would make. Raises
        the errors of `index_batch`, such as `FullIndexError`.
        """
        from kafkalog.codec.headers.rebuild_segment import IndexLimits, Progress, recover_run

        offsets, times = self.offset_index, self.time_index
        limits = IndexLimits(
            self.base_offset, self._settings.index_interval_bytes, offsets.max_entries, times.max_entries
        )
        first = 0
        while first < len(run):
            before = Progress(
                position, position - self._bytes_since_index_entry, *self._max_timestamp(), offsets.entries,
                offsets.last_offset, times.entries, *times.last_entry, _ANY_EPOCH,
            )  # fmt: skip
            indexed = recover_run(run, first, len(run), before, limits)
            after = indexed.progress
            offsets.extend(indexed.offset_entries, after.last_offset)
            times.extend(indexed.time_entries, TimestampOffset(after.last_timestamp, after.last_timestamp_offset))
            self._max = TimestampOffset(after.timestamp, after.timestamp_offset)
            position, self._bytes_since_index_entry = after.valid_bytes, after.valid_bytes - after.last_indexed
            first = indexed.stopped
            if first < len(run):
                batch = run.batch(first)
                self.index_batch(batch, position)
                position, first = position + batch.size, first + 1
        return position

    def open_indexes(self) -> None:
        """Open both indexes, and create missing ones, as a broker does before it appends."""
        _ = self.offset_index, self.time_index

    def append_rewritten(self, data: bytes, batches: Iterable[Sequence[AnyBatch] | BatchRun]) -> None:
        """Append rewritten batches of the cleaner: write `data`, which must be the bytes of all `batches` in order,
        then append the index entries that are due. Raises `StorageError` if a file cannot be written. Raises
        `KafkaError` if the log becomes 2 GiB or larger, and the errors of `index_batch` (`FullIndexError`,
        `InvalidOffsetError`, `IndexOffsetOverflowError`); the bytes are written before that.
        """
        position = self.log.size
        self._store.append(data)
        self.log = LogFile(self._store.source())
        for group in batches:
            position = self._index_all(group, position)

    def append_largest_timestamp(self) -> None:
        """Append the last time index entry, with the largest timestamp, if it is larger than that of the present last
        entry. Do nothing if the index is full, because it was written with a larger size.
        """
        if self.time_index.entries < self.time_index.max_entries:
            self.time_index.maybe_append(*self._max_timestamp(), skip_full_check=True)

    @property
    def largest_timestamp(self) -> int:
        """Largest known timestamp in ms; -1 if there is none."""
        return self._max_timestamp().timestamp

    @property
    def age_timestamp(self) -> int:
        """Time in ms from which the segment's age is counted: its largest timestamp, or the modification time if it has
        none.
        """
        largest = self.largest_timestamp
        return largest if largest >= 0 else self.modified_ms

    @property
    def first_batch_timestamp(self) -> int | None:
        """Largest timestamp of the first batch in ms; None without a batch or timestamp."""
        first = next(self.log.batches(), None)
        return None if first is None or first.header.max_timestamp < 0 else first.header.max_timestamp

    @property
    def modified_ms(self) -> int:
        """Modification time of the log in ms since 1970."""
        return self._disk.modified_ms(self.path(FileKind.LOG))

    def set_modified_ms(self, time_ms: int) -> None:
        """Set the modification time of log and indexes, in ms since 1970."""
        for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            self._disk.set_modified_ms(self.path(kind), time_ms)


def change_suffixes(disk: Disk, directory: str, base_offset: int, old: str, new: str) -> list[str]:
    """Rename the existing files of a segment from suffix `old` to suffix `new`, in the order log, offset, time and
    transaction index; return the new paths in this order. Missing files are skipped. Suffixes may be empty. Raises
    `StorageError` if a file cannot be renamed; earlier ones stay renamed.
    """
    renamed = []
    for kind in _ALL_KINDS:
        path = f"{directory}/{segment_file(base_offset, kind)}"
        if disk.is_file(path + old):
            disk.rename(path + old, path + new)
            renamed.append(path + new)
    return renamed
