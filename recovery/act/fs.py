"""Change files below one root directory. In the recovery package only this module and `descriptors` change files.

Every path is relative to the root and is resolved component by component through directory descriptors that do not
follow links, so that a path swapped in meanwhile cannot lead elsewhere. Changes are flushed at once or, within
`flushed_together`, at its end. A failed flush is never retried: the caller must stop.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Self

from kafkalog.codec.common.errors import RecoveryRefused, StorageError
from kafkalog.log.disk.fs import remove_tree_at
from kafkalog.recovery.act.descriptors import (
    DIRECTORY_FLAGS,
    PIECE,
    Attributes,
    Flushing,
    OpenFile,
    Wrapped,
    attributes_of,
    make_directories,
    mount_of,
    set_extended_attributes,
    write_pieces,
)
from kafkalog.recovery.act.digest import ContentDigest, Piece

__all__ = ["PIECE", "Attributes", "Facts", "FileSystem", "Owner", "own_file", "remembering"]

_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_MOST_DEPTH = 100
_ACROSS_LAYERS = (
    "this file system cannot rename what lies there, as an overlay (the layers of a container's image) cannot rename a "
    "directory of a lower layer: copy the log directory to another file system and recover the copy"
)
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF)
_MOST_OPEN = 128
"""most directory descriptors kept open; more than any one operation needs"""


_made: ContextVar[tuple[str, dict[str, int]] | None] = ContextVar("made", default=None)


@contextlib.contextmanager
def remembering(root: str) -> Iterator[dict[str, int]]:
    """Record the files, except lock files, and the directories that any `FileSystem` with the real path `root` creates
    within this context. Its value is a dict, filled as they are created: path below the root -> inode. Paths that are
    renamed are updated; removed files are deleted from it, removed directories stay.
    """
    made: dict[str, int] = {}
    token = _made.set((root, made))
    try:
        yield made
    finally:
        _made.reset(token)


Owner = tuple[int, int, int]
"""mode, user id and group id of a file"""
Facts = tuple[int, int, int]
"""size (bytes), modification time (ns) and inode, which identify a file without reading it"""


class FileSystem(Flushing):
    """File operations below the directory `root`; paths are relative to it, '' is the root itself. Symbolic links below
    it are never followed. Unless said otherwise, methods raise `StorageError` with errno and path if the operating
    system reports an error.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._directories: OrderedDict[str, int] = OrderedDict()
        super().__init__()
        with self._wrapped("open the directory", ""):
            self._directories[""] = os.open(self.root, DIRECTORY_FLAGS)
        self.owner = os.fstat(self._directories[""])
        self.mtime_before = self.owner.st_mtime_ns
        """modification time of the root (ns) before anything was changed"""

    @classmethod
    def create(cls, root: str) -> FileSystem:
        """Open the directory `root`, after creating it and missing directories above it (mode 700). New names are
        flushed to disk. An existing directory is opened as it is. Raises `StorageError` if one cannot be created or
        opened.
        """
        try:
            make_directories(os.path.realpath(root))
        except OSError as error:
            raise StorageError.wrap(error, "cannot make the directory") from error
        return cls(root)

    @classmethod
    def nearest(cls, path: str) -> FileSystem:
        """Open `path`, or the nearest directory above it that exists, as the root."""
        path = os.path.realpath(path)
        while not os.path.isdir(path):
            path = os.path.dirname(path)
        return cls(path)

    @staticmethod
    def missing(path: str) -> list[str]:
        """Return the real path of `path` and of the directories above it that do not exist, deepest first; empty if
        `path` exists.
        """
        path, missing = os.path.realpath(path), []
        while not os.path.lexists(path):
            missing.append(path)
            path = os.path.dirname(path)
        return missing

    def remove_if_empty(self, paths: Iterable[str]) -> None:
        """Remove directories (absolute paths, as from `missing`) in this order; stop at the first that is not empty or
        cannot be removed. Errors are ignored.
        """
        for path in paths:
            try:
                os.rmdir(path)
            except OSError:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open_or_create(self, path: str, content: Callable[[], bytes]) -> tuple[int, bool]:
        """Open a regular file for reading and writing; return (descriptor, whether it was created). A missing file is
        created with mode 644 (less the umask) and the bytes that `content()` returns, without flushing; it is removed
        again if they cannot be written. An existing file is not changed, and `content` not called. The caller closes
        the descriptor.

        Raises `StorageError`, also for a symbolic link or anything but a regular file.
        """
        with self._wrapped("open the file", path):
            parent, name = self._at(path)
            try:
                descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE, 0o644, dir_fd=parent)
            except FileExistsError:
                descriptor = os.open(name, os.O_RDWR | _FILE, dir_fd=parent)
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    os.close(descriptor)
                    raise OSError(errno.EINVAL, "it is not a regular file") from None
                return descriptor, False
            try:
                os.pwrite(descriptor, content(), 0)
            except OSError:
                os.close(descriptor)
                os.unlink(name, dir_fd=parent)
                raise
            return descriptor, True

    def close(self) -> None:
        """Close all directory descriptors."""
        while self._directories:
            os.close(self._directories.popitem()[1])

    def _wrapped(self, doing: str, path: str) -> Wrapped:
        return Wrapped(self.root, doing, path)

    def _directory(self, path: str) -> int:
        known = self._directories.get(path)
        if known is not None:
            self._directories.move_to_end(path)
            return known
        parent, _, name = path.rpartition("/")
        descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=self._directory(parent))
        self._directories[path] = descriptor
        if len(self._directories) > _MOST_OPEN:
            oldest = next(held for held in self._directories if held)
            os.close(self._directories.pop(oldest))
        return descriptor

    def _at(self, path: str) -> tuple[int, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name

    def _forget(self, path: str) -> None:
        for known in [known for known in self._directories if known == path or known.startswith(path + "/")]:
            os.close(self._directories.pop(known))

    # -- looking -----------------------------------------------------------------------------------------------------

    def status(self, path: str) -> os.stat_result | None:
        """Return the lstat of a path (symbolic links are not followed), and fstat of the root for ''. None if the path
        does not exist, or something above it is missing or not a directory. Raises `StorageError` if it cannot be
        examined.
        """
        with self._wrapped("examine the file", path):
            try:
                if not path:
                    return os.fstat(self._directory(""))
                parent, name = self._at(path)
                return os.stat(name, dir_fd=parent, follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def mtime(self, path: str) -> int:
        """Modification time of a directory, in ns."""
        with self._wrapped("examine the directory", path):
            return os.fstat(self._directory(path)).st_mtime_ns

    def opened(self, path: str) -> OpenFile:
        """Open a regular file for reading."""
        wrapped = self._wrapped("read the file", path)
        with wrapped:
            parent, name = self._at(path)
            return OpenFile(os.open(name, os.O_RDONLY | _FILE, dir_fd=parent), wrapped)

    def read(self, path: str, start: int = 0, end: int | None = None) -> Iterator[Piece]:
        """Yield the bytes from `start` to `end` in pieces, without holes; their positions count from `start`."""
        with self.opened(path) as file:
            yield from file.read(start, end)

    def digest(self, path: str, start: int = 0, end: int | None = None) -> str:
        """Digest of the bytes from `start` to `end` (exclusive; None: end of file), as in `recovery.act.digest`."""
        with self.opened(path) as file:
            return file.digest(start, end)

    def crc32c(self, path: str, end: int) -> int:
        """CRC-32C of the first `end` bytes of a file."""
        with self.opened(path) as file:
            return file.crc32c(end)

    def _open_any(self, path: str) -> int:
        """Open a file or directory, or the root; return the descriptor, which the caller closes."""
        if path == "":
            return os.dup(self._directory(""))
        parent, name = self._at(path)
        return os.open(name, os.O_RDONLY | _FILE, dir_fd=parent)

    def attributes(self, path: str) -> Attributes:
        """Return the attributes of a file or directory ('' is the root): modification time, mode (of a file only the
        bits 0777), owner, and the extended attributes that are copied (`is_kept_attribute`). Raises `StorageError` if
        it is missing, a symbolic link, or not readable.
        """
        with self._wrapped("examine the file", path):
            descriptor = self._open_any(path)
            try:
                return attributes_of(descriptor, os.fstat(descriptor))
            finally:
                os.close(descriptor)

    def names(self, path: str) -> list[str]:
        """Sorted names in a directory."""
        with self._wrapped("list the directory", path):
            return sorted(os.listdir(self._directory(path)))

    def shares_mount(self, other: FileSystem) -> bool:
        """Whether files can be renamed from this root to the other: both are on one device, and were opened through one
        mount. If the kernel does not report mounts, only the devices are compared. Raises `StorageError` if a root
        cannot be examined.
        """
        own, others = self._directories[""], other._directories[""]
        with self._wrapped("examine the file system", ""):
            if os.fstat(own).st_dev != os.fstat(others).st_dev:
                return False
        return mount_of(own) == mount_of(others)

    # -- changing ----------------------------------------------------------------------------------------------------

    def _remembered(self) -> dict[str, int] | None:
        """Paths created below this root -> inode, within `remembering`; else None."""
        noted = _made.get()
        return None if noted is None or noted[0] != self.root else noted[1]

    def _remember(self, path: str, status: os.stat_result) -> None:
        remembered = self._remembered()
        if remembered is not None:
            remembered[path] = status.st_ino

    def make_directory(self, path: str, mode: int = 0o700) -> None:
        """Create a directory with `mode` (less the umask) and flush its parent. If the name already exists, as a
        directory or anything else, it is kept without an error; its parent is then flushed only within
        `flushed_together`. Raises `StorageError` if the parent is missing, or within `remembering` if the name exists
        and was not created in that context.
        """
        with self._wrapped("make the directory", path):
            parent, name = self._at(path)
            try:
                os.mkdir(name, mode, dir_fd=parent)
                self._remember(path, os.stat(name, dir_fd=parent, follow_symlinks=False))
            except FileExistsError:
                remembered = self._remembered()
                if remembered is not None and path not in remembered:
                    raise
                if self._unflushed is None:
                    return
            self._flush(parent, path.rpartition("/")[0])

    def write_new(self, path: str, pieces: Iterable[Piece], size: int, owner: Owner | None = None) -> None:
        """Create a file of `size` bytes and flush it; an existing file is an error. Ranges without a piece are holes.

        `sync_directory` makes the name durable. Without `owner` only this user can read the file (mode 600); user and
        group are set only if this process is root.
        """
        with self._written(path, pieces, size, owner):
            pass

    def save(self, path: str, pieces: Iterable[Piece], size: int, owner: Owner | None = None) -> str:
        """Create a file of `size` bytes, flush it, read it back, and return its digest in hexadecimal
        (`recovery.act.digest`). `pieces` are (position, bytes) in ascending order; ranges without a piece are holes.
        `owner` is (mode, user id, group id); the ids are set only if this process is root. None means mode 600. Raises
        `StorageError` if the file exists, cannot be written, or reads back differently. A file that was begun is not
        removed then.
        """
        digest = ContentDigest()
        with self._written(path, _taken(pieces, digest), size, owner) as file:
            wanted = digest.of_size(size)
            if file.digest() != wanted:
                raise OSError(errno.EIO, "what was written reads back differently")
        return wanted

    def _written(self, path: str, pieces: Iterable[Piece], size: int, owner: Owner | None) -> OpenFile:
        wrapped = self._wrapped("write the file", path)
        with wrapped:
            parent, name = self._at(path)
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=parent)
            self._remember(path, os.fstat(descriptor))
            try:
                if owner is not None:
                    mode, uid, gid = owner
                    if os.geteuid() == 0:
                        os.fchown(descriptor, uid, gid)
                    os.fchmod(descriptor, mode)
                write_pieces(descriptor, 0, pieces, size)
                self._flush(descriptor, path)
            except BaseException:
                os.close(descriptor)
                raise
            return OpenFile(descriptor, wrapped)

    def give(self, path: str, uid: int, gid: int) -> None:
        """Set user and group of a file. Does nothing if that is not permitted."""
        with self._wrapped("set the owner of the file", path), contextlib.suppress(PermissionError):
            parent, name = self._at(path)
            os.chown(name, uid, gid, dir_fd=parent, follow_symlinks=False)

    def set_attributes(self, path: str, attributes: Attributes) -> None:
        """Set owner (only if this process is root), extended attributes, mode and modification time of a file or
        directory, and flush it. Extended attributes that `attributes` lacks stay. Raises `StorageError` if it is
        missing, a symbolic link, or cannot be changed.
        """
        with self._wrapped("set the attributes of the file", path):
            descriptor = self._open_any(path)
            try:
                if os.geteuid() == 0:
                    os.fchown(descriptor, attributes.uid, attributes.gid)
                set_extended_attributes(descriptor, attributes.extended)
                os.fchmod(descriptor, attributes.mode)
                os.utime(descriptor, ns=(attributes.mtime_ns, attributes.mtime_ns))
                self._flush(descriptor, path)
            finally:
                os.close(descriptor)

    def truncate(self, path: str, size: int, expected: Facts | None = None) -> None:
        """Set the size of a file to `size` bytes, and flush it. `expected` is its size in bytes, modification time (ns)
        and inode, or None for any. Raises `RecoveryRefused`, with nothing changed, if the file differs from that, and
        `StorageError` if it is missing or cannot be truncated.
        """
        with self._wrapped("cut the file", path):
            parent, name = self._at(path)
            descriptor = os.open(name, os.O_WRONLY | _FILE, dir_fd=parent)
            try:
                self._refuse_other(path, os.fstat(descriptor), expected)
                os.ftruncate(descriptor, size)
                self._flush(descriptor, path)
            finally:
                os.close(descriptor)

    def write_tail(self, path: str, position: int, pieces: Iterable[Piece], size: int) -> None:
        """Truncate a file to `position` bytes, write `pieces` after that position, and flush it. Its size is then
        `position + size`. Positions of pieces count from `position`; bytes without a piece are zeros. Raises
        `StorageError` if the file is missing or cannot be written.
        """
        with self._wrapped("write the file", path):
            parent, name = self._at(path)
            descriptor = os.open(name, os.O_WRONLY | _FILE, dir_fd=parent)
            try:
                os.ftruncate(descriptor, position)
                write_pieces(descriptor, position, pieces, size)
                self._flush(descriptor, path)
            finally:
                os.close(descriptor)

    def put(self, path: str, data: bytes, owner: Owner) -> None:
        """Write a whole file of the top directory, durably; an existing one is replaced atomically. `owner` is as in
        `save`. Raises `StorageError` if it cannot be written; a temporary file may then be left, which the next call
        removes.
        """
        temporary = f".{path}.kafkalog-tmp"
        if self.status(temporary) is not None:
            self.remove(temporary)
        self.write_new(temporary, [(0, data)], len(data), owner)
        self.replace(temporary, path)
        self.sync_directory("")

    def replace(self, path: str, target: str, expected: Facts | None = None) -> None:
        """Rename a file over `target`. Raises `RecoveryRefused` if `target` is not the `expected` file (None: any)."""
        self.refuse_other(target, expected)
        self.rename(path, target)

    def refuse_other(self, path: str, expected: Facts | None) -> None:
        """Raise `RecoveryRefused` if a file is not the `expected` one; None allows any."""
        if expected is not None:
            self._refuse_other(path, self.status(path), expected)

    def open_expected(self, path: str, expected: Facts | None) -> OpenFile:
        """Open a regular file for reading; the caller closes it, best as a context manager. `expected` is its size in
        bytes, modification time (ns) and inode, or None for any. Raises `RecoveryRefused` if the file is missing, not
        regular, or differs from `expected`, `StorageError` if it cannot be opened.
        """
        status = self.status(path)
        self._refuse_other(path, status, expected)
        if status is None or not stat.S_ISREG(status.st_mode):
            raise RecoveryRefused(f"{self.root}/{path} changed since the plan was made", reason="changed")
        return self.opened(path)

    def _refuse_other(self, path: str, status: os.stat_result | None, expected: Facts | None) -> None:
        if expected is None:
            return
        if status is None or (status.st_size, status.st_mtime_ns, status.st_ino) != expected:
            raise RecoveryRefused(
                f"{os.path.join(self.root, path)} changed since the plan was made: something else is writing there; "
                "stop it, and plan again",
                reason="changed",
            )

    def rename(self, path: str, target: str, other: FileSystem | None = None) -> None:
        """Rename a file or directory within this root or into the root `other`. A file replaces a file `target`, and a
        directory an empty directory `target`. Nothing is flushed: the names are durable after `sync_directory` of both
        directories. A deferred flush of `path` becomes one of `target`. Raises `StorageError` if `path` is missing or
        cannot replace `target`, or if the roots are on different file systems.
        """
        with self._wrapped("rename the file", path):
            self._forget(path)
            from_directory, name = self._at(path)
            to_directory, target_name = (other or self)._at(target)  # noqa: SLF001 - the same class
            try:
                os.rename(name, target_name, src_dir_fd=from_directory, dst_dir_fd=to_directory)
            except OSError as error:
                if error.errno == errno.EXDEV:  # the mount is the same: that was asked before
                    raise OSError(error.errno, _ACROSS_LAYERS) from error
                raise
        self._follow(path, target, other or self)
        waiting = (other or self)._unflushed  # noqa: SLF001
        if waiting is not None and path in (self._unflushed or {}):  # a directory is never renamed while files wait
            (self._unflushed or {}).pop(path)
            waiting[target] = None

    def _follow(self, path: str, target: str, other: FileSystem) -> None:
        """Update the paths recorded by `remembering` after `path` was renamed to `target`. `path` is a file, or a
        directory with everything in it. If `other` has another root directory, the paths are deleted from the record.
        Does nothing outside `remembering`.
        """
        made = self._remembered()
        if not made:
            return
        for known in [known for known in made if known == path or known.startswith(path + "/")]:
            inode = made.pop(known)
            if other.root == self.root:
                made[target + known[len(path) :]] = inode

    def link(self, path: str, target: str, other: FileSystem) -> None:
        """Give a file a second name (hard link) in another root."""
        with self._wrapped("link the file", path):
            from_directory, name = self._at(path)
            to_directory, target_name = other._at(target)
            os.link(name, target_name, src_dir_fd=from_directory, dst_dir_fd=to_directory, follow_symlinks=False)

    def remove(self, path: str, expected: Facts | None = None) -> None:
        """Remove a file; the directory is not flushed. `expected` is its size in bytes, modification time (ns) and
        inode. Raises `RecoveryRefused`, with nothing removed, if the file is missing or differs from `expected`. With
        `expected` None any file is removed, and a missing one is ignored. Raises `StorageError` if it cannot be
        removed.
        """
        self.refuse_other(path, expected)
        with self._wrapped("remove the file", path), contextlib.suppress(FileNotFoundError):
            parent, name = self._at(path)
            os.unlink(name, dir_fd=parent)
            (self._remembered() or {}).pop(path, None)
            (self._unflushed or {}).pop(path, None)

    def remove_unseen(self, path: str, mtime_ns: int) -> None:
        """Remove a file and set its directory's modification time (ns) back to `mtime_ns`."""
        with self._wrapped("remove the file", path):
            parent, name = self._at(path)
            os.unlink(name, dir_fd=parent)
            os.utime(parent, ns=(mtime_ns, mtime_ns))

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory; its parent is not flushed. Raises `StorageError` if it is missing, not empty or
        not a directory.
        """
        with self._wrapped("remove the directory", path):
            self._forget(path)
            parent, name = self._at(path)
            os.rmdir(name, dir_fd=parent)
            (self._unflushed or {}).pop(path, None)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable (fsync)."""
        with self._wrapped("flush the directory", path):
            self._flush(self._directory(path), path)

    def set_mtime(self, path: str, mtime_ns: int) -> None:
        """Set access and modification time of a file or directory ('' is the root) to `mtime_ns` (ns since 1970).
        Nothing is flushed; a symbolic link is not followed. Raises `StorageError` if it is missing or cannot be
        changed.
        """
        with self._wrapped("set the time of the file", path):
            if path in self._directories or path == "":
                os.utime(self._directory(path), ns=(mtime_ns, mtime_ns))
                return
            parent, name = self._at(path)
            os.utime(name, ns=(mtime_ns, mtime_ns), dir_fd=parent, follow_symlinks=False)

    # -- whole trees -------------------------------------------------------------------------------------------------

    def copy_file(self, other: FileSystem, path: str, target: str, owner: Owner | None = None) -> tuple[int, str]:
        """Copy the file `path` of the root `other` to the new file `target` of this root, flush the copy and read it
        back. Return its size in bytes and its digest in hexadecimal. Holes stay holes. Of its attributes only `owner`
        is set (None: mode 600). Raises `StorageError` if `target` exists, the file cannot be read, or the copy reads
        back differently.
        """
        with other.opened(path) as file:
            size = file.status.st_size
            return size, self.save(target, file.read(), size, owner)

    def walk(self, path: str, depth: int = 0) -> Iterator[tuple[str, os.stat_result]]:
        """Yield (path below the root, lstat) of everything below a directory, sorted by name within each directory, a
        directory before its content. Symbolic links are yielded and not followed. An entry that disappears before its
        lstat is skipped. `depth` is the number of levels already entered.

        Raises `RecoveryRefused` below more than 100 levels, `StorageError` if a directory is missing or cannot be
        listed.
        """
        if depth > _MOST_DEPTH:
            raise RecoveryRefused(
                f"{os.path.join(self.root, path)} lies {depth} directories deep, deeper than anything Kafka makes: "
                "move it out of the log directory",
                reason="special",
            )
        for name in self.names(path):
            inside = f"{path}/{name}" if path else name
            status = self.status(inside)
            if status is None:
                continue
            yield inside, status
            if stat.S_ISDIR(status.st_mode):
                yield from self.walk(inside, depth + 1)

    @contextlib.contextmanager
    def locked_directory(self, path: str) -> Iterator[bool]:
        """Lock a directory within this context (`flock`, exclusive, without waiting). Its value is True if this locked
        the directory, and also if the file system has no locks; False if another process, or this one, had locked it
        before. The lock ends with the context or the process. Raises `StorageError` if the directory cannot be opened
        or locked.
        """
        with self._wrapped("lock the directory", path):
            parent, name = self._at(path)
            descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
        try:
            is_ours = True
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                is_ours = False
            except OSError as error:
                if error.errno not in _WITHOUT_LOCKS:
                    raise StorageError.wrap(error, "cannot lock the directory") from error
            yield is_ours
        finally:
            os.close(descriptor)

    def remove_tree(self, path: str) -> None:
        """Remove a directory with everything in it and flush its parent. Does nothing if it is missing. Use it only for
        directories that this program created. Raises `StorageError` if something cannot be removed.
        """
        if self.status(path) is None:
            return
        self._forget(path)
        with self._wrapped("remove the directory", path):
            parent, name = self._at(path)
            remove_tree_at(parent, name)
        self.sync_directory(path.rpartition("/")[0])


def own_file() -> Owner:
    """Mode and owner of a new log file: 644, this process's user and group."""
    return 0o644, os.geteuid(), os.getegid()


def _taken(pieces: Iterable[Piece], digest: ContentDigest) -> Iterator[Piece]:
    for position, data in pieces:
        digest.take(position, data)
        yield position, data
