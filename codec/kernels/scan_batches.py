"""The compiled walk over whole batches: sizes and checksums, and every header field as a column.

It takes only what is sound beyond doubt: at the first byte that is not a v2 batch with a valid size and checksum it
stops without a judgement, and the readable walk (`codec.scan`) says what stands there.
"""

from __future__ import annotations

from typing import Any

import numba

from kafkalog.codec.kernels.crc import checksum
from kafkalog.codec.kernels.jit import compiled, load_big
from kafkalog.codec.kernels.leaves import read_fixed
from kafkalog.codec.model import BATCH, LOG_OVERHEAD

__all__ = ["FIELDS", "note_header", "sound_size", "walk"]

FIELDS = BATCH.names
"""Rows of the table that `walk` fills; one more behind them is the position."""
_PLACES = tuple(field.position for field in BATCH.fields)
_SIZES = tuple(field.size for field in BATCH.fields)
_SIZE_AT = BATCH.position("batch_length")
_MAGIC_AT, _MAGIC = BATCH.position("magic"), 2
_CRC_AT, _CRC_END = BATCH.position("crc"), BATCH.end("crc")
_OVERHEAD, _HEADER = LOG_OVERHEAD.size, BATCH.size
_CRC_ROW = FIELDS.index("crc")
_POSITION_ROW = len(FIELDS)
_load8, _load32 = load_big[8], load_big[32]


@compiled(inline=True, declared=BATCH.fields)
def sound_size(here: int, left: int, largest: int, check: bool) -> int:
    """Bytes of the batch at an address, 0 where there is anything but a sound one in the `left` bytes."""
    if left < _HEADER:
        return 0
    whole = _load32(here + _SIZE_AT) + _OVERHEAD
    if whole < _HEADER or whole > left or whole > largest or _load8(here + _MAGIC_AT) != _MAGIC:
        return 0
    crc = numba.int64(_load32(here + _CRC_AT)) & 0xFFFFFFFF
    if check and numba.int64(checksum(here + _CRC_END, whole - _CRC_END)) != crc:
        return 0
    return whole  # type: ignore[no-any-return]


@compiled(inline=True, declared=BATCH.fields)
def note_header(here: int, position: int, table: Any, number: int) -> None:
    """The fields of the batch at an address as column `number`, and behind them its position."""
    for row in range(len(_PLACES)):
        table[row, number] = read_fixed(here + _PLACES[row], _SIZES[row])
    table[_CRC_ROW, number] = numba.int64(_load32(here + _CRC_AT)) & 0xFFFFFFFF
    table[_POSITION_ROW, number] = position


@compiled("int64(int64, int64, int64, boolean, int64[:,::1])", declared=BATCH.fields)
def walk(address: int, size: int, largest: int, check: bool, table: Any) -> int:
    """Headers of the batches in `size` bytes at `address`, a column each; how many there are before anything odd.

    No batch may be larger than `largest` bytes; `check` is off where checksums need no comparing.  The last row of
    `table` gets the position of the batch from the first byte on.
    """
    position = 0
    count = 0
    while count < table.shape[1]:
        whole = sound_size(address + position, size - position, largest, check)
        if whole == 0:
            return count
        note_header(address + position, position, table, count)
        count += 1
        position += whole
    return count
