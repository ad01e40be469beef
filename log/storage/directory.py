"""The disk that is one: files of a directory that is written, durable where a log relies on them (`Utils`)."""

from __future__ import annotations

import os

from kafkalog.codec.limits import DEFAULT_LIMITS
from kafkalog.codec.source import BufferSource, Source
from kafkalog.log import fs
from kafkalog.log.files import is_file, read_small, scan_directory

__all__ = ["DirectoryDisk"]


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
        """It is written."""

    def renamed(self, path: str) -> None:
        """The open file is the same."""
        self._file.path = path

    def sync(self) -> None:
        """Make the entries durable."""
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _LogStore(fs.AppendFile):
    """A log file that is appended to; its reader ends where the content ends, whatever room is reserved."""

    def source(self) -> fs.AppendFile:
        """A reader of the file."""
        return self

    def headers(self) -> None:
        """There is no table of it."""

    def renamed(self, path: str) -> None:
        """The open file is the same."""
        self.path = path


class _GrowingFile:
    def __init__(self, path: str) -> None:
        self._path = path
        self.exists = os.path.lexists(path)
        self._file = fs.AppendFile(path, create=False) if self.exists else None

    def _open(self) -> fs.AppendFile:
        if self._file is None:
            self._file = fs.AppendFile(self._path, create=True)
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
        """The open file is the same."""
        self._path = self._open().path = path

    def sync(self) -> None:
        """Make it durable, if it is there."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


class DirectoryDisk:
    """Absolute paths; links are not followed.  Raises `StorageError`."""

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

    def changes(self, directory: str, suffix: str) -> int:
        """Nobody changes names but who holds the lock."""
        return 0

    def create(self, path: str) -> None:
        """Make an empty file, flushed; whoever needs its name to be durable flushes the directory."""
        fs.write_new(path, b"")

    def replace(self, path: str, data: bytes) -> None:
        """Put `data` in the place of a file: at every moment, after a crash too, old or new is there."""
        fs.replace(path, data)

    def overwrite(self, path: str, data: bytes) -> None:
        """As `replace`: a snapshot that is there is whole, and nothing stays behind its end."""
        fs.replace(path, data)

    def delete(self, path: str) -> None:
        """Remove a file if it is there."""
        fs.remove(path)

    def rename(self, old: str, new: str) -> None:
        """Rename a file over whatever is there."""
        fs.rename(old, new)

    def open_log(self, path: str, *, create: bool | None) -> _LogStore:
        """Open a log file: a new one, one that is there, or with None whichever it is."""
        return _LogStore(path, create=not os.path.lexists(path) if create is None else create)

    def slots(self, path: str, entry_size: int, max_size: int) -> _Slots:
        """Open an index file, or make it."""
        return _Slots(path, entry_size, max_size)

    def open_or_create_later(self, path: str) -> _GrowingFile:
        """Open a file that there may not be yet."""
        return _GrowingFile(path)
