"""Messages of magic 0 and 1: the walk over entries, and their records into Arrow's buffers.

As with v2 it takes only what is sound beyond doubt and stops without a judgement before anything else; `codec.scanner`
and `codec.legacy` say what is there.  Offsets and timestamps inside a wrapper follow `AbstractLegacyRecordBatch`.
"""

from __future__ import annotations

from typing import Any

import numba

from kafkalog.codec.framing import SMALLEST_MESSAGE
from kafkalog.codec.kernels.crc_ieee import checksum_ieee
from kafkalog.codec.kernels.jit import compiled, load_big, store
from kafkalog.codec.kernels.leaves import put, read_fixed
from kafkalog.codec.kernels.tables import ArrowBuffer, Filled, MessageColumn, MessageSet
from kafkalog.codec.model import (
    CODEC_MASK,
    LOG_OVERHEAD,
    MESSAGE_V0,
    MESSAGE_V1,
    MICROSECONDS,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
)
from kafkalog.codec.record_shape import CONTENT, CONTENT_LENGTH

__all__ = ["consecutive_messages", "decode_sets", "locate_values", "measure_sets", "scan_messages"]

_PLACES = tuple(field.position for field in MESSAGE_V0.fields)
_SIZES = tuple(field.size for field in MESSAGE_V0.fields)
_OFFSET_AT, _SIZE_AT = MESSAGE_V0.position("offset"), MESSAGE_V0.position("size")
_MAGIC_AT, _ATTRIBUTES_AT = MESSAGE_V0.position("magic"), MESSAGE_V0.position("attributes")
_TIMESTAMP_AT, _CRC_END = MESSAGE_V1.position("timestamp"), MESSAGE_V0.end("crc")
_OVERHEAD, _HEADER_0, _HEADER_1 = LOG_OVERHEAD.size, MESSAGE_V0.size, MESSAGE_V1.size
_SMALLEST = _OVERHEAD + SMALLEST_MESSAGE
_LENGTH = CONTENT_LENGTH.size
"""Bytes of the length of a key or value."""

_LARGEST_MS = (2**63 - 1) // MICROSECONDS
_load8, _load32, _load64 = load_big[8], load_big[32], load_big[64]
_store8, _store32, _store64 = store[8], store[32], store[64]
_DECLARED = (MESSAGE_V0.fields, MESSAGE_V1.fields, CONTENT, SMALLEST_MESSAGE, MICROSECONDS)


@compiled("int64(int64, int64, int64, boolean, int64[:,::1])", declared=_DECLARED)
def scan_messages(address: int, size: int, largest: int, check: bool, headers: Any) -> int:
    """Headers of the entries in `size` bytes at `address`, a column each; how many there are before anything odd.

    As `scan_batches.scan_batches`, `headers` being a table of `MessageColumn`; magic 0 has the timestamp -1.
    """
    position = 0
    count = 0
    while count < headers.shape[1] and size - position >= _SMALLEST:
        here = address + position
        whole = _load32(here + _SIZE_AT) + _OVERHEAD
        if whole < _SMALLEST or whole > size - position or whole > largest:
            return count
        magic = _load8(here + _MAGIC_AT)
        if magic != 0 and (magic != 1 or whole < _HEADER_1):
            return count
        crc = numba.int64(_load32(here + _CRC_END - _LENGTH)) & 0xFFFFFFFF
        if check and numba.int64(checksum_ieee(here + _CRC_END, whole - _CRC_END)) != crc:
            return count
        for row in range(len(_PLACES)):
            headers[row, count] = read_fixed(here + _PLACES[row], _SIZES[row])
        headers[MessageColumn.CRC, count] = crc
        headers[MessageColumn.TIMESTAMP, count] = _load64(here + _TIMESTAMP_AT) if magic == 1 else NO_TIMESTAMP
        headers[MessageColumn.POSITION, count] = position
        count += 1
        position += whole
    return count


