"""Operations on open descriptors: reading and writing with holes, attributes, mounts and flushing."""

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
from types import TracebackType
from typing import Self

from msgspec import Struct, field

from kafkalog.codec.common.errors import RecoveryRefused, StorageError
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.recovery.act.digest import BLOCK, Piece, digest_of, solid_blocks, without_zeros

__all__ = [
    "DIRECTORY_FLAGS", "FEW", "PIECE", "Attributes", "Flushing", "OpenFile", "Wrapped", "attributes_of",
    "extended_attributes", "flush_file_system", "is_kept_attribute", "make_directories", "mount_of",
    "set_extended_attributes", "write_pieces",
]  # fmt: skip

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags for opening a directory."""
PIECE = 1 << 20
"""Bytes that are read or written at a time; a multiple of a digest's block."""
FEW = 16
"""Most files and directories that are flushed one by one; if there are more, the whole file system is flushed."""
_FLUSHED_WHOLE = frozenset({0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994})
"""Magic numbers of ext2 to ext4, XFS, Btrfs, F2FS and tmpfs: flushing them waits until all data is on disk. On others,
such as FUSE, every file is flushed.
"""
_FIRST_THAT_REPORTS = 5, 8
"""first release of Linux in which `syncfs` reports write errors"""
_BYTES_OF_STATFS = 256


class Attributes(Struct, frozen=True, kw_only=True):
    """Attributes of a file or directory; extended attributes are in base64."""

    mtime_ns: int
    mode: int
    uid: int
    gid: int
    extended: Mapping[str, str] = field(default_factory=dict)


