"""From the bytes of a log to Arrow's buffers in one pass: each batch is checked and decoded while it is near.

It takes batches that are sound and in order, one behind the other, and stops without a judgement before anything else:
markers, damage, a batch that is cut or compressed in a way that is not decompressed here.
"""

from __future__ import annotations

from typing import Any

from kafkalog.codec.kernels.decode_records import COUNTERS, SINKS, take_batch
from kafkalog.codec.kernels.decompress import lz4_frame, zstd_frame
from kafkalog.codec.kernels.jit import compiled
from kafkalog.codec.kernels.scan_batches import FIELDS, note_header, sound_size
from kafkalog.codec.kernels.select_batches import is_ordinary
from kafkalog.codec.kernels.snappy import snappy_stream
from kafkalog.codec.model import BATCH, CODEC_MASK, Codec
from kafkalog.codec.record_shape import SMALLEST_HEADER, SMALLEST_RECORD

__all__ = ["TOOLS", "straight"]

_BASE, _LAST_DELTA, _ATTRIBUTES, _COUNT = (
    FIELDS.index(name) for name in ("base_offset", "last_offset_delta", "attributes", "records_count")
)
_ROWS, _HEADERS = COUNTERS.index("rows"), COUNTERS.index("headers")
_DATA = tuple(COUNTERS.index(name) for name in ("key", "value", "header_key", "header_value"))
TOOLS = ("lz4_function", "zstd_function", "zstd_context", "zstd_window", "scratch", "scratch_size")
"""Addresses of C functions, 0 for none, of a context and of scratch memory, and what they are limited to."""
_LZ4_FUNCTION, _ZSTD_FUNCTION, _ZSTD_CONTEXT, _ZSTD_WINDOW, _SCRATCH, _SCRATCH_SIZE = range(len(TOOLS))
_SNAPPY, _LZ4, _ZSTD = int(Codec.SNAPPY), int(Codec.LZ4), int(Codec.ZSTD)
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


@compiled(declared=_DECLARED)
def _opened(codec: int, source: int, size: int, tools: Any) -> int:
    """Bytes that were decompressed into the scratch memory of `tools`, or -1."""
    target, room = tools[_SCRATCH], tools[_SCRATCH_SIZE]
    if codec == _LZ4 and tools[_LZ4_FUNCTION] != 0:
        return lz4_frame(tools[_LZ4_FUNCTION], source, size, target, room)
    if codec == _ZSTD and tools[_ZSTD_FUNCTION] != 0:
        return zstd_frame(
            tools[_ZSTD_FUNCTION], tools[_ZSTD_CONTEXT], source, size, target, room, room, tools[_ZSTD_WINDOW]
        )
    return snappy_stream(source, size, target, room) if codec == _SNAPPY else -1


@compiled(
    "UniTuple(int64, 3)(int64, int64, int64, int64[:,::1], int64, int64, int64, int64, int64, int64, int64, "
    "int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])",
    declared=_DECLARED,
)
def straight(
    address: int, size: int, largest: int, table: Any, expected: int, base: int, end: int, flags: int,
    most_records: int, most_headers: int, record_bytes: int, tools: Any, rooms: Any, sinks: Any, counters: Any,
    kept: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Append the records of the batches in `size` bytes at an address.

    Gives how many batches that were, their record bytes, and those of the next one if that is what lacks room, else 0.
    `largest`, `table`, `expected`, `base`, `end` and `flags` are those of `walk` and `ordinary`; where room lacks, the
    column behind those of the batches is that of the next.  No batch may have more than `most_records`, no record more
    than `most_headers`, all together no more than `record_bytes`.  `tools` are what decompressing needs, see `TOOLS`.
    `rooms` says for each of the counters of what was filled up to where there is room.  `kept` gets the rows of each
    batch.
    """
    position = count = total = 0
    low = expected
    before = counters.copy()
    while count < table.shape[1]:
        here = address + position
        whole = sound_size(here, size - position, largest, True)
        if whole == 0:
            break
        note_header(here, position, table, count)
        if not is_ordinary(table, count, low, base, end, flags):
            break
        first, content, codec = here + _HEADER, whole - _HEADER, table[_ATTRIBUTES, count] & _CODEC_MASK
        if codec != 0:
            content = _opened(codec, first, content, tools)
            first = tools[_SCRATCH]
        records = table[_COUNT, count]
        if content < 0 or records < 0 or records > most_records or records > content // SMALLEST_RECORD:
            break
        if total + content > record_bytes or not _has_room(records, content, counters, rooms):
            return count, total, content
        before[:] = counters
        if not take_batch(first, first + content, table, count, low, end, most_headers, sinks, counters):
            counters[:] = before
            break
        kept[count] = counters[_ROWS] - before[_ROWS]
        total += content
        low = table[_BASE, count] + table[_LAST_DELTA, count] + 1
        position += whole
        count += 1
    return count, total, 0
