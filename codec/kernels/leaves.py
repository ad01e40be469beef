"""Reading the leaves of a layout in kernels: numbers, and fields of bytes after their length.

Each function for a leaf of variable size gives the value, the position after it and a fault (0 none), and reads
nothing at or after `end`.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from kafkalog.codec.derive import OpKind
from kafkalog.codec.findings import FindingCode
from kafkalog.codec.kernels.jit import compiled, copy, load, load_big, store

__all__ = [
    "BYTES_LIKE", "FAULTS", "put", "put_short_view", "put_view", "read_bytes", "read_fixed", "read_number",
    "read_varint", "short_varint", "zigzag",
]  # fmt: skip

FAULTS = (
    None,
    FindingCode.RECORD_TRUNCATED,
    FindingCode.RECORD_LENGTH_MISMATCH,
    FindingCode.VARINT_TOO_LONG,
    FindingCode.HEADER_COUNT_INVALID,
    FindingCode.HEADER_KEY_INVALID,
    FindingCode.LIMIT_EXCEEDED,
    FindingCode.RECORDS_TRAILING_BYTES,
)
"""What the numbers of faults mean."""
TRUNCATED, MISMATCH, TOO_LONG, COUNT_INVALID, KEY_INVALID, LIMIT, TRAILING = range(1, len(FAULTS))

# Frozen into the compiled code as constants.
_VARINT, _VARLONG, _BYTES = int(OpKind.VARINT), int(OpKind.VARLONG), int(OpKind.BYTES)
_STRING = int(OpKind.STRING)
BYTES_LIKE = (_BYTES, _STRING)
_load8, _load32, _load64, _store8, _store32, _store64 = load[8], load[32], load[64], store[8], store[32], store[64]
_VIEW, _IN_VIEW = 16, 12
"""Bytes of a view, and those of them that a short field takes."""
_FIRST = np.array([(1 << 8 * min(size, 4)) - 1 for size in range(_IN_VIEW + 1)], np.uint64)
_SECOND = np.array([(1 << 8 * max(size - 4, 0)) - 1 for size in range(_IN_VIEW + 1)], np.uint64)
"""Of the first four bytes of a field, and of the other eight, those that it has."""
_big8, _big16, _big32, _big64 = load_big[8], load_big[16], load_big[32], load_big[64]


@compiled(inline=True)
def read_fixed(position: int, size: int) -> int:
    """A signed big-endian number of 1, 2, 4 or 8 bytes."""
    if size == 8:
        return _big64(position)  # type: ignore[no-any-return]
    if size == 4:
        return _big32(position)  # type: ignore[no-any-return]
    if size == 2:
        return _big16(position)  # type: ignore[no-any-return]
    return _big8(position)  # type: ignore[no-any-return]


@compiled(inline=True)
def _unsigned(position: int, end: int, largest: int) -> tuple[Any, int, int]:
    """Value, position after it, fault."""
    value = numba.uint64(0)
    shift = numba.uint64(0)
    cursor = position
    stop = position + largest
    while cursor < end:
        byte = _load8(cursor)
        cursor += 1
        value |= (byte & numba.uint64(0x7F)) << shift
        if byte < numba.uint64(0x80):
            return value, cursor, 0
        if cursor == stop:
            return value, cursor, TOO_LONG
        shift += numba.uint64(7)
    return value, cursor, TRUNCATED


@compiled(inline=True)
def zigzag(value: Any) -> int:
    """The number that this one stands for."""
    decoded: int = numba.int64(numba.uint64(value) >> numba.uint64(1)) ^ -numba.int64(value & numba.uint64(1))
    return decoded


@compiled(inline=True)
def read_varint(position: int, end: int) -> tuple[int, int, int]:
    """A zig-zag 32-bit integer; most are of one byte or two."""
    if position < end:
        byte = _load8(position)
        if byte < numba.uint64(0x80):
            return zigzag(byte), position + 1, 0
        if position + 1 < end:
            second = _load8(position + 1)
            if second < numba.uint64(0x80):
                return zigzag(byte & numba.uint64(0x7F) | second << numba.uint64(7)), position + 2, 0
    value, after, fault = _unsigned(position, end, 5)
    return zigzag(value & numba.uint64(0xFFFFFFFF)), after, fault


@compiled(inline=True)
def short_varint(position: int) -> tuple[int, int, bool]:
    """A zig-zag integer as it is stored, of at most four bytes, and whether it is one; so many are there anyway."""
    word = _load32(position)
    value, size, is_short = word & numba.uint64(0x7F), 1, True
    if word & numba.uint64(0x80) != 0:
        value, size = value | word >> numba.uint64(1) & numba.uint64(0x3F80), 2
        if word & numba.uint64(0x8000) != 0:
            value, size = value | word >> numba.uint64(2) & numba.uint64(0x1FC000), 3
            if word & numba.uint64(0x800000) != 0:
                value, size = value | word >> numba.uint64(3) & numba.uint64(0xFE00000), 4
                is_short = word < numba.uint64(0x80000000)
    return numba.int64(value), position + size, is_short


@compiled(inline=True)
def _varlong(position: int, end: int) -> tuple[int, int, int]:
    value, after, fault = _unsigned(position, end, 10)
    return zigzag(value), after, fault


@compiled(inline=True)
def read_number(op: int, position: int, end: int) -> tuple[int, int, int]:
    """Value, position after it, fault, of an opcode that reads one number."""
    if op == _VARINT:
        return read_varint(position, end)
    if op == _VARLONG:
        return _varlong(position, end)
    if position >= end:
        return 0, position, TRUNCATED
    return numba.int64(numba.int8(_load8(position))), position + 1, 0


@compiled(inline=True)
def read_bytes(op: int, position: int, end: int) -> tuple[int, int, int]:
    """Size (-1 null), position of the first byte, fault, of an opcode that reads a length and that many bytes."""
    size, behind, fault = read_varint(position, end)
    if fault != 0:
        return size, behind, fault
    if size < 0:
        return -1, behind, (KEY_INVALID if op == _STRING else 0)
    if size > end - behind:
        return size, behind, TRUNCATED
    return size, behind, 0


@compiled(inline=True)
def put(row: int, size: int, source: int, ends: int, valid: int, data: int, filled: int) -> int:
    """Append a field, null below 0 bytes, to the column whose buffers are at these addresses; how far `data` is filled.

    Arrow's offsets begin with that of the first row, so `ends` is written one element further.
    """
    _store8(valid + row, size >= 0)
    if size >= 0:
        copy(data + filled, source, size)
        filled += size
    _store32(ends + 4 * row + 4, filled)
    return filled


@compiled(inline=True)
def put_view(row: int, size: int, source: int, views: int, valid: int, viewed: int, number: int) -> bool:
    """Append a field, null below 0 bytes, to a column of views; whether it is one that points to where the field is.

    The buffers of the column are at `views` and `valid`.  The field is in the data buffer `number`, at `viewed`.
    """
    view = views + _VIEW * row
    _store8(valid + row, size >= 0)
    if size > _IN_VIEW:
        _store32(view, size)
        _store32(view + 4, _load32(source))
        _store32(view + 8, number)
        _store32(view + 12, source - viewed)
        return True
    _store64(view, max(size, 0))
    _store64(view + 8, 0)
    copy(view + 4, source, max(size, 0))
    return False


@compiled(inline=True)
def put_short_view(view: int, source: int, size: int, viewed: int, number: int) -> bool:
    """Append a field that is not null, as `put_view` does; from where it begins, 12 bytes can be read anyway."""
    if size > _IN_VIEW:
        _store64(view, size | numba.int64(_load32(source)) << 32)
        _store64(view + 8, number | (source - viewed) << 32)
        return True
    _store64(view, numba.uint64(size) | (_load32(source) & _FIRST[size]) << numba.uint64(32))
    _store64(view + 8, _load64(source + 4) & _SECOND[size])
    return False
