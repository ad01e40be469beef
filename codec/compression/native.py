"""The decompressors inside of the wheels, called by address: many batches in one call, into memory that is there.

The wheels of lz4 and zstandard carry the C libraries with their own names visible.  Where a wheel does not, there is
no address, and `codec.compression` decompresses batch by batch.
"""

from __future__ import annotations

import ctypes
import threading
from functools import lru_cache
from importlib.util import find_spec

__all__ = ["NativeZstd", "lz4_decompress", "zstd"]


def _address(module: str, name: str) -> int:
    """Where a function of a compiled module's own library is; 0 if it cannot be seen."""
    try:
        found = find_spec(module)
        if found is None or found.origin is None:
            return 0
        function = getattr(ctypes.CDLL(found.origin), name)
    except (ImportError, OSError, AttributeError, ValueError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@lru_cache(maxsize=1)
def lz4_decompress() -> int:
    """`LZ4_decompress_safe(source, target, source size, target size)`, which gives a size or something below 0."""
    return _address("lz4.block._block", "LZ4_decompress_safe")


class NativeZstd:
    """`ZSTD_decompressDCtx(context, target, room, source, size)` and a context; for one thread."""

    def __init__(self, decompress: int, create: int, free: int) -> None:
        self.decompress = decompress
        self.context = int(ctypes.CFUNCTYPE(ctypes.c_void_p)(create)() or 0)
        self._free = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(free)

    def __del__(self) -> None:
        if self.context:
            self._free(self.context)


@lru_cache(maxsize=1)
def _zstd_addresses() -> tuple[int, int, int]:
    names = ("ZSTD_decompressDCtx", "ZSTD_createDCtx", "ZSTD_freeDCtx")
    first, second, third = (_address("zstandard._cffi", name) for name in names)
    return first, second, third


_of_thread = threading.local()


def zstd() -> NativeZstd | None:
    """That of this thread, or None."""
    made: NativeZstd | None = getattr(_of_thread, "zstd", None)
    if made is None and all(_zstd_addresses()):
        made = _of_thread.zstd = NativeZstd(*_zstd_addresses())
    return made if made is not None and made.context else None
