"""CRC-32C for kernels: the processor's own instruction in three interleaved streams, or eight tables elsewhere.

`checksum` is chosen when this module is imported; tests compare both ways with the crc32c package.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kafkalog.codec.kernels.jit import HAS_CRC_INSTRUCTION, compiled, load, prefetch

__all__ = ["byte_tables", "checksum", "checksum_by_instruction", "checksum_by_tables", "eight"]

_POLYNOMIAL = 0x82F63B78
_LONG, _SHORT = 1024, 256
"""Bytes of each of the three streams, for long and for short stretches."""
_LINE = 64
"""Bytes of a line of the cache."""
_load8, _load64 = load[8], load[64]


def _instruction(bits: int) -> Any:
    name = {8: "llvm.x86.sse42.crc32.32.8", 64: "llvm.x86.sse42.crc32.64.64"}[bits]
    state = ir.IntType(64 if bits == 64 else 32)

    def step(_context: Any, crc: Any, value: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            function = builder.module.declare_intrinsic(name, (), ir.FunctionType(state, [state, ir.IntType(bits)]))
            if bits == 64:
                return builder.call(function, arguments)
            narrow = [builder.trunc(arguments[0], state), builder.trunc(arguments[1], ir.IntType(bits))]
            return builder.zext(builder.call(function, narrow), ir.IntType(64))

        return types.uint64(types.uint64, types.uint64), generate

    return intrinsic(step)


_crc8, _crc64 = _instruction(8), _instruction(64)


def byte_tables(polynomial: int, count: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """What `count` tables of 256 entries say: a byte followed by 0, 1, 2... zero bytes; a reflected polynomial."""
    tables = np.zeros((count, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        tables[0, byte] = value
    for number in range(1, count):
        before = tables[number - 1]
        tables[number] = before >> 8 ^ tables[0, before & 0xFF]
    return tables


_TABLES = byte_tables(_POLYNOMIAL, 8)


def _zeros(count: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Four tables that advance a checksum over `count` zero bytes, a power of two, one for each of its bytes."""
    places = np.arange(256, dtype=np.uint32)
    tables = np.stack([places << np.uint32(8 * place) for place in range(4)])
    tables = tables >> np.uint32(8) ^ _TABLES[0, tables & np.uint32(0xFF)]
    for _ in range(count.bit_length() - 1):
        tables = np.bitwise_xor.reduce([tables[place, tables >> np.uint32(8 * place) & 0xFF] for place in range(4)])
    found: np.ndarray[Any, np.dtype[np.uint32]] = tables
    return found


_OVER_LONG, _OVER_TWO_LONG = _zeros(_LONG), _zeros(2 * _LONG)
_OVER_SHORT, _OVER_TWO_SHORT = _zeros(_SHORT), _zeros(2 * _SHORT)


@compiled(inline=True)
def _over(tables: Any, crc: Any) -> Any:
    return numba.uint64(
        tables[0, crc & numba.uint64(0xFF)]
        ^ tables[1, crc >> numba.uint64(8) & numba.uint64(0xFF)]
        ^ tables[2, crc >> numba.uint64(16) & numba.uint64(0xFF)]
        ^ tables[3, crc >> numba.uint64(24) & numba.uint64(0xFF)]
    )


@compiled(inline=True)
def _three_streams(crc: Any, position: int, end: int, size: int, over_one: Any, over_two: Any) -> Any:
    """The checksum over as many triples of streams of `size` bytes as fit; the checksum and the position after them."""
    while end - position >= 3 * size:
        first, second, third = crc, numba.uint64(0), numba.uint64(0)
        for line in range(position, position + size, _LINE):
            for stream in range(3):  # the same place of the next three
                prefetch(line + (3 + stream) * size)
            for at in range(line, line + _LINE, 8):
                first = _crc64(first, _load64(at))
                second = _crc64(second, _load64(at + size))
                third = _crc64(third, _load64(at + 2 * size))
        crc = _over(over_two, first) ^ _over(over_one, second) ^ third
        position += 3 * size
    return crc, position


@compiled()
def checksum_by_instruction(position: int, size: int) -> Any:
    """CRC-32C of `size` bytes at an address."""
    end = position + size
    crc = numba.uint64(0xFFFFFFFF)
    crc, position = _three_streams(crc, position, end, _LONG, _OVER_LONG, _OVER_TWO_LONG)
    crc, position = _three_streams(crc, position, end, _SHORT, _OVER_SHORT, _OVER_TWO_SHORT)
    while end - position >= 8:
        crc = _crc64(crc, _load64(position))
        position += 8
    while position < end:
        crc = _crc8(crc, _load8(position))
        position += 1
    return crc ^ numba.uint64(0xFFFFFFFF)


@compiled(inline=True)
def eight(tables: Any, value: Any, behind: int) -> Any:
    """What eight bytes, the first one lowest, add to a checksum if so many bytes follow them in the step."""
    low = numba.uint64(0xFF)
    return numba.uint64(
        tables[behind + 7, value & low]
        ^ tables[behind + 6, value >> numba.uint64(8) & low]
        ^ tables[behind + 5, value >> numba.uint64(16) & low]
        ^ tables[behind + 4, value >> numba.uint64(24) & low]
        ^ tables[behind + 3, value >> numba.uint64(32) & low]
        ^ tables[behind + 2, value >> numba.uint64(40) & low]
        ^ tables[behind + 1, value >> numba.uint64(48) & low]
        ^ tables[behind, value >> numba.uint64(56)]
    )


@compiled()
def checksum_by_tables(position: int, size: int) -> Any:
    """CRC-32C of `size` bytes at an address."""
    end = position + size
    crc = numba.uint64(0xFFFFFFFF)
    low = numba.uint64(0xFF)
    while end - position >= 8:
        crc = eight(_TABLES, _load64(position) ^ crc, 0)
        position += 8
    while position < end:
        crc = crc >> numba.uint64(8) ^ numba.uint64(_TABLES[0, (crc ^ _load8(position)) & low])
        position += 1
    return crc ^ numba.uint64(0xFFFFFFFF)


checksum = checksum_by_instruction if HAS_CRC_INSTRUCTION else checksum_by_tables
