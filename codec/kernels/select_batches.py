"""How far a run of batches is of one kind: decided in one pass over its headers, before anything is decoded."""

from __future__ import annotations

from typing import Any

from kafkalog.codec.kernels.jit import compiled
from kafkalog.codec.kernels.scan_batches import FIELDS
from kafkalog.codec.model import BATCH, CODEC_MASK, LOG_OVERHEAD, Codec
from kafkalog.codec.record_shape import SMALLEST_RECORD
from kafkalog.codec.rules import MAX_RELATIVE_OFFSET

__all__ = ["EMPTY", "ODD", "alike", "fitting", "is_ordinary", "ordinary", "places"]

EMPTY, ODD = -2, -1
"""What `alike` says of batches without a record, and of those that the compiled ways leave to others."""

_BASE = FIELDS.index("base_offset")
_LENGTH = FIELDS.index("batch_length")
_ATTRIBUTES = FIELDS.index("attributes")
_LAST_DELTA = FIELDS.index("last_offset_delta")
_COUNT = FIELDS.index("records_count")
_POSITION = len(FIELDS)
_OVERHEAD, _HEADER = LOG_OVERHEAD.size, BATCH.size
_CODEC_MASK, _LAST_CODEC = int(CODEC_MASK), int(max(Codec))
_MAX_RELATIVE_OFFSET = MAX_RELATIVE_OFFSET
_DECLARED = (FIELDS, BATCH.fields, _CODEC_MASK, _LAST_CODEC, SMALLEST_RECORD, MAX_RELATIVE_OFFSET)


@compiled(inline=True, declared=_DECLARED)
def is_ordinary(table: Any, number: int, low: int, base: int, end: int, flags: int) -> bool:
    """Whether a batch is in order where `low` is the next offset, has none of `flags`, and begins below `end`."""
    first = table[_BASE, number]
    last = first + table[_LAST_DELTA, number]
    if first < 0 or first > last or last - base > _MAX_RELATIVE_OFFSET or table[_ATTRIBUTES, number] & flags != 0:
        return False
    return last >= low and first < end and (number == 0 or low < end)


@compiled("int64(int64[:,:], int64, int64, int64, int64, int64[::1])", declared=_DECLARED)
def ordinary(table: Any, expected: int, base: int, end: int, flags: int, lows: Any) -> int:
    """How many batches from the first on are in order, have none of `flags`, and begin below `end`.

    `expected` is the offset that should come first, `base` the segment's; `lows` gets the first offset wanted of each.
    """
    low = expected
    for number in range(table.shape[1]):
        if not is_ordinary(table, number, low, base, end, flags):
            return number
        lows[number] = low
        low = table[_BASE, number] + table[_LAST_DELTA, number] + 1
    return table.shape[1]  # type: ignore[no-any-return]


@compiled("UniTuple(int64, 2)(int64[:,:], int64, int64, int64)", declared=_DECLARED)
def alike(table: Any, start: int, most_records: int, most_bytes: int) -> tuple[int, int]:
    """The codec of batch `start`, `EMPTY` or `ODD`, and the number behind the last of those that are the same."""
    kind = 0
    for number in range(start, table.shape[1]):
        count, codec = table[_COUNT, number], table[_ATTRIBUTES, number] & _CODEC_MASK
        this = codec
        if count < 0 or count > most_records or codec > _LAST_CODEC or table[_LENGTH, number] + _OVERHEAD > most_bytes:
            this = ODD
        elif count == 0:
            this = EMPTY
        if number == start:
            kind = this
        elif this != kind:
            return kind, number
    return kind, table.shape[1]


@compiled("UniTuple(int64, 3)(int64[:,:], int64, int64[::1], int64, int64, int64)", declared=_DECLARED)
def fitting(table: Any, start: int, sizes: Any, least: int, most_rows: int, most_bytes: int) -> tuple[int, int, int]:
    """How many batches from `start` on have no more records and, by `sizes`, bytes; the room for rows, and the bytes.

    `least` of them are taken whatever they have.  The room is for no more rows than the bytes can hold.
    """
    rows = room = total = 0
    for number in range(sizes.shape[0]):
        count = table[_COUNT, start + number]
        if number >= least and (rows + count > most_rows or total + sizes[number] > most_bytes):
            return number, room, total
        rows += count
        room += min(count, sizes[number] // SMALLEST_RECORD + 1)
        total += sizes[number]
    return sizes.shape[0], room, total


@compiled("int64(int64[:,:], int64, int64, int64, int64[::1], int64[::1])", declared=_DECLARED)
def places(table: Any, base: int, largest: int, budget: int, addresses: Any, sizes: Any) -> int:
    """Where the record bytes of the first batches lie, at least of one, of more while they have `budget` bytes at most.

    None of them has more than `largest` bytes; `base` is the address of the window.
    """
    total = 0
    for number in range(table.shape[1]):
        size = table[_LENGTH, number] + _OVERHEAD - _HEADER
        total += size
        if size > largest or (number > 0 and total > budget):
            return number
        addresses[number] = base + table[_POSITION, number] + _HEADER
        sizes[number] = size
    return table.shape[1]  # type: ignore[no-any-return]
