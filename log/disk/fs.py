"""The only module of `log` that changes anything on disk.

Files are opened without following links.  An append is a loop of positional writes; what was written of one that failed
is cut off again.  A failed flush is never tried again: the caller must stop (`FileRecords`,
`Utils.atomicMoveWithFallback`, `Utils.flushDir`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from kafkalog.codec.errors import StorageError
from kafkalog.codec.names import TEMPORARY
from kafkalog.log.disk.process import OwnProcess

__all__ = [
    "AppendFile",
    "lock_file",
    "make_directory",
    "remove",
    "remove_if_empty",
    "remove_tree",
    "rename",
    "rename_new",
    "replace",
    "set_modified",
    "sync_directory",
    "write_new",
]

_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_MODE = 0o644
_WITHOUT_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""what a file system says that has no hard links"""


@contextlib.contextmanager
def _wrapped(doing: str, path: str) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        error.filename = path
        raise StorageError.wrap(error, f"cannot {doing}") from error


def _write_all(descriptor: int, position: int, data: bytes | bytearray | memoryview) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(descriptor, view, position)
        if count <= 0:
            raise OSError(errno.EIO, "nothing was written")
        view = view[count:]
        position += count


class AppendFile:
    """A file that is written at its end; `size` is where its content ends, even if more room is reserved after it.

    Only the process that opened it changes it: a forked child knows nothing of what its parent wrote since.
    """

    def __init__(self, path: str, *, create: bool, mode: int = _MODE) -> None:
        self.path = path
        self._process = OwnProcess(path)
        flags = os.O_RDWR | _FLAGS | (os.O_CREAT | os.O_EXCL if create else 0)
        with _wrapped("create the file" if create else "open the file", path):
            self._descriptor = os.open(path, flags, mode)
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode) or (not create and status.st_nlink > 1):
            os.close(self._descriptor)
            is_file = stat.S_ISREG(status.st_mode)
            what = "has other names, which would change too" if is_file else "is not a regular file"
            raise StorageError(errno.EINVAL, what, path)
        self.size = status.st_size
        self._reserved = self.size

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write after the end; if that fails the end stays where it was."""
        self._process.require()
        with _wrapped("write the file", self.path):
            try:
                _write_all(self._descriptor, self.size, data)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, self.size)
                raise
        self.size += len(data)
        self._reserved = max(self._reserved, self.size)

    def read(self, position: int, length: int) -> bytes:
        """Bytes from `position`; fewer only where the content ends."""
        with _wrapped("read the file", self.path):
            return os.pread(self._descriptor, max(min(length, self.size - position), 0), position)

    def reserve(self, size: int) -> None:
        """Make room up to `size` bytes, which read as zeros."""
        self._process.require()
        with _wrapped("reserve room for the file", self.path):
            if size > self._reserved:
                os.posix_fallocate(self._descriptor, 0, size)
                self._reserved = size

    def truncate(self, size: int) -> None:
        """Cut the content at `size`."""
        self._process.require()
        with _wrapped("cut the file", self.path):
            os.ftruncate(self._descriptor, size)
        self.size = self._reserved = size

    def trim(self) -> None:
        """Give back what was reserved and not used."""
        if self._reserved > self.size:
            self.truncate(self.size)

    def sync(self) -> None:
        """Make the content durable."""
        self._process.require()
        with _wrapped("flush the file", self.path):
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def lock_file(path: str) -> tuple[int, bool]:
    """A descriptor of the file `path` for locking, and whether it was created."""
    with _wrapped("open the file", path):
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, _MODE), True
        except FileExistsError:
            return os.open(path, os.O_RDWR | _FLAGS), False


def make_directory(path: str) -> bool:
    """Create a directory durably; False if it is there already."""
    with _wrapped("make the directory", path):
        try:
            os.mkdir(path, 0o755)
        except FileExistsError:
            return False
    sync_directory(os.path.dirname(path))
    return True


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    with _wrapped("flush the directory", path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_new(path: str, data: bytes) -> None:
    """Write a file whole and flush it, over what may be there; `sync_directory` makes its name durable."""
    with _wrapped("write the file", path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | _FLAGS, _MODE)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise StorageError(errno.EINVAL, "is not a regular file", path)
            os.ftruncate(descriptor, 0)
            _write_all(descriptor, 0, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def replace(path: str, data: bytes) -> None:
    """Put `data` in place of a file: at every moment, after a crash too, the old one or the new one is there."""
    temporary = path + TEMPORARY
    write_new(temporary, data)
    rename(temporary, path)
    sync_directory(os.path.dirname(path))


def rename(path: str, target: str) -> None:
    """Rename a file over whatever is there."""
    with _wrapped("rename the file", path):
        os.rename(path, target)


def rename_new(path: str, target: str) -> None:
    """Rename a file to a name that nothing has; `StorageError` with EEXIST otherwise, and nothing is replaced."""
    with _wrapped("rename the file", path):
        try:
            os.link(path, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _WITHOUT_LINKS:
                raise
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, _MODE))
            os.rename(path, target)  # over the empty file of the line above
        else:
            os.unlink(path)


def set_modified(path: str, time_ns: int) -> None:
    """Say when a file was changed last, in ns; its time of access follows."""
    with _wrapped("set the time of the file", path):
        os.utime(path, ns=(time_ns, time_ns), follow_symlinks=False)


def remove_tree(path: str) -> None:
    """Remove a directory with everything in it, if it is there; links in it are removed, not followed."""
    with _wrapped("remove the directory", path):
        try:
            names = os.listdir(path)
        except FileNotFoundError:
            return
        for name in names:
            below = os.path.join(path, name)
            if stat.S_ISDIR(os.lstat(below).st_mode):
                remove_tree(below)
            else:
                remove(below)
        os.rmdir(path)


def remove_if_empty(path: str) -> None:
    """Remove a directory unless something is in it, or it is not there."""
    with _wrapped("remove the directory", path):
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise


def remove(path: str) -> None:
    """Remove a file if it is there."""
    with _wrapped("remove the file", path), contextlib.suppress(FileNotFoundError):
        os.unlink(path)
