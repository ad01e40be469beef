"""The compiled writer of JSON lines: from Arrow's buffers to the bytes that `dump --json` prints.

The lines are those that Python's `json` makes of the same record with ASCII output and without blanks; keys and values
are text where they are UTF-8, else null beside a base64 sibling, or always base64.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kafkalog.codec.kernels.jit import compiled, copy, load, store
from kafkalog.codec.kernels.tables import PIECES, ArrowBuffer
from kafkalog.codec.model import MICROSECONDS

__all__ = ["write_lines"]

(_TIMESTAMP, _CREATED, _APPENDED, _KEY_64, _VALUE, _VALUE_64, _HEADERS, _HEADERS_64, _EPOCH,
 _NULL, _NO_HEADERS) = range(len(PIECES))  # fmt: skip
_HEX = tuple(b"0123456789abcdef")
_BASE64 = tuple(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_ESCAPES = {0x22: 0x22, 0x5C: 0x5C, 8: 0x62, 9: 0x74, 10: 0x6E, 12: 0x66, 13: 0x72}
_SHORT = tuple(_ESCAPES.get(byte, 0) for byte in range(128))
"""The letter after the backslash where there is a short escape."""
_QUOTE, _BACKSLASH, _U, _COMMA, _OPEN, _CLOSE = 0x22, 0x5C, 0x75, 0x2C, 0x5B, 0x5D
_load8, _load32, _load64 = load[8], load[32], load[64]
_store8, _store16, _store64 = store[8], store[16], store[64]
_PAIRS = tuple(int.from_bytes(b"%02d" % number, "little") for number in range(100))
_MOST_DIGITS = 20


def _in_each_byte(value: int) -> int:
    return value * 0x0101010101010101


_ONES, _HIGH, _BLANKS = _in_each_byte(1), _in_each_byte(0x80), _in_each_byte(0x20)
_QUOTES, _BACKSLASHES, _DELETES = _in_each_byte(_QUOTE), _in_each_byte(_BACKSLASH), _in_each_byte(0x7F)


def _count_zeros_below(_context: Any, word: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.uint64), generate


_zeros_below: Any = intrinsic(_count_zeros_below)
"""How many bits below the lowest one that is set are not; 64 if none is."""


@compiled(inline=True)
def _has_zero(word: Any) -> Any:
    """The high bit of each byte that is zero, and maybe of some above the lowest of them."""
    return (word - numba.uint64(_ONES)) & ~word & numba.uint64(_HIGH)


@compiled(inline=True)
def _plain_bytes(word: Any) -> int:
    """How many of eight bytes, from the first on, stand for themselves in a JSON string."""
    odd = (word | (word - numba.uint64(_BLANKS)) & ~word) & numba.uint64(_HIGH)
    odd |= _has_zero(word ^ numba.uint64(_QUOTES)) | _has_zero(word ^ numba.uint64(_BACKSLASHES))
    odd |= _has_zero(word ^ numba.uint64(_DELETES))
    return _zeros_below(odd) >> 3  # type: ignore[no-any-return]


@compiled(inline=True)
def _byte(address: int) -> int:
    return numba.int64(_load8(address))  # type: ignore[no-any-return]


@compiled(inline=True)
def _number(out: int, value: int) -> int:
    """A decimal number."""
    left = numba.uint64(value)
    if value < 0:
        _store8(out, 0x2D)
        out += 1
        left = numba.uint64(0) - left
    digits, limit = 1, numba.uint64(10)
    while digits < _MOST_DIGITS and left >= limit:
        limit *= numba.uint64(10)
        digits += 1
    place = digits
    while left >= numba.uint64(100):
        rest = left // numba.uint64(100)
        place -= 2
        _store16(out + place, _PAIRS[left - rest * numba.uint64(100)])
        left = rest
    if left >= numba.uint64(10):
        _store16(out, _PAIRS[left])
    else:
        _store8(out, 0x30 + numba.int64(left))
    return out + digits


@compiled(inline=True)
def _unicode_escape(out: int, unit: int) -> int:
    _store8(out, _BACKSLASH)
    _store8(out + 1, _U)
    for place in range(4):
        _store8(out + 2 + place, _HEX[unit >> (12 - 4 * place) & 15])
    return out + 6


@compiled()
def _wide(at: int, end: int) -> tuple[int, int]:
    """Code point and size of the UTF-8 sequence that begins at `at`, as strict as Python; size 0 if there is none."""
    first = _byte(at)
    size = 2 if 0xC2 <= first < 0xE0 else 3 if 0xE0 <= first < 0xF0 else 4 if 0xF0 <= first < 0xF5 else 0
    if size == 0 or size > end - at:
        return 0, 0
    point = first & (0x7F >> size)
    for place in range(1, size):
        byte = _byte(at + place)
        if byte & 0xC0 != 0x80:
            return 0, 0
        point = point << 6 | byte & 0x3F
    if (size == 3 and (point < 0x800 or 0xD800 <= point < 0xE000)) or (size == 4 and not 0x10000 <= point < 0x110000):
        return 0, 0
    return point, size


@compiled()
def _text(out: int, at: int, size: int) -> int:
    """A string, quoted; -1 if the bytes are not UTF-8."""
    _store8(out, _QUOTE)
    out += 1
    end = at + size
    while at < end:
        if end - at >= 8:  # the room for six times the data has these eight bytes, however many of them count
            word = _load64(at)
            plain = _plain_bytes(word)
            _store64(out, word)
            out += plain
            at += plain
            if plain == 8:
                continue
        byte = _byte(at)
        if byte >= 0x80:
            point, size = _wide(at, end)
            if size == 0:
                return -1
            if point >= 0x10000:
                out = _unicode_escape(out, 0xD800 + ((point - 0x10000) >> 10))
                point = 0xDC00 + (point & 0x3FF)
            out = _unicode_escape(out, point)
            at += size
            continue
        if 0x20 <= byte < 0x7F and byte != _QUOTE and byte != _BACKSLASH:
            _store8(out, byte)
            out += 1
        elif _SHORT[byte] != 0:
            _store8(out, _BACKSLASH)
            _store8(out + 1, _SHORT[byte])
            out += 2
        else:
            out = _unicode_escape(out, byte)
        at += 1
    _store8(out, _QUOTE)
    return out + 1


@compiled()
def _base64(out: int, at: int, size: int) -> int:
    """Base64 in quotes."""
    _store8(out, _QUOTE)
    out += 1
    end = at + size
    while end - at >= 3:
        word = _byte(at) << 16 | _byte(at + 1) << 8 | _byte(at + 2)
        _store8(out, _BASE64[word >> 18])
        _store8(out + 1, _BASE64[word >> 12 & 63])
        _store8(out + 2, _BASE64[word >> 6 & 63])
        _store8(out + 3, _BASE64[word & 63])
        out += 4
        at += 3
    if end > at:
        word = _byte(at) << 16
        if end - at == 2:
            word |= _byte(at + 1) << 8
        _store8(out, _BASE64[word >> 18])
        _store8(out + 1, _BASE64[word >> 12 & 63])
        _store8(out + 2, _BASE64[word >> 6 & 63] if end - at == 2 else 0x3D)
        _store8(out + 3, 0x3D)
        out += 4
    _store8(out, _QUOTE)
    return out + 1


@compiled(inline=True)
def _piece(out: int, pieces: Any, number: int) -> int:
    copy(out, pieces[0, number], pieces[1, number])
    return out + pieces[1, number]  # type: ignore[no-any-return]


@compiled(inline=True)
def _start(ends: int, row: int) -> int:
    return numba.int64(_load32(ends + 4 * row))  # type: ignore[no-any-return]


@compiled()
def _field(out: int, ends: int, valid: int, data: int, row: int, encoded: bool, pieces: Any, sibling: int) -> int:
    """A key or value, and its base64 sibling where it is needed."""
    if _byte(valid + row) == 0:
        return _piece(out, pieces, _NULL)
    at = data + _start(ends, row)
    size = _start(ends, row + 1) - _start(ends, row)
    if encoded:
        return _base64(out, at, size)
    after = _text(out, at, size)
    if after >= 0:
        return after
    return _base64(_piece(_piece(out, pieces, _NULL), pieces, sibling), at, size)


@compiled()
def _pairs(out: int, first: int, last: int, buffers: Any, encoded: bool, pieces: Any) -> int:
    """A list of names and values; -1 if a name is not UTF-8, -2 if a value should be and is none."""
    _store8(out, _OPEN)
    out += 1
    for each in range(first, last):
        if each > first:
            _store8(out, _COMMA)
            out += 1
        _store8(out, _OPEN)
        name = _start(buffers[ArrowBuffer.HEADER_KEY_ENDS], each)
        out = _text(
            out + 1,
            buffers[ArrowBuffer.HEADER_KEY] + name,
            _start(buffers[ArrowBuffer.HEADER_KEY_ENDS], each + 1) - name,
        )
        if out < 0:
            return -1
        _store8(out, _COMMA)
        out += 1
        if _byte(buffers[ArrowBuffer.HEADER_VALUE_VALID] + each) == 0:
            out = _piece(out, pieces, _NULL)
        else:
            begin = _start(buffers[ArrowBuffer.HEADER_VALUE_ENDS], each)
            size = _start(buffers[ArrowBuffer.HEADER_VALUE_ENDS], each + 1) - begin
            at = buffers[ArrowBuffer.HEADER_VALUE] + begin
            out = _base64(out, at, size) if encoded else _text(out, at, size)
            if out < 0:
                return -2
        _store8(out, _CLOSE)
        out += 1
    _store8(out, _CLOSE)
    return out + 1


@compiled("int64(int64, int64[::1], uint8[::1], int64[::1], int64[::1], int64[:,::1], boolean, int64)",
          declared=(PIECES,))  # fmt: skip
def write_lines(
    rows: int, buffers: Any, appended: Any, epochs: Any, prefix: Any, pieces: Any, encoded: bool, target: int
) -> int:
    """Write a line for each row to `target`; the bytes written, or -1 if a header's name is not UTF-8.

    `buffers` are those of `ArrowBuffer`, sequences excepted.  `appended` and `epochs` have an entry for each row.
    `prefix` is address and size of what comes before the offset, `pieces` of each of `PIECES`.  `target` needs room for
    six times the data.
    """
    key_ends, key_valid, keys = buffers[ArrowBuffer.KEY_ENDS], buffers[ArrowBuffer.KEY_VALID], buffers[ArrowBuffer.KEY]
    value_ends, values = buffers[ArrowBuffer.VALUE_ENDS], buffers[ArrowBuffer.VALUE]
    value_valid, header_ends = buffers[ArrowBuffer.VALUE_VALID], buffers[ArrowBuffer.HEADER_ENDS]
    out = target
    for row in range(rows):
        copy(out, prefix[0], prefix[1])
        out = _number(out + prefix[1], numba.int64(_load64(buffers[ArrowBuffer.OFFSET] + 8 * row)))
        out = _piece(out, pieces, _TIMESTAMP)
        out = _number(out, numba.int64(_load64(buffers[ArrowBuffer.TIMESTAMP] + 8 * row)) // MICROSECONDS)
        out = _piece(out, pieces, _APPENDED if appended[row] != 0 else _CREATED)
        out = _field(out, key_ends, key_valid, keys, row, encoded, pieces, _KEY_64)
        out = _piece(out, pieces, _VALUE)
        out = _field(out, value_ends, value_valid, values, row, encoded, pieces, _VALUE_64)
        first, last = _start(header_ends, row), _start(header_ends, row + 1)
        if first == last:
            out = _piece(out, pieces, _NO_HEADERS)
        else:
            out = _piece(out, pieces, _HEADERS)
            after = _pairs(out, first, last, buffers, encoded, pieces)
            if after == -1:
                return -1
            if after == -2:
                out = _piece(_piece(out, pieces, _NULL), pieces, _HEADERS_64)
                after = _pairs(out, first, last, buffers, True, pieces)
                if after < 0:
                    return -1
            out = _piece(after, pieces, _EPOCH)
        out = _piece(out, pieces, _NULL) if epochs[row] < 0 else _number(out, epochs[row])
        _store8(out, 0x7D)
        _store8(out + 1, 0x0A)
        out += 2
    return out - target
