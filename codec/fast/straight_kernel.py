"""From the bytes of a log to Arrow's buffers in one pass: each batch is checked and decoded while it is near.

It takes plain batches that are sound and in order, one behind the other, and stops without a judgement before anything
else: compressed ones, markers, damage, a batch that is cut.
"""

from __future__ import annotations

from typing import Any

from kafkalog.codec.fast.decode_kernel import COUNTERS, SINKS, SMALLEST_HEADER, take_batch
from kafkalog.codec.fast.machine import compiled
from kafkalog.codec.fast.stretch_kernel import SMALLEST_RECORD, is_ordinary
from kafkalog.codec.fast.walk_kernel import FIELDS, note_header, sound_size
from kafkalog.codec.model import BATCH, CODEC_MASK

__all__ = ["straight"]

_BASE, _LAST_DELTA, _ATTRIBUTES, _COUNT = (
    FIELDS.index(name) for name in ("base_offset", "last_offset_delta", "attributes", "records_count")
)
_ROWS, _HEADERS = COUNTERS.index("rows"), COUNTERS.index("headers")
_DATA = tuple(COUNTERS.index(name) for name in ("key", "value", "header_key", "header_value"))
_HEADER, _CODEC_MASK = BATCH.size, int(CODEC_MASK)
_DECLARED = (FIELDS, BATCH.fields, SINKS, COUNTERS, _CODEC_MASK, SMALLEST_RECORD, SMALLEST_HEADER)


@compiled(inline=True, declared=_DECLARED)
def _has_room(records: int, content: int, counters: Any, rooms: Any) -> bool:
    """Whether buffers have room for a batch whatever its bytes hold."""
    if counters[_ROWS] + records > rooms[_ROWS] or counters[_HEADERS] + content // SMALLEST_HEADER > rooms[_HEADERS]:
        return False
    for counter in _DATA:  # noqa: SIM110 - compiled
        if counters[counter] + content > rooms[counter]:
            return False
    return True


@compiled(
    "UniTuple(int64, 2)(int64, int64, int64, int64[:,::1], int64, int64, int64, int64, int64, int64, int64, "
    "int64[::1], int64[::1], int64[::1], int64[::1])",
    declared=_DECLARED,
)
def straight(
    address: int, size: int, largest: int, table: Any, expected: int, base: int, end: int, flags: int,
    most_records: int, most_headers: int, record_bytes: int, rooms: Any, sinks: Any, counters: Any, kept: Any,
) -> tuple[int, int]:  # fmt: skip
    """Append the records of the batches in `size` bytes at an address; how many, and whether the next one lacks room.

    `largest`, `table`, `expected`, `base`, `end` and `flags` are those of `walk` and `ordinary`; where room lacks, the
    column behind those of the batches is that of the next.  No batch may have more than `most_records`, no record more
    than `most_headers`, all together no more than `record_bytes`.  `rooms` says for each of the counters of what was
    filled up to where there is room.  `kept` gets the rows of each batch.
    """
    position = count = 0
    low = expected
    before = counters.copy()
    while count < table.shape[1]:
        here = address + position
        whole = sound_size(here, size - position, largest, True)
        if whole == 0:
            return count, 0
        note_header(here, position, table, count)
        records, content = table[_COUNT, count], whole - _HEADER
        if (
            not is_ordinary(table, count, low, base, end, flags)
            or table[_ATTRIBUTES, count] & _CODEC_MASK != 0
            or records < 0 or records > most_records or records > content // SMALLEST_RECORD
        ):  # fmt: skip
            return count, 0
        if content > record_bytes or not _has_room(records, content, counters, rooms):
            return count, 1
        before[:] = counters
        if not take_batch(here + _HEADER, here + whole, table, count, low, end, most_headers, sinks, counters):
            counters[:] = before
            return count, 0
        kept[count] = counters[_ROWS] - before[_ROWS]
        record_bytes -= content
        low = table[_BASE, count] + table[_LAST_DELTA, count] + 1
        position += whole
        count += 1
    return count, 0
