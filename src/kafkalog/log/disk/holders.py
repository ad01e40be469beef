"""Whether another process holds a log directory's lock, asked without losing one of our own.

A POSIX record lock is lost when its process closes any descriptor of the file.  So the kernel's list is read first;
only where nobody is in it is the file opened, which also finds holders that a container hides from the list.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import threading
from pathlib import Path

from kafkalog.codec.names import LOCK_FILE

__all__ = [
    "TAKING",
    "held_by_us",
    "is_under_its_name",
    "note_given_back",
    "note_taken",
    "told_held_by_others",
]

_LOCKS = Path("/proc/locks")
_FLOCK = struct.Struct("@hhqqi0q")
"""`struct flock` with 64-bit offsets: type, whence, start, length, process."""


class _Guard:
    """Who takes a lock of this process does it under this, so that nobody here closes the file meanwhile."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


TAKING = _Guard()
_OURS: set[tuple[int, int]] = set()
"""device and inode of lock files that this process has locked: opening one and closing it would give up the lock"""


def _begin_child() -> None:
    TAKING.lock = threading.RLock()
    _OURS.clear()


os.register_at_fork(after_in_child=_begin_child)


def note_taken(descriptor: int) -> None:
    """Remember that this process has locked the file; to be called under `TAKING`."""
    status = os.fstat(descriptor)
    _OURS.add((status.st_dev, status.st_ino))


def note_given_back(descriptor: int) -> None:
    """Forget it: the file is about to be closed."""
    status = os.fstat(descriptor)
    _OURS.discard((status.st_dev, status.st_ino))


def held_by_us(root: str) -> bool:
    """Whether this process holds the lock of the log directory `root`; trying it would not tell, and lose it."""
    try:
        status = os.lstat(os.path.join(root, LOCK_FILE))
    except OSError:
        return False
    return (status.st_dev, status.st_ino) in _OURS


def is_under_its_name(descriptor: int, path: str) -> bool:
    """Whether a file that was opened for locking still has its name; a lock on one that was removed is nobody's."""
    try:
        named = os.lstat(path)
    except OSError:
        return False
    opened = os.fstat(descriptor)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def told_held_by_others(root: str) -> bool | None:
    """Whether others hold the lock, None if unknown; nothing is created, changed or waited for."""
    path = os.path.join(root, LOCK_FILE)
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    with TAKING:
        if (status.st_dev, status.st_ino) in _OURS:
            return False
        holders = _listed(status)
        if holders is None or holders:
            return holders != {os.getpid()}
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except OSError:
            return None
        finally:
            os.close(descriptor)
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def _listed(status: os.stat_result) -> set[int] | None:
    """Processes that the kernel lists with a lock of the file; None where there is no list."""
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open(_LOCKS, "rb", buffering=0) as stream:
            text = stream.readall().decode("ascii", "replace")
    except OSError:
        return None
    found: set[int] = set()
    if place not in text:
        return found
    for line in text.splitlines():
        words = line.split()
        if place in words and "POSIX" in words and "->" not in words:
            found.add(int(words[words.index(place) - 1]))
    return found
