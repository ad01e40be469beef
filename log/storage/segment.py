"""One segment as the broker opens, recovers, truncates and closes it (`LogSegment`, `LazyIndex`)."""

from __future__ import annotations

import contextlib

from kafkalog.codec.model import NO_TIMESTAMP
from kafkalog.codec.names import FileKind, segment_file
from kafkalog.codec.rules import MAX_RELATIVE_OFFSET
from kafkalog.log.storage.content import Content, join
from kafkalog.log.storage.indexes import OffsetIndex, TimeIndex, TimestampOffset, TransactionIndex
from kafkalog.log.storage.java import (
    CorruptRecordError,
    IllegalArgumentError,
    InvalidRecordError,
    JavaError,
    JavaIOError,
    NoSuchFileError,
    int32,
    int64,
)
from kafkalog.log.storage.leader_epochs import LeaderEpochFileCache
from kafkalog.log.storage.log_file import LogBatch, LogFile
from kafkalog.log.storage.producers import ProducerStateManager
from kafkalog.log.storage.rebuild import Rebuild
from kafkalog.log.storage.settings import StorageSettings
from kafkalog.log.storage.tree import Tree

__all__ = ["LogSegment"]

_V2 = 2
_ALL_KINDS = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)


class LogSegment:
    """A base offset, its log and its indexes; indexes are opened (and if missing created) when first needed."""

    def __init__(
        self, tree: Tree, directory: str, base_offset: int, settings: StorageSettings, suffix: str = ""
    ) -> None:
        self._tree = tree
        self._directory = directory
        self._settings = settings
        self._suffix = suffix
        self.base_offset = base_offset
        path = self.path(FileKind.LOG)
        if path in tree.directories:
            raise JavaIOError(f"{path} (Is a directory)")
        if path not in tree.files:
            tree.write(path, b"")
        self.log = LogFile(tree.source(path), tree.headers(path))
        self.transaction_index = TransactionIndex(tree, self.path(FileKind.TRANSACTION_INDEX), base_offset)
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._max: TimestampOffset | None = None
        self._bytes_since_index_entry = 0

    def path(self, kind: FileKind) -> str:
        """Where a file of this segment stands."""
        return f"{self._directory}/{segment_file(self.base_offset, kind)}{self._suffix}"

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index, opened when first asked for."""
        if self._offset_index is None:
            path = self.path(FileKind.OFFSET_INDEX)
            self._offset_index = OffsetIndex(self._tree, path, self.base_offset, self._settings.segment_index_bytes)
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, opened when first asked for."""
        if self._time_index is None:
            path = self.path(FileKind.TIME_INDEX)
            self._time_index = TimeIndex(self._tree, path, self.base_offset, self._settings.segment_index_bytes)
        return self._time_index

    def sanity_check(self, *, time_index_is_new: bool) -> None:
        """What is checked at opening: that there is an offset index, and the transaction index."""
        if not self._tree.exists(self.path(FileKind.OFFSET_INDEX)):
            raise NoSuchFileError(f"Offset index file {self.path(FileKind.OFFSET_INDEX)} does not exist")
        if time_index_is_new:
            self.time_index.resize(0)
        self.transaction_index.sanity_check()

    def resize_indexes(self) -> None:
        """Give the active segment's indexes their full size."""
        self.offset_index.resize(self._settings.segment_index_bytes)
        self.time_index.resize(self._settings.segment_index_bytes)

    def can_hold(self, offset: int) -> bool:
        """The offset fits into the indexes."""
        return 0 <= int64(offset - self.base_offset) <= MAX_RELATIVE_OFFSET

    def _max_timestamp(self) -> TimestampOffset:
        if self._max is None:
            self._max = self.time_index.last_entry
        return self._max

    def recover(self, producers: ProducerStateManager, epochs: LeaderEpochFileCache) -> int:
        """Walk all batches, cut at the first invalid one, rebuild the indexes; gives the bytes that were cut."""
        offset_index, time_index = self.offset_index, self.time_index
        offset_index.reset()
        time_index.reset()
        self.transaction_index.reset()
        self._max = None
        interval = self._settings.index_interval_bytes
        indexes = (offset_index, time_index, self.transaction_index)
        rebuild = Rebuild(self, self.log, indexes, interval, producers, epochs)
        try:
            rebuild.walk()
        except (CorruptRecordError, InvalidRecordError):
            pass  # the broker logs it and cuts here
        except JavaError as error:
            raise error.at(rebuild.position, self.path(FileKind.LOG)) from error.__cause__
        finally:
            self._max = rebuild.largest
        truncated = self.log.size - rebuild.valid_bytes
        self._truncate_log(rebuild.valid_bytes)
        offset_index.trim()
        time_index.maybe_append(*rebuild.largest, skip_full_check=True)
        time_index.trim()
        self.transaction_index.store()
        return truncated

    def _truncate_log(self, size: int) -> None:
        if size < self.log.size:
            path = self.path(FileKind.LOG)
            self._tree.files[path] = self._tree.files[path].slice(0, size)
            self.log = LogFile(self._tree.source(path), self._tree.headers(path))

    def translate(self, offset: int, start: int = 0) -> LogBatch | None:
        """The batch of an offset, through the index."""
        position = max(self.offset_index.lookup(offset).position, start)
        try:
            return self.log.search(offset, position)
        except JavaError as error:
            raise error.at(None, self.path(FileKind.LOG)) from error.__cause__

    def read(self, offset: int, max_size: int, max_position: int | None = None) -> tuple[int, int] | None:
        """Position and size of what a read from an offset gives; None if there is nothing at or behind it."""
        limit = self.log.size if max_position is None else max_position
        batch = self.translate(offset)
        if batch is None:
            return None
        if max_size == 0:
            return batch.position, 0
        size = min(int32(limit - batch.position), max_size)
        if size < 0:
            raise IllegalArgumentError(f"Invalid size: {size} in read")
        return batch.position, min(size, self.log.size - batch.position)

    def read_next_offset(self) -> int:
        """The log end offset as the broker finds it: from the last index entry on."""
        found = self.read(self.offset_index.last_offset, self.log.size)
        if found is None:
            return self.base_offset
        try:
            last = self.log.last_batch(*found)
        except JavaError as error:
            raise error.at(None, self.path(FileKind.LOG)) from error.__cause__
        return self.base_offset if last is None else int64(last.last_offset + 1)

    @property
    def has_overflow(self) -> bool:
        """The last batch's offset does not fit."""
        next_offset = self.read_next_offset()
        return next_offset > self.base_offset and not self.can_hold(next_offset - 1)

    def truncate_to(self, offset: int) -> int:
        """Cut log and indexes at an offset; gives the bytes that were cut."""
        found = self.translate(offset)
        offset_index, time_index = self.offset_index, self.time_index
        offset_index.truncate_to(offset)
        time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        offset_index.resize(offset_index.max_size)
        time_index.resize(time_index.max_size)
        truncated = 0
        if found is not None:
            truncated = self.log.size - found.position
            self._truncate_log(found.position)
        if self._max_timestamp().timestamp >= 0:
            self._max = self._read_largest_timestamp()
        return truncated

    def _read_largest_timestamp(self) -> TimestampOffset:
        last = self.time_index.last_entry
        timestamp, offset = self.log.largest_timestamp_after(self.offset_index.lookup(last.offset).position)
        return TimestampOffset(timestamp, offset) if timestamp > last.timestamp else last

    def flush(self) -> None:
        """Flushing opens the indexes."""
        _ = self.offset_index, self.time_index

    def store(self) -> None:
        """Bring the tree up to date with what open indexes hold."""
        self.transaction_index.store()
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.store()

    def close(self) -> None:
        """Write the last time index entry and trim what is open."""
        if self._max is not None:
            with contextlib.suppress(JavaError):  # the broker swallows whatever happens here
                self.time_index.maybe_append(*self._max, skip_full_check=True)
        if self._offset_index is not None:
            self._offset_index.trim()
        if self._time_index is not None:
            self._time_index.trim()
        self.store()

    def become_inactive(self) -> None:
        """What rolling does to the segment that is left."""
        self.time_index.maybe_append(*self._max_timestamp(), skip_full_check=True)
        self.offset_index.trim()
        self.time_index.trim()

    def delete_files(self) -> None:
        """Remove the segment's files."""
        for kind in _ALL_KINDS:
            self._tree.delete(self.path(kind))

    def change_suffix(self, suffix: str) -> None:
        """Rename the segment's files."""
        self.store()
        for kind in _ALL_KINDS:
            old = self.path(kind)
            new = f"{self._directory}/{segment_file(self.base_offset, kind)}{suffix}"
            if old in self._tree.files:
                self._tree.rename(old, new)
        self._suffix = suffix
        for kind, index in ((FileKind.OFFSET_INDEX, self._offset_index), (FileKind.TIME_INDEX, self._time_index)):
            if index is not None and self.path(kind) in self._tree.files:
                index.renamed(self.path(kind))
        self.transaction_index.renamed(self.path(FileKind.TRANSACTION_INDEX))

    def append_from(self, source: LogSegment, start: int) -> int:
        """Append batches of another segment while their offsets fit, as a split does; gives the bytes taken."""
        position = start
        while position < source.log.size:
            chunk: list[LogBatch] = []
            size = 0
            for batch in source.log.batches(position):
                if not self.can_hold(batch.last_offset) or (chunk and size + batch.size >= _SPLIT_CHUNK):
                    break
                chunk.append(batch)
                size += batch.size
            if not chunk:
                break
            self._append_chunk(source, chunk, position, size)
            position += size
        return position - start

    def _append_chunk(self, source: LogSegment, chunk: list[LogBatch], start: int, size: int) -> None:
        path = self.path(FileKind.LOG)
        physical = self.log.size
        taken: Content = self._tree.files[source.path(FileKind.LOG)].slice(start, start + size)
        self._tree.files[path] = join([*self._tree.files[path].parts, *taken.parts])
        self.log = LogFile(self._tree.source(path))
        for batch in chunk:
            if batch.header.max_timestamp > self._max_timestamp().timestamp:
                self._max = TimestampOffset(batch.header.max_timestamp, batch.last_offset)
            if self._bytes_since_index_entry > self._settings.index_interval_bytes:
                self.offset_index.append(batch.last_offset, physical)
                self.time_index.maybe_append(*self._max_timestamp())
                self._bytes_since_index_entry = 0
            physical += batch.size
            self._bytes_since_index_entry += batch.size

    @property
    def largest_timestamp(self) -> int:
        """Largest timestamp that is known; -1 if none."""
        return NO_TIMESTAMP if self._max is None else self._max.timestamp


_SPLIT_CHUNK = 1024 * 1024
