"""Memory that is used again once nobody holds it: the pages of fresh memory cost as much as filling them.

A block goes back when the last array, Arrow buffer or view over it is gone, whichever thread lets go of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.codec.limits import MIB

__all__ = ["FREE_BYTES", "Block"]

FREE_BYTES = 64 * MIB
"""Bytes at most that are kept for the next ones."""
_LARGE = MIB
"""Blocks from here on are rounded up to multiples of it, so that they may serve again; smaller ones are not kept."""

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_free: list[Bytes] = []  # appending and popping are atomic: no lock


def _used_again(size: int) -> Bytes | None:
    """A free one of at least `size` bytes, and not much more."""
    for number, memory in enumerate(_free):
        if size <= memory.size <= 2 * size:
            try:
                found = _free.pop(number)
            except IndexError:  # another thread was faster
                return None
            if size <= found.size:
                return found
    return None


class _Lease(np.ndarray[Any, np.dtype[np.uint8]]):
    """All of some memory, which is given back with this object.

    Only buffers may be made of it: numpy lets an array over an array hold the memory alone.
    """

    memory: Bytes | None = None

    def __del__(self) -> None:
        memory = self.memory
        if memory is not None and sum(each.size for each in _free) + memory.size <= FREE_BYTES:
            _free.append(memory)


class Block:
    """At least `size` writable bytes; what they hold at first is undefined."""

    __slots__ = ("_lease", "address", "size")

    def __init__(self, size: int) -> None:
        if size < _LARGE:
            self._lease: Bytes = np.empty(size, np.uint8)
        else:
            size = -(-size // _LARGE) * _LARGE
            memory = _used_again(size)
            if memory is None:
                memory = np.empty(size, np.uint8)
            lease = memory.view(_Lease)
            lease.memory = memory
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
