"""How far a run of batches is alike, from its headers alone: in order, of one codec, within bounds."""

from __future__ import annotations

from typing import Any

from kafkalog.codec.kernels.jit import compiled
from kafkalog.codec.kernels.tables import EMPTY, UNDECODED, HeaderColumn
from kafkalog.codec.model import BATCH, CODEC_MASK, LAST_CODEC, LOG_OVERHEAD
from kafkalog.codec.record_shape import SMALLEST_RECORD

__all__ = ["consecutive_batches", "fitting_batches", "is_next", "locate_records", "same_codec"]

_OVERHEAD, _HEADER = LOG_OVERHEAD.size, BATCH.size
_CODEC_MASK, _LAST_CODEC = int(CODEC_MASK), int(LAST_CODEC)
_DECLARED = (BATCH.fields, _CODEC_MASK, _LAST_CODEC, SMALLEST_RECORD)


@compiled(inline=True, declared=_DECLARED)
def is_next(headers: Any, number: int, following: int, low: int, highest: int, end: int, flags: int) -> bool:
    """Whether a batch is beyond doubt where it should be: none of `flags`, begins below `end`, ends up to `highest`.

    `low` is the offset that should come next.  One that begins with another must be followed by one that begins behind
    it, with the offset `following`: what else it can be is for `codec.rules` to say.
    """
    first = headers[HeaderColumn.BASE_OFFSET, number]
    last = first + headers[HeaderColumn.LAST_OFFSET_DELTA, number]
    if first < 0 or first > last or last > highest:
        return False
    if headers[HeaderColumn.ATTRIBUTES, number] & flags != 0:
        return False
    if not 0 <= headers[HeaderColumn.RECORDS_COUNT, number] <= last - first + 1:
        return False
    if first != low and (first < low or following <= last):
        return False
    return last >= low and first < end and (number == 0 or low < end)


@compiled("int64(int64[:,:], int64, int64, int64, int64, int64[::1])", declared=_DECLARED)
def consecutive_batches(headers: Any, expected: int, highest: int, end: int, flags: int, lows: Any) -> int:
    """How many batches from the first on are in order, have none of `flags`, and begin below `end`.

    `expected` is the offset that should come first, `highest` the last one that the segment may have; `lows` gets the
    first offset wanted of each.
    """
    low = expected
    count = headers.shape[1]
    for number in range(count):
        following = headers[HeaderColumn.BASE_OFFSET, number + 1] if number + 1 < count else -1
        if not is_next(headers, number, following, low, highest, end, flags):
            return number
        lows[number] = low
        low = headers[HeaderColumn.BASE_OFFSET, number] + headers[HeaderColumn.LAST_OFFSET_DELTA, number] + 1
    return count  # type: ignore[no-any-return]


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
