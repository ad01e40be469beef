"""A directory that is written whole or not at all: if the work fails, what this process has made there is removed.

Only that: a file that somebody else puts there meanwhile stays, and so do the directories that hold it.
"""

from __future__ import annotations

import contextlib
import errno
import stat
from collections.abc import Iterator

from kafkalog.codec.errors import RecoveryRefused, StorageError
from kafkalog.log.disk.pointer import half_done
from kafkalog.recovery.act.fs import FileSystem, remembering

__all__ = ["new_tree"]


@contextlib.contextmanager
def new_tree(destination: str) -> Iterator[FileSystem]:
    """Make the directory `destination`, and those above it, and give it to be filled.

    If the block raises `RecoveryRefused`, `StorageError` or `KeyboardInterrupt`, every file and directory that a
    `FileSystem` has made below it within the block is removed again, if it still is the one that was made.  A run of
    recovery that was cut short there needs what is there: then nothing is removed.
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
