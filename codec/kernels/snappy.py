"""Decompressing framed Snappy streams of many batches in one call.

No wheel shows a C library of Snappy, and a call for each block costs more than the block.  As in `decompress`, what
is not the plain shape that producers write, or is damaged, is left to `codec.compression`, which judges it.
"""

from __future__ import annotations

from typing import Any

import numba

from kafkalog.codec.compression import snappy
from kafkalog.codec.kernels.jit import compiled, copy, load, load_big, move

__all__ = ["decompress_snappy", "decompress_snappy_batches"]

_load8, _load16, _load32, _load64, _load_big32 = load[8], load[16], load[32], load[64], load_big[32]
_move32 = move[32]
_MAGIC = int.from_bytes(snappy.MAGIC, "little")
_HEADER, _NEXT_HEADER = len(snappy.HEADER), snappy.NEXT_HEADER
_LITERAL, _NEAR, _FAR = 0, 1, 2
_LONG_LITERAL = 60
_NEAR_SIZE, _NEAR_DISTANCE = 7, 0xE0
"""Bits of the tag of a copy with one more byte: those of its size, and the highest ones of its distance."""
_MOVE, _WIDE = 32, 64
"""Bytes moved at once, and the most that an element of the plain kinds has, but for literals of 61 to 64."""
_DECLARED = (snappy.HEADER, _NEXT_HEADER)


@compiled(inline=True, declared=_DECLARED)
def _repeat(target: int, distance: int, size: int) -> None:
    """`size` bytes from `distance` before the target, which may be among those that this writes."""
    source = target - distance
    if distance >= min(size, _MOVE):
        copy(target, source, size)
        return
    done, known = 0, distance
    while done < size:
        part = min(known, size - done)
        copy(target + done, source, part)
        done += part
        known += part


@compiled(inline=True, declared=_DECLARED)
def _plain_elements(source: int, end: int, target: int, begin: int, last: int) -> tuple[int, int]:
    """Elements far from both ends, up to the first that is odd; the positions after them.

    Plain are literals of at most 60 bytes, and copies with one or two more bytes of which none is among those that
    they write.  Which of them comes next nobody can foresee in text, so it is computed with masks instead of branches:
    a wrong guess of the processor would take longer than the element.
    """
    latest_source, latest_target = end - _WIDE - 1, last - _WIDE
    while source <= latest_source and target <= latest_target:
        tag = numba.int64(_load8(source))
        word = numba.int64(_load32(source + 1))
        kind = tag & 3
        is_literal, is_near = -numba.int64(kind == _LITERAL), -numba.int64(kind == _NEAR)
        size = (((tag >> 2) + 1) & ~is_near) | (((tag >> 2 & _NEAR_SIZE) + 4) & is_near)
        distance = ((word & 0xFFFF) & ~is_near) | (((tag & _NEAR_DISTANCE) << 3 | word & 0xFF) & is_near)
        origin = ((source + 1) & is_literal) | ((target - distance) & ~is_literal)
        # below 0 where one of these is: a literal too long, bytes not there yet or before the first, the third kind
        odd = (
            (is_literal & (_LONG_LITERAL - size))
            | (~is_literal & ((distance - size) | (target - begin - distance)))
            | (_FAR - kind)
        )
        if odd < 0:
            break
        _move32(target, origin)  # what it moves too much, the next overwrites
        if size > _MOVE:
            _move32(target + _MOVE, origin + _MOVE)
        source += kind + 1 + (size & is_literal)
        target += size
    return source, target


@compiled(inline=True, declared=_DECLARED)
def _declared_size(source: int, end: int) -> tuple[int, int]:
    """What a block says that it holds, -1 if it does not, and the position after that."""
    declared, shift = 0, 0
    while source < end and shift <= 28:
        byte = numba.int64(_load8(source))
        source += 1
        declared |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return declared, source
    return -1, source


@compiled(declared=_DECLARED)
def _block(source: int, end: int, target: int, room: int) -> int:
    """The bytes of a raw block, or -1."""
    declared, source = _declared_size(source, end)
    if declared < 0 or declared > room:
        return -1
    begin, last = target, target + declared
    while True:
        source, target = _plain_elements(source, end, target, begin, last)
        if source == end:
            return declared if target == last else -1
        tag = numba.int64(_load8(source))
        source += 1
        kind, size = tag & 3, (tag >> 2) + 1
        if kind == _LITERAL:
            if size > _LONG_LITERAL:
                width = size - _LONG_LITERAL
                if width > end - source:
                    return -1
                size = 1
                for place in range(width):
                    size += numba.int64(_load8(source + place)) << (8 * place)
                source += width
            if size > end - source or size > last - target:
                return -1
            copy(target, source, size)
            source += size
        else:
            width = 1 if kind == _NEAR else 2 if kind == _FAR else 4
            if width > end - source:
                return -1
            if kind == _NEAR:
                size = (tag >> 2 & _NEAR_SIZE) + 4
                distance = (tag & _NEAR_DISTANCE) << 3 | numba.int64(_load8(source))
            else:
                distance = numba.int64(_load16(source)) if kind == _FAR else numba.int64(_load32(source))
            source += width
            if distance == 0 or distance > target - begin or size > last - target:
                return -1
            _repeat(target, distance, size)
        target += size


@compiled(declared=_DECLARED)
def decompress_snappy(source: int, size: int, target: int, room: int) -> int:
    """The bytes of a stream with one header, or -1."""
    if size < _HEADER or _load64(source) != numba.uint64(_MAGIC):
        return -1
    at, done = _HEADER, 0
    while size - at >= 4:
        length = _load_big32(source + at)
        at += 4
        if length == _NEXT_HEADER or length < 0 or length > size - at:
            return -1
        made = _block(source + at, source + at + length, target + done, room - done)
        if made < 0:
            return -1
        at += length
        done += made
    return done


@compiled("int64(int64[::1], int64[::1], int64, int64, int64, int64, int64[::1], int64[::1])", declared=_DECLARED)
def decompress_snappy_batches(
    sources: Any, compressed: Any, target: int, room: int, largest: int, budget: int, addresses: Any, sizes: Any
) -> int:
    """Decompress as `decompress.decompress_lz4_batches` does."""
    done = 0
    for number in range(sources.shape[0]):
        if done >= budget:
            return number
        made = decompress_snappy(sources[number], compressed[number], target + done, min(room - done, largest))
        if made < 0:
            return number
        addresses[number], sizes[number] = target + done, made
        done += made
    return sources.shape[0]  # type: ignore[no-any-return]
