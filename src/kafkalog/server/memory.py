"""Memory for large requests, limited in total (Kafka's `MemoryPool`, `queued.max.request.bytes`).

A request is admitted as a whole after its first bytes, so two requests never wait for each other. Memory is released
when the request is answered or its connection ends. A connection that is not admitted is not read from.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock

__all__ = ["Budget", "Held", "RequestMemory", "keep_little"]

_TRIM_S = 5.0
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Parameters of glibc's `mallopt`."""
_MAPPED = 1 << 17
_ARENAS = 2


def keep_little() -> bool:
    """Return large buffers to the system as soon as they are free, and limit the number of arenas. Return True; False
    if that is refused or without glibc.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        return bool(library.mallopt(_M_MMAP_THRESHOLD, _MAPPED) and library.mallopt(_M_ARENA_MAX, _ARENAS))
    return False


def _trim() -> None:
    """Return free memory to the system. Does nothing without glibc."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class RequestMemory:
    """Limit for the memory of large requests: `capacity` bytes in total. `on_release` is called when memory is released
    after a request was refused. Safe for several threads.
    """

    def __init__(self, capacity: int, on_release: Callable[[], None] = lambda: None) -> None:
        self.capacity = capacity
        self._left = capacity
        self._refused = False
        self._leaves_something = False
        self._next_trim = 0.0
        self._on_release = on_release
        self._lock = Lock()

    @property
    def is_short(self) -> bool:
        """Whether a request was refused since the last release."""
        return self._refused

    @property
    def taken(self) -> int:
        """Bytes admitted now."""
        return self.capacity - self._left

    def admit(self, size: int) -> bool:
        """Reserve `size` bytes for a request; return whether there was enough room. If not, nothing is reserved, and
        `on_release` will be called at the next release.
        """
        with self._lock:
            if size > self._left:
                self._refused = True
                return False
            self._left -= size
            return True

    def release(self, size: int) -> None:
        """Return `size` bytes reserved by `admit`. If a request was refused since the last release, `on_release` is
        called.
        """
        with self._lock:
            self._left += size
            self._leaves_something = True
            told, self._refused = self._refused, False
        if told:
            self._on_release()

    def trim(self) -> None:
        """Return the process's free memory to the system, if large requests were released since the last time. This
        takes time, so it is done at most every 5 seconds. Without glibc it has no effect.
        """
        with self._lock:
            now = time.monotonic()
            if not self._leaves_something or now < self._next_trim:
                return
            self._leaves_something, self._next_trim = False, now + _TRIM_S
        _trim()


class Budget:
    """A limited number of units. `take` never waits: if too few are left, the caller must do without them. Safe for
    several threads.
    """

    def __init__(self, most: int) -> None:
        self._left = most
        self._lock = Lock()

    def take(self, count: int) -> Held | None:
        """Take `count` units and return the object that releases them. If fewer are left, nothing is taken: returns
        None.
        """
        with self._lock:
            if count > self._left:
                return None
            self._left -= count
            return Held(self._give_back, count)

    def _give_back(self, count: int) -> None:
        with self._lock:
            self._left += count


class Held:
    """Part of a budget, returned once."""

    __slots__ = ("_count", "_give_back")

    def __init__(self, give_back: Callable[[int], None], count: int) -> None:
        self._give_back = give_back
        self._count = count

    def release(self) -> None:
        """Return it, unless that was done."""
        count, self._count = self._count, 0
        self._give_back(count)
