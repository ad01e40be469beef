"""Decoded Arrow columns beside what serializers were given, as the recording writes it."""

from __future__ import annotations

import base64
import datetime
import math
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

_CLOCK = re.compile(r"\d\d:\d\d:\d\d\.\d+")


def said(value: Any, type: pa.DataType) -> Any:
    """A value of Arrow's as the recording writes it."""
    if value is None:
        return None
    if pa.types.is_struct(type):
        names = [each.name for each in type]
        if names and names[0] == "member0":
            (found,) = [said(value[each.name], each.type) for each in type if value[each.name] is not None] or [None]
            return found
        return {each.name: said(value[each.name], each.type) for each in type}
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return [said(each, type.value_type) for each in value]
    if pa.types.is_map(type):
        return {name: said(each, type.item_type) for name, each in value}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime.time):
        return value.isoformat("milliseconds" if type.unit == "ms" else "microseconds")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value.isoformat() if isinstance(value, datetime.date) else value


def same(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(same(wanted.get(name), found.get(name)) for name in {*wanted, *found})
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(same, wanted, found))
    if isinstance(wanted, str) and isinstance(found, str) and "T" in wanted and wanted[:4].isdigit():
        return moment(wanted) == moment(found)
    if isinstance(wanted, str) and isinstance(found, str) and _CLOCK.fullmatch(wanted):
        return wanted.rstrip("0") == found.rstrip("0")
    if isinstance(wanted, int) and isinstance(found, str):
        return found == str(wanted)  # a number of an enum that has no name, among names
    return bool(wanted == found)


def moment(text: str) -> tuple[str, str]:
    """A time to the nanosecond, whatever zeros it ends with."""
    whole, _, digits = text.replace(" ", "T").replace("+00:00", "Z").removesuffix("Z").partition(".")
    return whole, digits.rstrip("0")


def pylist(column: pa.Array) -> list[Any]:
    """Times of nanoseconds as text: Python's own end at microseconds."""
    found: list[Any] = _without_nanoseconds(column).to_pylist()
    return found


def _without_nanoseconds(column: pa.Array) -> pa.Array:
    if not pa.types.is_struct(column.type):
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            return column.cast(pa.timestamp("ns")).cast(pa.string())
        return column
    fields = [_without_nanoseconds(column.field(n)) for n in range(column.type.num_fields)]
    return pa.StructArray.from_arrays(fields, [each.name for each in column.type], mask=column.is_null())
