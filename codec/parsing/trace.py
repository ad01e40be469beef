"""Reading a declaration field by field: every value with its place, and what is wrong instead of an end.

One reading serves two readers of it.  Strict, it is how the whole declarations parse (`whole`): the first fault is
raised.  Tolerant, it is what `explain` prints: a wrong checksum is noted and passed, and where a length is known what
comes after the fault is read again from there.  Positions stay those of the whole; inside what was decompressed they
count from its first byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import lru_cache
from io import SEEK_CUR, SEEK_END
from typing import Any

import msgspec
from construct import Const, Construct, ConstructError, Container, ListContainer, StreamError, Struct

from kafkalog.classes import dataclass
from kafkalog.codec.derive import bit_range, fields_of, type_name
from kafkalog.codec.layout.bits import UNNAMED, Bits
from kafkalog.codec.layout.primitives import TRUNCATED, LayoutError, VarintArray
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "CHECKSUM",
    "CONSTANT",
    "MOST_SPANS",
    "TRAILING",
    "UNREAD",
    "FieldSpan",
    "Reader",
    "Spans",
    "Traced",
    "Window",
    "read_spans",
]  # fmt: skip

MOST_SPANS = 1 << 20
"""Spans of one reading, unless fewer are asked for: each takes a few hundred bytes of memory."""

CHECKSUM = "checksum"
CONSTANT = "constant"
TRAILING = "trailing"
UNREAD = "unread"
"""Name of the span of bytes after a fault, which no field can claim any more."""


class Window:
    """A stretch of bytes as a stream for Construct's leaves; positions are those of the whole, from `base` on."""

    def __init__(self, data: memoryview, base: int = 0) -> None:
        self.data = data
        self.base = base
        self.end = base + len(data)
        self._position = base

    def tell(self) -> int:
        """The position of the next byte."""
        return self._position

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; all that are left if it is negative."""
        start = self._position
        self._position = self.end if size < 0 else min(start + size, self.end)
        return bytes(self.data[start - self.base : self._position - self.base])

    def seek(self, position: int, whence: int = 0) -> int:
        """Go to a position, as of any stream."""
        start = {SEEK_CUR: self._position, SEEK_END: self.end}.get(whence, 0)
        self._position = min(max(start + position, self.base), self.end)
        return self._position

    def until(self, end: int) -> Window:
        """The bytes from here to `end`, at the same positions."""
        start = self._position
        return Window(self.data[start - self.base : end - self.base], start)

    def between(self, start: int, end: int) -> memoryview:
        """Bytes from one position to another."""
        return self.data[start - self.base : end - self.base]


@dataclass(slots=True)
class FieldSpan:
    """What lies between two positions: a field with its value, or a structure with its fields."""

    name: str
    position: int
    end: int
    type: str = ""
    value: Any = None
    doc: str = ""
    children: list[FieldSpan] = field(default_factory=list)
    problem: str | None = None
    code: str | None = None
    """what kind of problem it is: that of a `LayoutError`"""
    note: str | None = None
    """what a comparison with other fields showed, where nothing is wrong"""
    resolved: int | None = None
    """what a delta or a relative offset amounts to: an offset, or a time in ms"""
    is_unpacked: bool = False
    """whether its children lie in what was decompressed, and count from its first byte"""
    data: bytes = field(default=b"", repr=False)
    """the bytes from `position` to `end`, of a field that has no fields of its own"""

    def walk(self) -> Iterator[FieldSpan]:
        """All spans from here down, in the order of the bytes."""
        yield self
        for child in self.children:
            yield from child.walk()

    def problems(self) -> Iterator[FieldSpan]:
        """Spans that have something wrong of their own."""
        return (span for span in self.walk() if span.problem is not None)


class _EnoughError(Exception):
    """The limit on spans is reached."""


class Spans(msgspec.Struct):
    """Where the spans of a tolerant reader go: at most `most` of them."""

    most: int
    made: int = 0

    def add(self, parent: FieldSpan, span: FieldSpan) -> None:
        """Put a span below its parent; ends the reading when there are enough."""
        if self.made >= self.most:
            raise _EnoughError
        self.made += 1
        parent.children.append(span)


class Reader:
    """Reads declarations from a window: to values, and where it is tolerant also to the children of one span."""

    def __init__(
        self,
        window: Window,
        span: FieldSpan,
        path: str = "",
        *,
        limits: Limits = DEFAULT_LIMITS,
        spans: Spans | None = None,
    ) -> None:
        self.window = window
        self.span = span
        self.path = path
        self.limits = limits
        self.spans = spans
        """None: strict, the first fault is raised"""

    @property
    def left(self) -> int:
        """Bytes after the current position."""
        return self.window.end - self.window.tell()

    def fields(self, tree: Struct) -> Container:
        """Every field of a declared structure, in order."""
        return Container({name: self.field(name, leaf, doc) for name, doc, leaf in _fields_of(tree)})

    def field(self, name: str, leaf: Construct, doc: str = "") -> Any:
        """One field; its value."""
        if isinstance(leaf, Traced | Struct):
            with self.inside(name, doc=doc) as inner:
                return inner.value_of(leaf)
        if isinstance(leaf, VarintArray):
            with self.inside(name, doc=doc) as inner:
                inner.span.type = "varint count, array"
                return inner.elements(leaf)
        span = self.leaf(name, leaf, doc)
        if isinstance(leaf, Bits) and self.spans is not None:
            span.children = list(_bit_spans(leaf, span))
        return span.value

    def elements(self, array: VarintArray) -> ListContainer:
        """The elements of an array of ours, after their count."""
        count = self.leaf("count", _Count(array), "how many follow", "varint").value
        return ListContainer(self.field(f"[{number}]", array.element) for number in range(count))

    def value_of(self, tree: Traced | Struct) -> Any:
        """A whole structure, its fields as children of this reader's span."""
        self.span.value = tree.read(self) if isinstance(tree, Traced) else self.fields(tree)
        return self.span.value

    def leaf(self, name: str, leaf: Construct, doc: str = "", kind: str | None = None) -> FieldSpan:
        """The span of a field that has no fields of its own."""
        start = self.window.tell()
        span = self._added(FieldSpan(name, start, start, _type_name(leaf) if kind is None else kind, None, doc))
        try:
            span.value = leaf.parse_stream(self.window, max_count=self.limits.headers_per_record)
        except LayoutError as error:
            raise self._stopped(span, leaf, error.code, error.detail) from None
        except StreamError:
            left = self.window.end - start
            needed = f"{leaf.sizeof()} bytes are needed and {left} are left"
            raise self._stopped(span, leaf, TRUNCATED, needed) from None
        except ConstructError:
            raise self._stopped(span, leaf, CONSTANT, f"it is not {_constant(leaf)}") from None
        return self._ended(span, self.window.tell())

    def raw(self, name: str, size: int, doc: str = "") -> FieldSpan:
        """A field of so many bytes, which the caller has compared with what is left."""
        start = self.window.tell()
        span = self._added(FieldSpan(name, start, start, f"{size} bytes", None, doc))
        span.value = self.window.read(size)
        return self._ended(span, self.window.tell())

    def blame(self, name: str, position: int, code: str, message: str) -> None:
        """Something is wrong with a field that was read before: raised, or noted where this reader is tolerant."""
        if self.spans is None:
            raise LayoutError(code, position, message, self._path_of(name))
        span = self._last(name)
        if span is not None and span.problem is None:
            span.problem, span.code = message, code

    def remark(self, name: str, note: str) -> None:
        """What a comparison showed about a field that was read before, where nothing is wrong."""
        span = self._last(name)
        if span is not None:
            span.note = note

    @contextmanager
    def inside(self, name: str, *, unpacked: memoryview | None = None, doc: str = "") -> Iterator[Reader]:
        """A reader of the fields of one structure; after a fault in what was decompressed a tolerant reader goes on."""
        start = self.window.tell()
        span = self._added(FieldSpan(name, start, start, doc=doc, is_unpacked=unpacked is not None))
        window = self.window if unpacked is None else Window(unpacked)
        inner = Reader(window, span, self._path_of(name), limits=self.limits, spans=self.spans)
        try:
            if unpacked is None:
                yield inner
            else:
                with inner.bounded(window.end) as all_of_it:
                    yield all_of_it
        finally:
            self._ended(span, self.window.tell())

    @contextmanager
    def bounded(self, end: int) -> Iterator[Reader]:
        """A reader of fields of the same span that must end at `end`; after a fault a tolerant reader goes on there."""
        inner = Reader(self.window.until(end), self.span, self.path, limits=self.limits, spans=self.spans)
        try:
            yield inner
            if inner.left:
                inner.trailing()
        except LayoutError:
            if self.spans is None:
                raise
            inner.unread()
        self.window.seek(end)

    def trailing(self) -> None:
        """Bytes that no field covers, where the structure should end."""
        count, position = self.left, self.window.tell()
        self.raw(UNREAD, count)
        self.blame(UNREAD, position, TRAILING, f"{count} bytes after the last field")

    def unread(self) -> None:
        """What is left after a fault, as one span."""
        if self.left:
            self.raw(UNREAD, self.left, "not read, because of the fault before it")

    def _added(self, span: FieldSpan) -> FieldSpan:
        if self.spans is not None:
            self.spans.add(self.span, span)
        return span

    def _ended(self, span: FieldSpan, end: int) -> FieldSpan:
        span.end = end
        if self.spans is not None and not span.children:
            span.data = bytes(self.window.between(span.position, end))
        return span

    def _last(self, name: str) -> FieldSpan | None:
        return next((span for span in reversed(self.span.children) if span.name == name), None)

    def _path_of(self, name: str) -> str:
        return f"{self.path}{'' if name.startswith('[') or not self.path else '.'}{name}"

    def _stopped(self, span: FieldSpan, leaf: Construct, code: str, message: str) -> LayoutError:
        """The error for a field that cannot be read; its span covers the bytes that were looked at."""
        size = leaf.sizeof() if _is_fixed(leaf) else max(self.window.tell() - span.position, 1)
        self.window.seek(min(span.position + size, self.window.end))
        self._ended(span, self.window.tell())
        span.problem, span.code = message, code
        return LayoutError(code, span.position, message, self._path_of(span.name))


