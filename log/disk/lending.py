"""Parts of a file lent as memory instead of copied out of the page cache, while nobody can change the file.

A mapped file is read at the speed of memory, but a process dies that touches a page after the end of a file somebody
has cut meanwhile, or one that the disk cannot give.  So a part is lent only under a read lease (`F_SETLEASE`, which the
kernel refuses while anybody has the file open for writing, and which makes who wants to open or cut it wait), only of
file systems of this machine, and only after all its pages were brought in (`MADV_POPULATE_READ`, which gives an error
where touching would be fatal).  Where any of that cannot be had, as with the segments of a running broker, nothing is
lent, and the reader reads.

The kernel ends a lease that is not given back in time (`/proc/sys/fs/lease-break-time`, 45 s), and a reader that is
stopped meanwhile would be ended by SIGBUS when it goes on.  So nothing is lent of a directory whose lock another
process holds, nor of a file that has another name, which a broker may write; and who cuts a file in this process says
so first.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import signal
import stat
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from kafkalog.codec.errors import StorageError
from kafkalog.log.disk.holders import held_by_others

__all__ = ["lent", "open_for_writing", "withdrawn"]

_POPULATE_READ = 22
"""`MADV_POPULATE_READ`, since Linux 5.14; `mmap` has no name for it."""
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "f2fs", "tmpfs"})
"""File systems that nobody changes but through this machine's kernel, and whose leases are those of their files."""
_LEASE, _SIGNAL = getattr(fcntl, "F_SETLEASE", None), getattr(fcntl, "F_SETSIG", None)
_MOUNTS = Path("/proc/self/mountinfo")


@lru_cache(maxsize=64)
def _is_local(device: int) -> bool:
    name = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    kinds = [line.partition(" - ")[2].split(" ", 1)[0] for line in lines if line.split(" ", 3)[2:3] == [name]]
    return bool(kinds) and all(kind in _LOCAL for kind in kinds)


@contextmanager
def lent(descriptor: int, position: int, length: int) -> Iterator[memoryview | None]:
    """`length` bytes from `position` of an open file, or None where they cannot be lent.

    Give them back soon, and touch nothing of them afterwards: whoever opens the file for writing waits as long.
    """
    key = _lendable(descriptor) if length > 0 else None
    if key is None or not _OUT.begin(key):
        yield None
        return
    try:
        with _leased(descriptor, position, length) as part:
            yield part
    finally:
        _OUT.end(key)


@contextmanager
def _leased(descriptor: int, position: int, length: int) -> Iterator[memoryview | None]:
    if not _take_lease(descriptor):
        yield None
        return
    try:
        start = position // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        area = _mapped(descriptor, start, position + length)
        if area is None:
            yield None
            return
        whole = memoryview(area)
        part = whole[position - start :]
        try:
            yield part
        finally:
            with suppress(BufferError):  # whoever holds on to it, after an error, holds memory that is there
                part.release()
                whole.release()
                area.close()
    finally:
        fcntl.fcntl(descriptor, _LEASE, fcntl.F_UNLCK)  # type: ignore[arg-type]


Key = tuple[int, int]


class _Out:
    """Which files have parts out in this process, by thread, and which are not to be lent now."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._out: dict[Key, Counter[int]] = {}
        self._withdrawn: Counter[Key] = Counter()

    def begin(self, key: Key) -> bool:
        with self._changed:
            if self._withdrawn[key] > 0:
                return False
            self._out.setdefault(key, Counter())[threading.get_ident()] += 1
            return True

    def end(self, key: Key) -> None:
        with self._changed:
            threads = self._out.get(key, Counter())
            threads[threading.get_ident()] -= 1
            if not +threads:
                self._out.pop(key, None)
            self._changed.notify_all()

    def withdraw(self, key: Key) -> bool:
        """Stop lending the file; whether all that other threads have of it came back."""
        with self._changed:
            self._withdrawn[key] += 1
            own = threading.get_ident()
            return self._changed.wait_for(
                lambda: not [thread for thread in +self._out.get(key, Counter()) if thread != own], _LONGEST_SECONDS
            )

    def restore(self, key: Key) -> None:
        with self._changed:
            self._withdrawn[key] -= 1
            if self._withdrawn[key] <= 0:
                del self._withdrawn[key]


_LONGEST_SECONDS = 60
"""More than the kernel waits for a lease."""
_OUT = _Out()


def _begin_child() -> None:
    global _OUT
    _OUT = _Out()  # threads that had something are not in a forked child


os.register_at_fork(after_in_child=_begin_child)


@contextmanager
def withdrawn(path: str, *, directory: int | None = None) -> Iterator[None]:
    """A block in which no part of the file is lent in this process: for who is about to cut it or rewrite it.

    Waits until what is lent has come back, milliseconds.  `directory` is a descriptor that a relative path begins at.
    A file that is not there is nobody's.  `StorageError` if a reader does not give it back.
    """
    try:
        status = os.stat(path, dir_fd=directory, follow_symlinks=False)
    except OSError:
        yield
        return
    key = status.st_dev, status.st_ino
    try:
        if not _OUT.withdraw(key):
            raise StorageError(errno.EBUSY, "a reader of this process does not release the file", path)
        yield
    finally:
        _OUT.restore(key)


def open_for_writing(path: str, flags: int, mode: int = 0o644, *, directory: int | None = None) -> int:
    """`os.open` for a file that readers of any process may have a lease of: waits, where `O_NONBLOCK` would fail.

    The flag keeps a FIFO from blocking whoever opens it; a file that is known to be regular is opened without it.
    """
    with withdrawn(path, directory=directory):
        try:
            return os.open(path, flags, mode, dir_fd=directory)
        except BlockingIOError:
            handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
            try:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise
                return os.open(f"/proc/self/fd/{handle}", flags & ~(os.O_NONBLOCK | os.O_NOFOLLOW), mode)
            finally:
                os.close(handle)


def _lendable(descriptor: int) -> Key | None:
    """What identifies a file of which parts may be lent now; None where they may not."""
    if _LEASE is None or _SIGNAL is None:
        return None
    try:
        status = os.fstat(descriptor)
        if status.st_nlink != 1 or not _is_local(status.st_dev):
            return None
        path = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None
    if held_by_others(os.path.dirname(os.path.dirname(path))):
        return None
    return status.st_dev, status.st_ino


def _take_lease(descriptor: int) -> bool:
    try:
        # the default signal to a holder whose lease somebody waits for would end the process; this one is ignored
        fcntl.fcntl(descriptor, _SIGNAL, signal.SIGURG)  # type: ignore[arg-type]
        fcntl.fcntl(descriptor, _LEASE, fcntl.F_RDLCK)  # type: ignore[arg-type]
    except OSError:
        return False
    return True


def _mapped(descriptor: int, start: int, end: int) -> mmap.mmap | None:
    """The bytes as memory that can be touched without harm, or None."""
    try:
        if os.fstat(descriptor).st_size < end:
            return None
        area = mmap.mmap(descriptor, end - start, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, offset=start)
    except (OSError, ValueError):
        return None
    try:
        area.madvise(_POPULATE_READ)
    except OSError:
        area.close()
        return None
    return area
