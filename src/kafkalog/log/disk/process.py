"""Bind objects to the process that created them: `fork()` copies locks, buffers and open files, but a child must not
use them. An object with a lock, or with state that is not yet on disk, has an `OwnProcess`. If a child process uses the
object, `UsageError` is raised before it could wait for a thread that does not exist in the child; closing the object
there does nothing.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType

from kafkalog.codec.common.errors import UsageError

__all__ = ["OwnLock", "OwnProcess", "processors"]


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Generation:
    """Holder of an object that is different in each process; process ids could be reused."""

    now = object()

    @classmethod
    def begin(cls) -> None:
        cls.now = object()


os.register_at_fork(after_in_child=_Generation.begin)


class OwnProcess:
    """The process that created an object. `what` is the name of that object in error messages."""

    __slots__ = ("_generation", "_pid", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._pid = os.getpid()
        self._generation = _Generation.now

    @property
    def is_here(self) -> bool:
        """Whether the current process is the one that created the object."""
        return self._generation is _Generation.now

    def require(self) -> None:
        """Raise `UsageError` if the current process is not the one that created the object, but was forked from it."""
        if not self.is_here:
            raise UsageError(
                f"{self._what} was opened by process {self._pid}, and this is process {os.getpid()}, which was forked "
                "from it: use it there, or open it here after it was closed there"
            )


class OwnLock:
    """A reentrant lock for the threads of one process. Entering it in a forked child raises `UsageError` at once."""

    __slots__ = ("_lock", "_process")

    def __init__(self, process: OwnProcess) -> None:
        self._process = process
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._process.require()
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.is_here:  # after a fork inside the block only the parent releases the lock
            self._lock.release()
