"""Masking of fields by their names in Arrow columns, as `masking` does in JSON values. Columns keep their types."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.values.masking import MASKED, masked, masked_inside
from kafkalog.values.payloads import UndecodableError

__all__ = ["masked_column", "masked_texts"]

_MAY_BE_JSON = r"[\[{\\]"
"""characters of which JSON text has one, also within quotes"""


def masked_column(column: pa.Array, names: frozenset[str]) -> pa.Array:
    """Return the column with the values of fields and map entries of these names hidden, at any depth: text becomes
    `MASKED`, other values and null become null.

    If a text is a JSON object or array, as for Protobuf's `Struct`, such fields inside it are `MASKED` too. A text that
    looks like JSON but cannot be parsed as an object or array is `MASKED` as a whole.
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
    if pa.types.is_string(kind) and pc.any(pc.match_substring_regex(column, _MAY_BE_JSON)).as_py():
        return pa.array([text and masked_inside(text, names) for text in column.to_pylist()], kind)
    return column


def masked_texts(column: pa.Array, names: frozenset[str]) -> tuple[pa.Array, list[int]]:
    """Return a column of JSON texts with the fields of these names masked, and the numbers of the lost rows in
    ascending order. A row is lost, and becomes null, if it looks like JSON but is not an object or array that can be
    parsed. Null and plain text are unchanged, and without names all texts are.
    """
    texts: list[object] = []
    lost = []
    for row, text in enumerate(column.to_pylist()):
        try:
            texts.append(text and masked(text, names))
        except UndecodableError:
            lost.append(row)
            texts.append(None)
    return pa.array(texts, column.type), lost


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
