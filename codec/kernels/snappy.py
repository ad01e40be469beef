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
_move16 = move[16]
_MAGIC = int.from_bytes(snappy.MAGIC, "little")
_HEADER, _NEXT_HEADER = len(snappy.HEADER), snappy.NEXT_HEADER
_LITERAL, _NEAR, _FAR = 0, 1, 2
_LONG_LITERAL = 60
_BLOCK_MOVE, _SHORT = 32, 16
_DECLARED = (snappy.HEADER, _NEXT_HEADER)


@compiled(inline=True, declared=_DECLARED)
def _repeat(target: int, distance: int, size: int) -> None:
    """`size` bytes from `distance` before the target, which may be among those that this writes."""
    source = target - distance
    if distance >= min(size, _BLOCK_MOVE):
        copy(target, source, size)
        return
    done, known = 0, distance
    while done < size:
        part = min(known, size - done)
        copy(target + done, source, part)
        done += part
        known += part


@compiled(declared=_DECLARED)
def _block(source: int, end: int, target: int, room: int) -> int:  # noqa: C901 - a call for each element costs as much
    """The bytes of a raw block, or -1."""
    declared, shift = 0, 0
    while True:
        if source == end or shift > 28:
            return -1
        byte = numba.int64(_load8(source))
        source += 1
        declared |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if declared > room:
        return -1
    done = 0
    while source < end:
        tag = numba.int64(_load8(source))
        source += 1
        kind = tag & 3
        if kind == _LITERAL:
            size = (tag >> 2) + 1
            if size > _LONG_LITERAL:
                width = size - _LONG_LITERAL
                if width > end - source:
                    return -1
                size = 1
                for place in range(width):
                    size += numba.int64(_load8(source + place)) << (8 * place)
                source += width
            if size > end - source or size > declared - done:
                return -1
            if size <= _SHORT and end - source >= _SHORT and room - done >= _SHORT:
                _move16(target + done, source)  # what it moves too much, the next overwrites
            else:
                copy(target + done, source, size)
            source += size
        else:
            width = 1 if kind == _NEAR else 2 if kind == _FAR else 4
            if width > end - source:
                return -1
            if kind == _NEAR:
                size = (tag >> 2 & 7) + 4
                distance = (tag >> 5) << 8 | numba.int64(_load8(source))
            else:
                size = (tag >> 2) + 1
                distance = numba.int64(_load16(source)) if kind == _FAR else numba.int64(_load32(source))
            source += width
            if distance == 0 or distance > done or size > declared - done:
                return -1
            if size <= _SHORT and distance >= _SHORT and room - done >= _SHORT:
                _move16(target + done, target + done - distance)
            else:
                _repeat(target + done, distance, size)
        done += size
    return done if done == declared else -1


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
    """As `decompress.decompress_lz4_batches`."""
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
