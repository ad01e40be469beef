"""Find the addresses of C decompressors inside installed Python packages, with which compiled code decompresses many
batches in one call. The wheels of lz4, zstandard and isal contain C libraries with visible symbols. If a package is
missing or hides them, the address is 0, and `codec.compression` decompresses batch by batch.
"""

from __future__ import annotations

import ctypes
import threading
import zlib
from functools import lru_cache
from importlib.util import find_spec

from kafkalog.codec.common.limits import KIB

__all__ = ["InflateState", "NativeGzip", "NativeZstd", "decompressor_of_thread", "gzip", "lz4_decompress", "zstd"]


def _address(module: str, name: str) -> int:
    """Load the compiled module `module` as a library and return the address of its C function `name`. Return 0 if the
    module is missing, cannot be loaded, or does not export the function.
    """
    try:
        spec = find_spec(module)
        if spec is None or spec.origin is None:
            return 0
        function = getattr(ctypes.CDLL(spec.origin), name)
    except (ImportError, OSError, AttributeError, ValueError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@lru_cache(maxsize=1)
def lz4_decompress() -> int:
    """Return the address of the C function `LZ4_decompress_safe(source, target, source size, target size)`, which
    returns the decompressed size, or a negative number for a damaged block; 0 if it is not available.
    """
    return _address("lz4.block._block", "LZ4_decompress_safe")


class NativeZstd:
    """The C functions `ZSTD_decompressBegin(context)`, `ZSTD_nextSrcSizeToDecompress(context)` and
    `ZSTD_decompressContinue(context, target, room, source, size)`, and a context for them, which only one thread may
    use.
    """

    def __init__(self, create: int, free: int, functions: tuple[int, ...]) -> None:
        self.functions = functions
        """addresses of the three functions, in the order above"""
        self.context = int(ctypes.CFUNCTYPE(ctypes.c_void_p)(create)() or 0)
        self._free = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(free)

    def __del__(self) -> None:
        if self.context:
            self._free(self.context)


@lru_cache(maxsize=1)
def _zstd_addresses() -> tuple[int, ...]:
    names = (
        "ZSTD_createDCtx", "ZSTD_freeDCtx", "ZSTD_decompressBegin", "ZSTD_nextSrcSizeToDecompress",
        "ZSTD_decompressContinue",
    )  # fmt: skip
    return tuple(_address("zstandard._cffi", name) for name in names)


_of_thread = threading.local()


def zstd() -> NativeZstd | None:
    """Return this thread's zstd decompressor; None if it is not available."""
    decompressor: NativeZstd | None = getattr(_of_thread, "zstd", None)
    if decompressor is None and all(_zstd_addresses()):
        create, free, *functions = _zstd_addresses()
        decompressor = _of_thread.zstd = NativeZstd(create, free, tuple(functions))
    return decompressor if decompressor is not None and decompressor.context else None


class InflateState(ctypes.Structure):
    """First fields of ISA-L's `struct inflate_state` (`igzip_lib.h`), which callers use."""

    _fields_ = (
        ("next_out", ctypes.c_void_p), ("avail_out", ctypes.c_uint32), ("total_out", ctypes.c_uint32),
        ("next_in", ctypes.c_void_p), ("read_in", ctypes.c_uint64), ("avail_in", ctypes.c_uint32),
    )  # fmt: skip


_STATE_BYTES = 256 * KIB
"""More than twice the size of the whole state; untouched pages take no memory."""
_ISAL = "isal.igzip_lib"


class NativeGzip:
    """The C function `isal_inflate_stateless(state)`, which returns 0 after a whole deflate stream, and a state for it.
    Only one thread may use it.
    """

    def __init__(self, inflate: int, initialize: int) -> None:
        self.inflate = inflate
        self._memory = ctypes.create_string_buffer(_STATE_BYTES)
        self.state = ctypes.addressof(self._memory)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(initialize)(self.state)

    def is_as_declared(self) -> bool:
        """Whether a test stream is decompressed correctly and the state's fields are at the declared places. Calls the
        C function and changes the state.
        """
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
    """Return the addresses of ISA-L's inflate and initialize functions; 0 for both if they are missing, or the library
    has another layout.
    """
    addresses = _address(_ISAL, "isal_inflate_stateless"), _address(_ISAL, "isal_inflate_init")
    return addresses if all(addresses) and NativeGzip(*addresses).is_as_declared() else (0, 0)


def gzip() -> NativeGzip | None:
    """Return this thread's gzip decompressor; None if it is not available."""
    decompressor: NativeGzip | None = getattr(_of_thread, "gzip", None)
    if decompressor is None and all(_isal_addresses()):
        decompressor = _of_thread.gzip = NativeGzip(*_isal_addresses())
    return decompressor


def decompressor_of_thread(zstd_window_bytes: int, memory: int, memory_bytes: int) -> tuple[int, ...]:
    """Return the fields of `native.tables.Decompressor` for this thread, in order: the function of lz4, the three
    functions and the context of zstd, function and state of gzip (each an address, 0 if missing), and the three
    arguments.
    """
    return *_functions(), zstd_window_bytes, memory, memory_bytes


def _functions() -> tuple[int, ...]:
    addresses: tuple[int, ...] | None = getattr(_of_thread, "functions", None)
    if addresses is None:
        of_zstd, of_gzip = zstd(), gzip()
        addresses = _of_thread.functions = (
            lz4_decompress(),
            *((0, 0, 0, 0) if of_zstd is None else (*of_zstd.functions, of_zstd.context)),
            *((0, 0) if of_gzip is None else (of_gzip.inflate, of_gzip.state)),
        )
    return addresses
