"""The compiled walk over whole batches: sizes and checksums, and every header field as a column.

It takes only what is sound beyond doubt: at the first byte that is not a v2 batch with a valid size and checksum it
stops without a judgement, and the readable walk (`codec.scanner`) says what is there.
"""

from __future__ import annotations

from typing import Any

import numba

from kafkalog.codec.framing import BATCH_MAGIC
from kafkalog.codec.kernels.crc import checksum
from kafkalog.codec.kernels.jit import compiled, load_big
from kafkalog.codec.kernels.leaves import read_fixed
from kafkalog.codec.kernels.tables import HeaderColumn
from kafkalog.codec.model import BATCH, LOG_OVERHEAD

__all__ = ["batch_size", "read_header", "scan_batches"]

_PLACES = tuple(field.position for field in BATCH.fields)
_SIZES = tuple(field.size for field in BATCH.fields)
_SIZE_AT = BATCH.position("batch_length")
_MAGIC_AT, _MAGIC = BATCH.position("magic"), BATCH_MAGIC
_CRC_AT, _CRC_END = BATCH.position("crc"), BATCH.end("crc")
_OVERHEAD, _HEADER = LOG_OVERHEAD.size, BATCH.size
_load8, _load32 = load_big[8], load_big[32]


@compiled(inline=True, declared=BATCH.fields)
def batch_size(here: int, left: int, largest: int, check: bool) -> int:
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
def read_header(here: int, position: int, headers: Any, number: int) -> None:
    """The fields of the batch at an address as column `number`, and after them its position."""
    for row in range(len(_PLACES)):
        headers[row, number] = read_fixed(here + _PLACES[row], _SIZES[row])
    headers[HeaderColumn.CRC, number] = numba.int64(_load32(here + _CRC_AT)) & 0xFFFFFFFF
    headers[HeaderColumn.POSITION, number] = position


@compiled("int64(int64, int64, int64, boolean, int64[:,::1])", declared=BATCH.fields)
def scan_batches(address: int, size: int, largest: int, check: bool, headers: Any) -> int:
    """The headers of the batches in `size` bytes at `address`, a column each; how many there are before anything odd.

    `headers` is a table of `HeaderColumn`, whose positions count from the address.  No batch may be larger than
    `largest` bytes; `check` is off where checksums need no comparing.
    """
    position = 0
    count = 0
    while count < headers.shape[1]:
        whole = batch_size(address + position, size - position, largest, check)
        if whole == 0:
            return count
        read_header(address + position, position, headers, count)
        count += 1
        position += whole
    return count
