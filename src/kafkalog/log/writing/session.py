"""Keep a log directory locked while several of its logs are written one after another. Otherwise closing the last open
log would release the lock, and another process could write in between.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from kafkalog.codec.names import parse_partition_directory
from kafkalog.log.disk.files import PathLike, scan_directory
from kafkalog.log.disk.lock import SEVERAL, HeldDirectory, hold
from kafkalog.log.writing import checkpoint_files

__all__ = ["leave", "locked_directories", "locked_directory"]


def _vouched(held: HeldDirectory) -> bool:
    """Return whether every partition of the directory is known to be in order. The result is True if the directory had
    its clean shutdown marker when it was locked. Otherwise the directory is listed, and the result is True if every
    partition in it has been opened by this process without an error. Raises `StorageError` if the directory cannot be
    listed.
    """
    if held.was_clean:
        return True
    names = {entry.name for entry in scan_directory(held.path) if entry.is_dir(follow_symlinks=False)}
    others = {name for name in names if parse_partition_directory(name) is not None}
    return others <= held.written


def leave(held: HeldDirectory, name: str) -> None:
    """Release a partition's share of the directory lock. Before the last share is released, the clean shutdown marker
    is written. This needs that a log was opened, no log failed, and all partitions are known to be in order. Does
    nothing in a forked child. Raises `StorageError` if the directory cannot be listed or the marker cannot be written;
    the share is released nevertheless.
    """
    if not held.process.is_here:
        return
    with held.guard:
        try:
            last = len(held.partitions) == 1 and held.was_clean is not None  # None: no log was opened
            if last and not held.failed and _vouched(held):
                checkpoint_files.mark_clean(held.path, held.marker)
        finally:
            held.release(name)


@contextmanager
def locked_directories(paths: Iterable[PathLike]) -> Iterator[None]:
    """Context manager that holds the locks of several log directories, see `locked_directory`. If one cannot be locked,
    those already locked are released and its error is raised.
    """
    with ExitStack() as locks:
        for path in paths:
            locks.enter_context(locked_directory(path))
        yield


@contextmanager
def locked_directory(path: PathLike) -> Iterator[None]:
    """Context manager that holds the lock of a log directory. Logs can be opened and closed in it while no other
    process can lock it. Leaving writes the clean shutdown marker if a log was opened and all are in order. Raises
    `UsageError` if another process has the lock, or if this process is in such a context already or is recovering the
    directory. Raises `RecoveryRefused` if a recovery of the directory has not ended. Raises `StorageError` for I/O
    errors.
    """
    held = hold(os.path.abspath(os.fspath(path)), SEVERAL)
    try:
        yield
    finally:
        leave(held, SEVERAL)
