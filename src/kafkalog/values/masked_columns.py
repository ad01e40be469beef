"""Mask fields by their names in Arrow columns, as `masking` does in JSON values; columns keep their types."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.values.json_values import exact_json, json_or_none
from kafkalog.values.masking import MASKED, masked
from kafkalog.values.payloads import UndecodableError

__all__ = ["masked_column", "masked_texts"]

_dumps = exact_json(json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode)


def masked_column(column: pa.Array, names: frozenset[str]) -> pa.Array:
    """Return the column with fields and map entries of these names hidden at any depth: text becomes `MASKED`, anything
    else null.

    Inside text that is a JSON object or array, as Protobuf's `Struct`, such fields are `MASKED` too. Text that begins
    like one but cannot be parsed is `MASKED` as a whole.
    """
    kind = column.type
    if pa.types.is_struct(kind):
        if not len(kind):
            return column
        fields = [
            _hidden(column.field(number)) if each.name in names else masked_column(column.field(number), names)
            for number, each in enumerate(kind)
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=column.is_null())
    if pa.types.is_list(kind):
        values = masked_column(column.flatten(), names)
        return _as_before(column, pa.ListArray.from_arrays(_offsets(column), values, kind, mask=column.is_null()))
    if pa.types.is_map(kind):
        return _map(column, names)
    if pa.types.is_string(kind) and pc.any(pc.match_substring_regex(column, r"^[ \t\r\n]*[\[{]")).as_py():
        return pa.array([text and _masked_inside(text, names) for text in column.to_pylist()], kind)
    return column


def masked_texts(column: pa.Array, names: frozenset[str]) -> tuple[pa.Array, list[int]]:
    """Return a column of JSON texts with the fields of these names masked, and the numbers of the rows that look like
    JSON but cannot be parsed: these become null. Null and plain text stay as they are.
    """
    found: list[str | None] = []
    lost = []
    for row, text in enumerate(column.to_pylist()):
        shown = None
        if text is not None:
            value = json_or_none(text.encode("utf-8", "surrogatepass"))
            try:
                if value is None:
                    masked(_unquoted(text), names)
                shown = text if value is None else masked(value, names)
            except UndecodableError:
                lost.append(row)
        found.append(shown if shown is None or isinstance(shown, str) else _dumps(shown))
    return pa.array(found, column.type), lost


def _masked_inside(text: str, names: frozenset[str]) -> str:
    value = json_or_none(text.encode())
    if value is None and text.lstrip(" \t\r\n")[:1] in ("{", "["):
        return MASKED  # it may have such a field
    shown = masked(value, names)
    return text if shown == value else _dumps(shown)


def _unquoted(text: str) -> str:
    """Return the text of a JSON string without its quotes and escapes. Text that does not begin with a quote, or is not
    a valid JSON string, is returned unchanged.
    """
    try:
        value = json.loads(text) if text.startswith('"') else text
    except ValueError:
        return text
    return str(value)


def _hidden(column: pa.Array) -> pa.Array:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return pa.nulls(len(column), column.type)
    return pc.if_else(column.is_valid(), pa.scalar(MASKED, column.type), pa.scalar(None, column.type))


def _offsets(column: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])


def _as_before(column: pa.Array, made: pa.Array) -> pa.Array:
    return made if made.type.equals(column.type) else made.cast(column.type)


def _map(column: pa.Array, names: frozenset[str]) -> pa.Array:
    whole = pa.concat_arrays([column, column.slice(0, 0)])  # begins where its buffers begin
    items = masked_column(whole.items, names)
    hides = pc.is_in(whole.keys, value_set=pa.array(sorted(names), whole.keys.type))
    items = pc.if_else(hides, _hidden(items), items)
    made = pa.MapArray.from_arrays(whole.offsets, whole.keys, items, column.type, mask=whole.is_null())
    return _as_before(column, made)
