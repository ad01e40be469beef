"""Find out whether another process holds a log directory's lock, without losing a lock of this process. A process loses
its POSIX record lock when it closes any descriptor of the file. So the kernel's list of locks is read first, and the
file is opened only if the list has no holder, because a container may hide holders from the list.
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
    """The mutex of this process for locking log directories. While it is held, no other thread closes the lock file."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


TAKING = _Guard()
_OURS: set[tuple[int, int]] = set()
"""Device and inode of the lock files that this process has locked: opening and closing one would release the lock."""


def _begin_child() -> None:
    TAKING.lock = threading.RLock()
    _OURS.clear()


os.register_at_fork(after_in_child=_begin_child)


def note_taken(descriptor: int) -> None:
    """Record that this process has locked the file that is open as `descriptor`. Call it under `TAKING`."""
    status = os.fstat(descriptor)
    _OURS.add((status.st_dev, status.st_ino))


def note_given_back(descriptor: int) -> None:
    """Record that this process no longer locks the file, which is about to be closed."""
    status = os.fstat(descriptor)
    _OURS.discard((status.st_dev, status.st_ino))


def held_by_us(root: str) -> bool:
    """Return whether this process has locked the file `.lock` of the log directory `root`, according to its own table
    of locks. Return False if the file does not exist or cannot be examined. The lock itself is not tried: a process can
    lock a file twice, and ending the trial would release the lock.
    """
    try:
        status = os.lstat(os.path.join(root, LOCK_FILE))
    except OSError:
        return False
    return (status.st_dev, status.st_ino) in _OURS


def is_under_its_name(descriptor: int, path: str) -> bool:
    """Return whether `path` (links not followed) is still the file that is open as `descriptor`. Return False if the
    file was removed or replaced, or if `path` cannot be examined. This matters because a lock on a removed file
    excludes nobody.
    """
    try:
        named = os.lstat(path)
    except OSError:
        return False
    opened = os.fstat(descriptor)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def told_held_by_others(root: str) -> bool | None:
    """Return whether another process has a POSIX lock on the file `.lock` of the log directory `root`. Return False
    also if the file does not exist, or if this process has the lock. Return None if the file is not a regular file, or
    cannot be examined or opened. Creates and changes nothing, and does not wait.
    """
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
        if holders:
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
    """Return the ids of the processes that hold a POSIX lock on the file with this status, read from `/proc/locks`;
    empty if nobody holds one. Waiting processes and locks by `flock` are not included. None if the list cannot be read.
    """
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open(_LOCKS, "rb", buffering=0) as stream:
            text = stream.readall().decode("ascii", "replace")
    except OSError:
        return None
    processes: set[int] = set()
    if place not in text:
        return processes
    for line in text.splitlines():
        words = line.split()
        if place in words and "POSIX" in words and "->" not in words:
            processes.add(int(words[words.index(place) - 1]))
    return processes
