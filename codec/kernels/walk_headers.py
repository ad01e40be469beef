"""From header to header through a log file, without the bytes between: one positional read for each large batch.

Where batches are small, a block of the file is read at a time.  The C library's `pread` is called by its address.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir

from kafkalog.codec.framing import MAGIC_POSITION, SMALLEST_MESSAGE
from kafkalog.codec.kernels.decompress import caller
from kafkalog.codec.kernels.jit import compiled, load, load_big
from kafkalog.codec.kernels.tables import Walk
from kafkalog.codec.model import BATCH, CODEC_MASK, LOG_OVERHEAD, MESSAGE_V0, NO_END

__all__ = ["walk_headers"]

_I64 = ir.IntType(64)
_call_read = caller(_I64, (ir.IntType(32), _I64, _I64, _I64))
_OVERHEAD, _HEADER = LOG_OVERHEAD.size, BATCH.size
_SIZE_AT = LOG_OVERHEAD.position("size")
_MAGIC_AT, _SMALLEST = MAGIC_POSITION, SMALLEST_MESSAGE
_DELTA_AT = BATCH.position("last_offset_delta")
_ATTRIBUTES_AT, _CODEC_MASK = MESSAGE_V0.position("attributes"), int(CODEC_MASK)
_DENSE = 4096
"""Batches below this size are read together with those behind them."""
_LARGEST_OFFSET = 2**62
_NO_END = NO_END
_load8, _load32, _load64 = load[8], load_big[32], load_big[64]


@compiled(inline=True, declared=(BATCH.fields, MESSAGE_V0.fields, _CODEC_MASK))
def _offsets_taken(here: int, magic: Any) -> int:
    """How many offsets the batch at an address takes; 0 where the header does not tell, as of a wrapper."""
    if magic > 1:
        return _load32(here + _DELTA_AT) + numba.int64(1)  # type: ignore[no-any-return]
    return numba.int64(_load8(here + _ATTRIBUTES_AT) & _CODEC_MASK == 0)  # type: ignore[no-any-return]


@compiled("int64(int64, int64, int64, int64, int64[::1])", declared=(BATCH.fields, LOG_OVERHEAD.fields, _SMALLEST))
def walk_headers(read: int, descriptor: int, memory: int, room: int, walk: Any) -> int:
    """Go on over the headers of an open file until `STEP` bytes of batches were passed, or all; 1 if that was possible.

    `read` is the address of `pread`, `memory` that of `room` bytes.  `walk` has an element for each
    of `Walk`.  0 where reading fails, or offsets are too large to count on or decrease: everything is then as if it had
    not been called.
    """
    position, end, file_end = walk[Walk.POSITION], walk[Walk.END], walk[Walk.FILE_END]
    held, held_end, dense = walk[Walk.HELD], walk[Walk.HELD_END], walk[Walk.IS_DENSE]
    start, expected = position, walk[Walk.EXPECTED]
    first_offset = next_offset = expected
    followed = 1
    while position < end:
        wanted = min(_HEADER, file_end - position)
        if position < held or position + wanted > held_end:
            ahead = min(room if dense != 0 else _HEADER, file_end - position)
            done = _call_read(read, descriptor, memory, ahead, position, 0)
            if done < wanted:
                walk[Walk.HELD] = walk[Walk.HELD_END] = 0
                return 0
            held, held_end = position, position + done
        here = memory + position - held
        length, magic = numba.int64(-1), numba.int64(0)
        if wanted > _MAGIC_AT:
            length, magic = _load32(here + _SIZE_AT), numba.int64(_load8(here + _MAGIC_AT))
        behind = position + _OVERHEAD + length
        if length < _SMALLEST or behind > end or (magic > 1 and wanted < _HEADER):
            next_offset = max(next_offset, expected)
            position, followed = end, 0  # in one with the batch before it, whose size may be wrong
            break
        if position > start and position - start >= walk[Walk.STEP]:
            break
        offset = _load64(here)
        if offset > _LARGEST_OFFSET or offset < -_LARGEST_OFFSET:
            walk[Walk.HELD] = walk[Walk.HELD_END] = 0
            return 0
        taken = _offsets_taken(here, magic)
        first, after = (offset, offset + taken) if magic > 1 else (expected, offset + 1)
        dense = 1 if behind - position < _DENSE else 0
        following, is_known = walk[Walk.NEXT_BASE], walk[Walk.NEXT_BASE] != _NO_END
        if behind < file_end:
            if behind + min(_HEADER, file_end - behind) > held_end:  # what is read is the header that comes next
                ahead = min(room if dense != 0 else _HEADER, file_end - behind)
                held, held_end = behind, behind + _call_read(read, descriptor, memory, ahead, behind, 0)
            is_known = held_end > behind + _MAGIC_AT
            following = _load64(memory + behind - held) if is_known else 0
        continues = is_known and following == expected + taken
        reaches_over = offset > expected and after > walk[Walk.NEXT_BASE]
        if offset != expected and taken > 0 and (continues or reaches_over):  # what `codec.rules` calls displaced
            first, after = expected, expected + taken
        elif after <= expected or (is_known and following < after):  # which takes more than a header to judge
            walk[Walk.HELD] = walk[Walk.HELD_END] = 0
            return 0
        if position == start:
            first_offset, next_offset = first, after
        next_offset = max(next_offset, after)
        expected = max(expected, after)
        position = behind
    walk[Walk.POSITION], walk[Walk.EXPECTED] = position, expected
    walk[Walk.FIRST_OFFSET], walk[Walk.NEXT_OFFSET] = first_offset, next_offset
    walk[Walk.HELD], walk[Walk.HELD_END], walk[Walk.IS_DENSE] = held, held_end, dense
    walk[Walk.IS_FOLLOWED] = followed
    return 1
