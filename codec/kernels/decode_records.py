"""The compiled way from record bytes to Arrow's buffers, in one pass over many batches.

Written for exactly the declared record (see `record_shape`) it copies each wanted field
straight to where Arrow wants it.  A batch with a fault leaves nothing behind: the kernel stops before it, and the ways
that can name faults take over.
"""

from __future__ import annotations

from typing import Any

import numba

from kafkalog.codec.derive import OpKind
from kafkalog.codec.kernels.jit import compiled, copy, prefetch, store
from kafkalog.codec.kernels.leaves import put, read_bytes, read_number, read_varint
from kafkalog.codec.kernels.scan_batches import FIELDS
from kafkalog.codec.limits import KIB
from kafkalog.codec.model import MICROSECONDS, TIMESTAMP_TYPE_FLAG
from kafkalog.codec.record_shape import RECORD, SMALLEST_HEADER

__all__ = ["COUNTERS", "SINKS", "decode", "take_batch"]

SINKS = (
    "offset", "timestamp", "timestamp_valid", "sequence", "key_ends", "key_valid", "key", "value_ends", "value_valid",
    "value", "header_ends", "header_key_ends", "header_key", "header_value_ends", "header_value_valid", "header_value",
)  # fmt: skip
"""Buffers that `decode` fills; their addresses, 0 for one that is not wanted.  `ends` and their data go together."""
COUNTERS = (
    "rows", "key", "value", "headers", "header_key", "header_value", "key_nulls", "value_nulls", "header_value_nulls",
    "timestamp_nulls",
)  # fmt: skip
"""How much of the buffers is filled: rows, bytes of each data, elements, and how many of them are null."""
(_OFFSET, _TIMESTAMP, _TIMESTAMP_VALID, _SEQUENCE, _KEY_ENDS, _KEY_VALID, _KEY, _VALUE_ENDS, _VALUE_VALID, _VALUE,
 _HEADER_ENDS, _HEADER_KEY_ENDS, _HEADER_KEY, _HEADER_VALUE_ENDS, _HEADER_VALUE_VALID,
 _HEADER_VALUE) = range(len(SINKS))  # fmt: skip

_VARLONG, _BYTES, _STRING = int(OpKind.VARLONG), int(OpKind.BYTES), int(OpKind.STRING)
_LARGEST_MS = (2**63 - 1) // MICROSECONDS
_MAX_SEQUENCE = numba.int32(2**31 - 1)
_store8, _store32, _store64 = store[8], store[32], store[64]
_BASE_OFFSET, _BASE_TIMESTAMP, _MAX_TIMESTAMP, _ATTRIBUTES, _BASE_SEQUENCE, _COUNT = (
    FIELDS.index(name)
    for name in ("base_offset", "base_timestamp", "max_timestamp", "attributes", "base_sequence", "records_count")
)
_LINE, _AHEAD = 64, 16 * KIB
"""Bytes of a line of the cache, and how far ahead lines are asked for: the next batch is checked first."""
_APPEND_TIME = int(TIMESTAMP_TYPE_FLAG)
_DECLARED = (RECORD, SINKS, COUNTERS, FIELDS, _APPEND_TIME)


@compiled(inline=True, declared=_DECLARED)
def _sequence(base: int, delta: int) -> int:
    """As `increment_sequence`, in Java's 32-bit arithmetic."""
    if base < 0:
        return -1
    first, by = numba.int32(base), numba.int32(delta)
    if first <= numba.int32(_MAX_SEQUENCE - by):
        return numba.int32(first + by)  # type: ignore[return-value]
    return numba.int32(by - numba.int32(_MAX_SEQUENCE - first) - numba.int32(1))  # type: ignore[return-value]


@compiled(declared=_DECLARED)
def _skip_headers(cursor: int, end: int, count: int) -> int:
    """Position behind the headers, or -1."""
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
def _take_headers(cursor: int, end: int, count: int, sinks: Any, counters: Any) -> int:
    """Copy headers behind those that are there; the position behind them, or -1."""
    for _ in range(count):
        size, cursor, fault = read_bytes(_STRING, cursor, end)
        if fault != 0:
            return -1
        copy(sinks[_HEADER_KEY] + counters[4], cursor, size)
        cursor += size
        counters[4] += size
        size, cursor, fault = read_bytes(_BYTES, cursor, end)
        if fault != 0:
            return -1
        if size >= 0:
            copy(sinks[_HEADER_VALUE] + counters[5], cursor, size)
            cursor += size
            counters[5] += size
            _store8(sinks[_HEADER_VALUE_VALID] + counters[3], 1)
        else:
            _store8(sinks[_HEADER_VALUE_VALID] + counters[3], 0)
            counters[8] += 1
        counters[3] += 1
        _store32(sinks[_HEADER_KEY_ENDS] + 4 * counters[3], counters[4])
        _store32(sinks[_HEADER_VALUE_ENDS] + 4 * counters[3], counters[5])
    return cursor