class Traced(Construct):  # type: ignore[misc]
    """A structure of ours whose one reading, `read`, gives both its value and its spans."""

    def read(self, reader: Reader) -> Any:
        """Read it from where the reader is; raises `LayoutError`."""
        raise NotImplementedError

    def parse_whole(self, data: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[Any, int]:
        """The value at the start of `data`, and the position after it; the first fault is raised as `LayoutError`."""
        reader = Reader(Window(memoryview(data)), FieldSpan("", 0, 0), limits=limits)
        return self.read(reader), reader.window.tell()

    def _parse(self, stream: Any, context: Container, path: str) -> Any:
        start = stream.tell()
        value, end = self.parse_whole(stream.read())
        stream.seek(start + end)
        return value


class _Count(Construct):  # type: ignore[misc]
    """The count of an array of ours, examined as the array examines it."""

    def __init__(self, array: VarintArray) -> None:
        super().__init__()
        self.array = array

    def _parse(self, stream: Any, context: Container, path: str) -> int:
        return self.array.count(stream, context, path)


@lru_cache(maxsize=256)
def _fields_of(tree: Struct) -> list[tuple[str, str, Construct]]:
    return fields_of(tree)


@lru_cache(maxsize=256)
def _type_name(leaf: Construct) -> str:
    return type_name(leaf)


def _bit_spans(leaf: Bits, number: FieldSpan) -> Iterator[FieldSpan]:
    for bit in leaf.bits:
        kind = bit_range(bit.lowest, bit.width)
        yield FieldSpan(bit.name, number.position, number.end, kind, number.value[bit.name], bit.doc)
    if UNNAMED in number.value:
        doc = "bits that have no name in any version of Kafka up to now"
        yield FieldSpan(UNNAMED, number.position, number.end, "bits", number.value[UNNAMED], doc)


def _is_fixed(leaf: Construct) -> bool:
    try:
        leaf.sizeof()
    except ConstructError:
        return False
    return True


def _constant(leaf: Construct) -> str:
    value = leaf.value if isinstance(leaf, Const) else None
    return value.hex(" ") if isinstance(value, bytes) else hex(value) if isinstance(value, int) else "what is declared"


def read_spans(
    tree: Traced | Struct,
    data: bytes | memoryview,
    *,
    position: int = 0,
    name: str = "",
    limits: Limits = DEFAULT_LIMITS,
    most: int = MOST_SPANS,
) -> FieldSpan:
    """The spans of one structure at the start of `data`, at most `most`, whatever is wrong with it.

    `position` is that of the first byte in its file.  Problems are on the spans that have them; the bytes after a fault
    that leaves no known end are one span named `UNREAD`.
    """
    view = memoryview(data)
    root = FieldSpan(name, position, position)
    spans = Spans(most)
    reader = Reader(Window(view, position), root, limits=limits, spans=spans)
    try:
        reader.value_of(tree)
    except LayoutError:
        with suppress(_EnoughError):
            reader.unread()
    except _EnoughError:
        root.note = f"only the first {most} fields"
    root.end = reader.window.tell()
    return root
