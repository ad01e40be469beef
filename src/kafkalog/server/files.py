"""Open log files and ranges of them to send. A file is closed when it is no longer used."""

from __future__ import annotations

import enum
import errno
import weakref
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from threading import RLock

import msgspec

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.files.index_files import OFFSET_ENTRY
from kafkalog.codec.headers.index_columns import columns_of_entries
from kafkalog.log.disk.files import FileSource, status_of
from kafkalog.log.walk.segment import Segment
from kafkalog.server.waypoints import Waypoints, WaypointsOfFiles

__all__ = ["Answered", "Asked", "Fact", "FileRange", "NoneLeftError", "OpenLog", "OpenLogs"]

_HINTS = 512
"""Positions remembered per file."""


Asked = tuple[int, int, int]
"""Offset, maximum size, and file position of the first batch not to be returned."""
Numbers = int | tuple[int, int]
Answered = tuple[int, int, int | None]
"""Position, size, and the next offset if known."""


class Fact(enum.Enum):
    """Kind of a fact learned about a log file. A fact is a position that belongs to one or two numbers."""

    BATCH_OF = "where the batch begins that holds an offset as its first"
    END_BELOW = "where the batches end that are below an offset, of so many bytes"
    BEHIND = "where a sound batch begins after bytes at a position that are none; -1 for nowhere"


class OpenLog:
    """The open log file of a segment, with facts learned about it. It is closed with the last reference to it. Opening
    and reading raise `StorageError`.
    """

    def __init__(self, path: str, on_close: Callable[[], None] = lambda: None) -> None:
        self.source = FileSource(path)
        self.path = path
        self.inode = self.source.identity
        self._finalizer = weakref.finalize(self, _close, self.source, on_close)
        self.waypoints = Waypoints()
        self._index: FileSource | None = None
        self._block: IndexBlock | None = None
        self._learned: OrderedDict[tuple[Fact, Numbers], int] = OrderedDict()
        self.answers: OrderedDict[Asked, Answered] = OrderedDict()
        """results of fetches, kept for other clients"""

    @property
    def descriptor(self) -> int:
        """The file's descriptor for `sendfile`; -1 if there is none."""
        return self.source.descriptor

    @property
    def size(self) -> int:
        """Size when it was opened."""
        return self.source.size

    def index(self, path: str | None) -> FileSource | None:
        """Return the open offset index at `path`. It is opened at the first call and kept open. Later calls return the
        same index and ignore `path`. If no index is open, return None if `path` is None or the file cannot be opened.
        """
        if self._index is None and path is not None:
            try:
                self._index = FileSource(path)
            except StorageError:
                return None
            weakref.finalize(self, self._index.close)
        return self._index

    def index_block(self, index: FileSource, target: int) -> IndexBlock:
        """Entries around the last one before `target`. The last block is used again if possible."""
        block = self._block
        if block is None or not block.brackets(target):
            block = self._block = IndexBlock.around(index, target, 0 if block is None else block.first)
        return block

    def recall(self, fact: Fact, number: Numbers) -> int | None:
        """Return the position learned earlier, or None."""
        return self._learned.get((fact, number))

    def learn(self, fact: Fact, number: Numbers, position: int) -> None:
        """Remember a position. Only a limited number is kept."""
        self._learned[fact, number] = position
        while len(self._learned) > _HINTS:
            with suppress(KeyError):  # another thread was faster
                self._learned.popitem(last=False)

    def inherit(self, other: OpenLog) -> None:
        """Copy what was learned before the file grew, except facts about the old end."""
        self._learned = OrderedDict(pair for pair in other._learned.items() if 0 <= pair[1] < other.size)

    def keep(self, asked: Asked, answered: Answered) -> None:
        """Remember the result of a fetch. Only a limited number is kept."""
        self.answers[asked] = answered
        while len(self.answers) > _HINTS:
            with suppress(KeyError):  # another thread was faster
                self.answers.popitem(last=False)

    def read(self, position: int, length: int) -> bytes:
        """Bytes at a position, fewer at the end of the file."""
        return self.source.read(position, length)


_SLOTS = 512
"""Index entries read at a time."""
_BEYOND = 1 << 62


class IndexBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Up to 512 neighbouring entries of an offset index: relative offsets and positions, beginning with entry number
    `first`. Entries with position 0, which were never written, count as behind all others.
    """

    first: int
    relative: tuple[int, ...]
    positions: tuple[int, ...]
    is_last: bool
    """whether these are the last entries"""

    @classmethod
    def read(cls, index: FileSource, first: int) -> IndexBlock:
        """Read up to 512 entries of an index, beginning with entry number `first`. The block is empty if the index has
        no such entry. A partial entry at the end is ignored. Raises `StorageError` if the index cannot be read.
        """
        data = index.read(first * OFFSET_ENTRY.size, _SLOTS * OFFSET_ENTRY.size)
        count = len(data) // OFFSET_ENTRY.size
        columns = columns_of_entries(data[: count * OFFSET_ENTRY.size], OFFSET_ENTRY)
        positions = tuple(columns["position"])
        if 0 in positions:
            positions = tuple(position if position > 0 else _BEYOND for position in positions)
        is_last = (first + count) * OFFSET_ENTRY.size >= index.size
        return cls(first=first, relative=tuple(columns["relative_offset"]), positions=positions, is_last=is_last)

    @classmethod
    def around(cls, index: FileSource, target: int, near: int) -> IndexBlock:
        """Return the block with the last entry whose position is below `target`. If there is no such entry, return the
        first block; it is empty if the index is empty. `near` is an entry number: the block that begins there and the
        one after it are tried first, and then the index is searched by bisection. Raises `StorageError` if the index
        cannot be read.
        """
        for first in (near, near + _SLOTS - 1):
            index_block = cls.read(index, first)
            if index_block.brackets(target):
                return index_block
        blocks = range(0, index.size // OFFSET_ENTRY.size, _SLOTS - 1)

        def begins(first: int) -> int:
            return cls.read(index, first).positions[0]

        number = bisect_left(blocks, target, key=begins) - 1
        return cls.read(index, blocks[number] if number >= 0 else 0)

    def brackets(self, target: int) -> bool:
        """Return whether the last entry before `target` is in this block, or does not exist."""
        if not self.positions:
            return self.first == 0
        begins = self.positions[0] < target or self.first == 0
        return begins and (self.is_last or self.positions[-1] >= target)

    def last_before(self, target: int) -> tuple[int, int] | None:
        """Relative offset and position of the last entry whose position is below `target`; None if there is no such
        entry.
        """
        found = bisect_left(self.positions, target) - 1
        return None if found < 0 else (self.relative[found], self.positions[found])


class FileRange(msgspec.Struct, frozen=True):
    """A range of a log file. Keeps the file open."""

    log: OpenLog
    position: int
    size: int


def _close(source: FileSource, on_close: Callable[[], None]) -> None:
    source.close()
    on_close()


class NoneLeftError(StorageError):
    """The limit for open logs is reached. It is free again when a response has been sent."""


class _Count:
    """How many log files are open. An open file calls `less` when it is closed, so it must not lead to the `OpenLogs`
    that keeps the file: the finalizer would keep both forever.
    """

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self.now = 0

    def less(self) -> None:
        with self._lock:
            self.now -= 1


class OpenLogs:
    """Open log files by path; the most recently used are kept open. `most` limits the open files, including those being
    sent. Safe for several threads.
    """

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._kept = max(1, most // 2)
        self._lock = RLock()  # a file may be closed by whoever opens another one
        self._count = _Count(self._lock)
        self._open: OrderedDict[str, OpenLog] = OrderedDict()
        self._waypoints = WaypointsOfFiles()

    def get(self, segment: Segment) -> OpenLog:
        """Return the open log file of a segment. It is opened again if it has grown; facts learned about the same file
        are kept, except those about its old end.

        Closes files that were not used recently if too many are open. Raises `NoneLeftError` if all are in use,
        `StorageError` if the file cannot be opened.
        """
        with self._lock:
            open_log = self._open.get(segment.path)
            if open_log is not None and open_log.source.size >= segment.size:
                self._open.move_to_end(segment.path)
                return open_log
            while self._count.now >= self._most and self._open:
                self._open.popitem(last=False)
            if self._count.now >= self._most:
                raise NoneLeftError(errno.EMFILE, "too many logs are being sent at the same time", segment.path)
            self._count.now += 1
        try:
            opened = OpenLog(segment.path, self._count.less)  # for the first time, or because it has grown
        except BaseException:
            self._count.less()
            raise
        opened.waypoints = self._waypoints.of((opened.path, opened.inode))
        if open_log is not None and open_log.inode == opened.inode:
            opened.inherit(open_log)
        with self._lock:
            self._open[segment.path] = opened
            while len(self._open) > self._kept:
                self._open.popitem(last=False)
        return opened

    def clear(self) -> None:
        """Keep no file open: each is closed once nothing uses it."""
        with self._lock:
            self._open.clear()

    def forget(self, path: str) -> None:
        """Stop keeping the log file at `path` open, and drop the facts learned about it: its bytes have changed. If it
        no longer exists, the facts stay. Raises `StorageError` if the path cannot be examined.
        """
        status = status_of(path)
        with self._lock:
            self._open.pop(path, None)
        if status is not None:
            self._waypoints.drop((path, (status.st_dev, status.st_ino)))

    def forget_replaced(self, path: str) -> None:
        """Stop keeping the log file at `path` open if it was deleted or replaced by another file; the descriptor is
        closed once nothing uses it any more. Does nothing if the file is not open. Raises `StorageError` if the path
        cannot be examined.
        """
        with self._lock:
            open_log = self._open.get(path)
        if open_log is None:
            return
        status = status_of(path)
        if status is None or (status.st_dev, status.st_ino) != open_log.inode:
            with self._lock:
                self._open.pop(path, None)
