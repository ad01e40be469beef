"""The compiled way from record bytes to Arrow's buffers, in one pass over many batches.

Written for exactly the declared record (see `record_shape`) it copies each wanted field straight to where Arrow wants
it.  It stops before the first record with a fault, without a judgement: the readers that can name faults take over.
"""

from __future__ import annotations

from typing import Any

import numba

from kafkalog.codec.derive import OpKind
from kafkalog.codec.kernels.jit import compiled, copy, copy_whole, load, store
from kafkalog.codec.kernels.leaves import (
    put,
    put_short_view,
    put_view,
    read_bytes,
    read_number,
    read_varint,
    short_varint,
    zigzag,
)  # fmt: skip
from kafkalog.codec.kernels.tables import ArrowBuffer, Filled, HeaderColumn
from kafkalog.codec.model import BATCH, MAX_SEQUENCE, MICROSECONDS, TIMESTAMP_TYPE_FLAG
from kafkalog.codec.record_shape import RECORD, SMALLEST_HEADER, SMALLEST_RECORD

__all__ = ["decode_batches", "decode_records", "note", "skip_headers"]

_VARLONG, _BYTES, _STRING = int(OpKind.VARLONG), int(OpKind.BYTES), int(OpKind.STRING)
_LARGEST_MS = (2**63 - 1) // MICROSECONDS
_MAX_SEQUENCE = numba.int32(MAX_SEQUENCE)
_load8, _load32 = load[8], load[32]
_store8, _store32, _store64 = store[8], store[32], store[64]
_APPEND_TIME = int(TIMESTAMP_TYPE_FLAG)
_AHEAD = 32
"""Bytes that are there, whatever a record is: several numbers can be read, and bytes copied that are not its own."""
_MOST_DELTA = 2**28
"""What a number of four bytes holds, at most."""
_NULL = 1
"""The size of what is null, as it is stored."""
_OF_KEYS = int(Filled.KEY_NULLS), int(Filled.KEY_VIEWED)
_OF_VALUES = int(Filled.VALUE_NULLS), int(Filled.VALUE_VIEWED)
_UNUSUAL = (0, 0, 0, 0, 0, 0, 0, False)
_EIGHT_VALID = 0x0101010101010101
_SOME = 4
"""Records from which on it is worth it to ask whether they are as usual."""
_OTHERS = 64
"""Records that are taken one by one where the first is not as usual: it is seldom alone."""
_DECLARED = (RECORD, BATCH.fields, _APPEND_TIME, MICROSECONDS)


@compiled(inline=True)
def _all_valid(row: int, rows: int, buffers: Any) -> None:
    """Say that nothing is null in rows from number `row` on: from here on only nulls are told."""
    for each in (ArrowBuffer.TIMESTAMP_VALID, ArrowBuffer.KEY_VALID, ArrowBuffer.VALUE_VALID):
        valid, done = buffers[each] + row, 0
        if valid != row:
            while done + 8 <= rows:
                _store64(valid + done, _EIGHT_VALID)
                done += 8
            while done < rows:
                _store8(valid + done, 1)
                done += 1


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


@compiled(inline=True, declared=_DECLARED)
def _read_usual(first: int, limit: int) -> tuple[int, int, int, int, int, int, int, bool]:
    """Where a record ends, its numbers as they are stored: timestamp, offset, size of the key, and where that is, the
    same of the value, and whether the record is as usual: it has no headers, and no number of more than four bytes.

    Behind `limit` are bytes enough to read several numbers without a look at where the record ends; whether it ends
    where it should is asked once.
    """
    number, cursor, is_short = short_varint(first)
    stop = cursor + (number >> 1)
    if not is_short or number & 1 != 0 or stop > limit:
        return _UNUSUAL
    timestamp, cursor, is_short = short_varint(cursor + 1)
    if not is_short:
        return _UNUSUAL
    offset, cursor, is_short = short_varint(cursor)
    if not is_short or offset & 1 != 0:
        return _UNUSUAL
    key_size, key, is_short = short_varint(cursor)
    cursor = key + (key_size >> 1)
    if not is_short or cursor >= stop or (key_size & 1 != 0 and key_size != _NULL):
        return _UNUSUAL
    value_size, value, is_short = short_varint(cursor)
    if not is_short or _load8(stop - 1) != numba.uint64(0) or value + (value_size >> 1) + 1 != stop:
        return _UNUSUAL
    if value_size & 1 != 0 and value_size != _NULL:
        return _UNUSUAL
    return stop, timestamp, offset, key_size, key, value_size, value, True


@compiled(inline=True, declared=_DECLARED)
def _put_usual(row: int, size: int, source: int, of: Any, used: int, viewed: Any, filled: Any, counts: Any) -> int:
    """Append a field of a usual record to its column; how far its data is filled.

    `size` is as it is stored.  `of` are the addresses of ends, validity, data and views, `viewed` what views point to,
    and `counts` says which of `filled` are its nulls, and those that views point to.
    """
    ends, valid, data, views = of
    if data != 0:
        copy_whole(data + used, source, size >> 1)
        used += size >> 1
        _store32(ends + 4 * row + 4, used)
    elif views != 0 and put_short_view(views + 16 * row, source, size >> 1, viewed[0], viewed[1]):
        filled[counts[1]] += 1
    if size == _NULL:
        filled[counts[0]] += 1
        if valid != 0:
            _store8(valid + row, 0)
    return used


