"""Read a declared structure field by field, and record each value with its position and its fault, if any. A strict
reader raises at the first fault; the declarations in `whole` are parsed with it. A tolerant reader, for `explain`,
records faults: it continues after a wrong checksum and, if a length is known, after the faulty structure. Positions
count from the start of the whole input, or, in decompressed bytes, from the first decompressed byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from io import SEEK_CUR, SEEK_END
from typing import Any

import msgspec
from construct import Const, Construct, ConstructError, Container, ListContainer, StreamError, Struct

from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.derive import bit_range, fields_of, type_name
from kafkalog.codec.layout.bits import UNNAMED, Bits
from kafkalog.codec.layout.primitives import TRUNCATED, LayoutError, VarintArray

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
"""Most spans of one reading, unless the caller sets less: each takes a few hundred bytes of memory."""

CHECKSUM = "checksum"
CONSTANT = "constant"
TRAILING = "trailing"
UNREAD = "unread"
"""Name of the span of bytes after a fault that no field can claim."""


class Window:
    """A range of bytes as a stream for Construct's leaves. Its first byte has the position `base`."""

    def __init__(self, data: memoryview, base: int = 0) -> None:
        self.data = data
        self.base = base
        self.end = base + len(data)
        self._position = base

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Read at most `size` bytes; all bytes left if `size` is negative."""
        start = self._position
        self._position = self.end if size < 0 else min(start + size, self.end)
        return bytes(self.data[start - self.base : self._position - self.base])

    def seek(self, position: int, whence: int = 0) -> int:
        """Move to a position and return it. `whence` is as for any stream. The result is never outside the window."""
        start = {SEEK_CUR: self._position, SEEK_END: self.end}.get(whence, 0)
        self._position = min(max(start + position, self.base), self.end)
        return self._position

    def until(self, end: int) -> Window:
        """Return a new window of the bytes from the current position to position `end`. Positions in it are the
        same.
        """
        start = self._position
        return Window(self.data[start - self.base : end - self.base], start)

    def between(self, start: int, end: int) -> memoryview:
        """Return the bytes from position `start` to `end`."""
        return self.data[start - self.base : end - self.base]


@dataclass(slots=True)
class FieldSpan:
    """A named range of bytes (`end` is exclusive): a field with its value, or a structure with its fields as
    children.
    """

    name: str
    position: int
    end: int
    type: str = ""
    value: Any = None
    doc: str = ""
    children: list[FieldSpan] = field(default_factory=list)
    problem: str | None = None
    code: str | None = None
    """kind of problem, as in `LayoutError`; None without one"""
    note: str | None = None
    """result of a comparison with other fields, if nothing is wrong"""
    resolved: int | None = None
    """absolute value of a delta or relative offset: an offset, or a time in ms; None for other fields"""
    is_unpacked: bool = False
    """whether its children are in decompressed bytes, so that their positions count from the first of these"""
    data: bytes = field(default=b"", repr=False)
    """bytes from `position` to `end`; empty if it has children"""

    def walk(self) -> Iterator[FieldSpan]:
        """Yield this span, then the spans below it, in the order of the bytes."""
        yield self
        for child in self.children:
            yield from child.walk()

    def problems(self) -> Iterator[FieldSpan]:
        """Yield the spans that have a problem of their own, among this one and all below it, in the order of the
        bytes.
        """
        return (span for span in self.walk() if span.problem is not None)


class _EnoughError(Exception):
    """The limit on spans is reached."""


class Spans(msgspec.Struct):
    """Collector of the spans of a tolerant reader, at most `most`."""

    most: int
    made: int = 0

    def add(self, parent: FieldSpan, span: FieldSpan) -> None:
        """Add a span below its parent. Raises `_EnoughError`, which ends the reading, if there are already `most`."""
        if self.made >= self.most:
            raise _EnoughError
        self.made += 1
        parent.children.append(span)


class Reader:
    """Reader of declared fields from a window. It returns values; a tolerant reader also adds spans below `span`."""

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
        """collector of spans of a tolerant reader; None for a strict one, which raises at the first fault"""

    @property
    def left(self) -> int:
        """Number of bytes after the current position."""
        return self.window.end - self.window.tell()

    def fields(self, tree: Struct) -> Container:
        """Read all fields of a declared structure in order; return a container of their values. Raises `LayoutError` at
        a field that cannot be read.
        """
        return Container({name: self.field(name, leaf, doc) for name, doc, leaf in _fields_of(tree)})

    def field(self, name: str, leaf: Construct, doc: str = "") -> Any:
        """Read one field, structure or array; return its value: a container for a structure, a list for an array.
        Raises `LayoutError` if it cannot be read. A tolerant reader adds a span `name` with the description `doc`.
        """
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
        """Read the count and the elements of an array of `primitives`; return the values of the elements. Raises
        `LayoutError` for an impossible count, or at an element that cannot be read.
        """
        count = self.leaf("count", _Count(array), "how many follow", "varint").value
        return ListContainer(self.field(f"[{number}]", array.element) for number in range(count))

    def value_of(self, tree: Traced | Struct) -> Any:
        """Read a whole structure, with its fields below this reader's span; return its value."""
        self.span.value = tree.read(self) if isinstance(tree, Traced) else self.fields(tree)
        return self.span.value

    def leaf(self, name: str, leaf: Construct, doc: str = "", kind: str | None = None) -> FieldSpan:
        """Read a field that has no fields of its own; return its span, which has the value. `kind` is the type in words
        (None: from the declaration). Raises `LayoutError` if the field cannot be read. A tolerant reader records the
        problem on the span first.
        """
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
        """Read a field of `size` bytes; return its span, which has the bytes as value. The caller has checked that at
        least `size` bytes are left.
        """
        start = self.window.tell()
        span = self._added(FieldSpan(name, start, start, f"{size} bytes", None, doc))
        span.value = self.window.read(size)
        return self._ended(span, self.window.tell())

    def blame(self, name: str, position: int, code: str, message: str) -> None:
        """Report a problem of field `name`, which was read before. A strict reader raises `LayoutError`. A tolerant
        reader records the problem on the field's span, unless the span already has one or does not exist.
        """
        if self.spans is None:
            raise LayoutError(code, position, message, self._path_of(name))
        span = self._last(name)
        if span is not None and span.problem is None:
            span.problem, span.code = message, code

    def remark(self, name: str, note: str) -> None:
        """Store `note`, the result of a successful comparison, on the span of field `name`, if there is one."""
        span = self._last(name)
        if span is not None:
            span.note = note

    @contextmanager
    def inside(self, name: str, *, unpacked: memoryview | None = None, doc: str = "") -> Iterator[Reader]:
        """Context manager that yields a new reader for one structure. The structure's span `name` begins at the current
        position and ends with the context. With `unpacked`, the new reader reads these decompressed bytes, and the
        position of this reader does not change. If the decompressed bytes have a fault, or are not read to their end, a
        strict reader raises `LayoutError`; a tolerant one records the fault.
        """
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
        """Context manager that yields a reader for more fields of the same span, up to byte `end`. After the context
        this reader is at `end`. Bytes that were not read are a fault. At a fault, a strict reader raises `LayoutError`;
        a tolerant one records the fault, and the bytes after it as unread, and continues at `end`.
        """
        inner = Reader(self.window.until(end), self.span, self.path, limits=self.limits, spans=self.spans)
        try:
            yield inner
            if inner.left:
                inner.trailing()
        except LayoutError as error:
            if self.spans is None:
                raise
            inner.unread(error)
        self.window.seek(end)

    def trailing(self) -> None:
        """Report the bytes left after the last field of a structure as a problem: a strict reader raises `LayoutError`,
        a tolerant one records it.
        """
        count, position = self.left, self.window.tell()
        self.raw(UNREAD, count)
        self.blame(UNREAD, position, TRAILING, f"{count} bytes after the last field")

    def unread(self, fault: LayoutError) -> None:
        """Read the bytes left after a fault, and record them as one span. Its problem is the fault, unless a field has
        a problem already; in this case nothing is recorded if no bytes are left.
        """
        if next(self.span.problems(), None) is None:
            span = self.raw(UNREAD, self.left, "not read")
            span.problem = f"{fault.path}: {fault.detail}" if fault.path else fault.detail
            span.code = fault.code
        elif self.left:
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
        """Return (not raise) the error for a field that cannot be read. Records the problem on its span, and extends
        the span and moves the window's position over the bytes that were examined.
        """
        size = leaf.sizeof() if _is_fixed(leaf) else max(self.window.tell() - span.position, 1)
        self.window.seek(min(span.position + size, self.window.end))
        self._ended(span, self.window.tell())
        span.problem, span.code = message, code
        return LayoutError(code, span.position, message, self._path_of(span.name))


