"""Create, change and remove files and directories; no other module of `log` does that. Files are opened without
following links. An append is a loop of positional writes; after a failure the written part is truncated again. A failed
flush is never retried: the caller must stop (`FileRecords`, `Utils.atomicMoveWithFallback`, `Utils.flushDir`). All
functions raise `StorageError` if the system reports an error.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.names import TEMPORARY
from kafkalog.log.disk.process import OwnProcess

__all__ = [
    "AppendFile",
    "lock_file",
    "make_directory",
    "remove",
    "remove_if_empty",
    "remove_tree",
    "remove_tree_at",
    "rename",
    "rename_new",
    "replace",
    "set_modified",
    "sync_directory",
    "write_new",
]

_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MODE = 0o644
_MOST_DEPTH = 100
_WITHOUT_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""Errors of a file system without hard links."""


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
    """A file open for appending. `size` is the number of bytes of its content, even if more space is reserved after it.
    Only the process that opened it may change it: in a forked child, which does not know what its parent has written
    since the fork, the methods that write, flush or truncate raise `UsageError`.
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
        """Write `data` at the end of the content and increase `size`; nothing is flushed. If writing fails, the file is
        truncated to its previous content if possible, `size` stays, and `StorageError` is raised. Raises `UsageError`
        in a forked child.
        """
        self._process.require()
        with _wrapped("write the file", self.path):
            try:
                _write_all(self._descriptor, self.size, data)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, self.size)
                    self._reserved = self.size
                raise
        self.size += len(data)
        self._reserved = max(self._reserved, self.size)

    def read(self, position: int, length: int) -> bytes:
        """Return `length` bytes from `position`; fewer only at the end of the content. Raises `StorageError` if reading
        fails.
        """
        with _wrapped("read the file", self.path):
            return os.pread(self._descriptor, max(min(length, self.size - position), 0), position)

    def reserve(self, size: int) -> None:
        """Allocate disk space so that the file is at least `size` bytes long; the added bytes read as zeros.
        `self.size`, the end of the content, does not change. Does nothing if that much is already reserved. Raises
        `StorageError` if the space cannot be allocated, `UsageError` in a forked child.
        """
        self._process.require()
        with _wrapped("reserve room for the file", self.path):
            if size > self._reserved:
                os.posix_fallocate(self._descriptor, 0, size)
                self._reserved = size

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes, which releases reserved space too. Raises `StorageError` if that fails,
        `UsageError` in a forked child.
        """
        self._process.require()
        with _wrapped("cut the file", self.path):
            os.ftruncate(self._descriptor, size)
        self.size = self._reserved = size

    def trim(self) -> None:
        """Release space that was reserved and not used; do nothing if there is none. Raises `StorageError` if that
        fails, `UsageError` in a forked child.
        """
        if self._reserved > self.size:
            self.truncate(self.size)

    def sync(self) -> None:
        """Flush the content to disk. Raises `StorageError` if that fails, `UsageError` in a forked child."""
        self._process.require()
        with _wrapped("flush the file", self.path):
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file. Closing it again does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def lock_file(path: str) -> tuple[int, bool]:
    """Open the file `path` for reading and writing, so that it can be locked; create it if it does not exist. Return
    the descriptor, which the caller must close, and whether the file was created. The lock is not taken here. Raises
    `StorageError` if the file cannot be opened, for example because it is a link.
    """
    with _wrapped("open the file", path):
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, _MODE), True
        except FileExistsError:
            return os.open(path, os.O_RDWR | _FLAGS), False


def make_directory(path: str, *, follow: bool = True) -> bool:
    """Create a directory in an existing one, and flush its name to disk. Return True if it was created, False if
    something of that name already exists. With `follow=False` only an existing directory is accepted: a link or a file
    of that name raises `StorageError`. Raises `StorageError` if it cannot be created or flushed.
    """
    with _wrapped("make the directory", path):
        try:
            os.mkdir(path, 0o755)
        except FileExistsError:
            if not follow and not stat.S_ISDIR(os.lstat(path).st_mode):
                raise OSError(errno.ENOTDIR, "a link or a file is there, which is not used in its place") from None
            return False
    sync_directory(os.path.dirname(path) or os.curdir)
    return True


