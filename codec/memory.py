"""Large memory that the system has back the moment nobody holds it any more.

What the C library is given back it keeps for the thread that asked for it: after some large blocks it takes blocks of
up to 32 MiB from such stores, and eight threads hold tens of megabytes that are in nobody's use.
"""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress
from functools import lru_cache
from typing import Any

from kafkalog.codec.limits import KIB, MIB

__all__ = ["LARGE_BYTES", "GrowingMemory", "own_pages", "trim"]

LARGE_BYTES = 256 * KIB
"""From here on memory is worth pages of its own: asking the system for them takes microseconds."""
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_LARGE_PAGE = 2 * MIB
_IN_LARGE_PAGES = getattr(mmap, "MADV_HUGEPAGE", None)


def own_pages(size: int, *, is_filled: bool = False) -> mmap.mmap:
    """`size` bytes of zeros, at least one; no page takes memory before it is written.  Raises `MemoryError`.

    What `is_filled` soon and in order may come in large pages where the system has them: that takes a quarter of the
    time, and at the end up to one of them more than is filled.
    """
    try:
        pages = mmap.mmap(-1, size, flags=_FLAGS)
    except OSError as error:
        raise MemoryError(f"the system cannot allocate {size} bytes of memory") from error
    if is_filled and size >= _LARGE_PAGE and _IN_LARGE_PAGES is not None:
        with suppress(OSError):  # a system that has none
            pages.madvise(_IN_LARGE_PAGES)
    return pages


class GrowingMemory:
    """Bytes that are appended to pages of their own, which grow in place: nothing is ever held twice."""

    def __init__(self, room: int) -> None:
        self._pages = own_pages(room)

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._pages.tell()

    def append(self, part: bytes | memoryview) -> None:
        """Put bytes after those before."""
        need = self.size + len(part)
        if need > len(self._pages):
            self._grow(2 * need)
        self._pages.write(part)

    def _grow(self, room: int) -> None:
        try:
            self._pages.resize(room)
        except SystemError:  # a system that cannot enlarge a mapping
            larger = own_pages(room)
            larger.write(memoryview(self._pages)[: self.size])
            self._pages = larger
        except OSError as error:
            raise MemoryError(f"the system cannot allocate {room} bytes of memory") from error

    def view(self) -> memoryview:
        """The bytes collected, where they are; nothing can be appended afterwards."""
        return memoryview(self._pages)[: self.size].toreadonly()


@lru_cache(maxsize=1)
def _malloc_trim() -> Any:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def trim() -> None:
    """Let the system have what the C library keeps for next allocations.  Only glibc's does anything here."""
    malloc_trim = _malloc_trim()
    if malloc_trim is not None:
        malloc_trim(0)
