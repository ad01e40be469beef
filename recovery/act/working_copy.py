"""Work on a copy of a log directory, which is removed again if the work fails.

Only what this process created is removed: a file that another process puts there stays, and so do its directories.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.errors import RecoveryRefused, StorageError, UsageError
from kafkalog.codec.names import LOCK_FILE
from kafkalog.log.directories.directory import new_directory
from kafkalog.log.disk.files import NotRegularFileError, PathLike, what_it_is
from kafkalog.log.disk.lock import refuse_half_done
from kafkalog.log.disk.pointer import POINTER, POINTER_BEFORE, half_done
from kafkalog.recovery.act.fs import FileSystem, remembering
from kafkalog.recovery.act.lock import refuse_if_locked
from kafkalog.recovery.facts.places import root_of

__all__ = ["copy_for", "new_tree"]

_NOT_COPIED = frozenset({LOCK_FILE, POINTER, POINTER_BEFORE})

Result = TypeVar("Result")


@contextlib.contextmanager
def new_tree(destination: str) -> Iterator[FileSystem]:
    """Create the directory `destination` with missing parents; the value of this context is a file system to fill it.

    After an exception or `KeyboardInterrupt`, everything that a `FileSystem` created below it within the context is
    removed again, unless another process replaced it; then `destination` and its parents, if they were created here and
    are empty. Nothing is removed if an interrupted execution on it needs the files. Raises `StorageError` if the
    directory cannot be created.
    """
    missing = FileSystem.missing(destination)
    fs = FileSystem.create(destination)
    with remembering(fs.root) as made:
        try:
            yield fs
        except (Exception, KeyboardInterrupt, SystemExit):
            if not half_done(fs.root):
                _remove(fs, made)
                fs.remove_if_empty(missing)
            raise
        finally:
            fs.close()


def _remove(fs: FileSystem, created: dict[str, int]) -> None:
    for path, inode in sorted(created.items(), reverse=True):
        status = fs.status(path)
        if status is None or status.st_ino != inode:
            continue
        if not stat.S_ISDIR(status.st_mode):
            fs.remove(path)
            continue
        try:
            fs.remove_directory(path)
        except StorageError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def copy_for(path: PathLike, target: PathLike, work: Callable[[str, Mapping[str, StorageError]], Result]) -> Result:
    """Copy a log directory to `target`, which must be new or empty. Return the result of `work(copy, unreadable)`.
    `copy` is the copy's path. `unreadable` has the errors of the directories that are not in the copy, by name. They
    could not be read, or have links or special files in them. Lock and pointer file are not copied.

    Raises `UsageError` for a path that is not a log directory, or a `target` that `new_directory` refuses. Raises
    `RecoveryRefused` if the directory is in use, has an unfinished execution, directly contains special files or links,
    or is nested more than 100 levels deep. Raises `StorageError` if a file cannot be copied. If copying or `work`
    raises an exception, the copy is removed, unless an execution on it was interrupted.
    """
    root, only = root_of(path)
    if only is not None:
        raise UsageError(
            Sentence(f"{os.fspath(path)} is one partition directory; ", Ask.INTO, " copies a whole log directory")
        )
    destination = new_directory(target, beside=root)
    refuse_if_locked(root)
    refuse_half_done(root)
    _refuse_special(root)
    with new_tree(destination) as copy:
        unreadable = _copy_tree(copy, root)
        refuse_if_locked(root)  # somebody may have begun while it was copied
        refuse_half_done(root)
        return work(destination, unreadable)


def _copy_tree(target: FileSystem, source: str) -> dict[str, StorageError]:
    """Copy all files and directories of `source` with their attributes into `target`, without the lock and the pointer
    file. Return name -> error of the top-level directories that were left out because they cannot be read or contain
    something other than files and directories. Raises `StorageError` if a top-level file cannot be read or the copy
    cannot be written, `RecoveryRefused` below more than 100 levels.
    """
    unreadable = {}
    with FileSystem(source) as other:
        for name in other.names(""):
            status = other.status(name)
            if status is None:
                continue
            try:
                _copy(target, other, name, status)
            except StorageError as error:
                if not (stat.S_ISDIR(status.st_mode) and _is_about(other.root, error, name)):
                    raise
                target.remove_tree(name)
                unreadable[name] = error
        target.sync_directory("")
        target.set_attributes("", other.attributes(""))
    return unreadable


def _copy(target: FileSystem, other: FileSystem, top: str, status: os.stat_result) -> None:
    """Copy the file or directory `top` of `other`, whose lstat is `status`, into `target`, with everything in it and
    all attributes, and flush it. Lock and pointer file are skipped. Raises `NotRegularFileError` for anything but
    regular files and directories. Raises `StorageError` if a file cannot be read or written, `RecoveryRefused` below
    more than 100 levels.
    """
    directories = []
    is_directory = stat.S_ISDIR(status.st_mode)
    for path, entry in [(top, status), *(other.walk(top) if is_directory else ())]:
        if stat.S_ISDIR(entry.st_mode):
            target.make_directory(path)
            directories.append(path)
        elif not stat.S_ISREG(entry.st_mode):
            raise NotRegularFileError(errno.EINVAL, what_it_is(entry.st_mode), os.path.join(other.root, path))
        elif path not in _NOT_COPIED:
            target.copy_file(other, path, path)
            target.set_attributes(path, other.attributes(path))
    for path in sorted(directories, reverse=True):
        target.sync_directory(path)
        target.set_attributes(path, other.attributes(path))


def _is_about(root: str, error: StorageError, directory: str) -> bool:
    """Whether the file of an error is `directory`, a path below `root`, or lies in it."""
    path, above = str(error.filename), os.path.join(root, directory)
    return path == above or path.startswith(above + "/")


def _refuse_special(source: str) -> None:
    """Raise `RecoveryRefused` if the log directory `source` directly contains anything but regular files and
    directories, because a copy would lack it. Also raise it if directories are nested more than 100 levels deep.
    Special entries in a subdirectory are allowed here: the copy leaves that subdirectory out. Raises `StorageError` if
    `source` itself cannot be listed.
    """
    with FileSystem(source) as fs:
        for name in fs.names(""):
            status = fs.status(name)
            if status is None or stat.S_ISREG(status.st_mode):
                continue
            if not stat.S_ISDIR(status.st_mode):
                what = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "a special file"
                raise RecoveryRefused(
                    f"{os.path.join(fs.root, name)} is {what}, which a copy would not hold: put the file or "
                    "directory itself in its place, or move it out of the log directory",
                    reason="special",
                )
            with contextlib.suppress(StorageError):  # what cannot be listed is left out of the copy
                for _ in fs.walk(name):
                    pass
