"""Bind objects to the process that made them: `fork()` copies locks, buffers and open files, but not the right to use
them. An object with a lock, or with state that is not yet on disk, has an `OwnProcess`. In a child process using the
object raises `UsageError`, before it could wait for a thread that the child does not have; closing it there does
nothing.
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
    """An object that is different in each process. A process id could be reused."""

    now = object()

    @classmethod
    def begin(cls) -> None:
        cls.now = object()


os.register_at_fork(after_in_child=_Generation.begin)


class OwnProcess:
    """The process that created an object. `what` names that object in error messages in other processes."""

    __slots__ = ("_generation", "_pid", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._pid = os.getpid()
        self._generation = _Generation.now

    @property
    def is_here(self) -> bool:
        """Whether the current process is that one."""
        return self._generation is _Generation.now

    def require(self) -> None:
        """Raise `UsageError` if the current process is not the one that created the object, but was forked from it."""
        if not self.is_here:
            raise UsageError(
                f"{self._what} was opened by process {self._pid}, and this is process {os.getpid()}, which was forked "
                "from it: use it there, or open it here after it was closed there"
            )


class OwnLock:
    """A reentrant lock for the threads of one process. Entering it in any other process raises `UsageError` at once."""

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
        if self._process.is_here:  # what was taken before a fork inside the block is the parent's to give back
            self._lock.release()
