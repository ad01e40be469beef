"""Open log files, and ranges of them that are to be sent; a file is closed when nobody needs it any more."""

from __future__ import annotations

import enum
import weakref
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

from kafkalog.codec.errors import StorageError
from kafkalog.log.files import FileSource, status_of
from kafkalog.log.segment import Segment

__all__ = ["Fact", "FileRange", "OpenLog", "OpenLogs"]

_HINTS = 512
"""Positions that are remembered of one file."""


class Fact(enum.Enum):
    """What can be learned of a log file: a position for a number."""

    BATCH_OF = "where the batch begins that holds an offset as its first"
    END_BELOW = "where the batches end that are below an offset"
    SLOT = "which entry of the offset index was looked up last"
    BEHIND = "where a sound batch begins after bytes at a position that are none; -1 for nowhere"


class OpenLog:
    """The log file of a segment, open; closed with the last reference to it."""

    def __init__(self, path: str) -> None:
        self.source = FileSource(path, may_lend=False)
        self.path = path
        self.inode = self.source.identity
        self._finalizer = weakref.finalize(self, self.source.close)
        self._index: FileSource | None = None
        self._learned: OrderedDict[tuple[Fact, int], int] = OrderedDict()

    @property
    def descriptor(self) -> int:
        """Of the file, for `sendfile`; -1 where there is none."""
        return self.source.descriptor

    @property
    def size(self) -> int:
        """Bytes there were when it was opened."""
        return self.source.size

    def index(self, path: str | None) -> FileSource | None:
        """The offset index beside it, opened once; None if there is none."""
        if self._index is None and path is not None:
            try:
                self._index = FileSource(path, may_lend=False)
            except StorageError:
                return None
            weakref.finalize(self, self._index.close)
        return self._index

    def recall(self, fact: Fact, number: int) -> int | None:
        """The position that was learned, if any was."""
        return self._learned.get((fact, number))

    def learn(self, fact: Fact, number: int, position: int) -> None:
        """Keep a position for later; only so many are kept."""
        self._learned[fact, number] = position
        while len(self._learned) > _HINTS:
            with suppress(KeyError):  # another thread was faster
                self._learned.popitem(last=False)

    def inherit(self, other: OpenLog) -> None:
        """What was learned of the same file before it grew."""
        self._learned = other._learned.copy()

    def read(self, position: int, length: int) -> bytes:
        """Bytes at a position; fewer where the file ends."""
        return self.source.read(position, length)


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes of a log file; holding it keeps the file open."""

    log: OpenLog
    position: int
    size: int


class OpenLogs:
    """Log files by path, the most recently used ones kept open."""

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._open: OrderedDict[str, OpenLog] = OrderedDict()
        self._lock = Lock()

    def get(self, segment: Segment) -> OpenLog:
        """The log file of a segment; raises `StorageError`."""
        with self._lock:
            found = self._open.get(segment.path)
            if found is not None and found.source.size >= segment.size:
                self._open.move_to_end(segment.path)
                return found
        opened = OpenLog(segment.path)  # for the first time, or because it has grown
        if found is not None and found.inode == opened.inode:
            opened.inherit(found)
        with self._lock:
            self._open[segment.path] = opened
            while len(self._open) > self._most:
                self._open.popitem(last=False)
        return opened

    def forget_replaced(self, path: str) -> None:
        """Let go of a file in whose place there is another one, or nothing."""
        with self._lock:
            found = self._open.get(path)
        if found is None:
            return
        status = status_of(path)
        if status is None or (status.st_dev, status.st_ino) != found.inode:
            with self._lock:
                self._open.pop(path, None)
