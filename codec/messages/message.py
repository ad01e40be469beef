"""Build the Construct tree for one version of a message from its fields, as Kafka's `MessageGenerator` builds classes
from schemas. A message has a range of flexible versions. In those, each struct ends with a tag section; undeclared tags
are kept as bytes under `UNKNOWN_TAGS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from io import SEEK_CUR
from itertools import groupby
from struct import Struct, error
from typing import Any, BinaryIO

import msgspec
from construct import Construct, Container

from kafkalog.codec.layout.primitives import COUNT_INVALID, LENGTH_INVALID, LayoutError, UnsignedVarint
from kafkalog.codec.messages.field import NO_VERSION, Field
from kafkalog.codec.messages.leaves import (
    SCALARS,
    Array,
    Bytes,
    Encoding,
    Input,
    Optional,
    Records,
    Scalar,
    Text,
    read_exactly,
)

__all__ = ["UNKNOWN_TAGS", "Message", "MessageStruct", "jute"]

_TAG_BYTES = 1 << 20
"""Most bytes of one tag section."""
_SMALLEST_TAG = 2
"""Least bytes of a tag: its number and its length."""
UNKNOWN_TAGS = "_unknown_tags"
"""Key in a decoded struct for its undeclared tags: pairs of tag and bytes, in their order."""


class Message(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A declared message. `written_by` distinguishes layouts with the same version number."""

    name: str
    fields: tuple[Field, ...]
    versions: range
    flexible: range = NO_VERSION
    written_by: str = ""
    is_jute: bool = False
    latest_is_unstable: bool = False
    """whether a broker offers the last of `versions` only if configured to"""

    def encoding(self, version: int) -> Encoding:
        """Return the encoding of lengths in a version."""
        if self.is_jute:
            return Encoding.JUTE
        return Encoding.FLEXIBLE if version in self.flexible else Encoding.CLASSIC

    @cache  # noqa: B019 - messages are kept as long as the program runs
    def construct(self, version: int) -> MessageStruct:
        """Return the tree that parses and builds a version. Raises `ValueError` for an unknown version."""
        if version not in self.versions:
            raise ValueError(f"{self.name} has no version {version}")
        return MessageStruct(self.fields, version, self.encoding(version))


def jute(name: str, fields: Mapping[str, Any]) -> Message:
    """Declare a record of ZooKeeper's `zookeeper.jute` from its fields' names and types. A type is a scalar's name, a
    mapping for a record, or, for an array, a list with the type of its element.
    """
    return Message(name=name, fields=_jute_fields(fields), versions=range(1), is_jute=True)


def _jute_fields(fields: Mapping[str, Any]) -> tuple[Field, ...]:
    return tuple(_jute_field(name, kind) for name, kind in fields.items())


def _jute_field(name: str, kind: Any) -> Field:
    array = isinstance(kind, list)
    (element,) = kind if array else (kind,)
    if isinstance(element, str):
        return Field(name=name, type=element, array=array)
    return Field(name=name, type="struct", array=array, fields=_jute_fields(element))


