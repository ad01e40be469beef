"""The `Disk` of a real directory, through which the storage classes write files and flush them as a broker does
(`Utils`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from typing import TYPE_CHECKING

from kafkalog.codec.common.limits import DEFAULT_LIMITS, MIB
from kafkalog.codec.common.source import BufferSource, Source
from kafkalog.codec.names import is_seen_by_java
from kafkalog.codec.native.library import is_there
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
"""Most bytes of cached header columns, over all logs of a disk."""
_NS_IN_MS = 1_000_000


class _Slots:
    """An open index file, with a copy of its entries in memory. The file has no room after its entries, whereas a
    broker gives it its full size until it is closed. Only a partial entry may be left from before it was opened.
    """

    def __init__(self, path: str, entry_size: int, max_size: int) -> None:
        self._entry_size = entry_size
        self.max_entries = max_size // entry_size
        self._file = fs.AppendFile(path, create=not os.path.lexists(path))
        self._data = bytearray(self._file.read(0, self._file.size))
        self.entries = len(self._data) // entry_size
        del self._data[self.entries * entry_size :]

    def slot(self, number: int) -> bytes:
        """Return the bytes of one slot."""
        return bytes(self._data[number * self._entry_size : (number + 1) * self._entry_size])

    def append(self, data: bytes) -> None:
        """Append whole entries to the file and to the copy in memory; updates `entries`. If the file is longer than the
        known entries, it is first truncated to them. Raises `StorageError` if writing fails, `UsageError` in a forked
        child.
        """
        if self._file.size != len(self._data):
            self._file.truncate(len(self._data))
        self._file.append(data)
        self._data += data
        self.entries += len(data) // self._entry_size

    def keep(self, entries: int) -> None:
        """Truncate the entries and the file to the first `entries` entries."""
        del self._data[entries * self._entry_size :]
        self.entries = entries
        self._file.truncate(len(self._data))

    def resize(self, size: int) -> bool:
        """Set the maximum size of the file in bytes. Return False, because the file does not change."""
        self.max_entries = size // self._entry_size
        return False

    def trim(self) -> None:
        """Do nothing: the file is always as long as its entries."""

    def store(self) -> None:
        """Do nothing: the file has every entry."""

    def renamed(self, path: str) -> None:
        """Record the file's new path."""
        self._file.path = path

    def sync(self) -> None:
        """Flush the entries to disk."""
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _size_of(path: str) -> int:
    """Return the size of a regular file in bytes. Raises `StorageError` otherwise: `MissingFileError` if it does not
    exist, `NotRegularFileError` if it is not a regular file.
    """
    status = status_of(path)
    if status is None:
        raise MissingFileError(errno.ENOENT, "there is no such file", path)
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularFileError(errno.EINVAL, what_it_is(status.st_mode), path)
    return status.st_size


class _Columns:
    """Factory of header tables (batch headers of a log as columns), which share one memory budget."""

    def __init__(self) -> None:
        self._budget: MemoryBudget | None = None

    def table(self, size: int) -> HeaderTable:
        """Return a new, empty header table for the first `size` bytes of a log. All tables share one memory budget,
        which the first call creates.
        """
        from kafkalog.codec.headers.table import HeaderTable, MemoryBudget

        if self._budget is None:
            self._budget = MemoryBudget(_COLUMN_BYTES)
        return HeaderTable(size, self._budget)


class _LogStore:
    """A log file that is opened for reading or writing when needed, even after `close`. As a `Source` it ends with the
    content, even if more space is reserved.
    """

    def __init__(self, path: str, columns: _Columns, *, create: bool) -> None:
        self._path = path
        self._columns = columns
        self._file = fs.AppendFile(path, create=True) if create else None
        self._reader: FileSource | None = None
        self._size = 0 if create else _size_of(path)

    @property
    def size(self) -> int:
        """Size of the content in bytes."""
        return self._size if self._file is None else self._file.size

    def _open(self) -> fs.AppendFile:
        if self._file is None:
            self.close()
            self._file = fs.AppendFile(self._path, create=False)
            self._file.size = min(self._file.size, self._size)  # bytes after the content are reserved space
        return self._file

    def read(self, position: int, length: int) -> bytes:
        """Return `length` bytes from `position`; fewer only at the end of the content. Opens the file if it is closed.
        Raises `StorageError` if that or reading fails.
        """
        if self._file is not None:
            return self._file.read(position, length)
        if self._reader is None:
            self._reader = FileSource(self._path)
        return self._reader.read(position, max(min(length, self._size - position), 0))

    def source(self) -> _LogStore:
        """Return this object, which is a reader of the file."""
        return self

    def headers(self) -> HeaderTable | None:
        """Return a new, empty table for the headers of the present content; None without compiled code."""
        return self._columns.table(self.size) if is_there() else None

    def append(self, data: bytes) -> None:
        """Append bytes."""
        self._open().append(data)

    def append_from(self, other: Source, start: int, end: int) -> None:
        """Append the bytes from `start` to `end` (exclusive) of another log, read in pieces of 1 MiB."""
        while start < end:
            piece = other.read(start, min(end - start, MIB))
            self.append(bytes(piece))
            start += len(piece)

    def truncate(self, size: int) -> None:
        """Truncate the content to `size` bytes."""
        self._open().truncate(size)

    def reserve(self, size: int) -> None:
        """Reserve space up to `size` bytes."""
        self._open().reserve(size)

    def trim(self) -> None:
        """Release space that was reserved and not used."""
        if self._file is not None:
            self._file.trim()

    def renamed(self, path: str) -> None:
        """Record the file's new path."""
        self._path = path
        if self._file is not None:
            self._file.path = path

    def sync(self) -> None:
        """Flush the content to disk."""
        self._open().sync()

    def close(self) -> None:
        """Close the file for reading and writing. The next access opens it again."""
        self._size = self.size
        for open_file in (self._file, self._reader):
            if open_file is not None:
                open_file.close()
        self._file = self._reader = None


