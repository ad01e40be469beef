"""Decompressing the record bytes of many batches in one call, by the C functions that `compression.native` finds.

Taken is only the plain shape that producers write, one frame or stream with nothing before, after or between; at the
first that is anything else, or that the library refuses, the kernel stops without a judgement.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kafkalog.codec.compression import lz4, zstd
from kafkalog.codec.kernels.jit import compiled, copy, load

__all__ = [
    "call_inflate", "caller", "decompress_lz4", "decompress_lz4_batches", "decompress_zstd", "decompress_zstd_batches",
]  # fmt: skip

_load8, _load32 = load[8], load[32]
_I64 = ir.IntType(64)


def caller(result: ir.IntType, arguments: tuple[ir.IntType, ...]) -> Any:
    """(address of a C function, numbers and addresses as 64-bit integers) -> its result as one."""

    def call_it(_context: Any, function: Any, first: Any, second: Any, third: Any, fourth: Any, fifth: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, given: Any) -> Any:
            kind = ir.FunctionType(result, arguments).as_pointer()
            function = builder.inttoptr(given[0], kind)
            values = [
                builder.trunc(value, argument) if argument.width < 64 else value
                for value, argument in zip(given[1:], arguments, strict=False)
            ]
            found = builder.call(function, values[: len(arguments)])
            return builder.sext(found, _I64) if result.width < 64 else found

        return types.int64(*[types.int64] * 6), generate

    return intrinsic(call_it)


_int = ir.IntType(32)
_call_lz4 = caller(_int, (_I64, _I64, _int, _int))
_call_zstd = caller(_I64, (_I64, _I64, _I64, _I64, _I64))
call_inflate = caller(_int, (_I64,))
"""(address of `isal_inflate_stateless`, that of its state, and four numbers that do not matter) -> 0 if it is done"""

_LZ4_FRAME = int.from_bytes(lz4.WRITTEN_HEADER[:4], "little"), int.from_bytes(lz4.WRITTEN_HEADER[3:7], "little")
_LZ4_HEADER, _LZ4_BLOCK, _LZ4_STORED = len(lz4.WRITTEN_HEADER), lz4.BLOCK_SIZE, lz4.STORED_BLOCK
_FIRST_WORD, _SECOND_WORD = _LZ4_FRAME
_DECLARED = (lz4.WRITTEN_HEADER, _LZ4_BLOCK, _LZ4_STORED)


@compiled(declared=_DECLARED)
def decompress_lz4(function: int, source: int, size: int, target: int, room: int) -> int:
    """The bytes of the content, or -1."""
    if size < _LZ4_HEADER or _load32(source) != numba.uint64(_FIRST_WORD):
        return -1
    if _load32(source + 3) != numba.uint64(_SECOND_WORD):
        return -1
    at, done = _LZ4_HEADER, 0
    while True:
        if size - at < 4:
            return -1
        word = numba.int64(_load32(source + at))
        at += 4
        block = word & ~_LZ4_STORED
        if block == 0:
            return done
        if block > _LZ4_BLOCK or block > size - at:
            return -1
        if word & _LZ4_STORED != 0:
            if block > room - done:
                return -1
            copy(target + done, source + at, block)
            made = block
        else:
            made = _call_lz4(function, source + at, target + done, block, min(_LZ4_BLOCK, room - done), 0)
            if made < 0:
                return -1
        at += block
        done += made


@compiled(
    "int64(int64, int64[::1], int64[::1], int64, int64, int64, int64, int64[::1], int64[::1])", declared=_DECLARED
)
def decompress_lz4_batches(
    function: int, sources: Any, compressed: Any, target: int, room: int, largest: int, budget: int,
    addresses: Any, sizes: Any,
) -> int:  # fmt: skip
    """Contents of the first frames, one after the other at `target`, until there are `budget` bytes; how many.

    None of them has more than `largest` bytes, and all together no more than `room`.
    """
    done = 0
    for number in range(sources.shape[0]):
        if done >= budget:
            return number
        made = decompress_lz4(function, sources[number], compressed[number], target + done, min(room - done, largest))
        if made < 0:
            return number
        addresses[number], sizes[number] = target + done, made
        done += made
    return sources.shape[0]  # type: ignore[no-any-return]


_ZSTD_MAGIC = int.from_bytes(zstd.MAGIC, "little")
_ZSTD_BLOCK, _ZSTD_CHECKSUM_FLAG, _ZSTD_CHECKSUM = zstd.MAX_BLOCK, 0x04, zstd.CHECKSUM_SIZE
_ZSTD_HEADER = 6
"""Magic, a descriptor that says that there is neither a size nor a dictionary, and the window."""
_RLE, _RESERVED = zstd.RLE, zstd.RESERVED
_ZSTD_DECLARED = (zstd.MAGIC, _ZSTD_BLOCK, _ZSTD_CHECKSUM, _RLE, _RESERVED)


@compiled(declared=_ZSTD_DECLARED)
def _zstd_bound(source: int, size: int, window_limit: int) -> int:
    """An upper bound of the content's size if the bytes are exactly one frame of the shape without a size, or -1."""
    if size < _ZSTD_HEADER or _load32(source) != numba.uint64(_ZSTD_MAGIC):
        return -1
    descriptor, window = numba.int64(_load8(source + 4)), numba.int64(_load8(source + 5))
    if descriptor & ~_ZSTD_CHECKSUM_FLAG != 0 or window >> 3 > 40:
        return -1
    base = 1 << (10 + (window >> 3))
    bytes_of_window = base + (base >> 3) * (window & 7)
    if bytes_of_window > window_limit:
        return -1
    largest = min(_ZSTD_BLOCK, bytes_of_window)
    at, bound = _ZSTD_HEADER, 0
    while True:
        if size - at < 3:
            return -1
        word = numba.int64(_load8(source + at) | _load8(source + at + 1) << 8 | _load8(source + at + 2) << 16)
        kind, block = word >> 1 & 3, word >> 3
        if kind == _RESERVED:
            return -1
        bound += largest if kind == 2 else block
        at += 3 + (1 if kind == _RLE else block)
        if at > size:
            return -1
        if word & 1 != 0:
            break
    at += _ZSTD_CHECKSUM if descriptor != 0 else 0
    return bound if at == size else -1


@compiled(declared=_ZSTD_DECLARED)
def decompress_zstd(
    function: int, context: int, source: int, size: int, target: int, room: int, largest: int, window_limit: int
) -> int:
    """The bytes of the content, or -1; also where they could be more than `largest` or than the room."""
    bound = _zstd_bound(source, size, window_limit)
    if bound < 0 or bound > room or bound > largest:
        return -1
    made = _call_zstd(function, context, target, room, source, size)
    return made if 0 <= made <= room else -1  # errors are the largest numbers there are


@compiled(
    "int64(int64, int64, int64[::1], int64[::1], int64, int64, int64, int64, int64, int64[::1], int64[::1])",
    declared=_ZSTD_DECLARED,
)
def decompress_zstd_batches(
    function: int, context: int, sources: Any, compressed: Any, target: int, room: int, largest: int, budget: int,
    window_limit: int, addresses: Any, sizes: Any,
) -> int:  # fmt: skip
    """Decompress as `decompress_lz4_batches` does.

    Frames whose content could be larger than what room there is are left too.
    """
    done = 0
    for number in range(sources.shape[0]):
        if done >= budget:
            return number
        made = decompress_zstd(
            function, context, sources[number], compressed[number], target + done, room - done, largest, window_limit
        )
        if made < 0:
            return number
        addresses[number], sizes[number] = target + done, made
        done += made
    return sources.shape[0]  # type: ignore[no-any-return]
