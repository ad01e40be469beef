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
    """Create the directory `destination`, with missing parents, as a file system to fill.

    If the block raises `RecoveryRefused`, `StorageError` or `KeyboardInterrupt`, everything that a `FileSystem` created
    below it within the block is removed again, unless it was replaced since. Nothing is removed if an interrupted
    execution needs it.
    """
    missing = FileSystem.missing(destination)
    fs = FileSystem.create(destination)
    with remembering(fs.root) as made:
        try:
            yield fs
        except (RecoveryRefused, StorageError, KeyboardInterrupt):
            if not half_done(fs.root):
                _remove(fs, made)
                fs.remove_if_empty(missing)
            raise
        finally:
            fs.close()


def _remove(fs: FileSystem, made: dict[str, int]) -> None:
    for path, inode in sorted(made.items(), reverse=True):
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
    """Copy a log directory to `target`, which must be new or empty, and return the result of `work` on the copy.

    `work` gets the copy's path, and the directories that are not in it because they could not be read, with the error.
    Raises `UsageError` for a partition directory, `RecoveryRefused` if the directory is in use or contains special
    files.
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
    """Copy a log directory with all attributes, without the lock and the pointer file. Return the directories that were
    not copied because they cannot be read or contain something other than files, with the error.
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
    """Copy a file, or a directory with everything in it. Raises `NotRegularFileError` for other kinds."""
    directories = []
    is_directory = stat.S_ISDIR(status.st_mode)
    for path, each in [(top, status), *(other.walk(top) if is_directory else ())]:
        if stat.S_ISDIR(each.st_mode):
            target.make_directory(path)
            directories.append(path)
        elif not stat.S_ISREG(each.st_mode):
            raise NotRegularFileError(errno.EINVAL, what_it_is(each.st_mode), os.path.join(other.root, path))
        elif path not in _NOT_COPIED:
            target.copy_file(other, path, path)
            target.set_attributes(path, other.attributes(path))
    for path in sorted(directories, reverse=True):
        target.sync_directory(path)
        target.set_attributes(path, other.attributes(path))


def _is_about(root: str, error: StorageError, directory: str) -> bool:
    """Whether an error is about a directory of this root, or about a file in it."""
    path, above = str(error.filename), os.path.join(root, directory)
    return path == above or path.startswith(above + "/")


def _refuse_special(source: str) -> None:
    """Raise `RecoveryRefused` for an entry of the log directory that is neither a file nor a directory, which a copy
    would lack. Such an entry in a subdirectory only excludes that subdirectory from the copy.
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
