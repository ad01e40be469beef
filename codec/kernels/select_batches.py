"""How far a run of batches is alike, from its headers alone: in order, of one codec, within bounds."""

from __future__ import annotations

from typing import Any

from kafkalog.codec.kernels.jit import compiled
from kafkalog.codec.kernels.tables import EMPTY, UNDECODED, HeaderColumn
from kafkalog.codec.model import BATCH, CODEC_MASK, LAST_CODEC, LOG_OVERHEAD
from kafkalog.codec.record_shape import SMALLEST_RECORD
from kafkalog.codec.rules import MAX_RELATIVE_OFFSET

__all__ = ["consecutive_batches", "fitting_batches", "is_next", "locate_records", "same_codec"]

_OVERHEAD, _HEADER = LOG_OVERHEAD.size, BATCH.size
_CODEC_MASK, _LAST_CODEC = int(CODEC_MASK), int(LAST_CODEC)
_MAX_RELATIVE_OFFSET = MAX_RELATIVE_OFFSET
_DECLARED = (BATCH.fields, _CODEC_MASK, _LAST_CODEC, SMALLEST_RECORD, MAX_RELATIVE_OFFSET)


@compiled(inline=True, declared=_DECLARED)
def is_next(headers: Any, number: int, low: int, base: int, end: int, flags: int) -> bool:
    """Whether a batch is in order where `low` is the next offset, has none of `flags`, and begins below `end`."""
    first = headers[HeaderColumn.BASE_OFFSET, number]
    last = first + headers[HeaderColumn.LAST_OFFSET_DELTA, number]
    if first < 0 or first > last or last - base > _MAX_RELATIVE_OFFSET:
        return False
    if headers[HeaderColumn.ATTRIBUTES, number] & flags != 0:
        return False
    return last >= low and first < end and (number == 0 or low < end)


@compiled("int64(int64[:,:], int64, int64, int64, int64, int64[::1])", declared=_DECLARED)
def consecutive_batches(headers: Any, expected: int, base: int, end: int, flags: int, lows: Any) -> int:
    """How many batches from the first on are in order, have none of `flags`, and begin below `end`.

    `expected` is the offset that should come first, `base` the segment's; `lows` gets the first offset wanted of each.
    """
    low = expected
    for number in range(headers.shape[1]):
        if not is_next(headers, number, low, base, end, flags):
            return number
        lows[number] = low
        low = headers[HeaderColumn.BASE_OFFSET, number] + headers[HeaderColumn.LAST_OFFSET_DELTA, number] + 1
    return headers.shape[1]  # type: ignore[no-any-return]


@compiled("UniTuple(int64, 2)(int64[:,:], int64, int64, int64)", declared=_DECLARED)
def same_codec(headers: Any, start: int, most_records: int, most_bytes: int) -> tuple[int, int]:
    """The codec of batch `start`, `EMPTY` or `UNDECODED`, and the number after the last of those that are the same."""
    kind = 0
    for number in range(start, headers.shape[1]):
        count = headers[HeaderColumn.RECORDS_COUNT, number]
        size = headers[HeaderColumn.BATCH_LENGTH, number] + _OVERHEAD
        this = headers[HeaderColumn.ATTRIBUTES, number] & _CODEC_MASK
        if count < 0 or count > most_records or this > _LAST_CODEC or size > most_bytes:
            this = UNDECODED
        elif count == 0:
            this = EMPTY
        if number == start:
            kind = this
        elif this != kind:
            return kind, number
    return kind, headers.shape[1]


@compiled("UniTuple(int64, 3)(int64[:,:], int64, int64[::1], int64, int64, int64)", declared=_DECLARED)
def fitting_batches(
    headers: Any, start: int, sizes: Any, least: int, most_rows: int, most_bytes: int
) -> tuple[int, int, int]:
    """How many batches from `start` on have no more records and, by `sizes`, bytes; the room for rows, and the bytes.

    `least` of them are taken whatever they have.  The room is for no more rows than the bytes can hold.
    """
    rows = room = total = 0
    for number in range(sizes.shape[0]):
        count = headers[HeaderColumn.RECORDS_COUNT, start + number]
        if number >= least and (rows + count > most_rows or total + sizes[number] > most_bytes):
            return number, room, total
        rows += count
        room += min(count, sizes[number] // SMALLEST_RECORD + 1)
        total += sizes[number]
    return sizes.shape[0], room, total


@compiled("int64(int64[:,:], int64, int64, int64, int64[::1], int64[::1])", declared=_DECLARED)
def locate_records(headers: Any, base: int, largest: int, budget: int, addresses: Any, sizes: Any) -> int:
    """Where the record bytes of the first batches lie, at least of one, of more while they have `budget` bytes at most.

    None of them has more than `largest` bytes; `base` is the address of the window.
    """
    total = 0
    for number in range(headers.shape[1]):
        size = headers[HeaderColumn.BATCH_LENGTH, number] + _OVERHEAD - _HEADER
        total += size
        if size > largest or (number > 0 and total > budget):
            return number
        addresses[number] = base + headers[HeaderColumn.POSITION, number] + _HEADER
        sizes[number] = size
    return headers.shape[1]  # type: ignore[no-any-return]
