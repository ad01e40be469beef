"""One segment: the files that share a base offset.  Kafka's `LogSegment`, for reading."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import Struct

from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.names import FileKind
from kafkalog.codec.scanner import Scanner
from kafkalog.log.disk.files import FileSource, NotRegularFileError
from kafkalog.log.walk.lookup import indexed_position, start_position
from kafkalog.log.walk.missing import was_emptied

__all__ = ["Segment", "index_of"]

_BEYOND = (1 << 63) - 1
"""An offset after every other one."""


class Segment(Struct, frozen=True):
    """A log file and the files that belong to it; sizes are bytes at the moment of listing."""

    base_offset: int
    path: str
    """of the log file"""
    size: int
    """of the log file"""
    modified_ns: int
    """of the log file, nanoseconds since 1970"""
    files: Mapping[FileKind, str]
    """paths of all its files, the log included"""
    sizes: Mapping[FileKind, int]
    newest: int | None = None
    """its largest timestamp, where that is known without reading it: of a remote segment"""
    is_untold: bool = False
    """it is remote, and its largest timestamp is not known: asking for that takes a request"""

    @property
    def total_bytes(self) -> int:
        """Bytes of all its files."""
        return sum(self.sizes.values())

    def open(self) -> FileSource:
        """The log file, for reading; raises `StorageError`."""
        return FileSource(self.path)

    def was_emptied(self) -> bool:
        """Whether its log has no byte, and its time index says that there were some."""
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
        """A walk over the segment; afterwards it has `valid_bytes`, `stop` and `findings`."""
        with self.open() as source:
            yield Scanner(source, position=position, check_crc=check_crc, limits=limits)

    def batches(self, *, limits: Limits = DEFAULT_LIMITS) -> Iterator[RecordBatch]:
        """The valid batches up to the first damage; use `scanner` to learn why the walk ended."""
        with self.scanner(limits=limits) as scanner:
            yield from scanner

    def next_offset(self, limits: Limits = DEFAULT_LIMITS) -> int:
        """The offset after its last valid batch, from the last index entry on; its base offset if there is none."""
        with self.open() as source:
            position = self.position_of(_BEYOND, source, limits=limits)
            ends = (batch.header.next_offset for batch in Scanner(source, position=position, limits=limits))
            return max(ends, default=self.base_offset)

    def position_of(self, offset: int, source: FileSource, *, limits: Limits = DEFAULT_LIMITS) -> int:
        """Where in `source`, the opened log, to start reading for `offset`: by the index if it is right, else 0."""
        index = self._index() if offset > self.base_offset else None
        if index is None:
            return 0
        with index:
            return start_position(source, index, base_offset=self.base_offset, target=offset, limits=limits)

    def likely_position_of(self, offset: int) -> int:
        """The position that the index names for `offset`, without a look at the log; 0 without an entry for it."""
        index = self._index() if offset > self.base_offset else None
        if index is None:
            return 0
        with index:
            return min(max(indexed_position(index, base_offset=self.base_offset, target=offset), 0), self.size)

    def _index(self) -> FileSource | None:
        """The offset index, opened; None if there is none."""
        path = self.files.get(FileKind.OFFSET_INDEX)
        try:
            return None if path is None else FileSource(path)
        except (FileNotFoundError, NotRegularFileError):
            return None


def index_of(segments: Sequence[Segment], offset: int) -> int:
    """Number of the segment that holds `offset` if any does: the last that begins at or below it, else the first.

    `segments` are in the order of their base offsets, as `LogSegments` keeps them (`floorSegment`).
    """
    return max(bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1, 0)