class _GrowingFile:
    """A file that is created and opened when needed, even after `close`."""

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
        """Return a reader of the file, which is created if it does not exist."""
        return self._open()

    def append(self, data: bytes) -> None:
        """Append bytes."""
        self._open().append(data)

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""
        self._open().truncate(size)

    def renamed(self, path: str) -> None:
        """Record the file's new path."""
        self._path = path
        if self._file is not None:
            self._file.path = path

    def sync(self) -> None:
        """Flush the file to disk, if it exists."""
        if self.exists:
            self._open().sync()

    def close(self) -> None:
        """Close the file. It is opened again when needed."""
        if self._file is not None:
            self._file.close()
        self._file = None


class DirectoryDisk:
    """The files of a real file system, by absolute path. Links are not followed. Methods raise `StorageError` if the
    system reports an error.
    """

    def __init__(self) -> None:
        self._changes: Counter[tuple[str, str]] = Counter()
        self._columns = _Columns()

    def _changed(self, *paths: str) -> None:
        for path in paths:
            directory, name = os.path.split(path)
            self._changes[directory, name.rpartition(".")[2]] += 1

    def is_file(self, path: str) -> bool:
        """Whether a regular file has this path."""
        return is_file(path)

    def is_directory(self, path: str) -> bool:
        """Whether the path is a directory, or a link to one."""
        return os.path.isdir(path)

    def exists(self, path: str) -> bool:
        """Whether anything has this path, even a dangling link."""
        return os.path.lexists(path)

    def read(self, path: str) -> bytes:
        """Return the whole content of a small file. Raises `LimitExceeded` if it is larger than
        `DEFAULT_LIMITS.checkpoint_bytes`.
        """
        return read_small(path, DEFAULT_LIMITS.checkpoint_bytes)

    def source(self, path: str) -> Source:
        """Return a reader of a producer snapshot, which is read into memory."""
        return BufferSource(read_small(path, DEFAULT_LIMITS.snapshot_bytes))

    def all_names(self, directory: str) -> list[str]:
        """Return the names of the regular files directly in a directory, sorted."""
        return [entry.name for entry in scan_directory(directory) if entry.is_file(follow_symlinks=False)]

    def names(self, directory: str) -> list[str]:
        """Return the names of the files in a directory that a JVM can open, sorted."""
        return [name for name in self.all_names(directory) if is_seen_by_java(name)]

    def changes(self, directory: str, suffix: str) -> int:
        """Return how often `create`, `replace`, `overwrite`, `delete` or `rename` were called for a file with this
        suffix (without the dot) in a directory. While the lock is held, nobody else changes these files.
        """
        return self._changes[directory, suffix]

    def modified_ms(self, path: str) -> int:
        """Return the modification time of a file in ms since 1970, rounded down."""
        status = status_of(path)
        if status is None:
            raise MissingFileError(errno.ENOENT, "there is no such file", path)
        return status.st_mtime_ns // _NS_IN_MS

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        """Set the modification time of a file, in ms since 1970."""
        fs.set_modified(path, time_ms * _NS_IN_MS)

    def create(self, path: str) -> None:
        """Create an empty file and flush it; `sync_names` flushes its name."""
        fs.write_new(path, b"")
        self._changed(path)

    def replace(self, path: str, data: bytes) -> None:
        """Replace a file's content by `data`, in one step: after a crash at any moment, the file has either the old or
        the new content.
        """
        fs.replace(path, data)
        self._changed(path)

    def overwrite(self, path: str, data: bytes) -> None:
        """Replace a file's content by `data`, in one step like `replace`, so that a snapshot is always complete and no
        old bytes follow it.
        """
        fs.replace(path, data)
        self._changed(path)

    def delete(self, path: str) -> None:
        """Remove a file if it exists."""
        fs.remove(path)
        self._changed(path)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing an existing one."""
        fs.rename(old, new)
        self._changed(old, new)

    def sync_names(self, directory: str) -> None:
        """Flush the names in a directory to disk."""
        fs.sync_directory(directory)

    def open_log(self, path: str, *, create: bool | None) -> _LogStore:
        """Open a log file: create it if `create` is True, require that it exists if False; None: create it if it does
        not exist.
        """
        return _LogStore(path, self._columns, create=not os.path.lexists(path) if create is None else create)

    def slots(self, path: str, entry_size: int, max_size: int) -> _Slots:
        """Open an index file, and create it if it does not exist."""
        return _Slots(path, entry_size, max_size)

    def open_or_create_later(self, path: str) -> _GrowingFile:
        """Return a file that is created when it is first needed."""
        return _GrowingFile(path)
