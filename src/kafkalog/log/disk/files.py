"""Open and read files of a log directory without trusting them. Nothing here follows a symbolic link, waits for a FIFO
or believes a size. A file is opened without blocking and must be a regular one. It is read piece by piece at positions
(`pread`), so that scanning a segment never holds more than a window. Kafka's reader, `FileRecords`, also uses
positional reads.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from operator import attrgetter
from types import TracebackType
from typing import Self

from kafkalog.codec.common.errors import LimitExceeded, StorageError, UsageError
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.limits import MIB
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
    "refuse_no_path",
    "scan_directory",
    "status_of",
    "unreadable",
    "what_it_is",
]

PathLike = str | os.PathLike[str]


def refuse_no_path(paths: Sized) -> None:
    """Raise `UsageError` if `paths`, the paths of a call, are empty."""
    if not paths:
        raise UsageError("no path was given")
Entry = os.DirEntry[str] | RemoteEntry
_name = attrgetter("name")

_HIDDEN = (errno.EACCES, errno.EPERM, errno.EIO)
"""Errors after which it is unknown whether the path exists."""

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PIECE = 8 * MIB
"""Most bytes that are read at once to be copied."""
_SEEK_DATA: int | None = getattr(os, "SEEK_DATA", None)
_KINDS = (
    (stat.S_ISLNK, "a symbolic link, which is not followed"),
    (stat.S_ISDIR, "a directory, not a file"),
    (stat.S_ISFIFO, "a FIFO, not a file"),
    (stat.S_ISSOCK, "a socket, not a file"),
)


class NotRegularFileError(StorageError):
    """The path is a link, a directory, a FIFO or a device instead of a regular file."""


_READ_AHEAD = 128 * 1024
_MOST_ENTRIES = 1 << 17
"""most entries kept for later listings: some 700 bytes each"""
_BYTES_OF_A_BLOCK = 512
"""unit of `st_blocks`, whatever the file system uses"""


def what_it_is(mode: int) -> str:
    """Return a phrase for the file type in `mode`, if it is not a regular file: a link, directory, FIFO, socket or
    device.
    """
    for matches, phrase in _KINDS:
        if matches(mode):
            return phrase
    return "a device, not a file"


def open_regular(path: str) -> tuple[int, os.stat_result]:
    """Open a regular file for reading, without following a link or waiting for a FIFO. Return its descriptor, which the
    caller must close, and its status. Read-ahead is turned off for a file that is mostly holes. Raises
    `MissingFileError` if the file does not exist, `NotRegularFileError` for any other file type, including a link, and
    `StorageError` for other errors.
    """
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
    """Whether less than half of the file occupies disk space, as in an index that a broker allocated and did not trim,
    or in a preallocated log. False for files up to 128 KiB.
    """
    return status.st_size > _READ_AHEAD and 2 * _BYTES_OF_A_BLOCK * status.st_blocks < status.st_size


def _without_reading_ahead(descriptor: int) -> None:
    """Turn off read-ahead for a file that is mostly holes: reads would fill the page cache with zeros, 128 KiB at a
    time. Errors are ignored.
    """
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # it is advice
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)


class FileSource:
    """A regular file opened for reading, as a `codec.common.source.Source`, and a context manager that closes it.
    `path` may be the URI of a file in an object store. Opening and reading raise `StorageError` if they fail. `held` is
    an open descriptor to use instead of opening the file: `path` is then only its name in errors, and `close` passes
    the descriptor to `on_close`.
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
        """Size in bytes when the file was opened."""
        return self._size

    def size_now(self) -> int:
        """Return the size in bytes now: smaller if the file was truncated after it was opened."""
        return self._size if self._remote is not None else os.fstat(self._descriptor).st_size

    @property
    def descriptor(self) -> int:
        """Descriptor of the open file; -1 if it is in an object store or closed."""
        return self._descriptor

    @property
    def is_remote(self) -> bool:
        """Whether the file is in an object store, so that each read takes a request."""
        return self._remote is not None

    @property
    def identity(self) -> tuple[int, int] | None:
        """Device and inode; None for a file in an object store."""
        if self._remote is not None:
            return None
        status = os.fstat(self._descriptor)
        return status.st_dev, status.st_ino

    def read(self, position: int, length: int) -> bytes:
        """Return `length` bytes from byte `position`. Fewer bytes, perhaps none, are returned only if the file ends
        before that. Raises `StorageError` if reading fails.
        """
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
        """Fill `target` with the bytes from byte `position` on. Return the number of bytes read, which is less than the
        length of `target` only if the file ends before. Raises `StorageError` if reading fails.
        """
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
        """Return the first position at or after `position` that is not in a hole of the file. The result is `end` if
        that position is above it. If only a hole follows, the result is the present size of the file, but at most
        `end` and at least `position`. It is `position` if holes cannot be found: in an object store, on a system
        without SEEK_DATA, and after any other error of the system.
        """
        if self._remote is not None or _SEEK_DATA is None:
            return position
        try:
            return min(os.lseek(self._descriptor, position, _SEEK_DATA), end)
        except OSError as error:
            # ENXIO: the rest of the file is a hole; file systems without holes report other errors
            return max(position, min(end, self.size_now())) if error.errno == errno.ENXIO else position

    def _unreadable(self, error: OSError, position: int) -> StorageError:
        return StorageError(error.errno, f"cannot read at byte {position}: {error.strerror}", self.path)

    def close(self) -> None:
        """Close the file: call `on_close` with the descriptor, or close the object store's file. Closing it again does
        nothing.
        """
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
    """A file that must still have the size with which it was listed. Reading a part that is no longer there raises
    `StorageError`, so that nothing is decided from the start of a file that was truncated.
    """

    def __init__(self, path: PathLike, listed_size: int) -> None:
        super().__init__(path)
        self._listed_size = listed_size

    def read(self, position: int, length: int) -> bytes:
        """Return `length` bytes from `position`; fewer only at the end of the file, which is not before its listed end.
        Raises `StorageError` if the file has become shorter or cannot be read.
        """
        data = super().read(position, length)
        self._not_shorter(position, length, len(data))
        return data

    def read_into(self, position: int, target: memoryview) -> int:
        """Read bytes from `position` into `target`; return their number, which is less than the length of `target` only
        at the end of the file, which is not before its listed end. Raises `StorageError` if the file has become shorter
        or cannot be read.
        """
        done = super().read_into(position, target)
        self._not_shorter(position, len(target), done)
        return done

    def _not_shorter(self, position: int, length: int, count: int) -> None:
        if count < min(length, self._listed_size - position):
            raise StorageError.became_shorter(position + count, self.path)


