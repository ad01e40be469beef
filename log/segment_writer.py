"""One segment that is written: its log and its indexes, by the rules of `LogSegment` of Kafka 4.1."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kafkalog.codec.errors import FormatError
from kafkalog.codec.index_files import decode_offset_index, decode_time_index, used_offset_entries, used_time_entries
from kafkalog.codec.limits import DEFAULT_LIMITS
from kafkalog.codec.model import NO_TIMESTAMP, RecordBatch
from kafkalog.codec.names import DELETED, FileKind, segment_file
from kafkalog.codec.rules import MAX_RELATIVE_OFFSET
from kafkalog.codec.scan import Scanner
from kafkalog.log import fs
from kafkalog.log.config import LogConfig
from kafkalog.log.files import FileSource
from kafkalog.log.storage.disk import Disk
from kafkalog.log.storage.indexes import OffsetIndex, TimeIndex, TimestampOffset, TransactionIndex

__all__ = ["SegmentWriter", "mark_deleted"]

_KINDS = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)


class SegmentWriter:
    """A base offset, the log from it on, and the indexes; only the last segment of a log is appended to."""

    def __init__(
        self, disk: Disk, directory: str, base_offset: int, config: LogConfig, now_ms: int, *, create: bool
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self._config = config
        self._created_ms = now_ms
        path, size = self.path, config.segment_index_bytes
        # the indexes first: a log without them would have to be scanned, indexes without a log are nothing
        kinds = FileKind.OFFSET_INDEX, FileKind.TIME_INDEX
        self.offset_index = OffsetIndex(disk, path(kinds[0]), base_offset, size)
        self.time_index = TimeIndex(disk, path(kinds[1]), base_offset, size)
        self.transaction_index = TransactionIndex(disk, path(FileKind.TRANSACTION_INDEX), base_offset)
        if self.transaction_index.torn_bytes:
            source = path(FileKind.TRANSACTION_INDEX)
            raise FormatError("a transaction index with a torn entry", source=source, code="index_invalid")
        self._log = fs.AppendFile(path(FileKind.LOG), create=create)
        self._bytes_since_entry = 0
        self._largest = self.time_index.last_entry
        self._first_timestamp: int | None = None
        if create and config.preallocate:
            self._log.reserve(config.segment_bytes)

    def path(self, kind: FileKind) -> str:
        """Where a file of the segment stands."""
        return os.path.join(self.directory, segment_file(self.base_offset, kind))

    @property
    def size(self) -> int:
        """Bytes of the log."""
        return self._log.size

    @property
    def largest_timestamp(self) -> int:
        """Of all batches, ms; -1 if none has one."""
        return self._largest.timestamp

    @property
    def modified_ms(self) -> int:
        """When the log file was changed last."""
        return os.stat(self.path(FileKind.LOG)).st_mtime_ns // 1_000_000

    @property
    def indexes_make_sense(self) -> bool:
        """The entries increase and point into the log."""
        offsets = decode_offset_index(self.offset_index.content())
        times = decode_time_index(self.time_index.content())
        return (
            used_offset_entries(offsets) == len(offsets)
            and used_time_entries(times) == len(times)
            and (not offsets or offsets[-1].position < self.size)
        )

    # -- appending ---------------------------------------------------------------------------------------------------

    def should_roll(self, size: int, max_timestamp: int, last_offset: int, now_ms: int) -> bool:
        """Whether a new segment must begin before `size` bytes up to `last_offset` are appended."""
        return (
            self.size > self._config.segment_bytes - size
            or (self.size > 0 and self._waited(max_timestamp, now_ms) > self._config.segment_ms)
            or self.offset_index.is_full
            or self.time_index.is_full
            or not 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET
        )

    def _waited(self, max_timestamp: int, now_ms: int) -> int:
        if self._first_timestamp is not None and self._first_timestamp >= 0:
            return max_timestamp - self._first_timestamp
        return now_ms - self._created_ms

    def append(self, batches: Sequence[RecordBatch]) -> None:
        """Write batches behind the end, then their index entries."""
        position = self.size
        self._log.append(b"".join(bytes(batch.data) for batch in batches))
        for batch in batches:
            self.note(batch, position)
            position += batch.size

    def note(self, batch: RecordBatch, position: int) -> None:
        """Index one batch that stands at `position`."""
        header = batch.header
        if self._first_timestamp is None:
            self._first_timestamp = header.max_timestamp
        if header.max_timestamp > self._largest.timestamp:
            self._largest = TimestampOffset(header.max_timestamp, header.last_offset)
        # where an append of several batches fills an index, Kafka throws behind the write; fewer entries do no harm
        full = self.offset_index.is_full or self.time_index.is_full
        if self._bytes_since_entry > self._config.index_interval_bytes and not full:
            self.offset_index.append(header.last_offset, position)
            self.time_index.maybe_append(*self._largest)
            self._bytes_since_entry = 0
        self._bytes_since_entry += header.size

    # -- opening -----------------------------------------------------------------------------------------------------

    def begin_rebuild(self) -> None:
        """Empty the indexes; `note` every batch, then `end_rebuild`."""
        self.offset_index.reset()
        self.time_index.reset()
        self.transaction_index.reset()
        self._largest = self.time_index.last_entry
        self._bytes_since_entry = 0
        self._first_timestamp = None

    def end_rebuild(self) -> None:
        """The last time entry; a broker that opens a segment begins to count the interval anew."""
        self._append_largest()
        self.reopened()

    def reopened(self, first: RecordBatch | None = None) -> None:
        """The segment is appended to again; `first` is its first batch."""
        self._bytes_since_entry = 0
        if first is not None:
            self._first_timestamp = first.header.max_timestamp

    # -- ending ------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Write the last time entry and give back reserved room: the segment is closed or another one follows."""
        self._append_largest()
        self._log.trim()

    def _append_largest(self) -> None:
        if self.time_index.entries < self.time_index.max_entries:  # or it was written with room for more
            self.time_index.maybe_append(*self._largest, skip_full_check=True)

    def sync(self) -> None:
        """Make log and indexes durable."""
        self._log.sync()
        self.offset_index.sync()
        self.time_index.sync()
        self.transaction_index.sync()

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Cut the log before the batch that reaches `offset`; gives the offset behind the last batch that is left."""
        end, cut = self.base_offset, None
        with FileSource(self.path(FileKind.LOG)) as source:
            indexed = self.offset_index.lookup(offset)  # the end may be that of the batch before the indexed one
            start = self.offset_index.lookup(indexed.offset - 1).position
            for batch in Scanner(source, position=start, end=self.size, check_crc=False):
                if batch.last_offset >= offset:
                    cut = batch.position
                    break
                end = batch.header.next_offset
        # the log first: entries that point behind its end are found wrong, a log without its entries is not
        if cut is not None:
            self._log.truncate(cut)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        if self.size == 0:
            self._created_ms = now_ms
            self._first_timestamp = None
        self._bytes_since_entry = 0
        if self._largest.timestamp >= 0:
            self._largest = self._find_largest()
        return end

    def _find_largest(self) -> TimestampOffset:
        last = self.time_index.last_entry
        largest = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        with FileSource(self.path(FileKind.LOG)) as source:
            start = self.offset_index.lookup(last.offset).position
            for batch in Scanner(source, position=start, end=self.size, check_crc=False, limits=DEFAULT_LIMITS):
                if batch.header.max_timestamp > largest.timestamp:
                    largest = TimestampOffset(batch.header.max_timestamp, batch.last_offset)
        return largest if largest.timestamp > last.timestamp else last

    def close(self) -> None:
        """Close the files."""
        for file in (self._log, self.offset_index, self.time_index, self.transaction_index):
            file.close()


def mark_deleted(directory: str, base_offset: int) -> list[str]:
    """Rename all files of a closed segment to `.deleted`, the log first; gives their paths."""
    renamed = []
    for kind in _KINDS:
        path = os.path.join(directory, segment_file(base_offset, kind))
        if os.path.lexists(path):
            fs.rename(path, path + DELETED)
            renamed.append(path + DELETED)
    return renamed
