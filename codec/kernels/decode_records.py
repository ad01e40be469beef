"""The compiled way from record bytes to Arrow's buffers, in one pass over many batches.

Written for exactly the declared record (see `record_shape`) it copies each wanted field straight to where Arrow wants
it.  It stops before the first record with a fault, without a judgement: the readers that can name faults take over.
"""

from __future__ import annotations

from typing import Any

import numba

from kafkalog.codec.derive import OpKind
from kafkalog.codec.kernels.jit import compiled, copy, load, store
from kafkalog.codec.kernels.leaves import put, put_view, read_bytes, read_number, read_varint
from kafkalog.codec.kernels.tables import ArrowBuffer, Filled, HeaderColumn
from kafkalog.codec.model import BATCH, MAX_SEQUENCE, MICROSECONDS, TIMESTAMP_TYPE_FLAG
from kafkalog.codec.record_shape import RECORD, SMALLEST_HEADER

__all__ = ["decode_batches", "decode_records", "note", "skip_headers"]

_VARLONG, _BYTES, _STRING = int(OpKind.VARLONG), int(OpKind.BYTES), int(OpKind.STRING)
_LARGEST_MS = (2**63 - 1) // MICROSECONDS
_MAX_SEQUENCE = numba.int32(MAX_SEQUENCE)
_load8, _load32 = load[8], load[32]
_store8, _store32, _store64 = store[8], store[32], store[64]
_APPEND_TIME = int(TIMESTAMP_TYPE_FLAG)
_DECLARED = (RECORD, BATCH.fields, _APPEND_TIME, MICROSECONDS)


@compiled(inline=True)
def note(target: Any, source: Any) -> None:
    """Element by element: assigning a slice would allocate memory, and with it need numba's runtime."""
    for number in range(source.shape[0]):
        target[number] = source[number]


@compiled(inline=True, declared=_DECLARED)
def _sequence(base: int, delta: int) -> int:
    """`increment_sequence` in Java's 32-bit arithmetic."""
    if base < 0:
        return -1
    first, by = numba.int32(base), numba.int32(delta)
    if first <= numba.int32(_MAX_SEQUENCE - by):
        return numba.int32(first + by)  # type: ignore[return-value]
    return numba.int32(by - numba.int32(_MAX_SEQUENCE - first) - numba.int32(1))  # type: ignore[return-value]


@compiled(declared=_DECLARED)
def skip_headers(cursor: int, end: int, count: int) -> int:
    """Position after the headers, or -1."""
    for _ in range(count):
        size, cursor, fault = read_bytes(_STRING, cursor, end)
        if fault != 0:
            return -1
        cursor += size
        size, cursor, fault = read_bytes(_BYTES, cursor, end)
        if fault != 0:
            return -1
        cursor += max(size, 0)
    return cursor


@compiled(declared=_DECLARED)
def _decode_headers(cursor: int, end: int, count: int, buffers: Any, filled: Any) -> int:
    """Copy headers after those that are there; the position after them, or -1, and then some may be filled."""
    for _ in range(count):
        size, cursor, fault = read_bytes(_STRING, cursor, end)
        if fault != 0:
            return -1
        copy(buffers[ArrowBuffer.HEADER_KEY] + filled[Filled.HEADER_KEY], cursor, size)
        cursor += size
        filled[Filled.HEADER_KEY] += size
        size, cursor, fault = read_bytes(_BYTES, cursor, end)
        if fault != 0:
            return -1
        if size >= 0:
            copy(buffers[ArrowBuffer.HEADER_VALUE] + filled[Filled.HEADER_VALUE], cursor, size)
            cursor += size
            filled[Filled.HEADER_VALUE] += size
            _store8(buffers[ArrowBuffer.HEADER_VALUE_VALID] + filled[Filled.HEADERS], 1)
        else:
            _store8(buffers[ArrowBuffer.HEADER_VALUE_VALID] + filled[Filled.HEADERS], 0)
            filled[Filled.HEADER_VALUE_NULLS] += 1
        filled[Filled.HEADERS] += 1
        _store32(buffers[ArrowBuffer.HEADER_KEY_ENDS] + 4 * filled[Filled.HEADERS], filled[Filled.HEADER_KEY])
        _store32(buffers[ArrowBuffer.HEADER_VALUE_ENDS] + 4 * filled[Filled.HEADERS], filled[Filled.HEADER_VALUE])
    return cursor


