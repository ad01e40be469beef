"""Avro's schema resolution: conversion of values of one schema to values of another, by the rules of Java's `Resolver`.

The conversion is determined once for a pair of schemas, and as in Java an error is raised as late as possible: two
types that cannot be resolved are only an error for values that have them. Two rules differ from Java's, see
docs/values.md: a field that the writer did not have and that has no default is null in a record of the same name, and
numbers whose logical types have different units are not converted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import numpy as np

from kafkalog.values.avro import exact_decimal, int32
from kafkalog.values.avro_defaults import NO_DEFAULT, default_of
from kafkalog.values.avro_names import Aliases, Names, Type, aliases_of, named
from kafkalog.values.avro_schema import is_optional, logical_of, members
from kafkalog.values.masking import hidden
from kafkalog.values.payloads import UndecodableError

__all__ = ["resolver"]

Resolve = Callable[[Any], Any]
_WIDER = {
    "int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",),
    "string": ("bytes",), "bytes": ("string",),
}  # fmt: skip
_MOST_PAIRS = 1_000_000
"""most pairs of types that are compared for one pair of schemas"""
_NAMED = ("record", "enum", "fixed")
_REFUSED = "it was written with a schema that the one of the result cannot take"


def resolver(
    writer: Any, writers: Names, reader: Any, readers: Names, masks: frozenset[str] = frozenset()
) -> Resolve:
    """Return the function that converts a raw value of the writer's schema (`AvroDecoder` with `raw`) to a value of the
    reader's schema. The result has the form that Arrow accepts.

    Both schemas are parsed JSON; `writers` and `readers` map full names to definitions and namespaces. A field whose
    name in the writer's schema is in `masks`, but which has another name in the reader's, is hidden. The function
    raises `UndecodableError` for a value that Avro cannot resolve. The same error is raised at once if a schema is
    invalid or nested too deeply, or if the schemas are too large to compare.
    """
    try:
        pair = _Pair(aliases_of(named(reader, "", readers), readers), writers, readers, masks)
        return pair.resolve(named(writer, "", writers), named(reader, "", readers))
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise UndecodableError(_REFUSED) from None


class _Refusal:
    """Function for a pair of types that cannot be resolved: it raises `UndecodableError` for every value."""

    def __call__(self, value: Any) -> Any:
        raise UndecodableError(_REFUSED)


_REFUSAL = _Refusal()


class _Pair:
    """A writer's and a reader's schema, which are compared type by type."""

    def __init__(
        self, aliases: Aliases, writers: Names, readers: Names, masks: frozenset[str] = frozenset()
    ) -> None:
        self.aliases, self.writers, self.readers, self.masks = aliases, writers, readers, masks
        self._records: dict[tuple[int, int], list[Resolve]] = {}
        """the function for each pair of records; an empty list while it is determined, so that recursive records end"""
        self._left = _MOST_PAIRS
        self._equivalent: dict[tuple[int, int], bool] = {}

    def _inner(self, outer: Type, schema: Any, *, is_reader: bool) -> Type:
        return named(schema, outer.namespace, self.readers if is_reader else self.writers)

    def resolve(self, writer: Type, reader: Type) -> Resolve:
        """Return the function that converts values of type `writer` to type `reader`. If Avro does not resolve these
        types, return `_REFUSAL`, a function that raises `UndecodableError` when it is called. Perhaps only a branch of
        the writer's union, or the items or values of a container, cannot be resolved. The function raises this error
        for such values alone. Each call counts one pair of types; raises `UndecodableError` after `_MOST_PAIRS` pairs.
        """
        self._left -= 1
        if self._left < 0:
            raise UndecodableError("its schema and the one of the result are too large to be compared")
        if writer.kind == "union":
            return self._of_union(writer, reader)
        if writer.kind == reader.kind:
            return self._of_same_kind(writer, reader)
        if reader.kind == "union":
            return self._into_union(writer, reader)
        if reader.kind not in _WIDER.get(writer.kind, ()) or not _same_units(writer, reader):
            return _REFUSAL
        return _after(_PROMOTED[writer.kind, reader.kind], _finished(reader))

    def _of_same_kind(self, writer: Type, reader: Type) -> Resolve:
        if writer.kind == "record":
            return self._record(writer, reader)
        if writer.kind in ("array", "map"):
            name = "items" if writer.kind == "array" else "values"
            inner = self.resolve(
                self._inner(writer, writer.schema[name], is_reader=False),
                self._inner(reader, reader.schema[name], is_reader=True),
            )
            return _items(inner) if writer.kind == "array" else _values(inner)
        if writer.kind in _NAMED and _short(self.aliases.name(writer)) != _short(reader.name):
            return _REFUSAL
        if writer.kind == "enum":
            return _enum(reader)
        if writer.kind == "fixed" and writer.schema["size"] != reader.schema["size"]:
            return _REFUSAL
        return _finished(reader) if _same_units(writer, reader) else _REFUSAL

    def _record(self, writer: Type, reader: Type) -> Resolve:
        key = id(writer.schema), id(reader.schema)
        if key in self._records:
            slot = self._records[key]
            return slot[0] if slot else lambda value: slot[0](value)
        slot = self._records[key] = []
        slot.append(self._made_of_fields(writer, reader))
        return slot[0]

    def _made_of_fields(self, writer: Type, reader: Type) -> Resolve:
        theirs = self._fields_of(writer)
        if len(theirs) < len(writer.schema["fields"]):
            return _REFUSAL  # several of them have one name in the reader's schema
        is_another = _short(self.aliases.name(writer)) != _short(reader.name)
        changes: list[tuple[str, str, Resolve]] = []
        defaults: dict[str, Any] = {}
        for each in reader.schema["fields"]:
            name, type = each["name"], self._inner(reader, each["type"], is_reader=True)
            if name in theirs:
                written = theirs[name]
                inner = self._inner(writer, written["type"], is_reader=False)
                change = self.resolve(inner, type)
                is_hidden = written["name"] in self.masks and name != written["name"]
                changes.append((name, written["name"], _after(change, hidden) if is_hidden else change))
                continue
            value = default_of(each, type, self.readers)
            if value is NO_DEFAULT and is_another:
                return _REFUSAL
            defaults[name] = None if value is NO_DEFAULT else self._read_alone(type)(value)

        def resolve(value: Any) -> Any:
            return {**defaults, **{name: change(value[theirs]) for name, theirs, change in changes}}

        return resolve

    def _fields_of(self, writer: Type) -> dict[str, Any]:
        """Return the fields of the writer's record by the names that they have in the reader's schema, aliases
        applied.
        """
        aliases = self.aliases.fields.get(self.aliases.name(writer), {})
        return {aliases.get(each["name"], each["name"]): each for each in writer.schema["fields"]}

    def _read_alone(self, reader: Type) -> Resolve:
        """Return the function that converts a raw value of the reader's own schema to a value that Arrow accepts."""
        return _Pair(Aliases({}, {}), self.readers, self.readers).resolve(reader, reader)

    def _of_union(self, writer: Type, reader: Type) -> Resolve:
        branches = [self._inner(writer, each, is_reader=False) for each in writer.schema]
        if self._are_equivalent(writer, reader):
            others = [self._inner(reader, each, is_reader=True) for each in reader.schema]
            ways = [self._into_branch(each, others, number, reader) for number, each in enumerate(branches)]
        else:
            ways = [self.resolve(branch, reader) for branch in branches]
        null = next((way for each, way in zip(branches, ways, strict=True) if each.kind == "null"), _REFUSAL)
        by_name = {name: way for name, way in zip(members(writer.schema), ways, strict=True) if name is not None}
        if is_optional(writer.schema):
            (one,) = by_name.values() or [_REFUSAL]
            return lambda value: null(None) if value is None else one(value)

        def resolve(value: Any) -> Any:
            if value is None:
                return null(None)
            ((name, inner),) = value.items()
            return by_name[name](inner)

        return resolve

    def _into_union(self, writer: Type, reader: Type) -> Resolve:
        branches = [self._inner(reader, each, is_reader=True) for each in reader.schema]
        number = self._first_match(writer, branches)
        return _REFUSAL if number is None else self._into_branch(writer, branches, number, reader)

    def _into_branch(self, writer: Type, branches: Sequence[Type], number: int, union: Type) -> Resolve:
        inner, name = self.resolve(writer, branches[number]), members(union.schema)[number]
        if name is None or is_optional(union.schema) or inner is _REFUSAL:
            return inner
        return lambda value: {name: inner(value)}

    def _first_match(self, writer: Type, branches: Sequence[Type]) -> int | None:
        """Return the number of the branch that matches the writer's type, None if none does
        (`ReaderUnion.firstMatchingBranch`). First choice is the first branch with the same type and name. The second
        choice is a record to which the writer's record can be converted: the last one with the same short name, else
        the first one. The third choice is the first type to which the writer's type can be promoted. Raises
        `UndecodableError` after `_MOST_PAIRS` pairs of types.
        """
        structure: int | None = None
        name = self.aliases.name(writer)
        for number, branch in enumerate(branches):
            if branch.kind != writer.kind:
                continue
            if writer.kind not in _NAMED or branch.name == name:
                return number
            if writer.kind == "record" and self._has_form(writer, branch) and (
                structure is None or _short(branch.name) == _short(name)
            ):  # fmt: skip
                structure = number
        if structure is not None:
            return structure
        wider = _WIDER.get(writer.kind, ())
        return next((number for number, branch in enumerate(branches) if branch.kind in wider), None)

    def _has_form(self, writer: Type, reader: Type) -> bool:
        """Return whether a record can be read as another record by its fields alone; the names of the records do not
        matter. Each field of the reader must have a default, or be in the writer with a type that can be resolved.
        Return False also if aliases give two fields of the writer one name. Raises `UndecodableError` after
        `_MOST_PAIRS` pairs of types.
        """
        theirs = self._fields_of(writer)
        if len(theirs) < len(writer.schema["fields"]):
            return False
        for each in reader.schema["fields"]:
            if each["name"] not in theirs:
                if "default" not in each:
                    return False
                continue
            inner = self._inner(writer, theirs[each["name"]]["type"], is_reader=False)
            if self.resolve(inner, self._inner(reader, each["type"], is_reader=True)) is _REFUSAL:
                return False
        return True

    def _are_equivalent(self, writer: Type, reader: Type) -> bool:
        """Return whether two types are equivalent as in `WriterUnion.unionEquiv`. They must have the same kind and
        equivalent inner types; named types must have the same short name. Symbols, size, and field names with their
        order must be equal. Two unions must have equivalent branches in the same order; each branch is then read as the
        branch with the same number.
        """
        if writer.kind != reader.kind:
            return False
        if writer.kind in _NAMED and _short(self.aliases.name(writer)) != _short(reader.name):
            return False
        if writer.kind == "enum":
            return bool(writer.schema["symbols"] == reader.schema["symbols"])
        if writer.kind == "fixed":
            return bool(writer.schema["size"] == reader.schema["size"])
        if writer.kind == "record":
            return self._are_equivalent_records(writer, reader)
        if writer.kind == "union":
            pairs = list(zip(writer.schema, reader.schema, strict=False))
            if len(writer.schema) != len(reader.schema):
                return False
        else:
            name = {"array": "items", "map": "values"}.get(writer.kind)
            pairs = [] if name is None else [(writer.schema[name], reader.schema[name])]
        return all(
            self._are_equivalent(self._inner(writer, one, is_reader=False), self._inner(reader, other, is_reader=True))
            for one, other in pairs
        )

    def _are_equivalent_records(self, writer: Type, reader: Type) -> bool:
        key = id(writer.schema), id(reader.schema)
        if key not in self._equivalent:
            self._equivalent[key] = True
            theirs, ours = self._fields_of(writer), reader.schema["fields"]
            self._equivalent[key] = list(theirs) == [our["name"] for our in ours] and all(
                self._are_equivalent(
                    self._inner(writer, theirs[our["name"]]["type"], is_reader=False),
                    self._inner(reader, our["type"], is_reader=True),
                )
                for our in ours
            )
        return self._equivalent[key]


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _same_units(writer: Type, reader: Type) -> bool:
    """Whether two logical types have the same unit, so that a number means the same in both; True if one of them has no
    unit.
    """
    one, other = _unit(writer), _unit(reader)
    return one is None or other is None or one == other


