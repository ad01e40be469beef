"""From the bytes of a log to Arrow's buffers in one pass: each batch is checked and decoded while it is near.

It takes batches that are sound and in order, one after the other, and stops without a judgement before anything else:
markers, damage, a batch that is cut or compressed in a way that is not decompressed here.
"""

from __future__ import annotations

from typing import Any

from kafkalog.codec.kernels.decode_records import decode_records, note
from kafkalog.codec.kernels.decompress import decompress_lz4, decompress_zstd
from kafkalog.codec.kernels.gzip import decompress_gzip
from kafkalog.codec.kernels.jit import compiled, load_big
from kafkalog.codec.kernels.scan_batches import batch_size, read_header
from kafkalog.codec.kernels.select_batches import is_next
from kafkalog.codec.kernels.snappy import decompress_snappy
from kafkalog.codec.kernels.tables import MEMORY_IS_FULL, ArrowBuffer, Decompressor, Filled, HeaderColumn, Viewed
from kafkalog.codec.model import BATCH, CODEC_MASK, Codec
from kafkalog.codec.record_shape import SMALLEST_HEADER, SMALLEST_RECORD

__all__ = ["decode_window"]

_GZIP, _SNAPPY, _LZ4, _ZSTD = int(Codec.GZIP), int(Codec.SNAPPY), int(Codec.LZ4), int(Codec.ZSTD)
_MEMORY_IS_FULL = MEMORY_IS_FULL
_HEADER, _CODEC_MASK = BATCH.size, int(CODEC_MASK)
_DECLARED = (BATCH.fields, _CODEC_MASK, SMALLEST_RECORD, SMALLEST_HEADER)
_load64 = load_big[64]
_OFFSET_BYTES = 8


@compiled(inline=True, declared=_DECLARED)
def _fits(records: int, record_bytes: int, filled: Any, capacity: Any) -> bool:
    """Whether buffers have room for a batch whatever its bytes hold."""
    if filled[Filled.ROWS] + records > capacity[Filled.ROWS]:
        return False
    if filled[Filled.HEADERS] + record_bytes // SMALLEST_HEADER > capacity[Filled.HEADERS]:
        return False
    return (  # type: ignore[no-any-return]
        filled[Filled.KEY] + record_bytes <= capacity[Filled.KEY]
        and filled[Filled.VALUE] + record_bytes <= capacity[Filled.VALUE]
        and filled[Filled.HEADER_KEY] + record_bytes <= capacity[Filled.HEADER_KEY]
        and filled[Filled.HEADER_VALUE] + record_bytes <= capacity[Filled.HEADER_VALUE]
    )


@compiled(declared=_DECLARED)
def _decompress(codec: int, source: int, size: int, decompressor: Any) -> int:
    """Bytes that were decompressed into the decompressor's memory, or -1."""
    target, room = decompressor[Decompressor.MEMORY], decompressor[Decompressor.MEMORY_BYTES]
    if codec == _LZ4 and decompressor[Decompressor.LZ4_FUNCTION] != 0:
        return decompress_lz4(decompressor[Decompressor.LZ4_FUNCTION], source, size, target, room)
    if codec == _ZSTD and decompressor[Decompressor.ZSTD_FUNCTION] != 0:
        return decompress_zstd(
            decompressor[Decompressor.ZSTD_FUNCTION], decompressor[Decompressor.ZSTD_CONTEXT], source, size, target,
            room, room, decompressor[Decompressor.ZSTD_WINDOW_BYTES],
        )  # fmt: skip
    if codec == _GZIP and decompressor[Decompressor.GZIP_FUNCTION] != 0:
        return decompress_gzip(
            decompressor[Decompressor.GZIP_FUNCTION], decompressor[Decompressor.GZIP_STATE], source, size, target, room
        )
    return decompress_snappy(source, size, target, room) if codec == _SNAPPY else -1


