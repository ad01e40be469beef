"""One segment for reading: the files that share a base offset (Kafka's `LogSegment`)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import Struct

from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.names import FileKind
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.disk.files import FileSource, NotRegularFileError
from kafkalog.log.walk.lookup import indexed_position, start_position
from kafkalog.log.walk.missing import was_emptied

__all__ = ["Segment", "index_of", "logs_of"]

_BEYOND = (1 << 63) - 1
"""Offset above all others."""


class Segment(Struct, frozen=True, kw_only=True):
    """A log file and the files that belong to it. Sizes are in bytes, as of the listing of the directory."""

    base_offset: int
    path: str
    """path of the log file"""
    size: int
    """size of the log file"""
    modified_ns: int
    """modification time of the log file, in ns since 1970"""
    files: Mapping[FileKind, str]
    """paths of all its files, with the log"""
    sizes: Mapping[FileKind, int]
    newest: int | None = None
    """largest timestamp in ms, if it is known without reading the log: for a remote segment; otherwise None"""
    is_untold: bool = False
    """whether it is remote and its largest timestamp is not known: learning it takes a request"""

    @property
    def total_bytes(self) -> int:
        """Size of all its files in bytes."""
        return sum(self.sizes.values())

    def open(self) -> FileSource:
        """Open the log file for reading. Raises `StorageError` if it cannot be opened."""
        return FileSource(self.path)

    def was_emptied(self) -> bool:
        """Return whether the log is empty although the first entry of its time index is not all zeros, which shows that
        it once had batches. Return False if the log is not empty, or if the time index is missing or not a regular
        file. Raises `StorageError` if the index cannot be read for another reason.
        """
        path = self.files.get(FileKind.TIME_INDEX)
        if self.size or path is None:
            return False
        try:
            with FileSource(path) as index:
                return was_emptied(self.size, index)
        except (FileNotFoundError, NotRegularFileError):
            return False

    @contextmanager
    def scanner(
        self, *, position: int = 0, check_crc: bool = True, limits: Limits = DEFAULT_LIMITS
    ) -> Iterator[Scanner]:
        """Return a context manager that gives a scanner of the log file, and closes the file at the end. Raises
        `StorageError` if the file cannot be opened.
        """
        with self.open() as source:
            yield Scanner(source, position=position, check_crc=check_crc, limits=limits)

    def batches(self, *, limits: Limits = DEFAULT_LIMITS) -> Iterator[RecordBatch]:
        """Yield the valid batches up to the first damage. Use `scanner` to learn why the scan ended."""
        with self.scanner(limits=limits) as scanner:
            yield from scanner

    def next_offset(self, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return the offset after the last valid batch; the base offset if there is none. Scans from the last index
        entry on. Raises `StorageError` if the log cannot be read.
        """
        with self.open() as source:
            position = self.position_of(_BEYOND, source, limits=limits)
            ends = (batch.header.next_offset for batch in Scanner(source, position=position, limits=limits))
            return max(ends, default=self.base_offset)

    def position_of(self, offset: int, source: FileSource, *, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return a byte position from which to scan `source`, the opened log, for offsets at or above `offset`: if the
        log's offsets increase, all batches before it end below `offset`. It comes from the offset index and was
        verified against the log. It is 0 if there is no index, it does not help, or `offset` is at or below the base
        offset. Raises `StorageError` if a file cannot be read.
        """
        index = self._index() if offset > self.base_offset else None
        if index is None:
            return 0
        with index:
            return start_position(source, index, base_offset=self.base_offset, target=offset, limits=limits)

    def likely_position_of(self, offset: int) -> int:
        """Return the byte position that the offset index has for `offset`, limited to the size of the log. It is not
        verified against the log. It is 0 if there is no index, no entry at or below `offset`, or `offset` is at or
        below the base offset. Raises `StorageError` if the index cannot be read.
        """
        index = self._index() if offset > self.base_offset else None
        if index is None:
            return 0
        with index:
            return min(max(indexed_position(index, base_offset=self.base_offset, target=offset), 0), self.size)

    def _index(self) -> FileSource | None:
        """Open the offset index for reading; return None if the segment has none, or if it is missing or not a regular
        file. The caller must close it. Raises `StorageError` if it cannot be opened for another reason.
        """
        path = self.files.get(FileKind.OFFSET_INDEX)
        try:
            return None if path is None else FileSource(path)
        except (FileNotFoundError, NotRegularFileError):
            return None


def logs_of(segments: Sequence[Segment]) -> list[tuple[int, str]]:
    """Return base offset and path of the log file of each segment."""
    return [(segment.base_offset, segment.path) for segment in segments]


def index_of(segments: Sequence[Segment], offset: int) -> int:
    """Return the number of the segment that holds `offset` if any does: the last one with a base offset at or below it,
    otherwise 0. `segments` are in the order of their base offsets, as in `LogSegments` (`floorSegment`).
    """
    return max(bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1, 0)
