"""Arrow types for the values that schemas describe.

If Arrow has no type for a schema (a recursive schema, a decimal of more than 76 digits, JSON), the column is text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from msgspec import Struct, field

from kafkalog.values.avro_schema import PRIMITIVES, full_name, is_optional, members
from kafkalog.values.payloads import UndecodableError

__all__ = ["arrow_type_of_avro", "arrow_type_of_protobuf"]

_AVRO = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(),
}  # fmt: skip
_LOGICAL = {
    ("int", "date"): pa.date32(), ("int", "time-millis"): pa.time32("ms"), ("long", "time-micros"): pa.time64("us"),
    **{
        ("long", f"{local}timestamp-{unit}"): pa.timestamp(short, None if local else "UTC")
        for local in ("", "local-")
        for unit, short in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}  # fmt: skip
_SMALL, _LARGE = 38, 76
_MOST_FIELDS = 100_000


class _NoTypeError(Exception):
    """Arrow has no type for this schema."""


def arrow_type_of_avro(schema: Any, references: Mapping[str, tuple[Any, str]]) -> pa.DataType | None:
    """Return the Arrow type for values of an Avro schema. None if Arrow has no such type, for example for a recursive
    schema: the values then become text.

    `schema` is parsed JSON; `references` maps full names to definitions and their namespaces. Raises `UndecodableError`
    if the schema is invalid in a part that determines the type; other parts are not checked.
    """
    try:
        return _Avro(references=references).type(schema, "")
    except (_NoTypeError, RecursionError):
        return None
    except (KeyError, TypeError, AttributeError):
        raise UndecodableError("its Avro schema is not one") from None


class _Avro(Struct, kw_only=True):
    references: Mapping[str, tuple[Any, str]]
    _made: dict[str, pa.DataType] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)
    _fields: int = 0

    def type(self, schema: Any, namespace: str) -> pa.DataType:
        if isinstance(schema, str):
            return self._of_name(schema, namespace)
        if isinstance(schema, list):
            if is_optional(schema):
                names = members(schema)
                one = next((each for name, each in zip(names, schema, strict=True) if name is not None), "null")
                return self.type(one, namespace)
            return pa.struct([
                (name, self.type(each, namespace))
                for name, each in zip(members(schema), schema, strict=True) if name is not None
            ])  # fmt: skip
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.type(kind, namespace)
        if kind == "array":
            return pa.list_(self.type(schema["items"], namespace))
        if kind == "map":
            return pa.map_(pa.string(), self.type(schema["values"], namespace))
        if kind in ("record", "error", "enum", "fixed"):
            return self._named(kind, schema, namespace)
        if kind in PRIMITIVES:
            return _logical(kind, schema) or _AVRO[kind]
        return self._of_name(kind, namespace)

    def _of_name(self, name: str, namespace: str) -> pa.DataType:
        if name in _AVRO:
            return _AVRO[name]
        for full in (full_name(name, namespace), name):
            if full in self._open:
                raise _NoTypeError
            if full in self._made:
                return self._made[full]
            if full in self.references:
                return self.type(*self.references[full])
        raise UndecodableError("its Avro schema uses a name that no reference defines")

    def _named(self, kind: str, schema: Mapping[str, Any], namespace: str) -> pa.DataType:
        full = full_name(schema["name"], str(schema.get("namespace") or namespace))
        arrow_type: pa.DataType
        if kind == "enum":
            arrow_type = pa.string()
        elif kind == "fixed":
            arrow_type = _logical(kind, schema) or pa.binary()
        else:
            self._open.add(full)
            self._fields += len(schema["fields"])
            if self._fields > _MOST_FIELDS:
                raise _NoTypeError
            within = full.rpartition(".")[0]
            arrow_type = pa.struct([(each["name"], self.type(each["type"], within)) for each in schema["fields"]])
            self._open.discard(full)
        self._made[full] = arrow_type
        return arrow_type


def _logical(kind: str, schema: Mapping[str, Any]) -> pa.DataType | None:
    name = schema.get("logicalType")
    if name == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or not precision:
            return None
        if precision > _LARGE:
            raise _NoTypeError
        return pa.decimal128(precision, scale) if precision <= _SMALL else pa.decimal256(precision, scale)
    if (kind, name) == ("fixed", "uuid") and schema.get("size") == 16:
        return pa.string()
    return _LOGICAL.get((kind, name)) if isinstance(name, str) else None


_PROTOBUF = {
    1: pa.float64(), 2: pa.float32(), 3: pa.int64(), 4: pa.uint64(), 5: pa.int32(), 6: pa.uint64(), 7: pa.uint32(),
    8: pa.bool_(), 9: pa.string(), 12: pa.binary(), 13: pa.uint32(), 14: pa.string(), 15: pa.int32(), 16: pa.int64(),
    17: pa.int32(), 18: pa.int64(),
}  # fmt: skip
"""Arrow types by the numbers of `FieldDescriptor`; groups (10) and messages (11) are not in it."""


def arrow_type_of_protobuf(descriptor: Any) -> pa.DataType | None:
    """Return the Arrow type for a Protobuf message. None if Arrow has no such type, for example for a recursive
    message: the values then become text.
    """
    try:
        return _message(descriptor, frozenset(), [0])
    except (_NoTypeError, RecursionError):
        return None


def _message(descriptor: Any, within: frozenset[str], fields: list[int]) -> pa.DataType:
    name = descriptor.full_name
    if name == "google.protobuf.Timestamp":
        return pa.timestamp("ns", "UTC")
    if name.startswith("google.protobuf."):
        return pa.string()
    fields[0] += len(descriptor.fields) or 1
    if name in within or fields[0] > _MOST_FIELDS or not descriptor.fields:  # Parquet has no struct without fields
        raise _NoTypeError
    return pa.struct([(field.name, _field(field, within | {name}, fields)) for field in descriptor.fields])


def _field(of: Any, within: frozenset[str], fields: list[int]) -> pa.DataType:
    if of.message_type is not None and of.message_type.GetOptions().map_entry:
        value = of.message_type.fields_by_name["value"]
        return pa.map_(pa.string(), _one(value, within, fields))
    one = _one(of, within, fields)
    return pa.list_(one) if of.is_repeated else one


def _one(of: Any, within: frozenset[str], fields: list[int]) -> pa.DataType:
    return _PROTOBUF[of.type] if of.message_type is None else _message(of.message_type, within, fields)