@compiled(declared=_DECLARED)
def _forget_headers(row: int, buffers: Any, filled: Any) -> None:
    """Drop what the buffers say of headers from a row on, as if there were none."""
    headers = numba.int64(_load32(buffers[ArrowBuffer.HEADER_ENDS] + 4 * row))
    for header in range(headers, filled[Filled.HEADERS]):
        if _load8(buffers[ArrowBuffer.HEADER_VALUE_VALID] + header) == numba.uint64(0):
            filled[Filled.HEADER_VALUE_NULLS] -= 1
    filled[Filled.HEADERS] = headers
    filled[Filled.HEADER_KEY] = numba.int64(_load32(buffers[ArrowBuffer.HEADER_KEY_ENDS] + 4 * headers))
    filled[Filled.HEADER_VALUE] = numba.int64(_load32(buffers[ArrowBuffer.HEADER_VALUE_ENDS] + 4 * headers))


@compiled(
    "UniTuple(int64, 2)(int64, int64, int64, int64, int64[:,:], int64, int64, int64, int64, int64[::1], int64[::1])",
    declared=_DECLARED,
)
def decode_records(  # noqa: C901 - one record after the other, field by field: calls would cost what the kernel is for
    first: int, end: int, most: int, most_bytes: int, headers: Any, number: int, low: int, high: int, largest: int,
    buffers: Any, filled: Any,
) -> tuple[int, int]:  # fmt: skip
    """Append at most `most` records from address `first` on; how many those were, and the address after them.

    `headers` is a table of `HeaderColumn`, `number` the batch that they are of, whose record bytes end at `end`.
    Wanted are the offsets from `low` up to, not including, `high`; the other records are read and left out.  `largest`
    caps the headers of a record.  It stops before a record that ends more than `most_bytes` after `first`, and before
    one with a fault.  The buffers need room for all that the bytes can hold.
    """
    base_offset = headers[HeaderColumn.BASE_OFFSET, number]
    base_timestamp = headers[HeaderColumn.BASE_TIMESTAMP, number]
    append_time = headers[HeaderColumn.MAX_TIMESTAMP, number]
    appended = headers[HeaderColumn.ATTRIBUTES, number] & _APPEND_TIME != 0
    base_sequence = headers[HeaderColumn.BASE_SEQUENCE, number]
    offsets, sequences = buffers[ArrowBuffer.OFFSET], buffers[ArrowBuffer.SEQUENCE]
    timestamps, moments_valid = buffers[ArrowBuffer.TIMESTAMP], buffers[ArrowBuffer.TIMESTAMP_VALID]
    header_ends = buffers[ArrowBuffer.HEADER_ENDS]
    key_ends, keys, key_valid = buffers[ArrowBuffer.KEY_ENDS], buffers[ArrowBuffer.KEY], buffers[ArrowBuffer.KEY_VALID]
    value_ends, values = buffers[ArrowBuffer.VALUE_ENDS], buffers[ArrowBuffer.VALUE]
    value_valid = buffers[ArrowBuffer.VALUE_VALID]
    key_views, value_views = buffers[ArrowBuffer.KEY_VIEWS], buffers[ArrowBuffer.VALUE_VIEWS]
    viewed, viewed_number = buffers[ArrowBuffer.VIEWED], buffers[ArrowBuffer.VIEWED_NUMBER]
    row, key_bytes, value_bytes = filled[Filled.ROWS], filled[Filled.KEY], filled[Filled.VALUE]
    key_nulls, value_nulls, timestamp_nulls, keys_viewed, values_viewed = 0, 0, 0, 0, 0
    latest = min(end, first + most_bytes)
    behind, done = first, 0
    while done < most:
        length, cursor, fault = read_varint(behind, end)
        if fault != 0 or length < 1 or length > latest - cursor:
            break
        stop = cursor + length
        cursor += 1
        timestamp_delta, cursor, fault = read_number(_VARLONG, cursor, stop)
        if fault != 0:
            break
        offset_delta, cursor, fault = read_varint(cursor, stop)
        if fault != 0:
            break

        key_size, cursor, fault = read_bytes(_BYTES, cursor, stop)
        if fault != 0:
            break
        key_end, value_end = key_bytes, value_bytes
        key_viewed, value_viewed = False, False
        if keys != 0:
            key_end = put(row, key_size, cursor, key_ends, key_valid, keys, key_bytes)
        elif key_views != 0:
            key_viewed = put_view(row, key_size, cursor, key_views, key_valid, viewed, viewed_number)
        cursor += max(key_size, 0)

        value_size, cursor, fault = read_bytes(_BYTES, cursor, stop)
        if fault != 0:
            break
        if values != 0:
            value_end = put(row, value_size, cursor, value_ends, value_valid, values, value_bytes)
        elif value_views != 0:
            value_viewed = put_view(row, value_size, cursor, value_views, value_valid, viewed, viewed_number)
        cursor += max(value_size, 0)

        count, cursor, fault = read_varint(cursor, stop)
        if fault != 0 or count < 0:
            break
        offset = base_offset + offset_delta
        wanted = low <= offset < high  # the next record is written over one that is not
        if count > 0:
            if count > (stop - cursor) // SMALLEST_HEADER or count > largest:
                break
            if header_ends != 0:
                cursor = _decode_headers(cursor, stop, count, buffers, filled)
                if cursor != stop or not wanted:
                    _forget_headers(row, buffers, filled)
            else:
                cursor = skip_headers(cursor, stop, count)
        if cursor != stop:
            break
        if wanted:
            key_bytes, value_bytes = key_end, value_end
            key_nulls += key_size < 0
            value_nulls += value_size < 0
            keys_viewed += key_viewed
            values_viewed += value_viewed
            if header_ends != 0:
                _store32(header_ends + 4 * row + 4, filled[Filled.HEADERS])
            if offsets != 0:
                _store64(offsets + 8 * row, offset)
            if sequences != 0:
                _store32(sequences + 4 * row, _sequence(base_sequence, offset_delta))
            if timestamps != 0:
                moment = append_time if appended else base_timestamp + timestamp_delta
                absurd = moment > _LARGEST_MS or moment < -_LARGEST_MS
                _store64(timestamps + 8 * row, moment * MICROSECONDS)
                _store8(moments_valid + row, not absurd)
                timestamp_nulls += absurd
            row += 1
        behind = stop
        done += 1
    filled[Filled.ROWS], filled[Filled.KEY], filled[Filled.VALUE] = row, key_bytes, value_bytes
    # what is noted of columns that are not wanted is never asked for
    filled[Filled.KEY_NULLS] += key_nulls
    filled[Filled.VALUE_NULLS] += value_nulls
    filled[Filled.TIMESTAMP_NULLS] += timestamp_nulls
    filled[Filled.KEY_VIEWED] += keys_viewed
    filled[Filled.VALUE_VIEWED] += values_viewed
    return done, behind


