"""Preparation of an Avro schema for fastavro: references are inserted, our own logical types are used, and missing
limits are added.

fastavro calls a function for each value of a logical type that it knows. Our functions return JSON directly, whereas
fastavro's create Python objects that cannot represent every value. They also count values that take no bytes: an array
of nulls states its length in ten bytes, and records within records double with each level. A boolean is read as a fixed
type of one byte, because fastavro reads any byte except 0 as true, but Java only 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import Struct, field

from kafkalog.values.payloads import LARGEST_PAYLOAD, UndecodableError

__all__ = [
    "PREFIX", "PRIMITIVES", "Prepared", "full_name", "is_optional", "logical_of", "member", "members",
    "names_in", "prepare",
]  # fmt: skip

PREFIX = "kafkalog."
PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
_NAMED = {"record", "error", "enum", "fixed"}
_INNER = {"array": "items", "map": "values"}
_OURS = {"bytes": "bytes", "float": "number", "double": "number", "int": "int"}
_SIZES = {"null": 0, "float": 4, "double": 8}
_LOGICAL = {
    "date": ("int",), "time-millis": ("int",), "time-micros": ("long",),
    "timestamp-millis": ("long",), "timestamp-micros": ("long",), "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",), "local-timestamp-micros": ("long",), "local-timestamp-nanos": ("long",),
    "decimal": ("bytes", "fixed"), "uuid": ("fixed",),
}  # fmt: skip
_MANY = 1_000_000_000
_UUID = 16
_FANS_OUT = 8
"""most values that a record may have for each of its bytes without being counted"""


_BOOLEAN = {"type": "fixed", "name": f"{PREFIX}Boolean", "size": 1, "logicalType": f"{PREFIX}boolean"}


class Prepared(NamedTuple):
    """A schema prepared for fastavro."""

    schema: Any
    is_recursive: bool


class _Part(NamedTuple):
    """A prepared part of a schema, with the fewest bytes that one encoded value takes, and the number of values
    in it.
    """

    schema: Any
    least_bytes: int
    values: int


def prepare(
    schema: Any, references: Mapping[str, tuple[Any, str]], *, typed: bool = False, raw: bool = False
) -> Prepared:
    """Prepare a schema for fastavro; return it, and whether it is recursive. `schema` is parsed JSON; `references` maps
    full names to definitions and their namespaces. Raises `UndecodableError` if the schema cannot be used; it is not
    checked completely.

    Without `typed` and `raw`, values are decoded to JSON. With `typed`, they are decoded to values that Arrow accepts:
    if a union has several types besides null, its values become objects with the name of the branch (`members`) as
    their only field. `raw` is like `typed`, but logical types are not applied.
    """
    walk = _Walk(references=references, typed=typed or raw, raw=raw)
    try:
        part = walk.part(schema, "", is_item=False)
    except (KeyError, TypeError, AttributeError, RecursionError):
        raise UndecodableError("its Avro schema is not one") from None
    return Prepared(part.schema, walk.is_recursive)


def member(number: int) -> str:
    """Name of branch `number` of a union of several types, as in Spark."""
    return f"member{number}"


def members(branches: list[Any]) -> list[str | None]:
    """Return the name of each branch of a union of several types, in order; None for null, which is not counted."""
    names: list[str | None] = []
    for branch in branches:
        names.append(None if _is_null(branch) else member(len(names) - names.count(None)))
    return names


def _is_null(branch: Any) -> bool:
    return branch == "null" or (isinstance(branch, dict) and branch.get("type") == "null")


def is_optional(branches: list[Any]) -> bool:
    """Whether a union has one type, or one type and null."""
    return len([branch for branch in branches if not _is_null(branch)]) < 2


def full_name(name: str, namespace: str) -> str:
    """Return a name with its namespace; unchanged if it already has one."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def names_in(schema: Any, namespace: str = "") -> dict[str, tuple[Any, str]]:
    """Return all named types (record, error, enum, fixed) that are defined in a schema: full name -> definition and the
    namespace around it.

    If a name is defined twice, any one of its definitions is returned. Parts that are no JSON object or array are
    skipped.
    """
    found: dict[str, tuple[Any, str]] = {}
    waiting = [(schema, namespace)]
    while waiting:
        each, within = waiting.pop()
        if isinstance(each, list):
            waiting += [(one, within) for one in each]
        elif isinstance(each, dict):
            kind = each.get("type")
            if isinstance(kind, str) and kind in _NAMED and isinstance(each.get("name"), str):
                outer, within = within, str(each.get("namespace") or within)
                name = full_name(each["name"], within)
                found.setdefault(name, (each, outer))
                within = name.rpartition(".")[0]
            fields = each.get("fields")
            inner = [each.get(one) for one in ("type", "items", "values")]
            inner += [one.get("type") for one in fields if isinstance(one, dict)] if isinstance(fields, list) else []
            waiting += [(one, within) for one in inner if isinstance(one, dict | list)]
    return found


