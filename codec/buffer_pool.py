"""Memory that is used again once nobody holds it: the pages of fresh memory cost as much as filling them.

A block goes back when the last array, Arrow buffer or view over it is gone, whichever thread lets go of it.
"""

from __future__ import annotations

import ctypes
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kafkalog.codec.limits import KIB, MIB
from kafkalog.codec.memory import own_pages, trim

__all__ = ["FREE_BYTES", "Block", "give_back_free_memory"]

FREE_BYTES = 64 * MIB
"""Bytes at most that are kept for the next blocks, for all threads together."""
_UNFIT_BYTES = 24 * MIB
"""Where none fits and other memory has to be asked for, as much of what is kept goes back to the system, but for so
many bytes: so it adds no more than them to what is in use when most is."""
_LARGE = 64 * KIB
"""Blocks from here on are rounded up to multiples of it, so that they may serve again; smaller ones are not kept."""

_LONG_SECONDS = 0.1
"""What takes somebody microseconds has taken longer: nobody is there any more."""

if TYPE_CHECKING:
    import numpy as np


def _address(memory: Any) -> int:
    """Address of writable memory, which is not resized while that is used."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


class _Memory:
    """Pages, where they are, and the thread that had them last: they may still be near the processor it runs on."""

    __slots__ = ("address", "pages", "size", "thread")

    def __init__(self, size: int) -> None:
        self.pages = own_pages(size, is_filled=True)
        self.address = _address(self.pages)
        self.size = size
        self.thread = 0


class _Pool:
    """Memory of all threads.  What comes back may come at any moment, also in the middle of `take`, and never waits.

    Whoever finds somebody else at it does without: in a forked child nobody might ever let go of it.
    """

    def __init__(self) -> None:
        self._free: list[_Memory] = []
        self._bytes = 0
        self._guard = threading.Lock()

    def take(self, size: int) -> _Memory:
        """At least `size` bytes, and not much more."""
        memory, thread = None, threading.get_ident()
        if self._guard.acquire(blocking=False):
            try:
                memory = self._used_again(size, thread)
            finally:
                self._guard.release()
        memory = memory or _Memory(size)
        memory.thread = thread
        return memory

    def _used_again(self, size: int, thread: int) -> _Memory | None:
        """A free one that this thread had, else one of others; the smallest that fits, for others need larger ones."""
        free, found = self._free, -1
        for number in range(len(free) - 1, -1, -1):
            memory = free[number]
            if size <= memory.size <= 2 * size:
                is_own = memory.thread == thread
                if is_own and memory.size == size:
                    found = number
                    break
                if found < 0 or (not is_own, memory.size) < (free[found].thread != thread, free[found].size):
                    found = number
        if found >= 0:
            self._bytes -= free[found].size
            return free.pop(found)
        dropped = 0
        while free and dropped < size and self._bytes > _UNFIT_BYTES:
            memory = free.pop(0)
            self._bytes -= memory.size
            dropped += memory.size
        return None

    def give_back(self, memory: _Memory) -> None:
        """Keep it for the next block, or let the system have it."""
        if self._guard.acquire(blocking=False):
            try:
                if self._bytes + memory.size <= FREE_BYTES:
                    self._bytes += memory.size
                    self._free.append(memory)
            finally:
                self._guard.release()

    def clear(self) -> None:
        """Let the system have what is free."""
        if self._guard.acquire(timeout=_LONG_SECONDS):
            free, self._free, self._bytes = self._free, [], 0
            self._guard.release()
            del free


_pool = _Pool()


def give_back_free_memory() -> None:
    """Let the system have what is kept for the next blocks, here and by the C library; takes milliseconds.

    That keeps up to tens of megabytes for a thread that has held something large once.
    """
    _pool.clear()
    trim()


class _Lease:
    """All of some memory, which is given back with this object: every buffer made of it holds it."""

    memory: _Memory | None = None

    def __del__(self) -> None:
        if self.memory is not None:
            _pool.give_back(self.memory)


@lru_cache(maxsize=64)
def _lease_of(size: int) -> Any:
    """The class of leases of so many bytes."""
    return type("Lease", (_Lease, ctypes.Array), {"_type_": ctypes.c_ubyte, "_length_": size})


class Block:
    """At least `size` writable bytes; what they hold at first is undefined."""

    __slots__ = ("_lease", "address", "size")

    def __init__(self, size: int) -> None:
        if size < _LARGE:
            self._lease: Any = bytearray(max(size, 1))
            self.address, self.size = _address(self._lease), size
        else:
            memory = _pool.take(-(-size // _LARGE) * _LARGE)
            self._lease = _lease_of(memory.size).from_buffer(memory.pages)
            self._lease.memory = memory
            self.address, self.size = memory.address, memory.size

    @property
    def buffer(self) -> memoryview:
        """The bytes; as long as it or what is made of it lives, they are nobody else's."""
        return memoryview(self._lease).cast("B")[: self.size]

    def view(self, kind: Any, count: int) -> np.ndarray[Any, Any]:
        """The first `count` numbers."""
        import numpy as np

        return np.frombuffer(self.buffer, kind, count)

    def grown(self, size: int, used: int) -> Block:
        """A larger one that begins with the first `used` bytes of this one."""
        larger = Block(size)
        used = min(used, self.size)
        larger.buffer[:used] = self.buffer[:used]
        return larger