class MessageStruct(Construct):  # type: ignore[misc]
    """Fields of one version in the order of their bytes, followed in a flexible version by the tag section. `ordinary`
    are pairs of field and Construct; `tagged` has such pairs by tag.
    """

    def __init__(self, fields: tuple[Field, ...], version: int, encoding: Encoding) -> None:
        super().__init__()
        present = [field for field in fields if field.in_version(version)]
        if encoding is not Encoding.FLEXIBLE and any(version in field.tagged for field in present):
            raise ValueError("a tagged field in a version without tag sections")
        self.version = version
        self.flexible = encoding is Encoding.FLEXIBLE
        self.ordinary = [(field, _type(field, version, encoding)) for field in present
                         if version not in field.tagged]  # fmt: skip
        self.tagged = {
            field.tag: (field, _type(field, version, encoding))
            for field in sorted(present, key=lambda field: field.tag or 0)
            if field.tag is not None and version in field.tagged
        }
        self.smallest = max(1, sum(kind.smallest for _, kind in self.ordinary) + self.flexible)
        self._steps = list(_steps(self.ordinary))

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for run, names, fields in self._steps:
            if run is not None:
                data = stream.read(run.size)
                if len(data) == run.size:
                    result.update(zip(names, run.unpack(data), strict=True))
                    continue
                stream.seek(-len(data), SEEK_CUR)  # reading field by field finds the incomplete one
            for field, kind in fields:
                result[field.name] = kind._parse(stream, context, f"{path}.{field.name}")
        if not self.flexible:
            return result
        for field, _ in self.tagged.values():
            result[field.name] = field.default(self.version)
        start = stream.tell()
        count = UnsignedVarint._parse(stream, context, path)
        unknown: list[tuple[int, bytes]] = []
        for _ in range(count):
            if stream.tell() - start > _TAG_BYTES or count > _TAG_BYTES // _SMALLEST_TAG:
                raise LayoutError(COUNT_INVALID, start, f"a tag section of {count} tags", path)
            tag_at = stream.tell()
            tag = UnsignedVarint._parse(stream, context, path)
            size = UnsignedVarint._parse(stream, context, path)
            data = read_exactly(stream, size, path)
            if tag not in self.tagged:
                unknown.append((tag, data))
                continue
            field, kind = self.tagged[tag]
            inner = Input(data)
            inner.elements_left = getattr(stream, "elements_left", inner.elements_left)
            result[field.name] = kind._parse(inner, context, f"{path}.{field.name}")
            if inner.tell() != size:
                raise LayoutError(LENGTH_INVALID, tag_at, f"tag {tag} says {size} bytes and has {inner.tell()}", path)
            if isinstance(stream, Input):
                stream.elements_left = inner.elements_left
        if unknown:
            result[UNKNOWN_TAGS] = tuple(unknown)
        return result

    def _build(self, obj: Mapping[str, Any], stream: BinaryIO, context: Container, path: str) -> Any:
        for run, names, fields in self._steps:
            values = [obj[field.name] if field.name in obj else field.default(self.version) for field, _ in fields]
            if run is not None:
                try:
                    stream.write(run.pack(*values))
                    continue
                except error:  # writing field by field finds the one that does not fit
                    pass
            for name, (_, kind), value in zip(names, fields, values, strict=True):
                kind._build(value, stream, context, f"{path}.{name}")
        if not self.flexible:
            return obj
        tags: list[tuple[int, bytes]] = list(obj.get(UNKNOWN_TAGS, ()))
        unknown = len(tags)
        for tag, (field, kind) in self.tagged.items():
            default = field.default(self.version)
            value = obj.get(field.name, default)
            if value == default:
                continue
            inner = Input()
            kind._build(value, inner, context, f"{path}.{field.name}")
            tags.append((tag, inner.getvalue()))
        if len(tags) > unknown:
            tags.sort(key=lambda pair: pair[0])
        UnsignedVarint._build(len(tags), stream, context, path)
        for tag, data in tags:
            UnsignedVarint._build(tag, stream, context, path)
            UnsignedVarint._build(len(data), stream, context, path)
            stream.write(data)
        return obj


Fields = list[tuple[Field, Construct]]


def _steps(fields: Fields) -> Iterator[tuple[Struct | None, tuple[str, ...], Fields]]:
    """Yield groups of fields in order, as (struct, field names, fields with their types). Two or more consecutive
    numbers or bools form one group, with a `struct.Struct` that reads all of them at once; every other field is a group
    of its own, with None in place of the struct.
    """
    for plain, group in groupby(fields, key=lambda pair: type(pair[1]) is Scalar):
        members = list(group)
        if plain and len(members) > 1:
            run = Struct(">" + "".join(kind.struct.format.removeprefix(">") for _, kind in members))
            yield run, tuple(field.name for field, _ in members), members
        else:
            for pair in members:
                yield None, (pair[0].name,), [pair]


def _type(field: Field, version: int, encoding: Encoding) -> Construct:
    if field.flexible is not None and encoding is Encoding.FLEXIBLE and version not in field.flexible:
        encoding = Encoding.CLASSIC
    nullable = version in field.nullable
    if field.array:
        return Array(_element(field, version, encoding, nullable=False), encoding, nullable)
    return _element(field, version, encoding, nullable=nullable)


def _element(field: Field, version: int, encoding: Encoding, *, nullable: bool) -> Construct:
    if field.type == "struct":
        struct = MessageStruct(field.fields, version, encoding)
        return Optional(struct, version in field.tagged) if nullable else struct
    if field.type == "string":
        return Text(encoding, nullable)
    if field.type == "bytes":
        return Bytes(encoding, nullable)
    if field.type == "records":
        return Records(encoding, nullable)
    return SCALARS[field.type]
