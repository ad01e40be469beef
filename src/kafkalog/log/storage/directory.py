"""The disk that is one: files of a directory that is written, durable where a log relies on them (`Utils`)."""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from typing import TYPE_CHECKING

from kafkalog.codec.framing import first_batch_bytes
from kafkalog.codec.limits import DEFAULT_LIMITS, MIB
from kafkalog.codec.names import is_seen_by_java
from kafkalog.codec.source import BufferSource, Source
from kafkalog.codec.thresholds import headers_are_worth_it
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import (
    FileSource,
    NotRegularFileError,
    is_file,
    read_small,
    scan_directory,
    status_of,
    what_it_is,
)
from kafkalog.log.disk.remote_file import MissingFileError

if TYPE_CHECKING:
    from kafkalog.codec.headers.table import HeaderTable, MemoryBudget

__all__ = ["DirectoryDisk"]

_COLUMN_BYTES = 32 * MIB
"""Of header columns that are kept, over all logs of a disk."""
_NS_IN_MS = 1_000_000


class _Slots:
    """An index whose file is as long as its entries at every moment, where a broker's has its full size until the end.

    The entries are held in memory too.
    """

    def __init__(self, path: str, entry_size: int, max_size: int) -> None:
        self._entry_size = entry_size
        self.max_entries = max_size // entry_size
        self._file = fs.AppendFile(path, create=not os.path.lexists(path))
        self._data = bytearray(self._file.read(0, self._file.size))
        self.entries = len(self._data) // entry_size
        del self._data[self.entries * entry_size :]

    def slot(self, number: int) -> bytes:
        """The bytes of one slot."""
        return bytes(self._data[number * self._entry_size : (number + 1) * self._entry_size])

    def append(self, data: bytes) -> None:
        """Add whole entries."""
        if self._file.size != len(self._data):
            self._file.truncate(len(self._data))
        self._file.append(data)
        self._data += data
        self.entries += len(data) // self._entry_size

    def keep(self, entries: int) -> None:
        """Cut the file after the first `entries`."""
        del self._data[entries * self._entry_size :]
        self.entries = entries
        self._file.truncate(len(self._data))

    def resize(self, size: int) -> bool:
        """Only the room changes."""
        self.max_entries = size // self._entry_size
        return False

    def trim(self) -> None:
        """The file is as long as its entries."""

    def store(self) -> None:
        """Store what the slots hold."""

    def renamed(self, path: str) -> None:
        """The open file is the same."""
        self._file.path = path

    def sync(self) -> None:
        """Make the entries durable."""
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _size_of(path: str) -> int:
    """Bytes of a regular file."""
    status = status_of(path)
    if status is None:
        raise MissingFileError(errno.ENOENT, "there is no such file", path)
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularFileError(errno.EINVAL, what_it_is(status.st_mode), path)
    return status.st_size


class _Columns:
    """Tables of the headers of logs, which share the memory that they may keep."""

    def __init__(self) -> None:
        self._budget: MemoryBudget | None = None

    def table(self, size: int) -> HeaderTable:
        """The table of the first `size` bytes of a log."""
        from kafkalog.codec.headers.table import HeaderTable, MemoryBudget

        if self._budget is None:
            self._budget = MemoryBudget(_COLUMN_BYTES)
        return HeaderTable(size, self._budget)


class _LogStore:
    """A log file: opened for reading or for writing when that is asked for, and again after it was closed.

    Its reader ends where the content ends, whatever room is reserved.
    """

    def __init__(self, path: str, columns: _Columns, *, create: bool) -> None:
        self._path = path
        self._columns = columns
        self._file = fs.AppendFile(path, create=True) if create else None
        self._reader: FileSource | None = None
        self._size = 0 if create else _size_of(path)

    @property
    def size(self) -> int:
        """Bytes of its content."""
        return self._size if self._file is None else self._file.size

    def _open(self) -> fs.AppendFile:
        if self._file is None:
            self.close()
            self._file = fs.AppendFile(self._path, create=False)
            self._file.size = min(self._file.size, self._size)  # what follows is reserved
        return self._file

    def read(self, position: int, length: int) -> bytes:
        """Bytes from `position`; fewer only where the content ends."""
        if self._file is not None:
            return self._file.read(position, length)
        if self._reader is None:
            self._reader = FileSource(self._path)
        return self._reader.read(position, max(min(length, self._size - position), 0))

    def source(self) -> _LogStore:
        """A reader of the file."""
        return self

    def headers(self) -> HeaderTable | None:
        """A table of its sound batches, where it has enough of them."""
        if not headers_are_worth_it(self.size, lambda: first_batch_bytes(lambda: self)):
            return None
        return self._columns.table(self.size)

    def append(self, data: bytes) -> None:
        """Write after the end."""
        self._open().append(data)

    def append_from(self, other: Source, start: int, end: int) -> None:
        """Write after the end what is in another log."""
        while start < end:
            piece = other.read(start, min(end - start, MIB))
            self.append(bytes(piece))
            start += len(piece)

    def truncate(self, size: int) -> None:
        """Cut the content."""
        self._open().truncate(size)

    def reserve(self, size: int) -> None:
        """Make room up to `size` bytes."""
        self._open().reserve(size)

    def trim(self) -> None:
        """Give back what was reserved and not used."""
        if self._file is not None:
            self._file.trim()

    def renamed(self, path: str) -> None:
        """An open file is the same."""
        self._path = path
        if self._file is not None:
            self._file.path = path

    def sync(self) -> None:
        """Make it durable."""
        self._open().sync()

    def close(self) -> None:
        """Close the file, until it is needed again."""
        self._size = self.size
        for opened in (self._file, self._reader):
            if opened is not None:
                opened.close()
        self._file = self._reader = None