def _unit(type: Type) -> object:
    found = logical_of(type.kind, type.schema) if isinstance(type.schema, dict) else None
    return None if found is None or found["logicalType"].endswith("uuid") else (
        found["logicalType"], found.get("kafkalogScale")
    )  # fmt: skip


def _same(value: Any) -> Any:
    return value


def _after(first: Resolve, then: Resolve) -> Resolve:
    return first if then is _same else lambda value: then(first(value))


def _enum(reader: Type) -> Resolve:
    symbols, default = frozenset(reader.schema["symbols"]), reader.schema.get("default")

    def resolve(symbol: str) -> str:
        if symbol in symbols:
            return symbol
        if default not in symbols:
            raise UndecodableError("it has a symbol of an enum that the schema of the result does not have")
        return str(default)

    return resolve


def _items(inner: Resolve) -> Resolve:
    return _same if inner is _same else lambda value: [inner(each) for each in value]


def _values(inner: Resolve) -> Resolve:
    return _same if inner is _same else lambda value: {name: inner(each) for name, each in value.items()}


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise UndecodableError("bytes that the schema of the result takes for text are not UTF-8") from None


def _single(value: int) -> float:
    return float(np.int64(value).astype(np.float32))


_PROMOTED: Mapping[tuple[str, str], Resolve] = {
    ("int", "long"): int32, ("int", "float"): lambda value: _single(int32(value)), ("long", "float"): _single,
    ("int", "double"): lambda value: float(int32(value)),
    ("long", "double"): float, ("float", "double"): _same, ("string", "bytes"): str.encode, ("bytes", "string"): _text,
}  # fmt: skip


def _finished(reader: Type) -> Resolve:
    """Return the function that converts a raw value to the value that Arrow accepts: an exact decimal, or the text of a
    UUID. For all other types it returns the value unchanged.
    """
    found = logical_of(reader.kind, reader.schema) if isinstance(reader.schema, dict) else None
    name = "" if found is None else found["logicalType"]
    if found is not None and name.endswith("decimal"):
        scale = found["kafkalogScale"]
        return lambda value: exact_decimal(value, scale)
    return (lambda value: str(UUID(bytes=value))) if name.endswith("uuid") else _same
