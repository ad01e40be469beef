"""Decoding of many Avro values of one schema into an Arrow array in one call, with the compiled library pyruhvro.

pyruhvro ignores bytes that are left after a value. Therefore a field with a random number is appended to each value; if
another number is decoded, the value did not end where it should. pyruhvro also truncates numbers of more than 32 bits
to an int or a date, so these are read as longs, which have the same encoding, and narrowed afterwards.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.values.avro_schema import full_name, is_optional
from kafkalog.values.payloads import FRAME

__all__ = ["BatchDecoder", "batch_decoder", "only_id", "validated"]

_PLAIN = {"boolean", "int", "long", "float", "double", "string"}
"""Plain Avro types.  pyruhvro aborts the process on some of the others."""
_LOGICAL = {"timestamp-millis", "timestamp-micros"}
_AS_LONG = {"int": "long"}
_END = "kafkalogEnd"
_LENGTH = 9
"""bytes of the random number: nine bytes of seven bits each"""


def batch_decoder(schema: Any, references: Mapping[str, tuple[Any, str]], type: pa.DataType) -> BatchDecoder | None:
    """Return a decoder that decodes a whole column of values of one Avro schema to the Arrow type `type`.

    Return None if the package pyruhvro is missing. Return None also unless the schema is a record, with at least one
    field, of types that pyruhvro decodes as this library does. `schema` is parsed JSON; `references` maps full names to
    definitions and their namespaces.
    """
    try:
        import pyruhvro
    except ModuleNotFoundError:
        return None
    converted = None if isinstance(schema, str) else _record(schema, "", references, set())
    if converted is None or not converted["fields"] or any(each["name"] == _END for each in converted["fields"]):
        return None
    converted["fields"].append({"name": _END, "type": "long"})
    return BatchDecoder(pyruhvro.deserialize_array, json.dumps(converted), type)


def _record(schema: Any, namespace: str, references: Mapping[str, tuple[Any, str]], seen: set[str]) -> Any:
    if not isinstance(schema, dict) or schema.get("type") != "record" or not schema.get("fields"):
        return None
    full = full_name(schema["name"], str(schema.get("namespace") or namespace))
    if full in seen:
        return None
    seen.add(full)
    fields = []
    for field in schema["fields"]:
        converted = _part(field["type"], full.rpartition(".")[0], references, seen)
        if converted is None:
            return None
        fields.append({"name": field["name"], "type": converted})
    return {"type": "record", "name": full, "fields": fields}


def _part(schema: Any, namespace: str, references: Mapping[str, tuple[Any, str]], seen: set[str]) -> Any:
    """Convert a part of a schema for pyruhvro: references are replaced by their definitions, and int by long. The full
    names of its types are added to `seen`. Return None if pyruhvro cannot decode the part as this library does.
    Examples are bytes, a fixed type, a union other than null and one type, and a logical type that is not in
    `_LOGICAL`. A missing reference or a name that occurs twice gives None too.
    """
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _AS_LONG.get(schema, schema)
        definition = references.get(full_name(schema, namespace)) or references.get(schema)
        return None if definition is None else _part(*definition, references, seen)
    if isinstance(schema, list):
        if len(schema) != 2 or "null" not in schema or not is_optional(schema):
            return None
        inner = [each if each == "null" else _part(each, namespace, references, seen) for each in schema]
        return None if None in inner else inner
    kind, logical = schema.get("type"), schema.get("logicalType")
    if not isinstance(kind, str):
        return None
    if kind in _PLAIN:
        if kind in _AS_LONG:
            return _AS_LONG[kind] if logical in (None, "date") else None
        return kind if logical is None else ({"type": kind, "logicalType": logical} if logical in _LOGICAL else None)
    if kind in ("array", "map"):
        name = "items" if kind == "array" else "values"
        converted = _part(schema[name], namespace, references, seen)
        return None if converted is None else {"type": kind, name: converted}
    if kind == "enum":
        full = full_name(schema["name"], str(schema.get("namespace") or namespace))
        if full in seen:
            return None
        seen.add(full)
        return {"type": "enum", "name": full, "symbols": schema["symbols"]}
    return _record(schema, namespace, references, seen)


def only_id(column: pa.Array) -> int | None:
    """Return the schema id with which all values of a binary column begin (Confluent's wire format: byte 0, then the id
    in 4 bytes).

    None if the values have several ids, a value is null or does not begin like this, or the column is empty.
    """
    if column.null_count or not len(column) or column.buffers()[2] is None:
        return None
    starts = _starts(column)
    if int(np.diff(starts).min()) < FRAME:
        return None
    data, first = np.frombuffer(column.buffers()[2], np.uint8), starts[:-1]
    frame = [data[first + place] for place in range(FRAME)]
    if frame[0].any() or any((each != each[0]).any() for each in frame[1:]):
        return None
    return int.from_bytes(bytes(int(each[0]) for each in frame[1:]), "big")


def validated(column: pa.Array) -> pa.Array:
    """Return the column unchanged. Raises `pyarrow.ArrowInvalid` if a value is outside its type, such as text that is
    not UTF-8 or a time of day beyond 24 hours.
    """
    column.validate(full=True)
    return column


def _starts(column: pa.Array) -> Any:
    return np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]


class BatchDecoder:
    """Decoder of many payloads of one schema in one call."""

    def __init__(self, decode: Any, schema: str, type: pa.DataType) -> None:
        self._decode, self._schema, self._type = decode, schema, type
        self._numbers = _with_numbers(type)
        encoded = bytearray(byte | 0x80 for byte in secrets.token_bytes(_LENGTH))
        encoded[-1] = encoded[-1] & 0x7F | 0x40
        self._end = bytes(encoded)
        value = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(encoded))
        self._number = (value >> 1) ^ -(value & 1)

    def decode(self, payloads: Sequence[bytes]) -> pa.Array | None:
        """Decode payloads to an Arrow array. None if a value is cut short, too long or does not fit; the caller then
        decodes them one by one.
        """
        end = self._end
        return self._whole([payload + end for payload in payloads])

    def decode_framed(self, column: pa.BinaryArray) -> pa.Array | None:
        """Decode a column without nulls, in which all values are framed with this schema's id, to an Arrow array; None
        as for `decode`.
        """
        end, starts, data = self._end, _starts(column).tolist(), column.buffers()[2].to_pybytes()
        return self._whole([data[begin + FRAME : until] + end for begin, until in pairwise(starts)])

    def _whole(self, payloads: list[bytes]) -> pa.Array | None:
        try:
            decoded = self._decode(payloads, self._schema)
            marks = decoded.column(decoded.num_columns - 1)
            if marks.null_count or pc.min_max(marks).as_py() != {"min": self._number, "max": self._number}:
                return None
            names = decoded.schema.names[:-1]
            values = pa.StructArray.from_arrays(decoded.columns[:-1], names).cast(self._numbers).cast(self._type)
            if _repeats_keys(values):  # the last value of a key counts, as in Java
                return None
            return validated(values)  # the library does not look whether text is UTF-8
        except Exception:  # noqa: BLE001  it raises errors of all kinds; values are then decoded one by one
            return None


def _repeats_keys(column: pa.Array) -> bool:
    """Return whether a map in a column has a key twice, at any depth. The column must begin at the start of its buffers
    (offset 0).
    """
    if pa.types.is_struct(column.type):
        return any(map(_repeats_keys, column.flatten()))
    if pa.types.is_list(column.type):
        return _repeats_keys(column.values)
    if not pa.types.is_map(column.type):
        return False
    keys = column.keys.dictionary_encode()
    offsets = np.asarray(column.offsets)
    places = np.repeat(np.arange(len(column)), np.diff(offsets)) * len(keys.dictionary) + np.asarray(keys.indices)
    return len(np.unique(places)) < len(places) or _repeats_keys(column.items)


def _with_numbers(type: pa.DataType) -> pa.DataType:
    """Return the type with dates replaced by int32, at any depth, because Arrow does not convert a long to a date."""
    if pa.types.is_struct(type):
        return pa.struct([(each.name, _with_numbers(each.type)) for each in type])
    if pa.types.is_list(type):
        return pa.list_(_with_numbers(type.value_type))
    if pa.types.is_map(type):
        return pa.map_(pa.string(), _with_numbers(type.item_type))
    return pa.int32() if pa.types.is_date32(type) else type
