"""Memory that is used again once nobody holds it: the pages of fresh memory cost as much as filling them.

A block goes back when the last array, Arrow buffer or view over it is gone, whichever thread lets go of it.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from kafkalog.codec.limits import KIB, MIB

__all__ = ["FREE_BYTES", "Block"]

FREE_BYTES = 64 * MIB
"""Bytes at most that are kept for the next ones, by all threads there are; each keeps its share."""
_LARGE = 64 * KIB
"""Blocks from here on are rounded up to multiples of it, so that they may serve again; smaller ones are not kept."""

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class _OfThread(threading.local):
    """Free memory goes back to the thread that asked for it: what a core's cache holds serves that core again."""

    def __init__(self) -> None:
        self.free: list[Bytes] = []  # appending, which other threads do, and popping are atomic: no lock


_of_thread = _OfThread()


def _used_again(free: list[Bytes], size: int) -> Bytes | None:
    """A free one of at least `size` bytes, and not much more; the latest that fits."""
    for number in range(len(free) - 1, -1, -1):
        if size <= free[number].size <= 2 * size:
            return free.pop(number)
    return None


class _Lease(np.ndarray[Any, np.dtype[np.uint8]]):
    """All of some memory, which is given back with this object.

    Only buffers may be made of it: numpy lets an array over an array hold the memory alone.
    """

    memory: Bytes | None = None
    home: list[Bytes]

    def __del__(self) -> None:
        memory = self.memory
        if memory is None:
            return
        if sum(each.size for each in self.home) + memory.size <= FREE_BYTES // threading.active_count():
            self.home.append(memory)


class Block:
    """At least `size` writable bytes; what they hold at first is undefined."""

    __slots__ = ("_lease", "address", "size")

    def __init__(self, size: int) -> None:
        if size < _LARGE:
            self._lease: Bytes = np.empty(size, np.uint8)
        else:
            size = -(-size // _LARGE) * _LARGE
            memory = _used_again(_of_thread.free, size)
            if memory is None:
                memory = np.empty(size, np.uint8)
            lease = memory.view(_Lease)
            lease.memory, lease.home = memory, _of_thread.free
            self._lease = lease
        self.address = int(self._lease.ctypes.data)
        self.size = self._lease.size

    @property
    def buffer(self) -> memoryview:
        """The bytes; as long as it or what is made of it lives, they are nobody else's."""
        return self._lease.data

    def view(self, kind: Any, count: int) -> np.ndarray[Any, Any]:
        """The first `count` numbers."""
        return np.frombuffer(self.buffer, kind, count)

    def grown(self, size: int, used: int) -> Block:
        """A larger one that begins with the first `used` bytes of this one."""
        larger = Block(size)
        used = min(used, self.size)
        larger.view(np.uint8, used)[:] = self.view(np.uint8, used)
        return larger
