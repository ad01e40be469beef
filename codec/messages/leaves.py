"""Fields of Kafka's generated messages and of ZooKeeper's jute records, as Construct classes. Each type has up to three
encodings: classic (lengths of fixed width), flexible (length + 1 as an unsigned varint) and jute (32-bit lengths,
everything nullable). The rules are those of Kafka's `MessageDataGenerator` and `ByteBufferAccessor` and of jute's
`BinaryInputArchive`. Before anything is read, every length and count is compared with the bytes left, and the number of
array elements also with a budget.
"""

from __future__ import annotations

import enum
from io import BytesIO
from struct import Struct, error
from typing import Any, BinaryIO, Protocol

from construct import Construct, Container

from kafkalog.codec.layout.primitives import (
    COUNT_INVALID,
    COUNT_LIMIT,
    LENGTH_INVALID,
    NULL_NOT_ALLOWED,
    TRUNCATED,
    LayoutError,
    UnsignedVarint,
    bytes_left,
)
from kafkalog.codec.layout.text_values import uuid_bytes, uuid_text

__all__ = [
    "ELEMENTS", "SCALARS", "Array", "Bytes", "Encoding", "Input", "Optional", "Output", "Placeholder", "Records",
    "Scalar", "Text",
]  # fmt: skip

ELEMENTS = 1 << 20
"""Most array elements of one message, over all its arrays."""
_LONGEST_STRING = 0x7FFF
_SHORT, _INT = Struct(">h"), Struct(">i")


class Encoding(enum.Enum):
    """How lengths and nulls are written."""

    CLASSIC = "classic"
    FLEXIBLE = "flexible"
    JUTE = "jute"


class Input(BytesIO):
    """Bytes to parse, with the number of array elements that may still be created."""

    elements_left = ELEMENTS


class Placeholder(Protocol):
    """Placeholder for records that are not in memory."""

    @property
    def size(self) -> int:
        """Number of bytes that replace it."""


class Output(BytesIO):
    """The bytes built so far. `gaps` has a (position, placeholder) pair for each place at which a sender inserts other
    bytes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gaps: list[tuple[int, Placeholder]] = []


def read_exactly(stream: BinaryIO, size: int, path: str) -> bytes:
    """Read `size` bytes. Raises `LayoutError` (code TRUNCATED), with `path` as the name of the field, if fewer are
    left.
    """
    start = stream.tell()
    data = stream.read(size)
    if len(data) < size:
        raise LayoutError(TRUNCATED, start, f"{size} bytes are needed and {len(data)} are left", path)
    return data


class Scalar(Construct):  # type: ignore[misc]
    """A number of fixed width, or a bool (0 is false, anything else true)."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.struct = Struct(">" + code)
        self.smallest = self.struct.size

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> Any:
        return self.struct.unpack(read_exactly(stream, self.struct.size, path))[0]

    def _build(self, obj: Any, stream: BinaryIO, context: Container, path: str) -> Any:
        try:
            stream.write(self.struct.pack(obj))
        except error as problem:
            raise LayoutError(LENGTH_INVALID, stream.tell(), f"{obj!r} does not fit: {problem}", path) from None
        return obj


class _Uuid(Scalar):
    """A UUID: 16 bytes, whose value is Kafka's text form (URL-safe base64 without padding)."""

    def __init__(self) -> None:
        super().__init__("16s")

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> str:
        return uuid_text(read_exactly(stream, 16, path))

    def _build(self, obj: str, stream: BinaryIO, context: Container, path: str) -> str:
        try:
            stream.write(uuid_bytes(obj))
        except (ValueError, TypeError):
            raise LayoutError(LENGTH_INVALID, stream.tell(), f"{obj!r} is not a uuid", path) from None
        return obj


SCALARS: dict[str, Construct] = {
    "bool": Scalar("?"),
    "int8": Scalar("b"),
    "int16": Scalar("h"),
    "int32": Scalar("i"),
    "int64": Scalar("q"),
    "uint16": Scalar("H"),
    "uint32": Scalar("I"),
    "float64": Scalar("d"),
    "uuid": _Uuid(),
}
"""Construct of each scalar type, by name. They are the same in all encodings."""


class _Sized(Construct):  # type: ignore[misc]
    """Value that begins with a length or a count. Null is written as length -1, or as 0 in the flexible encoding."""

    classic = _INT

    def __init__(self, encoding: Encoding, nullable: bool) -> None:
        super().__init__()
        self.flexible = encoding is Encoding.FLEXIBLE
        self.jute = encoding is Encoding.JUTE
        self.prefix = _INT if self.jute else self.classic
        self.nullable = nullable or self.jute
        self.smallest = 1 if self.flexible else self.prefix.size

    def _length(self, stream: BinaryIO, context: Container, path: str) -> int | None:
        start = stream.tell()
        if self.flexible:
            length = UnsignedVarint._parse(stream, context, path) - 1
        else:
            (length,) = self.prefix.unpack(read_exactly(stream, self.prefix.size, path))
        if length >= 0:
            return int(length)
        if not self.nullable:
            raise LayoutError(NULL_NOT_ALLOWED, start, f"a length of {length} where null is not allowed", path)
        if length < -1:
            raise LayoutError(LENGTH_INVALID, start, f"a length of {length}", path)
        return None

    def _write_length(self, length: int | None, stream: BinaryIO, context: Container, path: str) -> None:
        if length is None and not self.nullable:
            raise LayoutError(NULL_NOT_ALLOWED, stream.tell(), "null is not allowed here", path)
        if self.flexible:
            UnsignedVarint._build(0 if length is None else length + 1, stream, context, path)
        else:
            stream.write(self.prefix.pack(-1 if length is None else length))


