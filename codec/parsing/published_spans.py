"""Read messages of Kafka's published schemas field by field, and record the position of each field. `codec.messages`
parses and builds whole messages from the same trees (`MessageStruct`).
"""

from __future__ import annotations

from typing import Any

from construct import Construct, Container

from kafkalog.codec.layout.primitives import COUNT_INVALID, LENGTH_INVALID, LayoutError, UnsignedVarint
from kafkalog.codec.messages.field import Field
from kafkalog.codec.messages.leaves import Array, Optional
from kafkalog.codec.messages.message import UNKNOWN_TAGS, MessageStruct
from kafkalog.codec.parsing.trace import Reader, Traced

__all__ = ["PublishedMessage"]


class PublishedMessage(Traced):
    """The layout of one version of a message, read by the rules of `MessageStruct`."""

    def __init__(self, layout: MessageStruct) -> None:
        super().__init__()
        self.layout = layout

    def read(self, reader: Reader) -> Container:
        """Read the fields in the order of the bytes, then (in a flexible version) the tagged fields. Return the values
        by field name, without tagged fields that are missing; unknown ones are under `UNKNOWN_TAGS`. Raises
        `LayoutError` at a fault; a tolerant reader records a fault inside a tagged field and continues after it.
        """
        fields = Container({field.name: _value(reader, field, kind) for field, kind in self.layout.ordinary})
        if self.layout.flexible:
            with reader.inside("tagged_fields") as inner:
                fields.update(self._tags(inner))
        return fields

    def _tags(self, reader: Reader) -> dict[str, Any]:
        start = reader.window.tell()
        count = reader.leaf("count", UnsignedVarint, "how many follow").value
        if count > reader.left // 2:
            reader.blame("count", start, COUNT_INVALID, f"{count} tagged fields in {reader.left} bytes")
            raise LayoutError(COUNT_INVALID, start, f"a tag section of {count} tags", reader.path)
        tagged: dict[str, Any] = {}
        for number in range(count):
            with reader.inside(f"[{number}]") as inner:
                self._tag(inner, tagged)
        return tagged

    def _tag(self, reader: Reader, fields: dict[str, Any]) -> None:
        start = reader.window.tell()
        tag = reader.leaf("tag", UnsignedVarint, "number of the field in the schema").value
        size = reader.leaf("size", UnsignedVarint, "bytes that follow").value
        if size > reader.left:
            reader.blame("size", start, LENGTH_INVALID, f"{size} bytes, and {reader.left} are left")
            raise LayoutError(LENGTH_INVALID, start, f"tag {tag} of {size} bytes runs past the end", reader.path)
        with reader.bounded(reader.window.tell() + size) as inner:
            if tag in self.layout.tagged:
                field, kind = self.layout.tagged[tag]
                fields[field.name] = _value(inner, field, kind)
            else:
                data = inner.raw("data", size, "a field of a later version").value
                fields[UNKNOWN_TAGS] = (*fields.get(UNKNOWN_TAGS, ()), (tag, data))


def _value(reader: Reader, field: Field, kind: Construct) -> Any:
    if isinstance(kind, MessageStruct | Array | Optional):
        with reader.inside(field.name, doc=field.about) as inner:
            inner.span.value = _nested(inner, field, kind)
            return inner.span.value
    return reader.leaf(field.name, kind, field.about, field.type).value


def _nested(reader: Reader, field: Field, kind: Construct) -> Any:
    if isinstance(kind, MessageStruct):
        return PublishedMessage(kind).read(reader)
    if isinstance(kind, Optional):
        if reader.leaf("marker", kind.marker, "whether the structure follows", "int8").value <= kind.null:
            return None
        return PublishedMessage(kind.struct).read(reader)
    count = reader.leaf("count", _Count(kind), "how many follow; null is none", "array count").value
    if count is None:
        return None
    if isinstance(kind.element, MessageStruct):
        return [_element(reader, number, kind.element) for number in range(count)]
    return [reader.leaf(f"[{number}]", kind.element, "", field.type).value for number in range(count)]


def _element(reader: Reader, number: int, layout: MessageStruct) -> Container:
    with reader.inside(f"[{number}]") as inner:
        return PublishedMessage(layout).read(inner)


class _Count(Construct):  # type: ignore[misc]
    """The count of an array in a message, with the array's own checks."""

    def __init__(self, array: Array) -> None:
        super().__init__()
        self.array = array

    def _parse(self, stream: Any, context: Container, path: str) -> int | None:
        return self.array.count(stream, context, path)
