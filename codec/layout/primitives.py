"""Fields of variable length in Kafka's formats (varints, sized bytes, arrays), as Construct classes. Construct's own
`VarInt` reads without a bound and in quadratic time, and its arrays trust their count. The classes here read at most 5
or 10 bytes of a varint, and compare every length and count with the bytes left before they read on. The rules are those
of `org.apache.kafka.common.utils.ByteUtils` and `org.apache.kafka.common.record.DefaultRecord`. A leaf that cannot be
read raises `LayoutError` with a stable `code` and the position at which the leaf began, so that other implementations
of a declaration can be compared to the byte.
"""

from __future__ import annotations

from io import SEEK_END, SEEK_SET
from typing import Any, BinaryIO

from construct import Construct, ConstructError, Container, Int32sb, ListContainer

__all__ = [
    "COUNT_INVALID",
    "COUNT_LIMIT",
    "LENGTH_INVALID",
    "NULL_NOT_ALLOWED",
    "TRUNCATED",
    "VARINT_TOO_LONG",
    "Int32Bytes",
    "LayoutError",
    "UnsignedVarint",
    "Varint",
    "VarintArray",
    "VarintBytes",
    "VarintString",
    "Varlong",
    "bytes_left",
]

TRUNCATED = "truncated"
VARINT_TOO_LONG = "varint_too_long"
LENGTH_INVALID = "length_invalid"
NULL_NOT_ALLOWED = "null_not_allowed"
COUNT_INVALID = "count_invalid"
COUNT_LIMIT = "count_limit"


class LayoutError(ConstructError):  # type: ignore[misc]
    """A leaf could not be read or written. `code` is stable, `position` is where the leaf began in the stream, and
    `detail` is the message without the path.
    """

    def __init__(self, code: str, position: int, message: str, path: str | None = None) -> None:
        self.code = code
        self.position = position
        self.detail = message
        self._arguments = code, position, message, path
        super().__init__(message, path=path)

    def __reduce__(self) -> tuple[Any, ...]:
        return LayoutError, self._arguments


def bytes_left(stream: BinaryIO) -> int:
    """Return the number of bytes after the current position."""
    here = stream.tell()
    end = stream.seek(0, SEEK_END)
    stream.seek(here, SEEK_SET)
    return end - here


def _read_unsigned(stream: BinaryIO, max_bytes: int, path: str) -> int:
    start = stream.tell()
    value = 0
    for count in range(max_bytes):
        byte = stream.read(1)
        if not byte:
            raise LayoutError(TRUNCATED, start, "the bytes end inside a variable-length integer", path)
        value |= (byte[0] & 0x7F) << (7 * count)
        if byte[0] < 0x80:
            return value
    raise LayoutError(VARINT_TOO_LONG, start, f"a variable-length integer is longer than {max_bytes} bytes", path)


def _write_unsigned(stream: BinaryIO, value: int) -> None:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    stream.write(bytes(encoded))


class _VariableInteger(Construct):  # type: ignore[misc]
    """Integer in groups of 7 bits, the least significant first. Surplus high bits of the last byte are dropped, as in
    Kafka.
    """

    bits: int
    max_bytes: int
    zigzag: bool

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> int:
        value = _read_unsigned(stream, self.max_bytes, path) & ((1 << self.bits) - 1)
        return (value >> 1) ^ -(value & 1) if self.zigzag else value

    def _build(self, obj: int, stream: BinaryIO, context: Container, path: str) -> int:
        low, high = (-(1 << self.bits - 1), (1 << self.bits - 1) - 1) if self.zigzag else (0, (1 << self.bits) - 1)
        if not low <= obj <= high:
            raise LayoutError(LENGTH_INVALID, stream.tell(), f"{obj} does not fit into {self.bits} bits", path)
        _write_unsigned(stream, ((obj << 1) ^ (obj >> self.bits - 1)) & ((1 << self.bits) - 1) if self.zigzag else obj)
        return obj


