"""Convert the default of a field to a value: bytes are text of code points 0 to 255, inner defaults may be missing."""

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
    """Default of a field as `AvroDecoder` gives it raw; NO_DEFAULT if the field has none.

    Raises `ValueError` if the default does not fit the type.
    """
    return _value(field["default"], type, names) if "default" in field else NO_DEFAULT


def _value(given: Any, type: Type, names: Names) -> Any:
    if not _fits(given, type):
        raise ValueError("it is not a default of its type")
    make = _MAKERS.get(type.kind)
    return given if make is None else make(given, type, names)


def _fits(given: Any, type: Type) -> bool:
    """Whether a JSON default has the JSON type of a schema's type (`ResolvingGrammarGenerator.isCompatible`). Always
    true for a union. For arrays, maps and records the content is not checked.
    """
    kind = type.kind
    if kind in ("union", "null"):
        return kind == "union" or given is None
    if kind in _TEXT:
        return isinstance(given, str)
    if kind in _NUMBERS:
        return isinstance(given, int | float) and not isinstance(given, bool)
    wanted = {"boolean": bool, "array": list, "map": dict, "record": dict}[kind]
    return isinstance(given, wanted)


def _union(given: Any, type: Type, names: Names) -> Any:
    """Return the value of a union's default: that of the first branch which the default fits. If the union has several
    types besides null, it is a dict of the branch's name and the value, except for null. Raises `ValueError` if no
    branch fits.
    """
    for schema, name in zip(type.schema, members(type.schema), strict=True):
        branch = named(schema, type.namespace, names)
        if branch.kind != "union" and _fits(given, branch):
            try:
                value = _value(given, branch, names)
            except ValueError:
                continue
            return value if name is None or is_optional(type.schema) else {name: value}
    raise ValueError("no type of the union takes its default")


def _record(given: Any, type: Type, names: Names) -> dict[str, Any]:
    made = {}
    for each in type.schema["fields"]:
        inner = named(each["type"], type.namespace, names)
        made[each["name"]] = (
            _value(given[each["name"]], inner, names) if each["name"] in given else default_of(each, inner, names)
        )
        if made[each["name"]] is NO_DEFAULT:
            raise ValueError("a default of a record lacks a field")
    return made


def _bytes(given: str, type: Type, names: Names) -> bytes:
    value = given.encode("iso-8859-1")
    if type.kind == "fixed" and len(value) != type.schema["size"]:
        raise ValueError("a default of a fixed type has another size")
    return value


def _whole(given: float, type: Type, names: Names) -> int:
    value, half = int(given), 1 << (_BITS[type.kind] - 1)
    if value != given or not -half <= value < half:
        raise ValueError("a default is beyond its type")
    return value


def _single(given: float, type: Type, names: Names) -> float:
    value: float = struct.unpack("<f", struct.pack("<f", given))[0]
    return value


def _symbol(given: str, type: Type, names: Names) -> str:
    if given not in type.schema["symbols"]:
        raise ValueError("a default is not a symbol of its enum")
    return given


def _items(given: Any, type: Type, names: Names) -> list[Any]:
    inner = named(type.schema["items"], type.namespace, names)
    return [_value(each, inner, names) for each in given]


def _values(given: Any, type: Type, names: Names) -> dict[str, Any]:
    inner = named(type.schema["values"], type.namespace, names)
    return {name: _value(each, inner, names) for name, each in given.items()}


_MAKERS: Mapping[str, Callable[[Any, Type, Names], Any]] = {
    "union": _union, "record": _record, "bytes": _bytes, "fixed": _bytes, "int": _whole, "long": _whole,
    "float": _single, "double": lambda given, type, names: float(given), "enum": _symbol, "array": _items,
    "map": _values,
}  # fmt: skip