@compiled("int64(int64[:,:], int64, int64, int64, int64[::1])", declared=_DECLARED)
def consecutive_messages(headers: Any, expected: int, highest: int, end: int, lows: Any) -> int:
    """How many entries from the first on are in order and have an offset below `end`; as `consecutive_batches`."""
    low = expected
    count = headers.shape[1]
    for number in range(count):
        offset = headers[MessageColumn.OFFSET, number]
        if offset < 0 or offset > highest or offset < low or offset >= end:
            return number
        if offset != low:
            if number + 1 < count and headers[MessageColumn.OFFSET, number + 1] <= offset:
                return number
            # a wrapper's offset is that of the last message inside, so that only of a bare one it tells of a gap
            if number + 1 == count and headers[MessageColumn.ATTRIBUTES, number] & CODEC_MASK == 0:
                return number
        lows[number] = low
        low = offset + 1
    return count  # type: ignore[no-any-return]


@compiled(inline=True, declared=_DECLARED)
def _content(here: int, end: int, magic: int) -> tuple[int, int, int, int, bool]:
    """Position and size (below 0: null) of key and value of the entry from `here` to `end`; False if they leave it."""
    key = here + (_HEADER_0 if magic == 0 else _HEADER_1) + _LENGTH
    if key > end:
        return 0, 0, 0, 0, False
    key_size = _load32(key - _LENGTH)
    if key_size > end - key:
        return 0, 0, 0, 0, False
    value = key + max(key_size, 0) + _LENGTH
    if value > end:
        return 0, 0, 0, 0, False
    value_size = _load32(value - _LENGTH)
    if value_size > end - value:
        return 0, 0, 0, 0, False
    return key, key_size, value, value_size, True


@compiled("void(int64, int64[:,:], int64[:,::1])", declared=_DECLARED)
def locate_values(address: int, headers: Any, values: Any) -> None:
    """Where the values of entries lie, from `address` on, and their sizes: the rows of `values`; -1 where none is."""
    for number in range(headers.shape[1]):
        here = address + headers[MessageColumn.POSITION, number]
        end = here + headers[MessageColumn.SIZE, number] + _OVERHEAD
        _key, _key_size, value, value_size, sound = _content(here, end, headers[MessageColumn.MAGIC, number])
        values[0, number] = value - address
        values[1, number] = max(value_size, -1) if sound else -1


@compiled("void(int64[::1], int64[::1], int64[:,:], int64, int64[:,::1])", declared=_DECLARED)
def measure_sets(addresses: Any, sizes: Any, headers: Any, most: int, found: Any) -> None:
    """How many messages each entry holds, and what is to be added to their offsets: the rows of `found`.

    `addresses` and `sizes` are those of a wrapper's decompressed set, and of the whole entry where it is none.  The
    count is -1 where a size is, and where a set is anything but plain messages with right checksums, at most `most`,
    with at most a broken one after them.
    """
    for number in range(len(addresses)):
        found[MessageSet.COUNT, number], found[MessageSet.BASE_OFFSET, number] = 1 if sizes[number] >= 0 else -1, 0
        if sizes[number] < 0 or headers[MessageColumn.ATTRIBUTES, number] & CODEC_MASK == 0:
            continue
        cursor, end = addresses[number], addresses[number] + sizes[number]
        count, last = 0, 0
        while end - cursor >= _OVERHEAD:
            size = _load32(cursor + _SIZE_AT)
            if size < SMALLEST_MESSAGE:
                count = -1
                break
            behind = cursor + _OVERHEAD + size
            if behind > end:
                break
            magic = _load8(cursor + _MAGIC_AT)
            if (
                (magic != 0 and (magic != 1 or behind - cursor < _HEADER_1))
                or _load8(cursor + _ATTRIBUTES_AT) & CODEC_MASK != 0
                or count == most
                or numba.int64(checksum_ieee(cursor + _CRC_END, behind - cursor - _CRC_END))
                != numba.int64(_load32(cursor + _CRC_END - _LENGTH)) & 0xFFFFFFFF
            ):
                count = -1
                break
            count += 1
            last = _load64(cursor + _OFFSET_AT)
            cursor = behind
        offset = headers[MessageColumn.OFFSET, number]
        if (
            headers[MessageColumn.MAGIC, number] == 1 and offset != 0
        ):  # 0 was written by old clients that meant absolute offsets
            found[MessageSet.BASE_OFFSET, number] = offset - last
            if offset < last:
                count = -1
        found[MessageSet.COUNT, number] = count if count != 0 else -1


