"""Opening and reading files of a log directory without trusting it.

Nothing here follows a symbolic link, waits for a FIFO or believes a size: a file is opened without blocking, must be a
regular one, and is read in pieces at positions (`pread`), so that walking a segment never holds more than a window.
Kafka's own reader is `FileRecords`, which maps to the same positional reads.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from operator import attrgetter
from types import TracebackType
from typing import Self

from kafkalog.codec.errors import LimitExceeded, StorageError
from kafkalog.codec.findings import Finding, FindingCode
from kafkalog.codec.limits import MIB
from kafkalog.log.disk.remote import storage_of
from kafkalog.log.disk.remote_file import MissingFileError, RemoteEntry, RemoteFile

__all__ = [
    "Entry",
    "FileSource",
    "ListedSource",
    "NotRegularFileError",
    "PathLike",
    "absolute",
    "exists",
    "is_directory",
    "is_file",
    "listed_once",
    "open_regular",
    "read_small",
    "real",
    "scan_directory",
    "status_of",
    "unreadable",
    "what_it_is",
]

PathLike = str | os.PathLike[str]
Entry = os.DirEntry[str] | RemoteEntry
_name = attrgetter("name")

_HIDDEN = (errno.EACCES, errno.EPERM, errno.EIO)
"""What the system says of a path of which it does not tell whether anything is there."""

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PIECE = 8 * MIB
"""Bytes at most that are read to be copied."""
_SEEK_DATA: int | None = getattr(os, "SEEK_DATA", None)
_KINDS = (
    (stat.S_ISLNK, "a symbolic link, which is not followed"),
    (stat.S_ISDIR, "a directory, not a file"),
    (stat.S_ISFIFO, "a FIFO, not a file"),
    (stat.S_ISSOCK, "a socket, not a file"),
)


class NotRegularFileError(StorageError):
    """What is under a name is a link, a directory, a FIFO or a device."""


_READ_AHEAD = 128 * 1024
_MOST_ENTRIES = 1 << 17
"""that are kept for who looks at them again: some 700 bytes each"""
_BYTES_OF_A_BLOCK = 512
"""as `st_blocks` counts them, whatever the file system has"""


def what_it_is(mode: int) -> str:
    """One phrase for a file type that is not a regular file."""
    for matches, phrase in _KINDS:
        if matches(mode):
            return phrase
    return "a device, not a file"


def open_regular(path: str) -> tuple[int, os.stat_result]:
    """A descriptor of a regular file, for reading, and its status; raises `StorageError`."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise NotRegularFileError(errno.ELOOP, what_it_is(stat.S_IFLNK), path) from None
        if error.errno == errno.ENXIO:
            raise NotRegularFileError(errno.ENXIO, what_it_is(stat.S_IFSOCK), path) from None
        if error.errno == errno.ENOENT:
            raise MissingFileError(errno.ENOENT, "there is no such file", path) from None
        raise StorageError.wrap(error, "cannot open the file") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise NotRegularFileError(errno.EINVAL, what_it_is(status.st_mode), path)
    if _is_mostly_holes(status):
        _without_reading_ahead(descriptor)
    return descriptor, status


def _is_mostly_holes(status: os.stat_result) -> bool:
    """As indexes are that a broker has reserved and not trimmed, and preallocated logs."""
    return status.st_size > _READ_AHEAD and 2 * _BYTES_OF_A_BLOCK * status.st_blocks < status.st_size


