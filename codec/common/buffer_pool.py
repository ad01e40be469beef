"""Pool of memory blocks, because allocating pages takes as long as filling them. A block returns to the pool when the
last array, Arrow buffer or view on it is gone, in whichever thread.
"""

from __future__ import annotations

import ctypes
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kafkalog.codec.common.limits import KIB, MIB
from kafkalog.codec.common.memory import own_pages, trim

__all__ = ["FREE_BYTES", "Block", "give_back_free_memory"]

FREE_BYTES = 64 * MIB
"""Most bytes kept for later blocks, over all threads."""
_UNFIT_BYTES = 24 * MIB
"""Bytes kept even if no free block fits. Otherwise as much is released as must be allocated, so that the pool adds at
most this to the peak.
"""
_LARGE = 64 * KIB
"""Least size of pooled blocks, and the unit to which they are rounded up so that they fit more often."""

_LONG_SECONDS = 0.1
"""Longest wait for a lock that is usually held for microseconds: after a fork its owner may not exist any more."""

if TYPE_CHECKING:
    import numpy as np


def _address(memory: Any) -> int:
    """Return the address of writable memory. It cannot be resized while the address is in use."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


class _Memory:
    """Pages of memory, their address and size, and the last thread that used them, whose processor may still have them
    in its cache.
    """

    __slots__ = ("address", "pages", "size", "thread")

    def __init__(self, size: int) -> None:
        self.pages = own_pages(size, is_filled=True)
        self.address = _address(self.pages)
        self.size = size
        self.thread = 0


class _Pool:
    """Free memory of all threads. `give_back` may be called at any moment, even during `take`, and never waits. If the
    lock is held, both methods work without the pool: in a forked child the thread that holds the lock may not exist.
    """

    def __init__(self) -> None:
        self._free: list[_Memory] = []
        self._bytes = 0
        self._guard = threading.Lock()

    def take(self, size: int) -> _Memory:
        """Return memory of at least `size` bytes, from the pool or newly allocated. Reused memory has at most `2 *
        size` bytes and is not cleared. Free blocks of other sizes may be released for it. Does not wait for the lock:
        if it is held, the memory is new.
        """
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
        """Remove and return free memory of `size` to `2 * size` bytes; None if there is none. Memory last used by
        `thread` is preferred, then the smallest. If no block fits, the oldest free blocks are released as long as more
        than `_UNFIT_BYTES` are free, but not after `size` bytes are released.
        """
        free, best = self._free, -1
        for number in range(len(free) - 1, -1, -1):
            memory = free[number]
            if size <= memory.size <= 2 * size:
                is_own = memory.thread == thread
                if is_own and memory.size == size:
                    best = number
                    break
                if best < 0 or (not is_own, memory.size) < (free[best].thread != thread, free[best].size):
                    best = number
        if best >= 0:
            self._bytes -= free[best].size
            return free.pop(best)
        dropped = 0
        while free and dropped < size and self._bytes > _UNFIT_BYTES:
            memory = free.pop(0)
            self._bytes -= memory.size
            dropped += memory.size
        return None

    def give_back(self, memory: _Memory) -> None:
        """Keep memory in the pool for later blocks. If the pool is full or its lock is held, nothing is kept, and
        Python releases the memory.
        """
        if self._guard.acquire(blocking=False):
            try:
                if self._bytes + memory.size <= FREE_BYTES:
                    self._bytes += memory.size
                    self._free.append(memory)
            finally:
                self._guard.release()

    def clear(self) -> None:
        """Release all free memory. Does nothing if the lock is not free within `_LONG_SECONDS`."""
        if self._guard.acquire(timeout=_LONG_SECONDS):
            free, self._free, self._bytes = self._free, [], 0
            self._guard.release()
            del free


_pool = _Pool()


def give_back_free_memory() -> None:
    """Release the memory that this pool and the C library keep for later; takes milliseconds. The C library keeps up to
    tens of megabytes for a thread that once used a large block.
    """
    _pool.clear()
    trim()


class _Lease:
    """Owner of pooled memory. Every buffer made from it refers to it; when the last one is gone, it returns the memory
    to the pool.
    """

    memory: _Memory | None = None

    def __del__(self) -> None:
        if self.memory is not None:
            _pool.give_back(self.memory)


@lru_cache(maxsize=64)
def _lease_of(size: int) -> Any:
    """Return the class of leases of `size` bytes."""
    return type("Lease", (_Lease, ctypes.Array), {"_type_": ctypes.c_ubyte, "_length_": size})


class Block:
    """Writable bytes, at least as many as requested, with undefined contents. Their address is `address`, their number
    `size`.
    """

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
        """The bytes. They are not reused while this view, or anything made from it, lives."""
        return memoryview(self._lease).cast("B")[: self.size]

    def view(self, kind: Any, count: int) -> np.ndarray[Any, Any]:
        """Return the first `count` items as an array."""
        import numpy as np

        return np.frombuffer(self.buffer, kind, count)

    def grown(self, size: int, used: int) -> Block:
        """Return another block of at least `size` bytes that begins with a copy of the first `used` bytes; this block
        does not change.
        """
        larger = Block(size)
        used = min(used, self.size)
        larger.buffer[:used] = self.buffer[:used]
        return larger