@compiled(inline=True, declared=_DECLARED)
def _decode_set(
    cursor: int, count: int, base: int, append_time: int, appended: bool, low: int, high: int, buffers: Any, filled: Any
) -> bool:
    """The messages of a set that `measure_sets` found sound; False if fields of one leave it, and then none is."""
    offsets, timestamps = buffers[ArrowBuffer.OFFSET], buffers[ArrowBuffer.TIMESTAMP]
    moments_valid, value_valid = buffers[ArrowBuffer.TIMESTAMP_VALID], buffers[ArrowBuffer.VALUE_VALID]
    key_ends, keys, key_valid = buffers[ArrowBuffer.KEY_ENDS], buffers[ArrowBuffer.KEY], buffers[ArrowBuffer.KEY_VALID]
    value_ends, values = buffers[ArrowBuffer.VALUE_ENDS], buffers[ArrowBuffer.VALUE]
    row, key_bytes, value_bytes = filled[Filled.ROWS], filled[Filled.KEY], filled[Filled.VALUE]
    key_nulls = value_nulls = timestamp_nulls = 0
    for _ in range(count):
        behind = cursor + _OVERHEAD + _load32(cursor + _SIZE_AT)
        magic = _load8(cursor + _MAGIC_AT)
        key, key_size, value, value_size, sound = _content(cursor, behind, magic)
        if not sound:
            return False
        offset = base + _load64(cursor + _OFFSET_AT)
        if low <= offset < high:
            if keys != 0:
                key_bytes = put(row, key_size, key, key_ends, key_valid, keys, key_bytes)
                key_nulls += key_size < 0
            if values != 0:
                value_bytes = put(row, value_size, value, value_ends, value_valid, values, value_bytes)
                value_nulls += value_size < 0
            if offsets != 0:
                _store64(offsets + 8 * row, offset)
            if timestamps != 0:
                moment = NO_TIMESTAMP
                if magic == 1:
                    moment = append_time if appended else _load64(cursor + _TIMESTAMP_AT)
                absurd = moment > _LARGEST_MS or moment < -_LARGEST_MS
                _store64(timestamps + 8 * row, moment * MICROSECONDS)
                _store8(moments_valid + row, not absurd)
                timestamp_nulls += absurd
            row += 1
        cursor = behind
    filled[Filled.ROWS], filled[Filled.KEY], filled[Filled.VALUE] = row, key_bytes, value_bytes
    filled[Filled.KEY_NULLS] += key_nulls
    filled[Filled.VALUE_NULLS] += value_nulls
    filled[Filled.TIMESTAMP_NULLS] += timestamp_nulls
    return True


@compiled(
    "int64(int64[:], int64[:,:], int64[:,:], int64[:], int64, int64[::1], int64[::1], int64[::1])", declared=_DECLARED
)
def decode_sets(
    addresses: Any, headers: Any, found: Any, low: Any, high: int, buffers: Any, filled: Any, rows: Any
) -> int:
    """Append the messages of entries to the buffers; how many entries could be taken before a faulty one.

    `addresses`, `headers` and `found` are those of `measure_sets`, and no count may be -1.  Wanted are the offsets from
    `low`, of each entry, up to, not including, `high`.  `rows` gets how many rows each entry has.  There must be room.
    """
    for number in range(len(addresses)):
        before = filled[Filled.ROWS]
        # the type of the wrapper counts, and magic 0 has none
        appended = (
            headers[MessageColumn.MAGIC, number] == 1
            and headers[MessageColumn.ATTRIBUTES, number] & TIMESTAMP_TYPE_FLAG != 0
        )
        if not _decode_set(
            addresses[number], found[MessageSet.COUNT, number], found[MessageSet.BASE_OFFSET, number],
            headers[MessageColumn.TIMESTAMP, number], appended, low[number], high, buffers, filled,
        ):  # fmt: skip
            return number
        rows[number] = filled[Filled.ROWS] - before
    return len(addresses)
