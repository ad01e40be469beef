"""How much memory large requests may take, all together (Kafka's `MemoryPool`, `queued.max.request.bytes`).

A request is admitted as a whole before more than its beginning is read, so that no two of them wait for each other's
rest; what was admitted is given back when it is answered or its connection ends.  Whoever is not admitted is not read
from, and its bytes stay with the client.
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
"""Of glibc's `mallopt`."""
_MAPPED = 1 << 17
_ARENAS = 2


def keep_little() -> bool:
    """Have large buffers go back to the system as soon as they are free, and threads share what is left.

    Whether that was done; without glibc it is not.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        return bool(library.mallopt(_M_MMAP_THRESHOLD, _MAPPED) and library.mallopt(_M_ARENA_MAX, _ARENAS))
    return False


def _trim() -> None:
    """Give back to the system what is free; without glibc that is left to the allocator."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class RequestMemory:
    """`capacity` bytes for everybody; `on_release` is called when there is room again for who was not admitted."""

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
        """Whether somebody was not admitted since the last release."""
        return self._refused

    @property
    def taken(self) -> int:
        """Bytes that are admitted now."""
        return self.capacity - self._left

    def admit(self, size: int) -> bool:
        """Whether there is room for a request of so many bytes; then they are taken."""
        with self._lock:
            if size > self._left:
                self._refused = True
                return False
            self._left -= size
            return True

    def release(self, size: int) -> None:
        """Give back what `admit` took."""
        with self._lock:
            self._left += size
            self._leaves_something = True
            told, self._refused = self._refused, False
        if told:
            self._on_release()

    def trim(self) -> None:
        """Have the process give back what large requests have left behind; once in a while, as it takes its time."""
        with self._lock:
            now = time.monotonic()
            if not self._leaves_something or now < self._next_trim:
                return
            self._leaves_something, self._next_trim = False, now + _TRIM_S
        _trim()


class Budget:
    """`most` of something for everybody; whoever is told that there is no room does without."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._lock = Lock()

    def take(self, count: int) -> Held | None:
        """Take so many bytes; None where there are not so many left."""
        with self._lock:
            if count > self._left:
                return None
            self._left -= count
            return Held(self._give_back, count)

    def _give_back(self, count: int) -> None:
        with self._lock:
            self._left += count


class Held:
    """What was taken of a budget, given back once."""

    __slots__ = ("_count", "_give_back")

    def __init__(self, give_back: Callable[[int], None], count: int) -> None:
        self._give_back = give_back
        self._count = count

    def release(self) -> None:
        """Give it back, if that was not done yet."""
        count, self._count = self._count, 0
        self._give_back(count)
