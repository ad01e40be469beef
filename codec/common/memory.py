"""Large memory that returns to the system as soon as it is no longer used. The C library would keep freed blocks of up
to 32 MiB for the thread that requested them, so that eight threads hold tens of megabytes that nothing uses.
"""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress
from functools import lru_cache
from typing import Any

from kafkalog.codec.common.limits import KIB, MIB

__all__ = ["LARGE_BYTES", "GrowingMemory", "own_pages", "trim"]

LARGE_BYTES = 256 * KIB
"""Least size that is worth its own pages: requesting them takes microseconds."""
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_LARGE_PAGE = 2 * MIB
_IN_LARGE_PAGES = getattr(mmap, "MADV_HUGEPAGE", None)


def own_pages(size: int, *, is_filled: bool = False) -> mmap.mmap:
    """Return `size` bytes of zeros in pages of their own; `size` must be 1 or more. No page takes memory before it is
    written. Pass `is_filled` if the memory will soon be filled in order: the system may then use large pages, which
    takes a quarter of the time and at most one large page more. Raises `MemoryError` if the system refuses.
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
    """Bytes that can be appended to, in pages of their own. The pages grow in place if the system can do that;
    otherwise they are copied.
    """

    def __init__(self, room: int) -> None:
        self._pages = own_pages(room)

    @property
    def size(self) -> int:
        """Number of bytes so far."""
        return self._pages.tell()

    def append(self, part: bytes | memoryview) -> None:
        """Append bytes. Raises `MemoryError` if the pages cannot grow."""
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
        """Return the collected bytes without a copy. Do not append afterwards: the pages can no longer grow."""
        return memoryview(self._pages)[: self.size].toreadonly()


@lru_cache(maxsize=1)
def _malloc_trim() -> Any:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def trim() -> None:
    """Release the memory that the C library keeps for later allocations. Works only with glibc."""
    malloc_trim = _malloc_trim()
    if malloc_trim is not None:
        malloc_trim(0)
