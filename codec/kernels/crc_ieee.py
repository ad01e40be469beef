"""CRC-32 (IEEE) for kernels, the checksum of messages of magic 0 and 1: carry-less multiplication, or 16 tables.

Each message has a checksum of its own and is short, so a call of zlib's for each would cost more than the sum.  With
the processor's instruction 16 bytes are folded onto the next 16 (Gopal et al., "Fast CRC Computation for Generic
Polynomials Using PCLMULQDQ Instruction", 2009), and the tables reduce what is left.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import types as untyped_types
from numba.core import cgutils as untyped_cgutils
from numba.extending import intrinsic

from kafkalog.codec.kernels.crc import FOLDED, byte_tables, eight, fold, fold_keys
from kafkalog.codec.kernels.jit import HAS_CARRYLESS_MULTIPLICATION, compiled, load

__all__ = ["checksum_ieee", "checksum_ieee_by_folding", "checksum_ieee_by_tables"]

types: Any = untyped_types
cgutils: Any = untyped_cgutils
_POLYNOMIAL = 0xEDB88320
_TABLES = byte_tables(_POLYNOMIAL, 16)
_LANES = 4
"""Registers that are folded beside each other in long stretches."""
_load8, _load32, _load64 = load[8], load[32], load[64]


def _fold(_context: Any, position: Any, size: Any, crc: Any) -> Any:
    """(address, bytes, checksum so far) -> two words whose checksum is that of the bytes; a multiple of 16, not 0."""
    word = ir.IntType(64)
    register = ir.VectorType(word, 2)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start, length, before = arguments

        def block(address: Any) -> Any:
            value = builder.load(builder.inttoptr(address, register.as_pointer()))
            value.align = 1
            return value

        def after(address: Any, blocks: int) -> Any:
            return builder.add(address, word(FOLDED * blocks))

        one, many = fold_keys(_POLYNOMIAL, 1), fold_keys(_POLYNOMIAL, _LANES)
        first = builder.insert_element(ir.Constant(register, [0, 0]), before, ir.IntType(32)(0))
        folded = cgutils.alloca_once_value(builder, builder.xor(block(start), first))
        done = cgutils.alloca_once_value(builder, word(FOLDED))
        with builder.if_then(builder.icmp_unsigned(">=", length, word(2 * _LANES * FOLDED))):
            lanes = [folded, *(cgutils.alloca_once(builder, register) for _ in range(_LANES - 1))]
            for number, lane in enumerate(lanes[1:], 1):
                builder.store(block(after(start, number)), lane)
            rounds = builder.udiv(length, word(_LANES * FOLDED))
            with cgutils.for_range(builder, rounds, start=word(1)) as loop:
                at = builder.add(start, builder.mul(loop.index, word(_LANES * FOLDED)))
                for number, lane in enumerate(lanes):
                    builder.store(fold(builder, builder.load(lane), many, block(after(at, number))), lane)
            for lane in lanes[1:]:
                builder.store(fold(builder, builder.load(folded), one, builder.load(lane)), folded)
            builder.store(builder.mul(rounds, word(_LANES * FOLDED)), done)
        passed = builder.load(done)
        left = builder.udiv(builder.sub(length, passed), word(FOLDED))
        with cgutils.for_range(builder, left) as loop:
            at = builder.add(builder.add(start, passed), builder.mul(loop.index, word(FOLDED)))
            builder.store(fold(builder, builder.load(folded), one, block(at)), folded)
        words = [builder.extract_element(builder.load(folded), ir.IntType(32)(number)) for number in range(2)]
        return context.make_tuple(builder, signature.return_type, words)

    return types.UniTuple(types.uint64, 2)(types.int64, types.int64, types.uint64), generate


_folded: Any = intrinsic(_fold)


@compiled(inline=True)
def _rest(crc: Any, position: int, end: int) -> Any:
    """The checksum after less than 16 further bytes."""
    low = numba.uint64(0xFF)
    if end - position >= 8:
        crc = eight(_TABLES, _load64(position) ^ crc, 0)
        position += 8
    if end - position >= 4:
        value = _load32(position) ^ crc
        crc = numba.uint64(
            _TABLES[3, value & low]
            ^ _TABLES[2, value >> numba.uint64(8) & low]
            ^ _TABLES[1, value >> numba.uint64(16) & low]
            ^ _TABLES[0, value >> numba.uint64(24)]
        )
        position += 4
    while position < end:
        crc = crc >> numba.uint64(8) ^ numba.uint64(_TABLES[0, (crc ^ _load8(position)) & low])
        position += 1
    return crc ^ numba.uint64(0xFFFFFFFF)


@compiled()
def checksum_ieee_by_folding(position: int, size: int) -> Any:
    """CRC-32 of `size` bytes at an address."""
    crc = numba.uint64(0xFFFFFFFF)
    whole = size - size % FOLDED
    if whole > 0:
        first, second = _folded(position, whole, crc)
        crc = eight(_TABLES, first, 8) ^ eight(_TABLES, second, 0)
    return _rest(crc, position + whole, position + size)


@compiled()
def checksum_ieee_by_tables(position: int, size: int) -> Any:
    """CRC-32 of `size` bytes at an address."""
    end = position + size
    crc = numba.uint64(0xFFFFFFFF)
    while end - position >= FOLDED:
        crc = eight(_TABLES, _load64(position) ^ crc, 8) ^ eight(_TABLES, _load64(position + 8), 0)
        position += FOLDED
    return _rest(crc, position, end)


checksum_ieee = checksum_ieee_by_folding if HAS_CARRYLESS_MULTIPLICATION else checksum_ieee_by_tables