def _without_reading_ahead(descriptor: int) -> None:
    """Otherwise each first read makes the system fill 128 KiB of memory with zeros and keep them."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # it is advice
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)


class FileSource:
    """A regular file as a `codec.source.Source`; `size` is that of the moment of opening.

    A context manager; raises `StorageError` when opening or reading fails.  With `held`, a descriptor of the file,
    nothing is opened: `path` is its name in errors, and may no longer exist.  Closing then calls `on_close`.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        held: int | None = None,
        on_close: Callable[[int], None] = os.close,
    ) -> None:
        self.path = os.fspath(path)
        self._descriptor = -1
        self._on_close = on_close
        self._remote: RemoteFile | None = None
        storage = storage_of(self.path)
        if storage is not None:
            self._remote = storage.open(self.path)
            self._size = self._remote.size
        elif held is not None:
            self._descriptor = held
            self._size = os.fstat(held).st_size
        else:
            self._descriptor, status = open_regular(self.path)
            self._size = status.st_size

    @property
    def size(self) -> int:
        """Bytes there were when the file was opened."""
        return self._size

    def size_now(self) -> int:
        """Bytes there are now: fewer if the file was cut after it was opened."""
        return self._size if self._remote is not None else os.fstat(self._descriptor).st_size

    @property
    def descriptor(self) -> int:
        """The descriptor of the open file; -1 for what is in an object store, and when it is closed."""
        return self._descriptor

    @property
    def is_remote(self) -> bool:
        """Whether it is not on a disk here, so that each read takes a request."""
        return self._remote is not None

    @property
    def identity(self) -> tuple[int, int] | None:
        """Device and inode; None for what is in an object store."""
        if self._remote is not None:
            return None
        status = os.fstat(self._descriptor)
        return status.st_dev, status.st_ino

    def read(self, position: int, length: int) -> bytes:
        """`length` bytes from `position`; fewer only where the file ends."""
        if self._remote is not None:
            return self._remote.read(position, length)
        pieces: list[bytes] = []
        while length > 0:
            try:
                piece = os.pread(self._descriptor, length, position)
            except OSError as error:
                raise self._unreadable(error, position) from error
            if not piece:
                break
            pieces.append(piece)
            position += len(piece)
            length -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_into(self, position: int, target: memoryview) -> int:
        """Fill `target` with the bytes from `position`; how many there were, fewer only where the file ends."""
        done = 0
        if self._remote is not None or not hasattr(os, "preadv"):
            while done < len(target):
                piece = self.read(position + done, min(len(target) - done, _PIECE))
                if not piece:
                    break
                target[done : done + len(piece)] = piece
                done += len(piece)
            return done
        while done < len(target):
            try:
                count = os.preadv(self._descriptor, [target[done:]], position + done)
            except OSError as error:
                raise self._unreadable(error, position + done) from error
            if count == 0:
                break
            done += count
        return done

    def next_data(self, position: int, end: int) -> int:
        """The first position from `position` on that is in no hole of the file; at most `end`."""
        if self._remote is not None or _SEEK_DATA is None:
            return position
        try:
            return min(os.lseek(self._descriptor, position, _SEEK_DATA), end)
        except OSError as error:
            # nothing but a hole is left of what there is now; file systems without holes answer something else
            return max(position, min(end, self.size_now())) if error.errno == errno.ENXIO else position

    def _unreadable(self, error: OSError, position: int) -> StorageError:
        return StorageError(error.errno, f"cannot read at byte {position}: {error.strerror}", self.path)

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._on_close(descriptor)
        if self._remote is not None:
            self._remote.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ListedSource(FileSource):
    """A file of which as many bytes are there as when it was listed, or reading it fails.

    Nobody decides on the first bytes of a file whose last ones are gone since.
    """

    def __init__(self, path: PathLike, listed_size: int) -> None:
        super().__init__(path)
        self._listed_size = listed_size

    def read(self, position: int, length: int) -> bytes:
        """`length` bytes from `position`; fewer only where the file ended when it was listed."""
        data = super().read(position, length)
        self._not_shorter(position, length, len(data))
        return data

    def read_into(self, position: int, target: memoryview) -> int:
        """Fill `target` with the bytes from `position`; fewer only where the file ended when it was listed."""
        done = super().read_into(position, target)
        self._not_shorter(position, len(target), done)
        return done

    def _not_shorter(self, position: int, length: int, found: int) -> None:
        if found < min(length, self._listed_size - position):
            raise StorageError.became_shorter(position + found, self.path)


def unreadable(error: StorageError, path: PathLike) -> Finding:
    """What is left to say of a file or directory below `path` that cannot be read, where the others are read on."""
    detail = error.strerror or str(error)
    file = os.fspath(path if error.filename is None else error.filename)
    return Finding.of(FindingCode.UNREADABLE, None, None, detail, file)


def read_small(path: PathLike, limit: int) -> bytes:
    """A whole file of at most `limit` bytes; `LimitExceeded` if it is larger, `StorageError` if it cannot be read."""
    with FileSource(path) as source:
        if source.size > limit:
            raise LimitExceeded(f"{source.size} bytes, more than {limit}", limit="bytes", source=source.path)
        return source.read(0, source.size)


def scan_directory(path: PathLike) -> list[Entry]:
    """The entries of a directory, ordered by name."""
    place, listed = os.fspath(path), _listed.get()
    return _entries(place) if listed is None else listed.entries(place).copy()


def _entries(path: str) -> list[Entry]:
    storage = storage_of(path)
    if storage is not None:
        return sorted(storage.entries(path), key=_name)
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=_name)
    except OSError as error:
        raise StorageError.wrap(error, "cannot list the directory") from error


class _Listed:
    """Directories as they were listed, as far as there is room."""

    def __init__(self) -> None:
        self._known: dict[str, list[Entry]] = {}
        self._room = _MOST_ENTRIES

    def entries(self, path: str) -> list[Entry]:
        """The entries of a directory; what one tells of its file is as old as the listing."""
        place = path if path.startswith("/") else absolute(path)
        known = self._known.get(place)
        if known is None:
            known = _entries(path)
            if len(known) <= self._room:
                self._room -= len(known)
                self._known[place] = known
        return known


_listed: ContextVar[_Listed | None] = ContextVar("listed", default=None)


@contextmanager
def listed_once() -> Iterator[None]:
    """Within, each directory is listed once for all who look at it: they see what is there at one time."""
    token = _listed.set(_Listed())
    try:
        yield
    finally:
        _listed.reset(token)


def status_of(path: str) -> os.stat_result | None:
    """Type, size and time of what is there, links not followed; None if nothing does."""
    storage = storage_of(path)
    if storage is not None:
        entry = storage.entry(path)
        return None if entry is None else entry.stat()
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def exists(path: str) -> bool:
    """Whether anything is there, even a dangling link; `StorageError` if the system does not permit a look."""
    if storage_of(path) is not None:
        return status_of(path) is not None
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno in _HIDDEN:
            raise StorageError.wrap(error, "cannot examine the file") from error
        return False
    except ValueError:  # a NUL in it
        return False
    return True


def is_directory(path: str) -> bool:
    """Whether it is a directory, or a link to one."""
    storage = storage_of(path)
    if storage is None:
        return os.path.isdir(path)
    entry = storage.entry(path)
    return entry is not None and entry.directory


def is_file(path: str) -> bool:
    """Whether it is a regular file."""
    status = status_of(path)
    return status is not None and stat.S_ISREG(status.st_mode)


def absolute(path: str) -> str:
    """The path from the root on, without a slash at its end."""
    return os.path.abspath(path) if storage_of(path) is None else path.rstrip("/")


def real(path: PathLike) -> str:
    """The path by which two names of the same place are told to be the same."""
    text = os.fspath(path)
    return os.path.realpath(text) if storage_of(text) is None else text.rstrip("/")