class _Walk(Struct, kw_only=True):
    """Walk over a schema that prepares each of its parts."""

    references: Mapping[str, tuple[Any, str]]
    typed: bool = False
    raw: bool = False
    is_recursive: bool = False
    _made: dict[str, _Part] = field(default_factory=dict)
    _open: dict[str, int] = field(default_factory=dict)
    """records that are being prepared -> number of unions, arrays and maps around each"""
    _boolean: _Part = _Part(_BOOLEAN, 1, 1)
    """definition of the type of booleans; once it is used, its name"""
    _within: int = 0
    _branches: int = 0

    def part(self, schema: Any, namespace: str, *, is_item: bool) -> _Part:
        """Prepare a part of a schema. Return it with two facts about its encoded values: the least number of bytes that
        one takes, and the number of values that it contains (for a union, the most). `is_item` is True if an array
        repeats the part. Raises `UndecodableError`, `KeyError`, `TypeError` or `AttributeError` for an invalid schema,
        or one that uses an undefined name.
        """
        if isinstance(schema, str):
            return self._of_name(schema, namespace, is_item=is_item)
        if isinstance(schema, list):
            self._within += 1
            branches = [self.part(each, namespace, is_item=False) for each in schema]
            self._within -= 1
            if not branches:
                raise UndecodableError("its Avro schema has a union of nothing")
            if self.typed and not is_optional(schema):
                names = members(schema)
                branches = [
                    part if name is None else self._branch(name, part)
                    for name, part in zip(names, branches, strict=True)
                ]
            least = 1 + min(branch.least_bytes for branch in branches)
            return _Part([branch.schema for branch in branches], least, max(branch.values for branch in branches))
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.part(kind, namespace, is_item=is_item)
        if kind in PRIMITIVES:
            return self._primitive(kind, schema, is_item=is_item)
        if kind in _INNER:
            self._within += 1
            inner = self.part(schema[_INNER[kind]], namespace, is_item=kind == "array")
            self._within -= 1
            return _Part({"type": kind, _INNER[kind]: inner.schema}, 1, 1)
        if kind in _NAMED:
            return self._named(kind, schema, namespace)
        return self._of_name(kind, namespace, is_item=is_item)

    def _primitive(self, kind: str, schema: Mapping[str, Any], *, is_item: bool) -> _Part:
        if kind != "boolean":
            return _primitive(kind, schema, is_item=is_item, typed=self.typed, raw=self.raw)
        part, self._boolean = self._boolean, _Part(_BOOLEAN["name"], 1, 1)
        return part

    def _branch(self, name: str, part: _Part) -> _Part:
        self._branches += 1
        fields = [{"name": name, "type": part.schema}]
        return part._replace(schema={"type": "record", "name": f"kafkalog.Branch{self._branches}", "fields": fields})

    def _of_name(self, name: str, namespace: str, *, is_item: bool) -> _Part:
        if name in PRIMITIVES:
            return self._primitive(name, {}, is_item=is_item)
        for full in (full_name(name, namespace), name):
            if full in self._made:
                return self._made[full]
            if full in self._open:
                if self._open[full] == self._within:
                    raise UndecodableError("its Avro schema has a record that is always within itself")
                self.is_recursive = True
                return _Part(full, 1, 1)
            if full in self.references:
                definition, within = self.references[full]
                return self.part(definition, within, is_item=is_item)
        raise UndecodableError("its Avro schema uses a name that no reference defines")

    def _named(self, kind: str, schema: Mapping[str, Any], namespace: str) -> _Part:
        full = full_name(schema["name"], str(schema.get("namespace") or namespace))
        if full in self._made or full in self._open:
            raise UndecodableError("its Avro schema defines a name twice")
        if kind == "enum":
            symbols = [str(each) for each in schema["symbols"]]
            part = _Part({"type": "int", "logicalType": f"{PREFIX}enum", "kafkalogSymbols": symbols}, 1, 1)
        elif kind == "fixed":
            part = _fixed(full, schema, typed=self.typed, raw=self.raw)
        else:
            part = self._record(full, schema)
        # a type that fastavro knows by name is defined once; after that its name stands for it
        self._made[full] = part if kind == "enum" else _Part(full, part.least_bytes, part.values)
        return part

    def _record(self, full: str, schema: Mapping[str, Any]) -> _Part:
        self._open[full] = self._within
        fields, least, values = [], 0, 1
        for each in schema["fields"]:
            part = self.part(each["type"], full.rpartition(".")[0], is_item=False)
            fields.append({"name": each["name"], "type": part.schema})
            least += part.least_bytes
            values = min(values + part.values, _MANY)
        del self._open[full]
        record: dict[str, Any] = {"type": "record", "name": full, "fields": fields}
        if not least or values > _FANS_OUT * least:
            record |= {"logicalType": f"{PREFIX}counted", "kafkalogValues": len(fields) + 1}
        return _Part(record, least, values)