class Bytes(_Sized):
    """Bytes; None for null."""

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> Any:
        start = stream.tell()
        length = self._length(stream, context, path)
        if length is None:
            return None
        if length > bytes_left(stream):
            raise LayoutError(LENGTH_INVALID, start, f"a length of {length} runs past the end", path)
        return self._value(stream.read(length), start, path)

    def _value(self, data: bytes, start: int, path: str) -> Any:
        return data

    def _build(self, obj: Any, stream: BinaryIO, context: Container, path: str) -> Any:
        data = None if obj is None else self._data(obj, stream.tell(), path)
        self._write_length(None if data is None else len(data), stream, context, path)
        stream.write(data or b"")
        return obj

    def _data(self, obj: Any, start: int, path: str) -> bytes:
        return bytes(obj)


class Records(Bytes):
    """A field of batches. When it is built, its value may be a `Placeholder`, whose bytes the sender inserts."""

    def _build(self, obj: Any, stream: BinaryIO, context: Container, path: str) -> Any:
        if obj is None or not isinstance(stream, Output) or isinstance(obj, bytes):
            return super()._build(obj, stream, context, path)
        self._write_length(obj.size, stream, context, path)
        stream.gaps.append((stream.tell(), obj))
        return obj


class Text(Bytes):
    """UTF-8 text. Invalid bytes become surrogate escapes. Jute writes UTF-16 surrogates one by one."""

    classic = _SHORT

    def _value(self, data: bytes, start: int, path: str) -> str:
        if self.jute:
            try:
                text = data.decode("utf-8", "surrogatepass")
                return text.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                return data.decode("utf-8", "surrogateescape")
        if len(data) > _LONGEST_STRING:
            raise LayoutError(LENGTH_INVALID, start, f"a string of {len(data)} bytes", path)
        return data.decode("utf-8", "surrogateescape")

    def _data(self, obj: str, start: int, path: str) -> bytes:
        if self.jute:
            try:
                return b"".join(_jute_character(character) for character in obj)
            except UnicodeEncodeError:
                return obj.encode("utf-8", "surrogateescape")
        data = obj.encode("utf-8", "surrogateescape")
        if len(data) > _LONGEST_STRING:
            raise LayoutError(LENGTH_INVALID, start, f"a string of {len(data)} bytes", path)
        return data


def _jute_character(character: str) -> bytes:
    units = character.encode("utf-16-be")
    return b"".join(
        chr(int.from_bytes(units[start : start + 2], "big")).encode("utf-8", "surrogatepass")
        for start in range(0, len(units), 2)
    )


class Array(_Sized):
    """Elements after their count; None for null."""

    def __init__(self, element: Construct, encoding: Encoding, nullable: bool) -> None:
        super().__init__(encoding, nullable)
        self.element = element

    def count(self, stream: BinaryIO, context: Container, path: str) -> int | None:
        """Read the number of elements; return None for a null array. The number is subtracted from
        `Input.elements_left`, the elements that the whole message may still have. Raises `LayoutError` if the number is
        above this or the bytes left are too few for it. It is raised too for an incomplete number, one below -1, and a
        null that is not allowed.
        """
        start = stream.tell()
        count = self._length(stream, context, path)
        if count is None:
            return None
        if count > bytes_left(stream) // self.element.smallest:
            raise LayoutError(COUNT_INVALID, start, f"a count of {count} is impossible", path)
        budget = getattr(stream, "elements_left", ELEMENTS) - count
        if budget < 0:
            raise LayoutError(COUNT_LIMIT, start, f"more than {ELEMENTS} elements in one message", path)
        if isinstance(stream, Input):
            stream.elements_left = budget
        return count

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> list[Any] | None:
        count = self.count(stream, context, path)
        return None if count is None else [self.element._parse(stream, context, path) for _ in range(count)]

    def _build(self, obj: list[Any] | None, stream: BinaryIO, context: Container, path: str) -> Any:
        self._write_length(None if obj is None else len(obj), stream, context, path)
        for element in obj or ():
            self.element._build(element, stream, context, path)
        return obj


class Optional(Construct):  # type: ignore[misc]
    """A nullable struct: a marker, then the struct unless the marker is negative, which means null. A present struct is
    written with marker 1. In a tagged field the marker is an unsigned varint, and 0 means null.
    """

    def __init__(self, struct: Construct, tagged: bool) -> None:
        super().__init__()
        self.struct = struct
        self.marker = UnsignedVarint if tagged else SCALARS["int8"]
        self.null = 0 if tagged else -1
        self.smallest = 1

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> Any:
        if self.marker._parse(stream, context, path) <= self.null:
            return None
        return self.struct._parse(stream, context, path)

    def _build(self, obj: Any, stream: BinaryIO, context: Container, path: str) -> Any:
        self.marker._build(self.null if obj is None else 1, stream, context, path)
        if obj is not None:
            self.struct._build(obj, stream, context, path)
        return obj
