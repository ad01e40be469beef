"""From a field table to a Construct tree for one version, as Kafka's `MessageGenerator` makes classes of its schemas.

A message knows from which version on it is flexible; a struct of a flexible version ends with its tag section, where
tags that are not declared are kept as bytes under `UNKNOWN_TAGS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, BinaryIO

from construct import Construct, Container

from kafkalog.cluster.layout.leaves import SCALARS, Array, Bytes, Encoding, Input, Optional, Text, read_exactly
from kafkalog.cluster.layout.table import Field, parse_table
from kafkalog.codec.layout.primitives import COUNT_INVALID, LENGTH_INVALID, LayoutError, UnsignedVarint

__all__ = ["UNKNOWN_TAGS", "Message", "jute", "message"]

UNKNOWN_TAGS = "_unknown_tags"
"""Key under which a decoded struct keeps tag -> bytes of what its table does not declare."""
NEVER = 1 << 15


@dataclass(frozen=True, eq=False)
class Message:
    """A declared message; `written_by` tells layouts apart that share a version number."""

    name: str
    fields: tuple[Field, ...]
    versions: range
    flexible_since: int
    written_by: str = ""
    is_jute: bool = False

    def encoding(self, version: int) -> Encoding:
        """How lengths are written in that version."""
        if self.is_jute:
            return Encoding.JUTE
        return Encoding.FLEXIBLE if version >= self.flexible_since else Encoding.CLASSIC

    @cache  # noqa: B019 - messages are module constants
    def construct(self, version: int) -> Construct:
        """The tree that reads and writes that version."""
        if version not in self.versions:
            raise ValueError(f"{self.name} has no version {version}")
        return _struct(self.fields, version, self.encoding(version))


def message(name: str, table: str, *, versions: int = 0, flexible: int = 0, written_by: str = "") -> Message:
    """Declare a message; `versions` is the last one, `flexible` the first flexible one (`NEVER` if none is)."""
    return Message(name, parse_table(table), range(versions + 1), flexible, written_by)


def jute(name: str, table: str) -> Message:
    """Declare a record of ZooKeeper's `zookeeper.jute`."""
    return Message(name, parse_table(table), range(1), NEVER, is_jute=True)


class _Struct(Construct):  # type: ignore[misc]
    def __init__(self, fields: tuple[Field, ...], version: int, encoding: Encoding) -> None:
        super().__init__()
        present = [field for field in fields if field.in_version(version)]
        if encoding is not Encoding.FLEXIBLE and any(field.tag is not None for field in present):
            raise ValueError("a tagged field in a version without tag sections")
        self.version = version
        self.flexible = encoding is Encoding.FLEXIBLE
        self.ordinary = [(field, _type(field, version, encoding)) for field in present if field.tag is None]
        self.tagged = {
            field.tag: (field, _type(field, version, encoding))
            for field in sorted(present, key=lambda field: field.tag or 0)
            if field.tag is not None
        }
        self.smallest = max(1, sum(kind.smallest for _, kind in self.ordinary) + self.flexible)

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> dict[str, Any]:
        result = {field.name: kind._parsereport(stream, context, f"{path}.{field.name}")
                  for field, kind in self.ordinary}  # fmt: skip
        if not self.flexible:
            return result
        for field, _ in self.tagged.values():
            result[field.name] = field.default(self.version)
        start = stream.tell()
        count = UnsignedVarint._parse(stream, context, path)
        unknown: dict[int, bytes] = {}
        for _ in range(count):
            if stream.tell() - start > 1 << 20 or count > 1 << 15:
                raise LayoutError(COUNT_INVALID, start, f"a tag section of {count} tags", path)
            at = stream.tell()
            tag = UnsignedVarint._parse(stream, context, path)
            size = UnsignedVarint._parse(stream, context, path)
            data = read_exactly(stream, size, path)
            if tag not in self.tagged:
                unknown[tag] = data
                continue
            field, kind = self.tagged[tag]
            inner = Input(data)
            inner.elements_left = getattr(stream, "elements_left", inner.elements_left)
            result[field.name] = kind._parsereport(inner, context, f"{path}.{field.name}")
            if inner.tell() != size:
                raise LayoutError(LENGTH_INVALID, at, f"tag {tag} says {size} bytes and has {inner.tell()}", path)
            if isinstance(stream, Input):
                stream.elements_left = inner.elements_left
        if unknown:
            result[UNKNOWN_TAGS] = unknown
        return result

    def _build(self, obj: Mapping[str, Any], stream: BinaryIO, context: Container, path: str) -> Any:
        for field, kind in self.ordinary:
            value = obj[field.name] if field.name in obj else field.default(self.version)
            kind._build(value, stream, context, f"{path}.{field.name}")
        if not self.flexible:
            return obj
        tags: dict[int, bytes] = dict(obj.get(UNKNOWN_TAGS, {}))
        for tag, (field, kind) in self.tagged.items():
            default = field.default(self.version)
            value = obj.get(field.name, default)
            if value == default:
                continue
            inner = Input()
            kind._build(value, inner, context, f"{path}.{field.name}")
            tags[tag] = inner.getvalue()
        UnsignedVarint._build(len(tags), stream, context, path)
        for tag in sorted(tags):
            UnsignedVarint._build(tag, stream, context, path)
            UnsignedVarint._build(len(tags[tag]), stream, context, path)
            stream.write(tags[tag])
        return obj


def _struct(fields: tuple[Field, ...], version: int, encoding: Encoding) -> _Struct:
    return _Struct(fields, version, encoding)


def _type(field: Field, version: int, encoding: Encoding) -> Construct:
    if field.array:
        return Array(_element(field, version, encoding, nullable=False), encoding, field.nullable)
    return _element(field, version, encoding, nullable=field.nullable)


def _element(field: Field, version: int, encoding: Encoding, *, nullable: bool) -> Construct:
    if field.type == "struct":
        struct = _struct(field.fields, version, encoding)
        return Optional(struct, field.tag is not None) if nullable else struct
    if field.type == "string":
        return Text(encoding, nullable)
    if field.type == "bytes":
        return Bytes(encoding, nullable)
    return SCALARS[field.type]