def unreadable(error: StorageError, path: PathLike) -> Finding:
    """Return the finding (UNREADABLE) about a file or directory that cannot be read. It names the file in `error`, or
    `path` if the error has none.
    """
    detail = error.strerror or str(error)
    file = os.fspath(path if error.filename is None else error.filename)
    return Finding.of(FindingCode.UNREADABLE, None, None, detail, file)


def read_small(path: PathLike, limit: int) -> bytes:
    """Read a whole file of at most `limit` bytes. Raises `LimitExceeded` if it is larger, `StorageError` if it cannot
    be read.
    """
    with FileSource(path) as source:
        if source.size > limit:
            raise LimitExceeded(f"{source.size} bytes, more than {limit}", limit="bytes", source=source.path)
        return source.read(0, source.size)


def scan_directory(path: PathLike) -> list[Entry]:
    """Return the entries of a directory, ordered by name. Within `listed_once` they may come from its cache. Raises
    `StorageError` if it cannot be listed.
    """
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
    """Cache of directory listings: up to 131,072 entries in all. A directory whose entries do not fit is listed again
    each time.
    """

    def __init__(self) -> None:
        self._known: dict[str, list[Entry]] = {}
        self._room = _MOST_ENTRIES

    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a directory, ordered by name: from the cache, or by listing it. The list is the cached
        one, so the caller must not change it. The entries are as old as the first listing. Raises `StorageError` if the
        directory cannot be listed.
        """
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
    """Context manager within which `scan_directory` lists each directory once and then answers from a cache, so that
    all readers see the same entries. The cache holds 131,072 entries; a directory that does not fit is listed each
    time. The cache is dropped at the end of the context. A nested context begins with an empty one.
    """
    token = _listed.set(_Listed())
    try:
        yield
    finally:
        _listed.reset(token)


def status_of(path: str) -> os.stat_result | None:
    """Return the status of a path without following a link; None if it does not exist. For an object store only type,
    size and modification time are set. Raises `StorageError` for other errors, `UsageError` for a URI that is not
    supported (`file:`, credentials, malformed, an unknown scheme or option).
    """
    storage = storage_of(path)
    if storage is not None:
        entry = storage.entry(path)
        return None if entry is None else entry.stat()
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError.wrap(error, "cannot examine the file") from error


def is_mounted_read_only(path: str) -> bool:
    """Return whether the file system of `path` is mounted read-only; False if this cannot be found out."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def status_of_entry(entry: Entry) -> os.stat_result | None:
    """Return the status of a listed entry without following a link; None if it no longer exists. Raises `StorageError`
    for other errors.
    """
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError.wrap(error, "cannot examine the file") from error


def exists(path: str) -> bool:
    """Return whether anything has this path, even a dangling link. Return False for an impossible path: too long, below
    a file, or with a NUL character. Raises `StorageError` if access is denied, an I/O error occurs, or a request to an
    object store fails. Raises `UsageError` for a URI that is not supported, as `status_of` does.
    """
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
    """Return whether the path is a directory, or a link to one. Return False if it does not exist or cannot be
    examined. Raises `StorageError` only if a request to an object store fails. Raises `UsageError` for a URI that is
    not supported, as `status_of` does.
    """
    storage = storage_of(path)
    if storage is None:
        return os.path.isdir(path)
    entry = storage.entry(path)
    return entry is not None and entry.directory


def is_file(path: str) -> bool:
    """Whether the path is a regular file; links are not followed. Raises `StorageError` if it cannot be examined."""
    status = status_of(path)
    return status is not None and stat.S_ISREG(status.st_mode)


def absolute(path: str) -> str:
    """Return the absolute path, without a slash at its end."""
    return os.path.abspath(path) if storage_of(path) is None else path.rstrip("/")


def real(path: PathLike) -> str:
    """Return the path with all links resolved, so that different names of the same place can be compared."""
    text = os.fspath(path)
    return os.path.realpath(text) if storage_of(text) is None else text.rstrip("/")