def logical_of(kind: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the attributes that replace the logical type of a schema, so that our own conversion is used. `kind` is
    the schema's Avro type.

    None if there is no logical type, or if it is unknown or invalid: values are then decoded by their Avro type alone.
    """
    name = schema.get("logicalType")
    if not isinstance(name, str) or kind not in _LOGICAL.get(name, ()):
        return None
    if name == "decimal":
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or not precision:
            return None
        return {"logicalType": f"{PREFIX}decimal", "kafkalogScale": scale}
    if name == "uuid" and schema.get("size") != _UUID:
        return None
    return {"logicalType": PREFIX + name}


def _primitive(kind: str, schema: Mapping[str, Any], *, is_item: bool, typed: bool, raw: bool) -> _Part:
    ours = None if raw else logical_of(kind, schema)
    if ours is None and kind in _OURS:
        ours = {"logicalType": PREFIX + _OURS[kind]}
    if typed:
        ours = _exact(ours)
    if kind == "null" and is_item:
        ours = {"logicalType": f"{PREFIX}counted"}
    return _Part(kind if ours is None else {"type": kind} | ours, _SIZES.get(kind, 1), 1)


def _exact(ours: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the logical type if Arrow does not accept the value without it (decimal, UUID); else None."""
    name = None if ours is None else ours["logicalType"]
    if name == f"{PREFIX}decimal":
        return {**(ours or {}), "logicalType": f"{PREFIX}exact"}
    return ours if name == f"{PREFIX}uuid" else None


def _fixed(full: str, schema: Mapping[str, Any], *, typed: bool, raw: bool) -> _Part:
    size = schema["size"]
    if type(size) is not int or not 0 <= size <= LARGEST_PAYLOAD:
        raise UndecodableError("its Avro schema has a fixed type of an impossible size")
    ours = logical_of("fixed", schema) or {"logicalType": f"{PREFIX}bytes"}
    if typed:
        counted = {"logicalType": f"{PREFIX}counted", "kafkalogValues": 0 if size else 1}
        ours = (None if raw else _exact(ours)) or counted
    return _Part({"type": "fixed", "name": full, "size": size} | ours, size, 1)