def _ranges_with_data(descriptor: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the ranges between bytes `start` and `end` (exclusive) of the file that may hold data, in
    ascending order. Holes of a sparse file are left out. A range begins and ends at a multiple of `BLOCK` (64 KiB)
    counted from `start`, or at `end`, so it may include zeros. Adjacent ranges are not merged. Yields nothing without
    data, or if `start` >= `end`.

    If `start` to `end` is at most one block, it is yielded without asking the file system for holes. If asking fails,
    or the file ends before `end`, the rest is one range, so no `OSError` is raised.
    """
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
            if error.errno == errno.ENXIO and os.fstat(descriptor).st_size >= end:  # nothing but a hole up to the end
                return
            low, high = position, end
        low = start + (max(low, position) - start) // BLOCK * BLOCK
        high = min(start - (start - high) // BLOCK * BLOCK, end)
        if low < high:
            yield max(low, position), high
        position = max(high, position + BLOCK)


def _read_all(descriptor: int, position: int, length: int) -> bytes:
    """Return exactly `length` bytes from byte `position` of the file. Raises `OSError` (EIO) if it is too short."""
    data = os.pread(descriptor, length, position)
    while len(data) < length:
        more = os.pread(descriptor, length - len(data), position + len(data))
        if not more:
            raise OSError(errno.EIO, f"the file became shorter while it was read, at byte {position + len(data)}")
        data += more
    return data


def write_pieces(descriptor: int, start: int, pieces: Iterable[Piece], size: int) -> None:
    """Write `pieces` (position, bytes) with positions counted from byte `start` of the file, and set the file's size to
    `start + size`. Blocks of zeros are not written: they become holes, or keep what the file has there. Nothing is
    flushed. Raises `OSError` if a write fails or writes nothing.
    """
    for position, data in pieces:
        for offset, part in without_zeros(position, data):
            view = memoryview(part)
            written = 0
            while written < len(view):
                count = os.pwrite(descriptor, view[written:], start + offset + written)
                if count <= 0:
                    raise OSError(errno.EIO, "nothing was written")
                written += count
    os.ftruncate(descriptor, start + size)


def flush_file_system(descriptor: int) -> bool:
    """Flush the whole file system of a descriptor (`syncfs`); return True. Return False without flushing if the result
    is not guaranteed: a system other than Linux 5.8 or later, or a file system other than ext2 to ext4, XFS, Btrfs,
    F2FS and tmpfs.

    Raises `OSError` if `syncfs` fails, or something could not be written since the descriptor was opened.
    """
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if release is None or (int(release[1]), int(release[2])) < _FIRST_THAT_REPORTS:
        return False
    system = ctypes.CDLL(None, use_errno=True)
    flush, examine = getattr(system, "syncfs", None), getattr(system, "fstatfs", None)
    status = (ctypes.c_long * (_BYTES_OF_STATFS // ctypes.sizeof(ctypes.c_long)))()
    if flush is None or examine is None or examine(descriptor, status) != 0 or status[0] not in _FLUSHED_WHOLE:
        return False
    if flush(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return True


def mount_of(descriptor: int) -> str:
    """Return the line `mnt_id:` of `/proc/self/fdinfo`, which identifies the mount through which a descriptor was
    opened. An empty string if it is unknown, for example without `/proc`.
    """
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as lines:
            return next((line for line in lines if line.startswith("mnt_id:")), "")
    except OSError:
        return ""


def is_kept_attribute(name: str) -> bool:
    """Whether an extended attribute is copied: user attributes (`user.*`), POSIX access lists, and SELinux labels.
    False for attributes that grant privileges (`security.capability`) or that only root can read (`trusted.*`), and for
    names that are not printable.
    """
    return name.isprintable() and (name.startswith(("user.", "system.posix_acl_")) or name == "security.selinux")


def extended_attributes(descriptor: int) -> dict[str, str]:
    """Return the extended attributes of an open file by name, values in base64, limited to those that are copied
    (`is_kept_attribute`). Empty if the platform or the file system has none. Raises `OSError` if they cannot be read.
    """
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
    """Set each extended attribute in `wanted` (name -> value in base64) that the open file lacks or has with another
    value. Other attributes stay. Raises `OSError` if attributes cannot be read or set, or a value is not base64.
    """
    present = extended_attributes(descriptor)
    for name, value in wanted.items():
        if present.get(name) != value:
            try:
                os.setxattr(descriptor, name, base64.b64decode(value, validate=True))
            except binascii.Error as error:
                raise OSError(errno.EINVAL, f"the extended attribute {name} is not base64") from error


def make_directories(path: str) -> None:
    """Create the directory `path` (absolute) and the missing directories above it, each with mode 700. The parent of
    each new one is flushed, so that the new names survive a power failure. Does nothing if the directory exists. Raises
    `OSError`, also if a file has the name.
    """
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
    """Context in which an `OSError` becomes a `StorageError` that names the operation and the file. A class, because it
    is used at every access.
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
    """A regular file that is open for reading. Leaving the context closes it; errors within it name the file."""

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
        """Yield the bytes from `start` to `end` (exclusive; None or too high: the end of the file) as pieces (position,
        bytes) of at most 1 MiB, in ascending order. Positions count from `start`. Holes may be left out
        (`_ranges_with_data`): bytes between pieces are zeros.

        Raises `StorageError` if reading fails or the file became shorter than when it was opened.
        """
        size = self.status.st_size
        with self._wrapped:  # what takes the pieces may have errors of its own
            for low, high in _ranges_with_data(self.descriptor, start, size if end is None else min(end, size)):
                for position in range(low, high, PIECE):
                    yield position - start, _read_all(self.descriptor, position, min(PIECE, high - position))

    def digest(self, start: int = 0, end: int | None = None) -> str:
        """Digest, in hexadecimal, of the bytes from `start` to `end` (exclusive; None: the end of the file), as in
        `recovery.act.digest`.
        """
        return digest_of(self.read(start, end), (self.status.st_size if end is None else end) - start)

    def crc32c(self, end: int) -> int:
        """Return a checksum of the first `end` bytes, or of the whole file if it is shorter, without its blocks of
        zeros. It is the CRC-32C over all 64-KiB blocks that are not all zeros, each after its position as 8 bytes big
        endian; the last block may be shorter. It is 0 if there is no such block. Raises `StorageError` if the file
        cannot be read.
        """
        value = 0
        for position, data in self.read(0, end):
            for block_position, block in solid_blocks(position, data):
                value = crc32c(block, crc32c(block_position.to_bytes(8, "big"), value))
        return value

    def attributes(self) -> Attributes:
        """Modification time, mode, owner and extended attributes."""
        return attributes_of(self.descriptor, self.status)


def attributes_of(descriptor: int, status: os.stat_result) -> Attributes:
    """Return modification time, mode, owner and kept extended attributes of an open file or directory; `status` is its
    fstat. Of a file's mode only the permission bits (0777) are returned. Raises `OSError` if extended attributes cannot
    be read.
    """
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISREG(status.st_mode):
        mode &= 0o777  # a journal that could say more would be a way to make programs that run as root
    return Attributes(
        mtime_ns=status.st_mtime_ns,
        mode=mode,
        uid=status.st_uid,
        gid=status.st_gid,
        extended=extended_attributes(descriptor),
    )


class Flushing(ABC):
    """A root directory below which changes are flushed (fsync) at once or, within `flushed_together`, at the end of
    that context.
    """

    def __init__(self) -> None:
        self._unflushed: dict[str, None] | None = None
        """paths to flush together; None: changes are flushed at once"""

    @abstractmethod
    def _wrapped(self, doing: str, path: str) -> Wrapped: ...

    @abstractmethod
    def _directory(self, path: str) -> int: ...

    @abstractmethod
    def _open_any(self, path: str) -> int: ...

    @abstractmethod
    def status(self, path: str) -> os.stat_result | None:
        """Return the lstat of a path; None if it does not exist."""

    @contextmanager
    def flushed_together(self) -> Iterator[None]:
        """Defer flushes (fsync) to the end of this context. Then each changed path is flushed, or the whole file system
        if there are more than 16 and it can be flushed reliably. This happens after `RecoveryRefused` too; after any
        other exception nothing is flushed, because the caller must stop. Raises `StorageError` if flushing fails.
        """
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
        """Flush a path too, if it exists and flushes are deferred: an interrupted process may have changed it without
        flushing.
        """
        if self._unflushed is not None and self.status(path) is not None:
            self._unflushed[path] = None