class Traced(Construct):  # type: ignore[misc]
    """A structure whose method `read` returns its value and records its spans."""

    def read(self, reader: Reader) -> Any:
        """Read the structure from the reader's position; return its value. Raises `LayoutError` if it cannot be
        read.
        """
        raise NotImplementedError

    def parse_whole(self, data: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[Any, int]:
        """Read the structure at the start of `data`; return its value and the position after it. Raises `LayoutError`
        at the first fault.
        """
        reader = Reader(Window(memoryview(data)), FieldSpan("", 0, 0), limits=limits)
        return self.read(reader), reader.window.tell()

    def _parse(self, stream: Any, context: Container, path: str) -> Any:
        start = stream.tell()
        value, end = self.parse_whole(stream.read())
        stream.seek(start + end)
        return value


class _Count(Construct):  # type: ignore[misc]
    """The count of an array of `primitives`, with the array's own checks."""

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
    """Read the structure at the start of `data`; return the root span, with the spans of its fields below it. Bad data
    raises no exception: each problem is recorded on its span. The bytes after a fault become one span named `UNREAD`,
    which has the problem if no field has it. It ends with the faulty structure, or with `data` if the end of the
    structure is unknown. Reading ends after `most` spans, with a note on the root span. `name` is the name of the root
    span, and `position` the position of the first byte in its file.
    """
    view = memoryview(data)
    root = FieldSpan(name, position, position)
    spans = Spans(most)
    reader = Reader(Window(view, position), root, limits=limits, spans=spans)
    try:
        try:
            reader.value_of(tree)
        except LayoutError as error:
            reader.unread(error)
    except _EnoughError:
        root.note = f"only the first {most} fields"
    root.end = reader.window.tell()
    return root