class _Varint(_VariableInteger):
    bits, max_bytes, zigzag = 32, 5, True


class _Varlong(_VariableInteger):
    bits, max_bytes, zigzag = 64, 10, True


class _UnsignedVarint(_VariableInteger):
    bits, max_bytes, zigzag = 32, 5, False


Varint = _Varint()
"""Zig-zag, 32 bits, at most 5 bytes."""
Varlong = _Varlong()
"""Zig-zag, 64 bits, at most 10 bytes."""
UnsignedVarint = _UnsignedVarint()
"""Plain, 32 bits, at most 5 bytes."""


class _SizedBytes(Construct):  # type: ignore[misc]
    """A length and that many bytes. Any negative length is read as null; null is written as -1."""

    prefix: Construct
    nullable = True

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> bytes | None:
        start = stream.tell()
        length = self._length(stream, context, path)
        if length < 0:
            if self.nullable:
                return None
            raise LayoutError(NULL_NOT_ALLOWED, start, f"a length of {length} where null is not allowed", path)
        if length > bytes_left(stream):
            raise LayoutError(LENGTH_INVALID, start, f"a length of {length} runs past the end", path)
        return stream.read(length)

    def _build(self, obj: bytes | None, stream: BinaryIO, context: Container, path: str) -> bytes | None:
        if obj is None:
            if not self.nullable:
                raise LayoutError(NULL_NOT_ALLOWED, stream.tell(), "null is not allowed here", path)
            self.prefix._build(-1, stream, context, path)
            return obj
        self.prefix._build(len(obj), stream, context, path)
        stream.write(obj)
        return obj

    def _length(self, stream: BinaryIO, context: Container, path: str) -> int:
        length: int = self.prefix._parse(stream, context, path)
        return length


class _VarintBytes(_SizedBytes):
    """A varint length and that many bytes."""

    prefix = Varint


class _Int32Bytes(_SizedBytes):
    """An int32 length and that many bytes, as in messages of magic 0 and 1."""

    prefix = Int32sb

    def _length(self, stream: BinaryIO, context: Container, path: str) -> int:
        start = stream.tell()
        if bytes_left(stream) < self.prefix.length:
            raise LayoutError(TRUNCATED, start, "the bytes end inside a length", path)
        return super()._length(stream, context, path)


class _VarintString(_VarintBytes):
    """A varint length and that many bytes, never null: a header key. The value is bytes; UTF-8 is a convention that is
    not checked.
    """

    nullable = False


VarintBytes = _VarintBytes()
VarintString = _VarintString()
Int32Bytes = _Int32Bytes()


class VarintArray(Construct):  # type: ignore[misc]
    """A varint count and that many elements of at least `smallest` bytes each. The context parameter `max_count`, if
    set, is an additional bound of the count.
    """

    def __init__(self, element: Construct, smallest: int) -> None:
        super().__init__()
        self.element = element
        self.smallest = smallest

    def count(self, stream: BinaryIO, context: Container, path: str) -> int:
        """Read the number of elements. Raises `LayoutError` with code COUNT_INVALID if the number is negative, or too
        large for the bytes left. The code is COUNT_LIMIT if it is above the context parameter `max_count`. Also raises
        `LayoutError` for a varint that is too long or incomplete.
        """
        start = stream.tell()
        count: int = Varint._parse(stream, context, path)
        if not 0 <= count <= bytes_left(stream) // self.smallest:
            raise LayoutError(COUNT_INVALID, start, f"a count of {count} is impossible", path)
        if count > getattr(context._params, "max_count", count):
            raise LayoutError(COUNT_LIMIT, start, f"a count of {count} is above the limit", path)
        return count

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> ListContainer:
        count = self.count(stream, context, path)
        return ListContainer(self.element._parsereport(stream, context, path) for _ in range(count))

    def _build(self, obj: list[Any], stream: BinaryIO, context: Container, path: str) -> list[Any]:
        Varint._build(len(obj), stream, context, path)
        for element in obj:
            self.element._build(element, stream, context, path)
        return obj
