"""What is done through an open descriptor: reading and writing with holes, attributes, and mounts."""

from __future__ import annotations

import base64
import binascii
import ctypes
import errno
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from types import TracebackType
from typing import Self

from kafkalog.classes import dataclass
from kafkalog.codec.crc32c import crc32c
from kafkalog.codec.errors import RecoveryRefused, StorageError
from kafkalog.recovery.act.digest import BLOCK, Piece, digest_of, solid_blocks, without_zeros

__all__ = [
    "DIRECTORY_FLAGS", "FEW", "PIECE", "Attributes", "Flushing", "OpenFile", "Wrapped", "attributes_of",
    "extended_attributes", "flush_file_system", "is_kept_attribute", "make_directories", "mount_of",
    "set_extended_attributes", "write_pieces",
]  # fmt: skip

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a directory is opened."""
PIECE = 1 << 20
"""Bytes that are read or written at a time; a multiple of a digest's block."""
FEW = 16
"""Files and directories that are flushed one by one sooner than the whole file system."""
_FLUSHED_WHOLE = frozenset({0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994})
"""ext2 to ext4, XFS, Btrfs, F2FS, tmpfs: a flush of all that they hold waits until it is on disk.

Not so FUSE, and what lies on other file systems is asked for each file.
"""
_FIRST_THAT_REPORTS = 5, 8
"""the first release of Linux in which `syncfs` reports what could not be written"""
_BYTES_OF_STATFS = 256


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a file or directory has besides its content; extended attributes are in base64."""

    mtime_ns: int
    mode: int
    uid: int
    gid: int
    extended: Mapping[str, str] = field(default_factory=dict)


def _ranges_with_data(descriptor: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Ranges that hold all that is not a hole, each at a multiple of `BLOCK` from `start`, in order."""
    if end - start <= BLOCK:  # sooner read than asked about
        if start < end:
            yield start, end
        return
    position = start
    while position < end:
        try:
            low = os.lseek(descriptor, position, os.SEEK_DATA)
            high = os.lseek(descriptor, low, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                return
            low, high = position, end
        low = start + (max(low, position) - start) // BLOCK * BLOCK
        high = min(start - (start - high) // BLOCK * BLOCK, end)
        if low < high:
            yield max(low, position), high
        position = max(high, position + BLOCK)


def _read_all(descriptor: int, position: int, length: int) -> bytes:
    """Exactly `length` bytes from `position` on; `OSError` where a file ends before."""
    data = os.pread(descriptor, length, position)
    while len(data) < length:
        more = os.pread(descriptor, length - len(data), position + len(data))
        if not more:
            raise OSError(errno.EIO, f"the file became shorter while it was read, at byte {position + len(data)}")
        data += more
    return data


def write_pieces(descriptor: int, start: int, pieces: Iterable[Piece], size: int) -> None:
    """Write pieces, holes as holes, from `start` on; then the file ends `size` bytes behind it."""
    for position, data in pieces:
        for at, part in without_zeros(position, data):
            view = memoryview(part)
            written = 0
            while written < len(view):
                count = os.pwrite(descriptor, view[written:], start + at + written)
                if count <= 0:
                    raise OSError(errno.EIO, "nothing was written")
                written += count
    os.ftruncate(descriptor, start + size)


def flush_file_system(descriptor: int) -> bool:
    """Flush the whole file system that a descriptor is on, at once; `OSError` if something could not be written since
    the descriptor was opened.

    False where that would not be certain: nothing was done.
    """
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if release is None or (int(release[1]), int(release[2])) < _FIRST_THAT_REPORTS:
        return False
    system = ctypes.CDLL(None, use_errno=True)
    flush, examine = getattr(system, "syncfs", None), getattr(system, "fstatfs", None)
    found = (ctypes.c_long * (_BYTES_OF_STATFS // ctypes.sizeof(ctypes.c_long)))()
    if flush is None or examine is None or examine(descriptor, found) != 0 or found[0] not in _FLUSHED_WHOLE:
        return False
    if flush(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return True


def mount_of(descriptor: int) -> str:
    """The kernel's number of the mount through which a descriptor was opened; empty where it does not say."""
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as lines:
            return next((line for line in lines if line.startswith("mnt_id:")), "")
    except OSError:
        return ""


def is_kept_attribute(name: str) -> bool:
    """Whether an extended attribute goes along with a copy: the user's own, access lists and labels.

    Not those that make a file more than data (`security.capability`) or that only root's programs read (`trusted`).
    """
    return name.isprintable() and (name.startswith(("user.", "system.posix_acl_")) or name == "security.selinux")


def extended_attributes(descriptor: int) -> dict[str, str]:
    """The extended attributes that are kept, in base64; none where the file system has none."""
    if not hasattr(os, "listxattr"):
        return {}
    try:
        return {
            name: base64.b64encode(os.getxattr(descriptor, name)).decode("ascii")
            for name in os.listxattr(descriptor)
            if is_kept_attribute(name)
        }
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return {}
        raise


def set_extended_attributes(descriptor: int, wanted: Mapping[str, str]) -> None:
    """Set those that are different, given in base64."""
    found = extended_attributes(descriptor)
    for name, value in wanted.items():
        if found.get(name) != value:
            try:
                os.setxattr(descriptor, name, base64.b64decode(value, validate=True))
            except binascii.Error as error:
                raise OSError(errno.EINVAL, f"the extended attribute {name} is not base64") from error


def make_directories(path: str) -> None:
    """Like `os.makedirs`, with every new name flushed: what is saved in a directory is lost with the directory."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent != path:
        make_directories(parent)
    os.mkdir(path, 0o700)
    descriptor = os.open(parent, DIRECTORY_FLAGS)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Wrapped:
    """While something is done to a file, an error of the operating system is one that says so.

    A class, because every look at a file is one of these.
    """

    __slots__ = ("_doing", "_path", "_root")

    def __init__(self, root: str, doing: str, path: str) -> None:
        self._root = root
        self._doing = doing
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and not isinstance(error, StorageError):
            error.filename = os.path.join(self._root, self._path)
            raise StorageError.wrap(error, f"cannot {self._doing}") from error


class OpenFile:
    """A regular file that is open; closed at the end of a `with`, within which an error is one that names the file."""

    __slots__ = ("_wrapped", "descriptor", "status")

    def __init__(self, descriptor: int, wrapped: Wrapped) -> None:
        self.descriptor = descriptor
        self._wrapped = wrapped
        self.status = os.fstat(descriptor)
        if not stat.S_ISREG(self.status.st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is not a regular file")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.descriptor)
        self._wrapped.__exit__(kind, error, trace)

    def read(self, start: int = 0, end: int | None = None) -> Iterator[Piece]:
        """What is not a hole of the bytes from `start` to `end`, in pieces; positions count from `start`."""
        size = self.status.st_size
        with self._wrapped:  # what takes the pieces may have errors of its own
            for low, high in _ranges_with_data(self.descriptor, start, size if end is None else min(end, size)):
                for position in range(low, high, PIECE):
                    yield position - start, _read_all(self.descriptor, position, min(PIECE, high - position))

    def digest(self, start: int = 0, end: int | None = None) -> str:
        """The digest of the bytes from `start` to `end` (`recovery.act.digest`)."""
        return digest_of(self.read(start, end), (self.status.st_size if end is None else end) - start)

    def crc32c(self, end: int) -> int:
        """CRC-32C over the blocks of the first bytes that a digest would take, each after its position."""
        value = 0
        for position, data in self.read(0, end):
            for at, block in solid_blocks(position, data):
                value = crc32c(block, crc32c(at.to_bytes(8, "big"), value))
        return value

    def attributes(self) -> Attributes:
        """Times, mode, owner and extended attributes."""
        return attributes_of(self.descriptor, self.status)


def attributes_of(descriptor: int, status: os.stat_result) -> Attributes:
    """Times, mode, owner and extended attributes of an open file or directory."""
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISREG(status.st_mode):
        mode &= 0o777  # a journal that could say more would be a way to make programs that run as root
    return Attributes(status.st_mtime_ns, mode, status.st_uid, status.st_gid, extended_attributes(descriptor))


class Flushing(ABC):
    """A root below which what is changed is flushed at once or, within `flushed_together`, at its end."""

    def __init__(self) -> None:
        self._unflushed: dict[str, None] | None = None
        """paths of what is to be flushed together; None: each at once"""

    @abstractmethod
    def _wrapped(self, doing: str, path: str) -> Wrapped: ...

    @abstractmethod
    def _directory(self, path: str) -> int: ...

    @abstractmethod
    def _open_any(self, path: str) -> int: ...

    @abstractmethod
    def status(self, path: str) -> os.stat_result | None:
        """What is under a path; None if nothing is."""

    @contextmanager
    def flushed_together(self) -> Iterator[None]:
        """Within, nothing is flushed; at the end everything is that was changed, unless the caller has to stop."""
        unflushed = self._unflushed = {}
        is_over = True
        try:
            yield
        except RecoveryRefused:
            raise
        except BaseException:
            is_over = False
            raise
        finally:
            self._unflushed = None
            if is_over:
                self._flush_all(unflushed)

    def _flush_all(self, paths: Iterable[str]) -> None:
        waiting = list(paths)
        with self._wrapped("flush the files", ""):
            if len(waiting) > FEW and flush_file_system(self._directory("")):
                return
        for path in waiting:
            with self._wrapped("flush the file", path):
                descriptor = self._open_any(path)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def _flush(self, descriptor: int, path: str) -> None:
        if self._unflushed is None:
            os.fsync(descriptor)
        else:
            self._unflushed[path] = None

    def unsure(self, path: str) -> None:
        """Flush a file or directory too, if it is there: who changed it may have been stopped before it was flushed."""
        if self._unflushed is not None and self.status(path) is not None:
            self._unflushed[path] = None