@compiled(
    "UniTuple(int64, 5)(int64, int64, int64, int64[:,::1], int64, int64, int64, int64, int64, int64, int64, "
    "int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])",
    declared=_DECLARED,
)
def decode_window(
    address: int, size: int, largest: int, headers: Any, expected: int, highest: int, end: int, flags: int,
    most_records: int, most_headers: int, most_bytes: int, decompressor: Any, viewed: Any, capacity: Any, buffers: Any,
    filled: Any, rows: Any, before: Any,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """Append the records of the batches in `size` bytes at an address.

    Gives how many batches that were, how many bytes, the offset behind them, their record bytes, and those of the next
    one if that is what lacks room, else 0, or `MEMORY_IS_FULL`.
    `largest` and `headers` are those of `scan_batches`, `expected`, `highest`, `end` and `flags` those of
    `consecutive_batches`; where room lacks, the column after those of the batches is that of the next.  No batch may
    have more than `most_records`, no record more than `most_headers`, all together no more than `most_bytes`.  Memory
    of `decompressor` that `viewed` names moves on behind each batch.  `capacity` says for each of `Filled` up to where
    there is room.  `rows` gets how many rows each batch has; `before` is memory for as much as `filled` holds: kernels
    allocate none.
    """
    position = count = total = 0
    low = expected
    has_views = viewed[Viewed.WINDOW] != 0
    while count < headers.shape[1]:
        here = address + position
        whole = batch_size(here, size - position, largest, True)
        if whole == 0:
            break
        read_header(here, position, headers, count)
        following = -1
        if headers[HeaderColumn.BASE_OFFSET, count] != low and size - position - whole >= _OFFSET_BYTES:
            following = _load64(here + whole)
        if not is_next(headers, count, following, low, highest, end, flags):
            break
        first, record_bytes = here + _HEADER, whole - _HEADER
        codec, records = (
            headers[HeaderColumn.ATTRIBUTES, count] & _CODEC_MASK,
            headers[HeaderColumn.RECORDS_COUNT, count],
        )
        if codec != 0:
            if decompressor[Decompressor.MEMORY] == 0:
                return count, position, low, total, _MEMORY_IS_FULL
            record_bytes = _decompress(codec, first, record_bytes, decompressor)
            first = decompressor[Decompressor.MEMORY]
            if record_bytes < 0 and has_views and first != viewed[Viewed.MEMORY]:
                return count, position, low, total, _MEMORY_IS_FULL
        if record_bytes < 0 or records < 0 or records > most_records or records > record_bytes // SMALLEST_RECORD:
            break
        if total + record_bytes > most_bytes or not _fits(records, record_bytes, filled, capacity):
            return count, position, low, total, record_bytes
        note(before, filled)
        if has_views:
            of_window = codec == 0
            buffers[ArrowBuffer.VIEWED] = viewed[Viewed.WINDOW if of_window else Viewed.MEMORY]
            buffers[ArrowBuffer.VIEWED_NUMBER] = viewed[Viewed.WINDOW_NUMBER if of_window else Viewed.MEMORY_NUMBER]
        done, behind = decode_records(
            first, first + record_bytes, records, record_bytes, headers, count, low, end, most_headers, buffers, filled
        )
        if done < records or behind != first + record_bytes:
            note(filled, before)
            break
        if has_views:
            viewed[Viewed.OF_WINDOW if codec == 0 else Viewed.OF_MEMORY] += 1
            if codec != 0:
                decompressor[Decompressor.MEMORY] += record_bytes
                decompressor[Decompressor.MEMORY_BYTES] -= record_bytes
        rows[count] = filled[Filled.ROWS] - before[Filled.ROWS]
        total += record_bytes
        low = headers[HeaderColumn.BASE_OFFSET, count] + headers[HeaderColumn.LAST_OFFSET_DELTA, count] + 1
        position += whole
        count += 1
    return count, position, low, total, 0