@compiled(inline=True, declared=_DECLARED)
def _decode_usual(
    first: int, latest: int, most: int, headers: Any, number: int, low: int, high: int, buffers: Any, filled: Any
) -> tuple[int, int]:
    """Append records as `decode_records` does, up to the first one that is not as usual, or near `latest`."""
    base_offset = headers[HeaderColumn.BASE_OFFSET, number]
    base_sequence = headers[HeaderColumn.BASE_SEQUENCE, number]
    base_timestamp, mask = headers[HeaderColumn.BASE_TIMESTAMP, number], -1
    if headers[HeaderColumn.ATTRIBUTES, number] & _APPEND_TIME != 0:
        base_timestamp, mask = headers[HeaderColumn.MAX_TIMESTAMP, number], 0
    limit = latest - _AHEAD
    moments_fit = _MOST_DELTA - _LARGEST_MS < base_timestamp < _LARGEST_MS - _MOST_DELTA
    if first > limit or low >= high or not moments_fit:
        return 0, first
    offsets, sequences = buffers[ArrowBuffer.OFFSET], buffers[ArrowBuffer.SEQUENCE]
    timestamps, header_ends = buffers[ArrowBuffer.TIMESTAMP], buffers[ArrowBuffer.HEADER_ENDS]
    viewed = buffers[ArrowBuffer.VIEWED], buffers[ArrowBuffer.VIEWED_NUMBER]
    keys = (
        buffers[ArrowBuffer.KEY_ENDS], buffers[ArrowBuffer.KEY_VALID], buffers[ArrowBuffer.KEY],
        buffers[ArrowBuffer.KEY_VIEWS],
    )  # fmt: skip
    values = (
        buffers[ArrowBuffer.VALUE_ENDS], buffers[ArrowBuffer.VALUE_VALID], buffers[ArrowBuffer.VALUE],
        buffers[ArrowBuffer.VALUE_VIEWS],
    )  # fmt: skip
    row, key_bytes, value_bytes = filled[Filled.ROWS], filled[Filled.KEY], filled[Filled.VALUE]
    headers_filled, lowest, span = filled[Filled.HEADERS], low - base_offset, numba.uint64(high - low)
    behind, last = first, row + most
    while row < last:
        stop, timestamp, offset, key_size, key, value_size, value, is_usual = _read_usual(behind, limit)
        delta = offset >> 1
        if not is_usual or numba.uint64(delta - lowest) >= span:
            break
        key_bytes = _put_usual(row, key_size, key, keys, key_bytes, viewed, filled, _OF_KEYS)
        value_bytes = _put_usual(row, value_size, value, values, value_bytes, viewed, filled, _OF_VALUES)
        if header_ends != 0:
            _store32(header_ends + 4 * row + 4, headers_filled)
        if offsets != 0:
            _store64(offsets + 8 * row, base_offset + delta)
        if sequences != 0:
            _store32(sequences + 4 * row, _sequence(base_sequence, delta))
        if timestamps != 0:
            _store64(timestamps + 8 * row, (base_timestamp + (zigzag(timestamp) & mask)) * MICROSECONDS)
        row += 1
        behind = stop
    done = row - filled[Filled.ROWS]
    filled[Filled.ROWS], filled[Filled.KEY], filled[Filled.VALUE] = row, key_bytes, value_bytes
    return done, behind


@compiled(inline=True, declared=_DECLARED)
def _decode_any(  # noqa: C901 - one record after the other, field by field: calls would cost what the kernel is for
    first: int, end: int, latest: int, most: int, headers: Any, number: int, low: int, high: int, largest: int,
    buffers: Any, filled: Any,
) -> tuple[int, int]:  # fmt: skip
    """Append records as `decode_records` does, whatever they are."""
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
        else:
            _all_valid(row, 1, buffers)
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
    "UniTuple(int64, 2)(int64, int64, int64, int64, int64[:,:], int64, int64, int64, int64, int64[::1], int64[::1])",
    inline=True,
    declared=_DECLARED,
)
def decode_records(
    first: int, end: int, most: int, most_bytes: int, headers: Any, number: int, low: int, high: int, largest: int,
    buffers: Any, filled: Any,
) -> tuple[int, int]:  # fmt: skip
    """Append at most `most` records from address `first` on; how many those were, and the address after them.

    `headers` is a table of `HeaderColumn`, `number` the batch that they are of, whose record bytes end at `end`.
    Wanted are the offsets from `low` up to, not including, `high`; the other records are read and left out.  `largest`
    caps the headers of a record.  It stops before a record that ends more than `most_bytes` after `first`, and before
    one with a fault.  The buffers need room for all that the bytes can hold.
    """
    latest = min(end, first + most_bytes)
    _all_valid(filled[Filled.ROWS], min(most, (latest - first) // SMALLEST_RECORD + 1), buffers)
    behind, done = first, 0
    while done < most:
        usual = 0
        if most - done >= _SOME:
            usual, behind = _decode_usual(behind, latest, most - done, headers, number, low, high, buffers, filled)
            done += usual
        others = min(most - done, _OTHERS if usual == 0 else 1)
        if others > 0:
            taken, behind = _decode_any(
                behind, end, latest, others, headers, number, low, high, largest, buffers, filled
            )
            done += taken
            if taken < others:
                break
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
