"""The decompressors inside of the wheels, called by address: many batches in one call, into memory that is there.

The wheels of lz4, zstandard and isal carry the C libraries with their own names visible.  Where a wheel does not, or is
not installed, there is no address, and `codec.compression` decompresses batch by batch.
"""

from __future__ import annotations

import ctypes
import threading
import zlib
from functools import lru_cache
from importlib.util import find_spec

from kafkalog.codec.limits import KIB

__all__ = ["InflateState", "NativeGzip", "NativeZstd", "decompressor_of_thread", "gzip", "lz4_decompress", "zstd"]


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
    """The decompressor of this thread, or None."""
    made: NativeZstd | None = getattr(_of_thread, "zstd", None)
    if made is None and all(_zstd_addresses()):
        made = _of_thread.zstd = NativeZstd(*_zstd_addresses())
    return made if made is not None and made.context else None


class InflateState(ctypes.Structure):
    """The first fields of ISA-L's `struct inflate_state` (`igzip_lib.h`), which are those that its callers use."""

    _fields_ = (
        ("next_out", ctypes.c_void_p), ("avail_out", ctypes.c_uint32), ("total_out", ctypes.c_uint32),
        ("next_in", ctypes.c_void_p), ("read_in", ctypes.c_uint64), ("avail_in", ctypes.c_uint32),
    )  # fmt: skip


_STATE_BYTES = 256 * KIB
"""More than twice what the whole state takes; what is not touched takes no memory."""
_ISAL = "isal.igzip_lib"


class NativeGzip:
    """`isal_inflate_stateless(state)`, which gives 0 after a whole deflate stream, and a state; for one thread."""

    def __init__(self, inflate: int, initialize: int) -> None:
        self.inflate = inflate
        self._memory = ctypes.create_string_buffer(_STATE_BYTES)
        self.state = ctypes.addressof(self._memory)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(initialize)(self.state)

    def is_as_declared(self) -> bool:
        """Whether a stream comes out as zlib made it, and the fields of the state are where they should be."""
        content = bytes(range(64)) * 4
        stream = zlib.compress(content, wbits=-zlib.MAX_WBITS) + b"more"
        source, target = ctypes.create_string_buffer(stream), ctypes.create_string_buffer(2 * len(content))
        state = InflateState.from_address(self.state)
        state.next_in, state.avail_in = ctypes.addressof(source), len(stream)
        state.next_out, state.avail_out = ctypes.addressof(target), len(target)
        failed = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self.inflate)(self.state)
        return (
            failed == 0
            and target.raw[: len(content)] == content
            and state.next_in == ctypes.addressof(source) + len(stream) - len(b"more")
            and (state.avail_in, state.total_out) == (len(b"more"), len(content))
            and (state.next_out, state.avail_out) == (ctypes.addressof(target) + len(content), len(content))
        )


@lru_cache(maxsize=1)
def _isal_addresses() -> tuple[int, int]:
    """Addresses of what decodes and of what makes a state ready; 0 where another ISA-L than this knows is found."""
    found = _address(_ISAL, "isal_inflate_stateless"), _address(_ISAL, "isal_inflate_init")
    return found if all(found) and NativeGzip(*found).is_as_declared() else (0, 0)


def gzip() -> NativeGzip | None:
    """The decompressor of this thread, or None."""
    made: NativeGzip | None = getattr(_of_thread, "gzip", None)
    if made is None and all(_isal_addresses()):
        made = _of_thread.gzip = NativeGzip(*_isal_addresses())
    return made


def decompressor_of_thread(zstd_window_bytes: int, memory: int, memory_bytes: int) -> tuple[int, ...]:
    """What this thread decompresses with and where to, in the order of `native.tables.Decompressor`.

    The function of lz4, function and context of zstd, function and state of gzip, each 0 if it is missing.
    """
    return *_functions(), zstd_window_bytes, memory, memory_bytes


def _functions() -> tuple[int, int, int, int, int]:
    found: tuple[int, int, int, int, int] | None = getattr(_of_thread, "functions", None)
    if found is None:
        of_zstd, of_gzip = zstd(), gzip()
        found = _of_thread.functions = (
            lz4_decompress(),
            *((0, 0) if of_zstd is None else (of_zstd.decompress, of_zstd.context)),
            *((0, 0) if of_gzip is None else (of_gzip.inflate, of_gzip.state)),
        )
    return found
