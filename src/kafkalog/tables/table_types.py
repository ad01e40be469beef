"""Conversion of Arrow types to the types of a table format.

If a format lacks a type, a wider type that can have all its values is used, or text if there is none.
"""

from __future__ import annotations

import pyarrow as pa
from msgspec import Struct

__all__ = ["NoTypeError", "TypeRules", "table_type", "widened"]

_UNSIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20)}
_LARGEST_DECIMAL = 38
_WIDER = {
    pa.int16(): {pa.int32(), pa.int64()}, pa.int32(): {pa.int64()}, pa.float32(): {pa.float64()},
}  # fmt: skip


class NoTypeError(Exception):
    """No table format has a column of this type."""


class TypeRules(Struct, frozen=True, kw_only=True):
    """The types that a table format supports."""

    has_time: bool = True
    has_nanoseconds: bool = True
    has_unsigned: bool = True
    has_large_decimals: bool = True
    """whether decimals of more than 38 digits are supported"""
    tells_case: bool = True
    """whether field names that differ only in case are distinct"""
    grows_wider: bool = True
    """whether a number's type may be widened after the table was created"""


def table_type(type: pa.DataType, rules: TypeRules) -> pa.DataType:
    """Return the nearest type that the table format supports, also inside structs, maps and lists; string if there is
    none. Map keys become strings, and list elements are named `element`.
    Raises `NoTypeError` for a struct without fields, or with names that are equal in the format.
    """
    if pa.types.is_struct(type):
        names = [each.name if rules.tells_case else each.name.lower() for each in type]
        if not names or len(set(names)) != len(names):
            raise NoTypeError
        return pa.struct([(each.name, table_type(each.type, rules)) for each in type])
    if pa.types.is_map(type):
        return pa.map_(pa.string(), table_type(type.item_type, rules))
    if pa.types.is_list(type):
        return pa.list_(pa.field("element", table_type(type.value_type, rules)))
    if pa.types.is_null(type):
        return pa.string()
    if pa.types.is_timestamp(type):
        return _timestamp(type, rules)
    if pa.types.is_time(type):
        return pa.time64("us") if rules.has_time else pa.string()
    if pa.types.is_decimal(type) and type.precision > _LARGEST_DECIMAL and not rules.has_large_decimals:
        return pa.string()
    return type if rules.has_unsigned else _UNSIGNED.get(type, type)


def _timestamp(type: pa.DataType, rules: TypeRules) -> pa.DataType:
    if type.unit != "ns":
        return pa.timestamp("us", type.tz)
    return type if rules.has_nanoseconds else pa.string()


def widened(old: pa.DataType, new: pa.DataType, rules: TypeRules) -> pa.DataType | None:
    """Return a type for the values of column `old` and of `new`; None if there is none. It is `old` if that is wide
    enough. Otherwise it is a wider number, if `rules` allow that, or a struct with added fields, also inside lists and
    maps. A widened list has elements named `element`, a widened map has strings as keys.
    """
    if old.equals(new) or new in _narrower(old):
        return old
    if new in _WIDER.get(old, ()):
        return new if rules.grows_wider else None
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        return _struct(old, new, rules)
    if pa.types.is_list(old) and pa.types.is_list(new):
        inner = widened(old.value_type, new.value_type, rules)
        return None if inner is None else pa.list_(pa.field("element", inner))
    if pa.types.is_map(old) and pa.types.is_map(new):
        inner = widened(old.item_type, new.item_type, rules)
        return None if inner is None else pa.map_(pa.string(), inner)
    return None


def _narrower(type: pa.DataType) -> set[pa.DataType]:
    return {narrow for narrow, wider in _WIDER.items() if type in wider}


def _struct(old: pa.DataType, new: pa.DataType, rules: TypeRules) -> pa.DataType | None:
    fields = []
    for each in old:
        place = new.get_field_index(each.name)
        inner = each.type if place < 0 else widened(each.type, new.field(place).type, rules)
        if inner is None:
            return None
        fields.append((each.name, inner))
    added = [(each.name, each.type) for each in new if old.get_field_index(each.name) < 0]
    return pa.struct([*fields, *added])