@compiled(declared=_DECLARED)
def take_batch(  # noqa: C901 - one record after the other, field by field: calls would cost what the kernel is for
    first: int, end: int, table: Any, number: int, low: int, high: int, largest: int, sinks: Any, counters: Any
) -> bool:
    """One batch of records; False if there is anything wrong with it, and then the counters say too much."""
    base_offset, base_timestamp = table[_BASE_OFFSET, number], table[_BASE_TIMESTAMP, number]
    append_time, appended = table[_MAX_TIMESTAMP, number], table[_ATTRIBUTES, number] & _APPEND_TIME != 0
    base_sequence = table[_BASE_SEQUENCE, number]
    offsets, timestamps, moments_valid = sinks[_OFFSET], sinks[_TIMESTAMP], sinks[_TIMESTAMP_VALID]
    sequences, header_ends = sinks[_SEQUENCE], sinks[_HEADER_ENDS]
    key_ends, keys, key_valid = sinks[_KEY_ENDS], sinks[_KEY], sinks[_KEY_VALID]
    value_ends, values, value_valid = sinks[_VALUE_ENDS], sinks[_VALUE], sinks[_VALUE_VALID]
    row, key_bytes, value_bytes = counters[0], counters[1], counters[2]
    cursor = first
    for _ in range(table[_COUNT, number]):
        length, cursor, fault = read_varint(cursor, end)
        if fault != 0 or length < 1 or length > end - cursor:
            return False
        stop = cursor + length
        for line in range(cursor, stop, _LINE):
            prefetch(line + _AHEAD)
        cursor += 1
        timestamp_delta, cursor, fault = read_number(_VARLONG, cursor, stop)
        if fault != 0:
            return False
        offset_delta, cursor, fault = read_varint(cursor, stop)
        if fault != 0:
            return False
        offset = base_offset + offset_delta
        wanted = low <= offset < high

        size, cursor, fault = read_bytes(_BYTES, cursor, stop)
        if fault != 0:
            return False
        if keys != 0 and wanted:
            key_bytes = put(row, size, cursor, key_ends, key_valid, keys, key_bytes)
            if size < 0:
                counters[6] += 1
        cursor += max(size, 0)

        size, cursor, fault = read_bytes(_BYTES, cursor, stop)
        if fault != 0:
            return False
        if values != 0 and wanted:
            value_bytes = put(row, size, cursor, value_ends, value_valid, values, value_bytes)
            if size < 0:
                counters[7] += 1
        cursor += max(size, 0)

        count, cursor, fault = read_varint(cursor, stop)
        if fault != 0 or count < 0:
            return False
        if count > 0:
            if count > (stop - cursor) // SMALLEST_HEADER or count > largest:
                return False
            if wanted and header_ends != 0:
                cursor = _take_headers(cursor, stop, count, sinks, counters)
            else:
                cursor = _skip_headers(cursor, stop, count)
        if cursor != stop:
            return False
        if wanted:
            if header_ends != 0:
                _store32(header_ends + 4 * row + 4, counters[3])
            if offsets != 0:
                _store64(offsets + 8 * row, offset)
            if sequences != 0:
                _store32(sequences + 4 * row, _sequence(base_sequence, offset_delta))
            if timestamps != 0:
                moment = append_time if appended else base_timestamp + timestamp_delta
                absurd = moment > _LARGEST_MS or moment < -_LARGEST_MS
                _store64(timestamps + 8 * row, moment * MICROSECONDS)
                _store8(moments_valid + row, not absurd)
                counters[9] += absurd
            row += 1
    if cursor != end:
        return False
    counters[0], counters[1], counters[2] = row, key_bytes, value_bytes
    return True


@compiled(
    "int64(int64[::1], int64[::1], int64[:,:], int64, int64[::1], int64, int64, int64[::1], int64[::1], int64[::1])",
    declared=_DECLARED,
)
def decode(
    addresses: Any, sizes: Any, table: Any, start: int, lows: Any, high: int, largest: int, sinks: Any, counters: Any,
    kept: Any,
) -> int:  # fmt: skip
    """Append the records of batches to the buffers at `sinks`; how many batches could be taken before a faulty one.

    `addresses` and `sizes` tell where the record bytes are; `table` has the headers of the batches from column `start`
    on, see `walk_kernel`.  Wanted are the offsets from `lows`, of each batch, up to, not including, `high`.  `largest`
    caps the headers of a record.  The buffers need room for all that the bytes can hold; `kept` gets the rows of each
    batch.
    """
    before = counters.copy()
    for number in range(addresses.shape[0]):
        before[:] = counters
        first = addresses[number]
        end = first + sizes[number]
        if not take_batch(first, end, table, start + number, lows[number], high, largest, sinks, counters):
            counters[:] = before
            return number
        kept[number] = counters[0] - before[0]
    return len(addresses)