@compiled(
    "int64(int64[::1], int64[::1], int64[:,:], int64, int64[::1], int64, int64, int64[::1], int64[::1], int64[::1], "
    "int64[::1])",
    declared=_DECLARED,
)
def decode_batches(
    addresses: Any, sizes: Any, headers: Any, start: int, lows: Any, high: int, largest: int, buffers: Any, filled: Any,
    rows: Any, before: Any,
) -> int:  # fmt: skip
    """Append the records of batches; how many batches could be taken before a faulty one, of which nothing is left.

    `addresses` and `sizes` say where the record bytes are, `headers` has the batches from number `start` on.  Wanted
    are the offsets from `lows`, of each batch, up to, not including, `high`.  `rows` gets how many rows each batch has.
    `before` is memory for as much as `filled` holds: kernels allocate none.  The others are those of `decode_records`.
    """
    for number in range(addresses.shape[0]):
        note(before, filled)
        first, size, count = addresses[number], sizes[number], headers[HeaderColumn.RECORDS_COUNT, start + number]
        done, behind = decode_records(
            first, first + size, count, size, headers, start + number, lows[number], high, largest, buffers, filled
        )
        if done < count or behind != first + size:
            note(filled, before)
            return number
        rows[number] = filled[Filled.ROWS] - before[Filled.ROWS]
    return len(addresses)