class _GrowingFile:
    """Opened when it is needed, and again after it was closed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.exists = os.path.lexists(path)
        self._file: fs.AppendFile | None = None

    def _open(self) -> fs.AppendFile:
        if self._file is None:
            self._file = fs.AppendFile(self._path, create=not self.exists)
            self.exists = True
        return self._file

    def source(self) -> fs.AppendFile:
        """A reader of the file."""
        return self._open()

    def append(self, data: bytes) -> None:
        """Write after the end."""
        self._open().append(data)

    def truncate(self, size: int) -> None:
        """Cut the file."""
        self._open().truncate(size)

    def renamed(self, path: str) -> None:
        """An open file is the same."""
        self._path = path
        if self._file is not None:
            self._file.path = path

    def sync(self) -> None:
        """Make it durable, if it is there."""
        if self.exists:
            self._open().sync()

    def close(self) -> None:
        """Close the file, until it is needed again."""
        if self._file is not None:
            self._file.close()
        self._file = None


class DirectoryDisk:
    """Absolute paths; links are not followed.  Raises `StorageError`."""

    def __init__(self) -> None:
        self._changes: Counter[tuple[str, str]] = Counter()
        self._columns = _Columns()

    def _changed(self, *paths: str) -> None:
        for path in paths:
            directory, name = os.path.split(path)
            self._changes[directory, name.rpartition(".")[2]] += 1

    def is_file(self, path: str) -> bool:
        """A regular file of this path is there."""
        return is_file(path)

    def is_directory(self, path: str) -> bool:
        """A directory of this path is there."""
        return os.path.isdir(path)

    def exists(self, path: str) -> bool:
        """Something of this path is there."""
        return os.path.lexists(path)

    def read(self, path: str) -> bytes:
        """The whole content of a small file."""
        return read_small(path, DEFAULT_LIMITS.checkpoint_bytes)

    def source(self, path: str) -> Source:
        """A snapshot, in memory."""
        return BufferSource(read_small(path, DEFAULT_LIMITS.snapshot_bytes))

    def all_names(self, directory: str) -> list[str]:
        """Names of the regular files directly in a directory, sorted."""
        return [entry.name for entry in scan_directory(directory) if entry.is_file(follow_symlinks=False)]

    def names(self, directory: str) -> list[str]:
        """The names in a directory that a JVM finds."""
        return [name for name in self.all_names(directory) if is_seen_by_java(name)]

    def changes(self, directory: str, suffix: str) -> int:
        """How often this disk wrote or took away such a file; nobody else does while the lock is held."""
        return self._changes[directory, suffix]

    def modified_ms(self, path: str) -> int:
        """When a file was changed last, in ms."""
        status = status_of(path)
        if status is None:
            raise MissingFileError(errno.ENOENT, "there is no such file", path)
        return status.st_mtime_ns // _NS_IN_MS

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        """Say when a file was changed last."""
        fs.set_modified(path, time_ms * _NS_IN_MS)

    def create(self, path: str) -> None:
        """Make an empty file, flushed; whoever needs its name to be durable flushes the directory."""
        fs.write_new(path, b"")
        self._changed(path)

    def replace(self, path: str, data: bytes) -> None:
        """Put `data` in place of a file: at every moment, after a crash too, old or new is there."""
        fs.replace(path, data)
        self._changed(path)

    def overwrite(self, path: str, data: bytes) -> None:
        """Replace a file: a snapshot that is there is whole, and nothing is left after its end."""
        fs.replace(path, data)
        self._changed(path)

    def delete(self, path: str) -> None:
        """Remove a file if it is there."""
        fs.remove(path)
        self._changed(path)

    def rename(self, old: str, new: str) -> None:
        """Rename a file over whatever is there."""
        fs.rename(old, new)
        self._changed(old, new)

    def sync_names(self, directory: str) -> None:
        """Make the names in a directory durable."""
        fs.sync_directory(directory)

    def open_log(self, path: str, *, create: bool | None) -> _LogStore:
        """Open a log file: a new one, one that is there, or with None whichever it is."""
        return _LogStore(path, self._columns, create=not os.path.lexists(path) if create is None else create)

    def slots(self, path: str, entry_size: int, max_size: int) -> _Slots:
        """Open an index file, or make it."""
        return _Slots(path, entry_size, max_size)

    def open_or_create_later(self, path: str) -> _GrowingFile:
        """Open a file that there may not be yet."""
        return _GrowingFile(path)
