"""Conversion of a field's default to a value. In a default, bytes are text of code points 0 to 255, and inner defaults
may be missing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from kafkalog.values.avro_names import Names, Type, named
from kafkalog.values.avro_schema import is_optional, members

__all__ = ["NO_DEFAULT", "default_of"]

NO_DEFAULT = object()
"""result for a field without a default"""
_TEXT, _NUMBERS = ("string", "bytes", "enum", "fixed"), ("int", "long", "float", "double")
_BITS = {"int": 32, "long": 64}


def default_of(field: Mapping[str, Any], type: Type, names: Names) -> Any:
    """Return the default of a field in the form in which a raw `AvroDecoder` returns values; NO_DEFAULT if the field
    has none.

    `names` maps full names to definitions and namespaces. Raises `ValueError` if the default does not fit the type.
    """
    return _value(field["default"], type, names) if "default" in field else NO_DEFAULT


def _value(default: Any, type: Type, names: Names) -> Any:
    if not _fits(default, type):
        raise ValueError("it is not a default of its type")
    make = _MAKERS.get(type.kind)
    return default if make is None else make(default, type, names)


def _fits(default: Any, type: Type) -> bool:
    """Whether a JSON default has the JSON type of a schema's type (`ResolvingGrammarGenerator.isCompatible`). Always
    True for a union. The contents of arrays, maps and records are not checked.
    """
    kind = type.kind
    if kind in ("union", "null"):
        return kind == "union" or default is None
    if kind in _TEXT:
        return isinstance(default, str)
    if kind in _NUMBERS:
        return isinstance(default, int | float) and not isinstance(default, bool)
    wanted = {"boolean": bool, "array": list, "map": dict, "record": dict}[kind]
    return isinstance(default, wanted)


def _union(default: Any, type: Type, names: Names) -> Any:
    """Return the value of a union's default, converted by the first branch that it fits. If the union has several types
    besides null, a value other than null becomes a dict with the branch's name as its key.

    Raises `ValueError` if it fits no branch.
    """
    for schema, name in zip(type.schema, members(type.schema), strict=True):
        branch = named(schema, type.namespace, names)
        if branch.kind != "union" and _fits(default, branch):
            try:
                value = _value(default, branch, names)
            except ValueError:
                continue
            return value if name is None or is_optional(type.schema) else {name: value}
    raise ValueError("no type of the union takes its default")


def _record(default: Any, type: Type, names: Names) -> dict[str, Any]:
    record = {}
    for each in type.schema["fields"]:
        inner = named(each["type"], type.namespace, names)
        record[each["name"]] = (
            _value(default[each["name"]], inner, names) if each["name"] in default else default_of(each, inner, names)
        )
        if record[each["name"]] is NO_DEFAULT:
            raise ValueError("a default of a record lacks a field")
    return record


def _bytes(default: str, type: Type, names: Names) -> bytes:
    value = default.encode("iso-8859-1")
    if type.kind == "fixed" and len(value) != type.schema["size"]:
        raise ValueError("a default of a fixed type has another size")
    return value


def _whole(default: float, type: Type, names: Names) -> int:
    value, half = int(default), 1 << (_BITS[type.kind] - 1)
    if value != default or not -half <= value < half:
        raise ValueError("a default is beyond its type")
    return value


def _single(default: float, type: Type, names: Names) -> float:
    value: float = struct.unpack("<f", struct.pack("<f", default))[0]
    return value


def _symbol(default: str, type: Type, names: Names) -> str:
    if default not in type.schema["symbols"]:
        raise ValueError("a default is not a symbol of its enum")
    return default


def _items(default: Any, type: Type, names: Names) -> list[Any]:
    inner = named(type.schema["items"], type.namespace, names)
    return [_value(each, inner, names) for each in default]


def _values(default: Any, type: Type, names: Names) -> dict[str, Any]:
    inner = named(type.schema["values"], type.namespace, names)
    return {name: _value(each, inner, names) for name, each in default.items()}


_MAKERS: Mapping[str, Callable[[Any, Type, Names], Any]] = {
    "union": _union, "record": _record, "bytes": _bytes, "fixed": _bytes, "int": _whole, "long": _whole,
    "float": _single, "double": lambda given, type, names: float(given), "enum": _symbol, "array": _items,
    "map": _values,
}  # fmt: skip
