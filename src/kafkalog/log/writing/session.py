"""Several logs of one directory, written one after the other under one lock.

Without this, closing the last open log would give up the lock, and somebody else could come between two partitions.
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
    """Whether the other partitions of the directory are known to be in order: they were, or were written here."""
    if held.was_clean:
        return True
    names = {entry.name for entry in scan_directory(held.path) if entry.is_dir(follow_symlinks=False)}
    others = {name for name in names if parse_partition_directory(name) is not None}
    return others <= held.written


def leave(held: HeldDirectory, name: str) -> None:
    """Give up what `name` holds; the last one writes the marker of an orderly end if all were in order.

    Nothing is done in a forked child, which holds nothing.
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
    """Hold the locks of several log directories, as `locked_directory` does that of one."""
    with ExitStack() as locks:
        for path in paths:
            locks.enter_context(locked_directory(path))
        yield


@contextmanager
def locked_directory(path: PathLike) -> Iterator[None]:
    """Hold the lock of a log directory, so that logs can be opened and closed in it and nobody comes between.

    `UsageError` if a broker or another writer has it.
    """
    held = hold(os.path.abspath(os.fspath(path)), SEVERAL)
    try:
        yield
    finally:
        leave(held, SEVERAL)
