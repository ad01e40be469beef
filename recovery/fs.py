"""The only module of recovery that changes anything on disk: a dozen operations below one root.

Every path is relative to the root and is reached component by component through directory descriptors that do not
follow links, so that nothing swapped in meanwhile can lead elsewhere.  A failed fsync is never tried again: the caller
must stop.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator

from kafkalog.codec.errors import StorageError
from kafkalog.codec.names import LOCK_FILE

__all__ = ["FileSystem"]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
PIECE = 1 << 20


class FileSystem:
    """Operations on files below `root`; all raise `StorageError` with errno and path."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._directories: dict[str, int] = {}
        with self._wrapped("open the directory", ""):
            self._directories[""] = os.open(self.root, _DIRECTORY)
        self.owner = os.fstat(self._directories[""])

    @classmethod
    def create(cls, root: str) -> FileSystem:
        """Make the root directory, and those above it, where they are missing; durably."""
        try:
            _make_directories(os.path.realpath(root))
        except OSError as error:
            raise StorageError.wrap(error, "cannot make the directory") from error
        return cls(root)

    def open_or_create(self, path: str) -> tuple[int, bool]:
        """A descriptor of a file for reading and writing, and whether the file was created."""
        with self._wrapped("open the file", path):
            parent, name = self._at(path)
            try:
                return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE, 0o644, dir_fd=parent), True
            except FileExistsError:
                return os.open(name, os.O_RDWR | _FILE, dir_fd=parent), False

    def close(self) -> None:
        """Close all directory descriptors."""
        while self._directories:
            os.close(self._directories.popitem()[1])

    @contextlib.contextmanager
    def _wrapped(self, doing: str, path: str) -> Iterator[None]:
        try:
            yield
        except StorageError:
            raise
        except OSError as error:
            error.filename = os.path.join(self.root, path)
            raise StorageError.wrap(error, f"cannot {doing}") from error

    def _directory(self, path: str) -> int:
        known = self._directories.get(path)
        if known is not None:
            return known
        parent, _, name = path.rpartition("/")
        descriptor = os.open(name, _DIRECTORY, dir_fd=self._directory(parent))
        self._directories[path] = descriptor
        return descriptor

    def _at(self, path: str) -> tuple[int, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name

    def _forget(self, path: str) -> None:
        for known in [known for known in self._directories if known == path or known.startswith(path + "/")]:
            os.close(self._directories.pop(known))

    # -- looking -----------------------------------------------------------------------------------------------------

    def status(self, path: str) -> os.stat_result | None:
        """lstat, or None if there is nothing."""
        with self._wrapped("look at the file", path):
            try:
                parent, name = self._at(path)
                return os.stat(name, dir_fd=parent, follow_symlinks=False)
            except FileNotFoundError:
                return None

    def mtime(self, path: str) -> int:
        """Modification time of a directory, in ns."""
        with self._wrapped("look at the directory", path):
            return os.fstat(self._directory(path)).st_mtime_ns

    def read(self, path: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a file in pieces."""
        with self._wrapped("read the file", path):
            parent, name = self._at(path)
            descriptor = os.open(name, os.O_RDONLY | _FILE, dir_fd=parent)
        try:
            position = start
            while end is None or position < end:
                with self._wrapped("read the file", path):
                    want = PIECE if end is None else min(PIECE, end - position)
                    piece = os.pread(descriptor, want, position)
                if not piece:
                    return
                yield piece
                position += len(piece)
        finally:
            os.close(descriptor)

    def sha256(self, path: str, start: int = 0, end: int | None = None) -> str:
        """Hash of a file's bytes."""
        digest = hashlib.sha256()
        for piece in self.read(path, start, end):
            digest.update(piece)
        return digest.hexdigest()

    def names(self, path: str) -> list[str]:
        """Names in a directory."""
        with self._wrapped("list the directory", path):
            return sorted(os.listdir(self._directory(path)))

    def free_bytes(self) -> int:
        """Space left for new data."""
        with self._wrapped("look at the file system", ""):
            facts = os.fstatvfs(self._directories[""])
            return facts.f_bavail * facts.f_frsize

    # -- changing ----------------------------------------------------------------------------------------------------

    def make_directory(self, path: str, mode: int = 0o700) -> None:
        """Create a directory if it is not there, durably."""
        with self._wrapped("make the directory", path):
            parent, name = self._at(path)
            try:
                os.mkdir(name, mode, dir_fd=parent)
            except FileExistsError:
                return
            os.fsync(parent)

    def write_new(self, path: str, pieces: Iterable[bytes], mode: int = 0o600) -> None:
        """Create a file that is not there yet, write it whole, flush it; `sync_directory` makes its name durable."""
        with self._wrapped("write the file", path):
            parent, name = self._at(path)
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, mode, dir_fd=parent)
            try:
                self._write_all(descriptor, 0, pieces)
            finally:
                os.close(descriptor)

    @staticmethod
    def _write_all(descriptor: int, position: int, pieces: Iterable[bytes]) -> None:
        """Write from a position to a new end and flush; a piece of zeros becomes a hole."""
        for piece in pieces:
            view = memoryview(piece if piece.count(0) < len(piece) else b"")
            written = 0
            while written < len(view):
                count = os.pwrite(descriptor, view[written:], position + written)
                if count <= 0:
                    raise OSError(errno.EIO, "nothing was written")
                written += count
            position += len(piece)
        os.ftruncate(descriptor, position)
        os.fsync(descriptor)

    def own(self, path: str, mode: int, uid: int, gid: int) -> None:
        """Give a new file the mode and, as root, the owner that its neighbors have."""
        with self._wrapped("set the owner of the file", path):
            parent, name = self._at(path)
            descriptor = os.open(name, os.O_RDONLY | _FILE, dir_fd=parent)
            try:
                os.fchmod(descriptor, mode)
                if os.geteuid() == 0:
                    os.fchown(descriptor, uid, gid)
            finally:
                os.close(descriptor)

    def truncate(self, path: str, size: int) -> None:
        """Cut a file and flush it."""
        with self._wrapped("cut the file", path):
            parent, name = self._at(path)
            descriptor = os.open(name, os.O_WRONLY | _FILE, dir_fd=parent)
            try:
                os.ftruncate(descriptor, size)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def append(self, path: str, pieces: Iterable[bytes]) -> None:
        """Write behind the end of a file and flush it."""
        with self._wrapped("write the file", path):
            parent, name = self._at(path)
            descriptor = os.open(name, os.O_WRONLY | _FILE, dir_fd=parent)
            try:
                self._write_all(descriptor, os.fstat(descriptor).st_size, pieces)
            finally:
                os.close(descriptor)

    def rename(self, path: str, target: str, other: FileSystem | None = None) -> bool:
        """Rename within this root or into another one; False if that is another file system."""
        with self._wrapped("rename the file", path):
            self._forget(path)
            from_directory, name = self._at(path)
            to_directory, target_name = (other or self)._at(target)  # noqa: SLF001 - the same class
            try:
                os.rename(name, target_name, src_dir_fd=from_directory, dst_dir_fd=to_directory)
            except OSError as error:
                if error.errno == errno.EXDEV:
                    return False
                raise
            return True

    def link(self, path: str, target: str, other: FileSystem) -> bool:
        """Give a file a second name in another root; False if the file system cannot."""
        with self._wrapped("link the file", path):
            from_directory, name = self._at(path)
            to_directory, target_name = other._at(target)
            try:
                os.link(name, target_name, src_dir_fd=from_directory, dst_dir_fd=to_directory, follow_symlinks=False)
            except FileExistsError:
                return True
            except OSError as error:
                if error.errno in (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
                    return False
                raise
            return True

    def remove(self, path: str) -> None:
        """Remove a file if it is there."""
        with self._wrapped("remove the file", path), contextlib.suppress(FileNotFoundError):
            parent, name = self._at(path)
            os.unlink(name, dir_fd=parent)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        with self._wrapped("remove the directory", path):
            self._forget(path)
            parent, name = self._at(path)
            os.rmdir(name, dir_fd=parent)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        with self._wrapped("flush the directory", path):
            os.fsync(self._directory(path))

    def copy_tree(self, source: str) -> None:
        """Copy all files and directories of another directory into this one, with their times; locks are left out."""
        other = FileSystem(source)
        try:
            self._copy_directory(other, "")
        finally:
            other.close()

    def _copy_directory(self, other: FileSystem, path: str) -> None:
        for name in other.names(path):
            inside = f"{path}/{name}" if path else name
            status = other.status(inside)
            if status is None or inside == LOCK_FILE:
                continue
            if stat.S_ISDIR(status.st_mode):
                self.make_directory(inside, stat.S_IMODE(status.st_mode))
                self._copy_directory(other, inside)
            elif stat.S_ISREG(status.st_mode):
                self.write_new(inside, other.read(inside), stat.S_IMODE(status.st_mode))
                self.set_mtime(inside, status.st_mtime_ns)
        self.sync_directory(path)
        if path:
            self.set_mtime(path, other.mtime(path))

    def set_mtime(self, path: str, mtime_ns: int) -> None:
        """Set the modification time of a file or directory."""
        with self._wrapped("set the time of the file", path):
            if path in self._directories or path == "":
                os.utime(self._directory(path), ns=(mtime_ns, mtime_ns))
                return
            parent, name = self._at(path)
            os.utime(name, ns=(mtime_ns, mtime_ns), dir_fd=parent, follow_symlinks=False)


def _make_directories(path: str) -> None:
    """Like `os.makedirs`, with every new name flushed: what is saved in a directory is lost with the directory."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent != path:
        _make_directories(parent)
    os.mkdir(path, 0o700)
    descriptor = os.open(parent, _DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