def sync_directory(path: str) -> None:
    """Flush a directory to disk (`fsync`), so that the creation, renaming and removal of files in it survive a crash.
    Raises `StorageError` if that fails.
    """
    with _wrapped("flush the directory", path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_new(path: str, data: bytes) -> None:
    """Write `data` as the whole content of a file and flush it. The file is created, or overwritten in place. Its name
    is not flushed: call `sync_directory` for that.

    Raises `StorageError` if writing fails; the previous content may be lost then. Raises it before anything is changed
    if an existing file is a link, is not regular, or has other hard links: their content would change too.
    """
    with _wrapped("write the file", path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | _FLAGS, _MODE)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise StorageError(errno.EINVAL, "is not a regular file", path)
            if status.st_nlink > 1:
                raise StorageError(errno.EINVAL, "has other names, which would change too", path)
            os.ftruncate(descriptor, 0)
            _write_all(descriptor, 0, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def replace(path: str, data: bytes) -> None:
    """Replace a file's content by `data`, in one step: after a crash at any moment, the file has either the old or the
    new content. A temporary file beside it, with the suffix `.tmp`, is written and renamed; an existing one is
    overwritten. Raises `StorageError` if that fails.
    """
    temporary = path + TEMPORARY
    write_new(temporary, data)
    rename(temporary, path)
    sync_directory(os.path.dirname(path))


def rename(path: str, target: str) -> None:
    """Rename a file, replacing an existing one."""
    with _wrapped("rename the file", path):
        os.rename(path, target)


def rename_new(path: str, target: str) -> None:
    """Rename a file, but never replace another one: if `target` exists, raise `StorageError` with errno EEXIST. On a
    file system without hard links, `target` is first created as an empty file and then replaced. Raises `StorageError`
    for other I/O errors too. An error or crash halfway leaves the file under both names, or an empty `target`.
    """
    with _wrapped("rename the file", path):
        try:
            os.link(path, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _WITHOUT_LINKS:
                raise
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, _MODE))
            os.rename(path, target)  # replaces the empty file that the line above created
        else:
            os.unlink(path)


def set_modified(path: str, time_ns: int) -> None:
    """Set the modification and access time of a file, in ns since 1970."""
    with _wrapped("set the time of the file", path):
        os.utime(path, ns=(time_ns, time_ns), follow_symlinks=False)


def remove_tree(path: str, *, inode: int | None = None) -> None:
    """Remove a directory with everything in it, by the rules of `remove_tree_at`; do nothing if it does not exist.

    Raises `StorageError`, and removes nothing, if `path` is a file or a link, or if its parent directory does not
    exist. The same happens if `inode` is not None and is not the directory's inode. If a removal fails, `StorageError`
    is raised, and the entries removed before it are gone.
    """
    parent, name = os.path.split(path)
    with _wrapped("remove the directory", path):
        descriptor = os.open(parent or ".", _DIRECTORY)
        try:
            remove_tree_at(descriptor, name, inode=inode)
        finally:
            os.close(descriptor)


def remove_tree_at(parent: int, name: str, *, inode: int | None = None, depth: int = 0) -> None:
    """Remove the directory `name`, with everything in it, from the directory that is open as descriptor `parent`. Do
    nothing if it does not exist. Directories are opened one below another without following links; a link inside is
    itself removed. `depth` is the present depth of the recursion. No other function in this project removes directories
    with content.

    Raises `OSError`, and removes nothing, if `name` is a link or a file, or if `inode` is not None and differs from the
    directory's. Raises `OSError` also if another file system is mounted there or below, or directories are nested more
    than a hundred deep, or a removal fails. Part of the content may be gone then.
    """
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        raise OSError(errno.ENOTDIR, "it is a link or a file, which is not removed in place of a directory")
    if inode is not None and status.st_ino != inode:
        raise OSError(errno.ESTALE, "it is another directory than the one that was to be removed")
    if depth > _MOST_DEPTH:
        raise OSError(errno.ENAMETOOLONG, "more directories lie one in another than anything here makes")
    descriptor = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        if os.fstat(descriptor).st_dev != os.fstat(parent).st_dev:
            raise OSError(errno.EXDEV, "another file system is mounted there")
        for inside in os.listdir(descriptor):
            if stat.S_ISDIR(os.stat(inside, dir_fd=descriptor, follow_symlinks=False).st_mode):
                remove_tree_at(descriptor, inside, depth=depth + 1)
            else:
                os.unlink(inside, dir_fd=descriptor)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=parent)


def remove_if_empty(path: str) -> None:
    """Remove a directory. Do nothing if it has entries or does not exist. Raises `StorageError` for other errors."""
    with _wrapped("remove the directory", path):
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise


def remove(path: str) -> None:
    """Remove a file if it exists."""
    with _wrapped("remove the file", path), contextlib.suppress(FileNotFoundError):
        os.unlink(path)
