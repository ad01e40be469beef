"""Parts of a file lent as memory instead of copied out of the page cache, while nobody can change the file.

A mapped file is read at the speed of memory, but a process dies that touches a page behind the end of a file somebody
has cut meanwhile, or one that the disk cannot give.  So a part is lent only under a read lease (`F_SETLEASE`, which the
kernel refuses while anybody has the file open for writing, and which makes who wants to open or cut it wait), only of
file systems of this machine, and only after all its pages were brought in (`MADV_POPULATE_READ`, which gives an error
where touching would be fatal).  Where any of that cannot be had, as with the segments of a running broker, nothing is
lent, and the reader reads.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

__all__ = ["lent"]

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
    if _LEASE is None or _SIGNAL is None or length <= 0 or not _take_lease(descriptor):
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
        fcntl.fcntl(descriptor, _LEASE, fcntl.F_UNLCK)


def _take_lease(descriptor: int) -> bool:
    try:
        if not _is_local(os.fstat(descriptor).st_dev):
            return False
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
