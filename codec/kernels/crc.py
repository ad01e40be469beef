"""CRC-32C for kernels: by the processor's two instructions for it at once, or by eight tables elsewhere.

One of them takes eight bytes and needs three cycles, so three streams are interleaved; the other multiplies
polynomials, and folds a fourth stream meanwhile (Gopal et al., "Fast CRC Computation for Generic Polynomials Using
PCLMULQDQ Instruction", 2009).  `checksum` is chosen when this module is imported; tests compare both ways with the
crc32c package.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types as untyped_types
from numba.core import cgutils as untyped_cgutils
from numba.extending import intrinsic

from kafkalog.codec.kernels.jit import (
    HAS_CARRYLESS_MULTIPLICATION,
    HAS_CRC_INSTRUCTION,
    compiled,
    fetch_ahead,
    load,
)

__all__ = [
    "FOLDED", "byte_tables", "checksum", "checksum_by_instructions", "checksum_by_tables", "eight", "fold", "fold_keys",
]  # fmt: skip

types: Any = untyped_types
cgutils: Any = untyped_cgutils
_POLYNOMIAL = 0x82F63B78
FOLDED = 16
"""Bytes of a register, which are folded onto those behind them."""
_LANES, _STREAMS, _STEP = 3, 3, 32
"""What one round takes: of the folded stream as many registers, and of each of the others so many bytes."""
_ROUND = _LANES * FOLDED + _STREAMS * _STEP
_ROUNDS = (32, 8, 2)
"""Of the blocks that are taken as long as one fits, the largest first."""
_LINE = 64
"""Bytes of a line of the cache."""
_load8, _load64 = load[8], load[64]


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


def _power(polynomial: int, exponent: int) -> int:
    """A power of x, modulo the polynomial, as the instruction wants it: reflected, and one bit to the left."""
    value = 0x80000000
    for _ in range(exponent):
        value = value >> 1 ^ (polynomial if value & 1 else 0)
    return value << 1


def fold_keys(polynomial: int, registers: int) -> tuple[int, int]:
    """What moves the lower and the upper half of a register over so many of them."""
    bits = 8 * FOLDED * registers
    return _power(polynomial, bits + 32), _power(polynomial, bits - 32)


def _multiply(builder: Any, first: Any, second: Any, halves: int) -> Any:
    register, half = ir.VectorType(ir.IntType(64), 2), ir.IntType(8)
    kind = ir.FunctionType(register, [register, register, half])
    return builder.call(builder.module.declare_intrinsic("llvm.x86.pclmulqdq", (), kind), [first, second, half(halves)])


def fold(builder: Any, value: Any, keys: tuple[int, int], onto: Any) -> Any:
    """A register moved over as many as the keys are for, and what is there added."""
    both = ir.Constant(ir.VectorType(ir.IntType(64), 2), list(keys))
    moved = builder.xor(_multiply(builder, value, both, 0x00), _multiply(builder, value, both, 0x11))
    return builder.xor(moved, onto)


def _crc(builder: Any, bits: int, crc: Any, value: Any) -> Any:
    name = {8: "llvm.x86.sse42.crc32.32.8", 64: "llvm.x86.sse42.crc32.64.64"}[bits]
    state = ir.IntType(64 if bits == 64 else 32)
    kind = ir.FunctionType(state, [state, ir.IntType(bits)])
    return builder.call(builder.module.declare_intrinsic(name, (), kind), [crc, value])


def _instruction(bits: int) -> Any:
    def step(_context: Any, crc: Any, value: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            if bits == 64:
                return _crc(builder, bits, *arguments)
            narrow = builder.trunc(arguments[0], ir.IntType(32)), builder.trunc(arguments[1], ir.IntType(bits))
            return builder.zext(_crc(builder, bits, *narrow), ir.IntType(64))

        return types.uint64(types.uint64, types.uint64), generate

    return intrinsic(step)


def _product(_context: Any, first: Any, second: Any) -> Any:
    """(number, number) -> the lower half of their product without carries."""

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        zero, place = ir.Constant(ir.VectorType(ir.IntType(64), 2), [0, 0]), ir.IntType(32)(0)
        first, second = (builder.insert_element(zero, each, place) for each in arguments)
        return builder.extract_element(_multiply(builder, first, second, 0x00), place)

    return types.uint64(types.uint64, types.uint64), generate


def _streams(_context: Any, position: Any, rounds: Any, crc: Any) -> Any:
    """(address, rounds, checksum so far) -> the sums of four streams that lie one behind the other.

    That of the first, which goes on from the checksum so far, is that of two words; the others stand alone.
    """
    word = ir.IntType(64)
    register = ir.VectorType(word, 2)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start, count, before = arguments

        def taken(address: Any, kind: Any) -> Any:
            value = builder.load(builder.inttoptr(address, kind.as_pointer()))
            value.align = 1
            return value

        def at(address: Any, size: int) -> Any:
            return builder.add(address, word(size))

        first = builder.insert_element(ir.Constant(register, [0, 0]), before, ir.IntType(32)(0))
        lanes = [
            cgutils.alloca_once_value(builder, taken(at(start, FOLDED * number), register)) for number in range(_LANES)
        ]
        builder.store(builder.xor(builder.load(lanes[0]), first), lanes[0])
        sums = [cgutils.alloca_once_value(builder, word(0)) for _ in range(_STREAMS)]
        size = builder.mul(count, word(_STEP))
        behind = builder.add(start, builder.mul(count, word(_LANES * FOLDED)))
        begins = [builder.add(behind, builder.mul(size, word(number))) for number in range(_STREAMS)]
        many, one = fold_keys(_POLYNOMIAL, _LANES), fold_keys(_POLYNOMIAL, 1)

        def step(number: Any) -> None:
            here = builder.mul(number, word(_STEP))
            for each in range(0, _STEP, 8):
                for begin, total in zip(begins, sums, strict=True):
                    value = taken(at(builder.add(begin, here), each), word)
                    builder.store(_crc(builder, 64, builder.load(total), value), total)

        following = builder.add(start, builder.mul(count, word(_ROUND)))
        with cgutils.for_range(builder, count, start=word(1)) as loop:
            for line in range(0, _ROUND, _LINE):
                fetch_ahead(builder, at(builder.add(following, builder.mul(loop.index, word(_ROUND))), line))
            here = builder.add(start, builder.mul(loop.index, word(_LANES * FOLDED)))
            for number, lane in enumerate(lanes):
                onto = taken(at(here, FOLDED * number), register)
                builder.store(fold(builder, builder.load(lane), many, onto), lane)
            step(builder.sub(loop.index, word(1)))
        step(builder.sub(count, word(1)))
        folded = builder.load(lanes[0])
        for lane in lanes[1:]:
            folded = fold(builder, folded, one, builder.load(lane))
        words = [builder.extract_element(folded, ir.IntType(32)(number)) for number in range(2)]
        words += [builder.load(total) for total in sums]
        return context.make_tuple(builder, signature.return_type, words)

    return types.UniTuple(types.uint64, 5)(types.int64, types.int64, types.uint64), generate


_crc8, _crc64 = _instruction(8), _instruction(64)
_times: Any = intrinsic(_product)
_four_streams: Any = intrinsic(_streams)
_KEYS = tuple(
    tuple(_power(_POLYNOMIAL, 8 * _STEP * rounds * streams - 32) for streams in range(1, _STREAMS + 1))
    for rounds in _ROUNDS
)
"""What moves a checksum over one, two and three of the streams, for each size of a block."""


@compiled(inline=True)
def _blocks(crc: Any, position: int, end: int, rounds: int, keys: Any) -> Any:
    """The checksum over as many blocks as fit; the checksum and the position after them."""
    size = rounds * _ROUND
    while end - position >= size:
        lower, upper, first, second, third = _four_streams(position, rounds, crc)
        folded = _crc64(_crc64(numba.uint64(0), lower), upper)
        moved = _times(folded, keys[2]) ^ _times(first, keys[1]) ^ _times(second, keys[0])
        crc = _crc64(numba.uint64(0), moved) ^ third
        position += size
    return crc, position


@compiled()
def checksum_by_instructions(position: int, size: int) -> Any:
    """CRC-32C of `size` bytes at an address."""
    end = position + size
    crc = numba.uint64(0xFFFFFFFF)
    crc, position = _blocks(crc, position, end, _ROUNDS[0], _KEYS[0])
    crc, position = _blocks(crc, position, end, _ROUNDS[1], _KEYS[1])
    crc, position = _blocks(crc, position, end, _ROUNDS[2], _KEYS[2])
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


_HAS_BOTH = HAS_CRC_INSTRUCTION and HAS_CARRYLESS_MULTIPLICATION
checksum = checksum_by_instructions if _HAS_BOTH else checksum_by_tables
