"""The compiled builder: from columns to the record bytes of many batches, split by size as a producer splits them.

What is written is the declared record (see `record_shape`); `encode.records` is the readable form.
"""

from __future__ import annotations

from typing import Any

import numba

from kafkalog.codec.kernels.crc import checksum
from kafkalog.codec.kernels.jit import compiled, copy, load, store
from kafkalog.codec.kernels.tables import ArrowBuffer, Encoded
from kafkalog.codec.model import BATCH
from kafkalog.codec.record_shape import RECORD

__all__ = ["encode", "put_checksums", "put_varint", "varint_size"]

_HEADER = BATCH.size
_CRC_AT, _CRC_END = BATCH.position("crc"), BATCH.end("crc")
_MAX_DELTA = 2**31 - 1
_load8, _load32 = load[8], load[32]
_store8 = store[8]


@compiled(inline=True)
def _zigzag(value: int) -> Any:
    return numba.uint64(value << 1) ^ numba.uint64(value >> 63)


@compiled(inline=True)
def varint_size(value: int) -> int:
    """Bytes of a number as a zig-zag integer of variable size."""
    left = _zigzag(value)
    size = 1
    while left >= numba.uint64(0x80):
        left >>= numba.uint64(7)
        size += 1
    return size


@compiled(inline=True)
def put_varint(position: int, value: int) -> int:
    """Write a number at an address as such an integer; the address after it."""
    left = _zigzag(value)
    while left >= numba.uint64(0x80):
        _store8(position, numba.int64(left & numba.uint64(0x7F) | numba.uint64(0x80)))
        left >>= numba.uint64(7)
        position += 1
    _store8(position, numba.int64(left))
    return position + 1


@compiled(inline=True)
def _length(ends: int, valid: int, row: int) -> int:
    """Size of a field of a row, -1 for null; `valid` is 0 where none is null."""
    if valid != 0 and _load8(valid + row) == numba.uint64(0):
        return -1
    return numba.int64(_load32(ends + 4 * row + 4)) - numba.int64(_load32(ends + 4 * row))  # type: ignore[no-any-return]


@compiled(inline=True)
def _put_field(position: int, size: int, data: int, ends: int, row: int) -> int:
    position = put_varint(position, size)
    if size > 0:
        copy(position, data + numba.int64(_load32(ends + 4 * row)), size)
        position += size
    return position


@compiled("int64(int64, int64[::1], int64[::1], int64[::1], int64, int64, int64[:,::1])", declared=RECORD)
def encode(rows: int, offsets: Any, timestamps: Any, buffers: Any, target: int, batch_bytes: int, batches: Any) -> int:
    """Write the records of `rows` rows to `target`, each batch after room for its header; how many batches there are.

    `buffers` are those of `ArrowBuffer`, 0 for what is not there; offsets and timestamps come by themselves.  A batch
    has at most `batch_bytes` bytes with its header, unless one record is larger.  `batches` is a table of
    `Encoded` with room for every batch there can be.
    """
    key_ends, key_valid, keys = buffers[ArrowBuffer.KEY_ENDS], buffers[ArrowBuffer.KEY_VALID], buffers[ArrowBuffer.KEY]
    value_ends, values = buffers[ArrowBuffer.VALUE_ENDS], buffers[ArrowBuffer.VALUE]
    value_valid, list_ends = buffers[ArrowBuffer.VALUE_VALID], buffers[ArrowBuffer.HEADER_ENDS]
    name_ends, names = buffers[ArrowBuffer.HEADER_KEY_ENDS], buffers[ArrowBuffer.HEADER_KEY]
    content_ends, contents = buffers[ArrowBuffer.HEADER_VALUE_ENDS], buffers[ArrowBuffer.HEADER_VALUE]
    content_valid = buffers[ArrowBuffer.HEADER_VALUE_VALID]
    batch = -1
    position = target
    first = 0
    for row in range(rows):
        key = _length(key_ends, key_valid, row) if key_ends != 0 else -1
        value = _length(value_ends, value_valid, row) if value_ends != 0 else -1
        header, header_end = 0, 0
        if list_ends != 0:
            header = numba.int64(_load32(list_ends + 4 * row))
            header_end = numba.int64(_load32(list_ends + 4 * row + 4))
        fixed = 1 + varint_size(key) + max(key, 0) + varint_size(value) + max(value, 0)
        fixed += varint_size(header_end - header)
        for each in range(header, header_end):
            name = _length(name_ends, 0, each)
            content = _length(content_ends, content_valid, each)
            fixed += varint_size(name) + name + varint_size(content) + max(content, 0)
        is_new = batch < 0
        body = 0
        if not is_new:
            offset_delta = offsets[row] - offsets[first]
            body = fixed + varint_size(timestamps[row] - timestamps[first]) + varint_size(offset_delta)
            size = position - batches[Encoded.START, batch] + body + varint_size(body)
            is_new = _HEADER + size > batch_bytes or offset_delta > _MAX_DELTA
        if is_new:
            if batch >= 0:
                batches[Encoded.ROWS, batch] = row - first
                batches[Encoded.SIZE, batch] = position - batches[Encoded.START, batch]
            batch += 1
            first = row
            position += _HEADER
            batches[Encoded.FIRST_ROW, batch] = row
            batches[Encoded.START, batch] = position
            batches[Encoded.MAX_TIMESTAMP, batch] = timestamps[row]
            body = fixed + 2
        batches[Encoded.MAX_TIMESTAMP, batch] = max(batches[Encoded.MAX_TIMESTAMP, batch], timestamps[row])
        position = put_varint(position, body)
        _store8(position, 0)
        position = put_varint(position + 1, timestamps[row] - timestamps[first])
        position = put_varint(position, offsets[row] - offsets[first])
        position = _put_field(position, key, keys, key_ends, row)
        position = _put_field(position, value, values, value_ends, row)
        position = put_varint(position, header_end - header)
        for each in range(header, header_end):
            position = _put_field(position, _length(name_ends, 0, each), names, name_ends, each)
            position = _put_field(position, _length(content_ends, content_valid, each), contents, content_ends, each)
    if batch >= 0:
        batches[Encoded.ROWS, batch] = rows - first
        batches[Encoded.SIZE, batch] = position - batches[Encoded.START, batch]
    return batch + 1


@compiled("void(int64[::1], int64[::1])")
def put_checksums(starts: Any, sizes: Any) -> None:
    """Compute and store the checksum of whole batches at addresses."""
    for number in range(starts.shape[0]):
        crc = checksum(starts[number] + _CRC_END, sizes[number] - _CRC_END)
        for byte in range(4):
            shift = numba.uint64(24 - 8 * byte)
            _store8(starts[number] + _CRC_AT + byte, numba.int64(crc >> shift & numba.uint64(0xFF)))
