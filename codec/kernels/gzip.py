"""Decompressing gzip streams of many batches in one call, by ISA-L's decoder, which `compression.native` finds.

ISA-L takes Huffman codes that zlib, and with it Kafka, refuses: those with bit patterns that stand for nothing.  So it
is given only streams whose codes are known to be complete: stored blocks and after them one last block, the code of
which is examined here.  That is what zlib writes of up to 16 Ki literals and matches.  What comes out counts only if
the decoder ended where the trailer begins, and if checksum and size there are those of the content.  Everything else,
such as a header with more than it must have, is left to `codec.compression`, which judges it.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from kafkalog.codec.compression import gzip
from kafkalog.codec.compression.native import InflateState
from kafkalog.codec.kernels.crc_ieee import checksum_ieee
from kafkalog.codec.kernels.decompress import call_inflate
from kafkalog.codec.kernels.jit import compiled, load, on_stack, store

__all__ = ["decompress_gzip", "decompress_gzip_batches"]

_load16, _load32, _load64 = load[16], load[32], load[64]
_store32, _store64 = store[32], store[64]
_HEADER, _TRAILER = gzip.HEADER, gzip.TRAILER
_PLAIN_START = int.from_bytes(gzip.PLAIN_START, "little")
_NEXT_OUT, _AVAIL_OUT = InflateState.next_out.offset, InflateState.avail_out.offset
_NEXT_IN, _AVAIL_IN = InflateState.next_in.offset, InflateState.avail_in.offset
_TOTAL_OUT = InflateState.total_out.offset
_MOST_ROOM = 2**31 - 1
_STORED, _FIXED, _DYNAMIC = 0, 1, 2
_DECLARED = (_HEADER, _TRAILER, _PLAIN_START, _NEXT_OUT, _AVAIL_OUT, _NEXT_IN, _AVAIL_IN, _TOTAL_OUT)

# RFC 1951, 3.2.7
_LENGTH_BITS, _LONGEST = 7, 15
"""Bits at most of a code for lengths, and of one for symbols or distances."""
_ORDER = np.array([16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15], np.int64)
_lengths, _patterns = on_stack(len(_ORDER)), on_stack(1 << _LENGTH_BITS)
_REPEAT_BITS = np.array([2, 3, 7], np.int64)
_REPEAT_LEAST = np.array([3, 3, 11], np.int64)
_FIRST_LITERALS, _LEAST_LENGTHS = 257, 4


@compiled(inline=True, declared=_DECLARED)
def _bits(at: int) -> Any:
    """At least 57 bits from a bit on; eight bytes are read."""
    return _load64(at >> 3) >> numba.uint64(at & 7)


@compiled(inline=True, declared=_DECLARED)
def _length_code(bits: Any, count: int, table: Any) -> bool:
    """Fill what each pattern of seven bits means, symbol and length, from the lengths that begin at some bits."""
    lengths = _lengths()
    for number in range(len(_ORDER)):
        length = numba.int64(bits >> numba.uint64(3 * number)) & 7 if number < count else 0
        _store64(lengths + 8 * _ORDER[number], length)
    code = 0
    for length in range(1, _LENGTH_BITS + 1):
        code <<= 1
        for symbol in range(len(_ORDER)):
            if numba.int64(_load64(lengths + 8 * symbol)) == length:
                if code >> length != 0:
                    return False
                reverse = 0
                for place in range(length):
                    reverse |= (code >> place & 1) << (length - 1 - place)
                for pattern in range(reverse, 1 << _LENGTH_BITS, 1 << length):
                    _store64(table + 8 * pattern, symbol << 8 | length)
                code += 1
    return code == 1 << _LENGTH_BITS


@compiled(declared=_DECLARED)
def _is_complete(at: int, end: int) -> bool:
    """Whether zlib takes the codes that a block declares from bit `at` on; eight bytes after `end` can be read."""
    if at >> 3 > end - 2:
        return False
    word = _bits(at)
    literals = (numba.int64(word) & 31) + _FIRST_LITERALS
    total = literals + (numba.int64(word >> numba.uint64(5)) & 31) + 1
    count = (numba.int64(word >> numba.uint64(10)) & 15) + _LEAST_LENGTHS
    at += 14
    table = _patterns()
    if at >> 3 > end or not _length_code(_bits(at), count, table):
        return False
    at += 3 * count
    index = before = 0
    of_literals = of_distances = distances = 0
    while index < total:
        if at >> 3 > end:
            return False
        word = _bits(at)
        entry = numba.int64(_load64(table + 8 * (numba.int64(word) & (1 << _LENGTH_BITS) - 1)))
        symbol, length = entry >> 8, entry & 0xFF
        at += length
        repeat = 1
        if symbol > _LONGEST:
            kind = symbol - _LONGEST - 1
            if kind == 0 and index == 0:
                return False
            extra = _REPEAT_BITS[kind]
            repeat = _REPEAT_LEAST[kind] + (numba.int64(word >> numba.uint64(length)) & ((1 << extra) - 1))
            at += extra
            symbol = before if kind == 0 else 0
        if index + repeat > total:
            return False
        if symbol > 0:
            more = max(min(literals - index, repeat), 0)
            of_literals += more << (_LONGEST - symbol)
            of_distances += (repeat - more) << (_LONGEST - symbol)
            distances += repeat - more
        index += repeat
        before = symbol
    whole = 1 << _LONGEST
    # no distance at all, or one of a single bit, is what zlib takes besides
    return of_literals == whole and (
        of_distances == whole or distances == 0 or (distances == 1 and of_distances == whole >> 1)
    )


@compiled(declared=_DECLARED)
def _has_complete_codes(start: int, end: int) -> bool:
    """Whether there are stored blocks and then a last one, with a code that zlib takes."""
    at = start << 3
    while True:
        if at >> 3 > end:
            return False
        word = numba.int64(_bits(at)) & 7
        is_last, kind = word & 1 != 0, word >> 1
        at += 3
        if kind == _STORED:
            here = at + 7 >> 3
            if here > end:
                return False
            if is_last:
                return True  # the decoder compares both sizes of a stored block
            at = here + 4 + numba.int64(_load16(here)) << 3
        elif kind == _DYNAMIC:
            return is_last and _is_complete(at, end)
        else:
            return is_last and kind == _FIXED  # type: ignore[no-any-return]


@compiled(declared=_DECLARED)
def decompress_gzip(function: int, state: int, source: int, size: int, target: int, room: int) -> int:
    """The bytes of the content, or -1."""
    if size < _HEADER + _TRAILER or _load32(source) != numba.uint64(_PLAIN_START):
        return -1
    trailer = source + size - _TRAILER
    content = numba.int64(_load32(trailer + 4))
    if content > room or size > _MOST_ROOM or not _has_complete_codes(source + _HEADER, trailer):
        return -1
    _store64(state + _NEXT_OUT, target)
    _store32(state + _AVAIL_OUT, min(room, _MOST_ROOM))
    _store64(state + _NEXT_IN, source + _HEADER)
    _store32(state + _AVAIL_IN, size - _HEADER)
    if call_inflate(function, state, 0, 0, 0, 0) != 0:
        return -1
    if numba.int64(_load64(state + _NEXT_IN)) != trailer or numba.int64(_load32(state + _TOTAL_OUT)) != content:
        return -1
    return content if numba.uint64(checksum_ieee(target, content)) == _load32(trailer) else -1


@compiled(
    "int64(int64, int64, int64[::1], int64[::1], int64, int64, int64, int64, int64[::1], int64[::1])",
    declared=_DECLARED,
)
def decompress_gzip_batches(
    function: int, state: int, sources: Any, compressed: Any, target: int, room: int, largest: int, budget: int,
    addresses: Any, sizes: Any,
) -> int:  # fmt: skip
    """Decompress as `decompress.decompress_lz4_batches` does."""
    done = 0
    for number in range(sources.shape[0]):
        if done >= budget:
            return number
        made = decompress_gzip(
            function, state, sources[number], compressed[number], target + done, min(room - done, largest)
        )
        if made < 0:
            return number
        addresses[number], sizes[number] = target + done, made
        done += made
    return sources.shape[0]  # type: ignore[no-any-return]
