"""Serialize commits into a log directory with a lock file. A second commit waits instead of failing."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.log.disk import fs
from kafkalog.log.disk.holders import is_under_its_name

__all__ = ["in_turn"]

_LOCK = "commit.lock"
_PAUSE_SECONDS = 0.05
_MOST_SECONDS = 600.0


@contextmanager
def in_turn(work: str, most_seconds: float = _MOST_SECONDS) -> Iterator[None]:
    """Context manager that holds the lock for commits in the directory `work`, and creates the directory if it is
    missing. Waits for at most `most_seconds`, then raises `UsageError`. The lock file is removed at the end, unless the
    body raises; its lock ends in any case, also if the process is killed. Raises `StorageError` if the directory or the
    lock file cannot be created or removed.
    """
    path = os.path.join(work, _LOCK)
    until = time.monotonic() + most_seconds
    while (descriptor := _taken(work, path)) is None:
        if time.monotonic() > until:
            raise UsageError(f"another commit has held {path} for {most_seconds:g} seconds; wait until it has ended")
        time.sleep(_PAUSE_SECONDS)
    try:
        yield
        fs.remove(path)
    finally:
        os.close(descriptor)


def _taken(work: str, path: str) -> int | None:
    """Return a file descriptor that holds the lock on the file `path` in the directory `work`. Return None if another
    process holds it, or has just removed the file or the directory. Creates both if they are missing. Raises
    `StorageError` for I/O errors.
    """
    fs.make_directory(work, follow=False)
    try:
        descriptor, _ = fs.lock_file(path)
    except StorageError as error:
        if error.errno == errno.ENOENT:  # the previous holder has just removed the directory
            return None
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_under_its_name(descriptor, path):
            return descriptor
    except BlockingIOError:
        pass
    os.close(descriptor)
    return None
