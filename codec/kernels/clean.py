"""What compaction does with every record, compiled: the latest offset of each key, which records stay, and their bytes.

The map of keys is the memory of `log.storage.cleaning.offset_map`: slots of an MD5 digest and an offset, as there.
Batches are taken from the first on; one with a fault, or with what a rewritten batch cannot hold, ends the work before
it, without a judgement: who takes one record after the other can name what is wrong.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from kafkalog.codec.derive import OpKind
from kafkalog.codec.kernels.decode_records import skip_headers
from kafkalog.codec.kernels.encode import put_varint, varint_size
from kafkalog.codec.kernels.jit import compiled, copy, load, on_stack, prefetch, store
from kafkalog.codec.kernels.leaves import read_bytes, read_number, read_varint
from kafkalog.codec.kernels.tables import ROW_BYTES, HeaderColumn, KeptBatch, KeyMap, RetainedBatch
from kafkalog.codec.model import BATCH, NO_TIMESTAMP, TIMESTAMP_TYPE_FLAG
from kafkalog.codec.record_shape import RECORD, SMALLEST_HEADER

__all__ = ["choose_records", "gather", "kept_records", "move_keys", "put_keys"]

_VARLONG, _BYTES, _STRING = int(OpKind.VARLONG), int(OpKind.BYTES), int(OpKind.STRING)
_APPEND_TIME, _NO_TIMESTAMP = int(TIMESTAMP_TYPE_FLAG), NO_TIMESTAMP
_DECLARED = (RECORD, BATCH.fields, _APPEND_TIME)
_load8, _load32, _load64 = load[8], load[32], load[64]
_store8, _store64 = store[8], store[64]
_SLOT, _OFFSET_AT = 24, 16
"""Bytes of a slot of the map, and where the offset is in it."""

_MOST_HEADERS = 2**31
_HEADER = BATCH.size
_ROW_OFFSET, _ROW_SLOT, _ROW_IS_DELETE, _ROW = 16, 24, 32, ROW_BYTES
"""Of a record, after its digest: offset, where its slot is looked for first (0: no key), whether it is a tombstone."""

# RFC 1321
_BLOCK, _SIZE_AT = 64, 56
"""Bytes of a block, and where the last one has the size of all."""
_SINES = np.array([int(abs(math.sin(step + 1)) * 2**32) for step in range(_BLOCK)], np.uint32)
_padded = on_stack(2 * _BLOCK // 8)


# --- MD5 ------------------------------------------------------------------------------------------------------------


@compiled(inline=True)
def _step(mixed: Any, a: Any, b: Any, word: int, number: int, bits: int) -> Any:
    total = numba.uint32(a + mixed + numba.uint32(_load32(word)) + _SINES[number])
    return numba.uint32(b + (numba.uint32(total << numba.uint32(bits)) | total >> numba.uint32(32 - bits)))


@compiled()
def _mix(a: Any, b: Any, c: Any, d: Any, block: int) -> tuple[Any, Any, Any, Any]:
    """The state of MD5 after the block at an address."""
    before = a, b, c, d
    for i in range(0, 16, 4):
        a = _step((b & c) | (~b & d), a, b, block + 4 * i, i, 7)
        d = _step((a & b) | (~a & c), d, a, block + 4 * i + 4, i + 1, 12)
        c = _step((d & a) | (~d & b), c, d, block + 4 * i + 8, i + 2, 17)
        b = _step((c & d) | (~c & a), b, c, block + 4 * i + 12, i + 3, 22)
    for i in range(16, 32, 4):
        a = _step((d & b) | (~d & c), a, b, block + 4 * (5 * i + 1 & 15), i, 5)
        d = _step((c & a) | (~c & b), d, a, block + 4 * (5 * i + 6 & 15), i + 1, 9)
        c = _step((b & d) | (~b & a), c, d, block + 4 * (5 * i + 11 & 15), i + 2, 14)
        b = _step((a & c) | (~a & d), b, c, block + 4 * (5 * i + 16 & 15), i + 3, 20)
    for i in range(32, 48, 4):
        a = _step(b ^ c ^ d, a, b, block + 4 * (3 * i + 5 & 15), i, 4)
        d = _step(a ^ b ^ c, d, a, block + 4 * (3 * i + 8 & 15), i + 1, 11)
        c = _step(d ^ a ^ b, c, d, block + 4 * (3 * i + 11 & 15), i + 2, 16)
        b = _step(c ^ d ^ a, b, c, block + 4 * (3 * i + 14 & 15), i + 3, 23)
    for i in range(48, 64, 4):
        a = _step(c ^ (b | ~d), a, b, block + 4 * (7 * i & 15), i, 6)
        d = _step(b ^ (a | ~c), d, a, block + 4 * (7 * i + 7 & 15), i + 1, 10)
        c = _step(a ^ (d | ~b), c, d, block + 4 * (7 * i + 14 & 15), i + 2, 15)
        b = _step(d ^ (c | ~a), b, c, block + 4 * (7 * i + 21 & 15), i + 3, 21)
    return (
        numba.uint32(before[0] + a), numba.uint32(before[1] + b), numba.uint32(before[2] + c),
        numba.uint32(before[3] + d),
    )  # fmt: skip


@compiled()
def _digest(key: int, size: int) -> tuple[Any, Any]:
    """The MD5 of the bytes at an address, as two words whose bytes in memory are those of the digest."""
    a, b, c, d = numba.uint32(0x67452301), numba.uint32(0xEFCDAB89), numba.uint32(0x98BADCFE), numba.uint32(0x10325476)
    done = 0
    while size - done >= _BLOCK:
        a, b, c, d = _mix(a, b, c, d, key + done)
        done += _BLOCK
    left = size - done
    padded = _padded()
    for word in range(0, 2 * _BLOCK, 8):
        _store64(padded + word, 0)
    copy(padded, key + done, left)
    _store8(padded + left, 0x80)
    last = 0 if left < _SIZE_AT else _BLOCK
    _store64(padded + last + _SIZE_AT, 8 * size)
    for block in range(0, last + 1, _BLOCK):
        a, b, c, d = _mix(a, b, c, d, padded + block)
    return numba.uint64(a) | numba.uint64(b) << numba.uint64(32), numba.uint64(c) | numba.uint64(d) << numba.uint64(32)


# --- the map --------------------------------------------------------------------------------------------------------


@compiled(inline=True)
def _is_empty(slot: int) -> bool:
    return (_load64(slot) | _load64(slot + 8) | _load64(slot + _OFFSET_AT)) == numba.uint64(0)  # type: ignore[no-any-return]


@compiled()
def _find(first: Any, second: Any, slot: int, table: int, slots: int) -> int:
    """Address of the slot of a digest, which is looked for from `slot` on, or of the one that it goes into.

    0 if it is not there and all are used.
    """
    end = table + _SLOT * slots
    for _ in range(slots):
        if (_load64(slot) == first and _load64(slot + 8) == second) or _is_empty(slot):
            return slot
        slot += _SLOT
        if slot == end:
            slot = table
    return 0


@compiled("void(int64, int64, int64, int64)")
def move_keys(source: int, count: int, table: int, slots: int) -> None:
    """Put what a map of `count` slots at an address holds into an empty one of more slots."""
    for old in range(source, source + _SLOT * count, _SLOT):
        if not _is_empty(old):
            first = _load64(old)
            slot = table + _SLOT * numba.int64(first % numba.uint64(slots))
            copy(_find(first, _load64(old + 8), slot, table, slots), old, _SLOT)


# --- records --------------------------------------------------------------------------------------------------------


@compiled(inline=True, declared=_DECLARED)
def _read(cursor: int, end: int, largest: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    """One record: the address behind it (0: a fault), its deltas, where key and value are and their sizes, its headers.

    Of the headers, where they are and how many, no more than `largest`.
    """
    fault_found = (0, 0, 0, 0, 0, 0, 0, 0, 0)
    length, cursor, fault = read_varint(cursor, end)
    if fault != 0 or length < 1 or length > end - cursor:
        return fault_found
    stop = cursor + length
    timestamp_delta, cursor, fault = read_number(_VARLONG, cursor + 1, stop)
    if fault != 0:
        return fault_found
    offset_delta, cursor, fault = read_varint(cursor, stop)
    if fault != 0:
        return fault_found
    key_size, key, fault = read_bytes(_BYTES, cursor, stop)
    if fault != 0:
        return fault_found
    value_size, value, fault = read_bytes(_BYTES, key + max(key_size, 0), stop)
    if fault != 0:
        return fault_found
    count, headers, fault = read_varint(value + max(value_size, 0), stop)
    if fault != 0 or count < 0:
        return fault_found
    cursor = headers
    if count > 0:
        if count > (stop - cursor) // SMALLEST_HEADER or count > largest:
            return fault_found
        cursor = skip_headers(cursor, stop, count)
    if cursor != stop:
        return fault_found
    return stop, timestamp_delta, offset_delta, key, key_size, value, value_size, headers, count


@compiled(declared=_DECLARED)
def _digests(cursor: int, end: int, headers: Any, number: int, largest: int, table: int, slots: int, rows: int) -> int:
    """Note of each record of a batch what the map is asked about it, before it is; how many, or -1 for a fault.

    That the slots are asked for so early is what it is for: in a large map most are far from the processor.
    """
    count = headers[HeaderColumn.RECORDS_COUNT, number]
    for record in range(count):
        behind, _delta, offset_delta, key, key_size, _value, value_size, _headers, _count = _read(cursor, end, largest)
        if behind == 0:
            return -1
        row = rows + _ROW * record
        _store64(row + _ROW_OFFSET, headers[HeaderColumn.BASE_OFFSET, number] + offset_delta)
        _store64(row + _ROW_IS_DELETE, value_size < 0)
        _store64(row + _ROW_SLOT, 0)
        if key_size >= 0:
            first, second = _digest(key, key_size)
            slot = table + _SLOT * numba.int64(first % numba.uint64(slots))
            prefetch(slot)
            _store64(row, first)
            _store64(row + 8, second)
            _store64(row + _ROW_SLOT, slot)
        cursor = behind
    return count if cursor == end else -1


@compiled(
    "int64(int64[::1], int64[::1], int64[:,:], int64, int64, int64, int64, int64, int64, int64[::1])",
    declared=_DECLARED,
)
def put_keys(
    addresses: Any, sizes: Any, headers: Any, start: int, low: int, largest: int, table: int, slots: int, rows: int,
    state: Any,
) -> int:  # fmt: skip
    """Note the offsets, from `low` on, of the keys of batches; how many batches were taken.

    `addresses` and `sizes` say where the record bytes are, `headers` has the batches from number `start` on; `largest`
    caps the headers of a record.  The map of `slots` slots is at `table`; at `rows` are `ROW_BYTES` for each record of
    the largest batch.  `state` is `KeyMap`: the work also ends where that says that there is no room.
    """
    state[KeyMap.LAST_PUT], state[KeyMap.IS_FULL] = -1, 0
    for number in range(addresses.shape[0]):
        end, last_put = addresses[number] + sizes[number], -1
        count = _digests(addresses[number], end, headers, start + number, largest, table, slots, rows)
        if count < 0:
            return number
        for row in range(rows, rows + _ROW * count, _ROW):
            slot, offset = numba.int64(_load64(row + _ROW_SLOT)), numba.int64(_load64(row + _ROW_OFFSET))
            if slot == 0 or offset < low:
                continue
            slot = _find(_load64(row), _load64(row + 8), slot, table, slots)
            if slot == 0 or state[KeyMap.USED] >= state[KeyMap.LIMIT]:
                state[KeyMap.LAST_PUT], state[KeyMap.IS_FULL] = last_put, 1
                return number
            state[KeyMap.USED] += _is_empty(slot)
            _store64(slot, _load64(row))
            _store64(slot + 8, _load64(row + 8))
            _store64(slot + _OFFSET_AT, offset)
            last_put = offset
    return addresses.shape[0]  # type: ignore[no-any-return]


@compiled(
    "int64(int64[::1], int64[::1], int64[:,:], int64, int64, int64, int64, int64, int64, int64[::1], int64, "
    "int64[:,::1])",
    declared=_DECLARED,
)
def choose_records(
    addresses: Any, sizes: Any, headers: Any, start: int, latest: int, largest: int, table: int, slots: int, rows: int,
    keeps_deletes: Any, flags: int, chosen: Any,
) -> int:  # fmt: skip
    """Which records of batches stay (`Cleaner.shouldRetainRecord`), as flags, a byte each; how many batches were taken.

    What lies after the offset `latest` stays.  `keeps_deletes` tells of each batch whether its tombstones are too young
    to go; `chosen` is a table of `RetainedBatch`.  The others are those of `put_keys`.
    """
    flag = flags
    for number in range(addresses.shape[0]):
        end = addresses[number] + sizes[number]
        count = _digests(addresses[number], end, headers, start + number, largest, table, slots, rows)
        if count < 0:
            return number
        kept = deletes = without_key = 0
        chosen[RetainedBatch.FIRST_FLAG, number] = flag
        for row in range(rows, rows + _ROW * count, _ROW):
            slot, offset = numba.int64(_load64(row + _ROW_SLOT)), numba.int64(_load64(row + _ROW_OFFSET))
            is_delete = numba.int64(_load64(row + _ROW_IS_DELETE))
            stays = 1
            if offset <= latest and slot == 0:
                without_key += 1
                stays = 0
            elif offset <= latest:
                slot = _find(_load64(row), _load64(row + 8), slot, table, slots)
                is_old = slot != 0 and not _is_empty(slot) and offset < numba.int64(_load64(slot + _OFFSET_AT))
                if is_old or (is_delete != 0 and keeps_deletes[number] == 0):
                    stays = 0
            _store8(flag, stays)
            flag += 1
            kept += stays
            deletes += stays & is_delete
        chosen[RetainedBatch.KEPT, number] = kept
        chosen[RetainedBatch.DELETES, number] = deletes
        chosen[RetainedBatch.WITHOUT_KEY, number] = without_key
    return addresses.shape[0]  # type: ignore[no-any-return]


@compiled(inline=True, declared=_DECLARED)
def _field_size(size: int) -> int:
    return varint_size(max(size, -1)) + max(size, 0)


@compiled(inline=True, declared=_DECLARED)
def _put_field(position: int, source: int, size: int) -> int:
    position = put_varint(position, max(size, -1))
    copy(position, source, max(size, 0))
    return position + max(size, 0)


@compiled(declared=_DECLARED)
def _headers_size(cursor: int, end: int, count: int) -> int:
    """Bytes that headers take when they are written, which have no fault."""
    total = 0
    for _ in range(count):
        size, cursor, _fault = read_bytes(_STRING, cursor, end)
        total += _field_size(size)
        size, cursor, _fault = read_bytes(_BYTES, cursor + size, end)
        total += _field_size(size)
        cursor += max(size, 0)
    return total


@compiled(declared=_DECLARED)
def _put_headers(position: int, cursor: int, end: int, count: int) -> int:
    for _ in range(count):
        size, cursor, _fault = read_bytes(_STRING, cursor, end)
        position = _put_field(position, cursor, size)
        size, cursor, _fault = read_bytes(_BYTES, cursor + size, end)
        position = _put_field(position, cursor, size)
        cursor += max(size, 0)
    return position


@compiled(
    "int64(int64[::1], int64[::1], int64[:,:], int64, int64[::1], int64[::1], int64[:,::1], int64, int64[:,::1])",
    declared=_DECLARED,
)
def kept_records(
    addresses: Any, sizes: Any, headers: Any, start: int, numbers: Any, horizons: Any, chosen: Any, target: int,
    written: Any,
) -> int:  # fmt: skip
    """Write the records that stay of some batches, at least one of each; how many batches were taken.

    At the address `target` is room for a header, then come the records of the first batch, and so on.

    `numbers` are those of the batches among `addresses`, `horizons` their delete horizons, below 0 for none, which take
    the place of the base timestamp; `written` is a table of `KeptBatch`.  Every number is written as short as it
    can be.  The target needs room for headers and records, and for what another base timestamp adds to each record.
    """
    position = target
    for which in range(numbers.shape[0]):
        number = numbers[which]
        cursor, end = addresses[number], addresses[number] + sizes[number]
        column = start + number
        base_timestamp = headers[HeaderColumn.BASE_TIMESTAMP, column]
        appended = headers[HeaderColumn.ATTRIBUTES, column] & _APPEND_TIME != 0
        new_base, largest, before, flag = horizons[which], _NO_TIMESTAMP, -1, chosen[RetainedBatch.FIRST_FLAG, number]
        is_first = True
        position += _HEADER
        written[KeptBatch.START, which] = position
        for _ in range(headers[HeaderColumn.RECORDS_COUNT, column]):
            behind, delta, offset_delta, key, key_size, value, value_size, header, count = _read(
                cursor, end, _MOST_HEADERS
            )
            cursor = behind
            stays = _load8(flag) != numba.uint64(0)
            flag += 1
            if not stays:
                continue
            timestamp = headers[HeaderColumn.MAX_TIMESTAMP, column] if appended else base_timestamp + delta
            if offset_delta <= before or timestamp < _NO_TIMESTAMP:
                return which
            before = offset_delta
            if is_first and new_base < 0:
                new_base = timestamp
            largest = timestamp if is_first else max(largest, timestamp)
            is_first = False
            body = 1 + varint_size(timestamp - new_base) + varint_size(offset_delta)
            body += _field_size(key_size) + _field_size(value_size) + varint_size(count)
            if count > 0:
                body += _headers_size(header, behind, count)
            position = put_varint(position, body)
            _store8(position, 0)
            position = put_varint(position + 1, timestamp - new_base)
            position = put_varint(position, offset_delta)
            position = _put_field(position, key, key_size)
            position = put_varint(_put_field(position, value, value_size), count)
            if count > 0:
                position = _put_headers(position, header, behind, count)
        written[KeptBatch.SIZE, which] = position - written[KeptBatch.START, which]
        written[KeptBatch.BASE_TIMESTAMP, which], written[KeptBatch.MAX_TIMESTAMP, which] = new_base, largest
    return numbers.shape[0]  # type: ignore[no-any-return]


@compiled("void(int64[::1], int64[::1], int64)")
def gather(addresses: Any, sizes: Any, target: int) -> None:
    """Copy pieces of memory to an address, one behind the other."""
    for number in range(addresses.shape[0]):
        copy(target, addresses[number], sizes[number])
        target += sizes[number]
