"""Derive Spark's columns from the Structs of JSON lines, by the rules of `codec.columnar.struct_columns`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StructField, StructType

from kafkalog.codec.columnar.struct_columns import column_name, fields_of, type_of
from kafkalog.codec.common.shapes import plain

__all__ = ["Row", "as_columns", "struct_of"]

Row = dict[str, object]

def as_columns(line: Struct | Row, names: Mapping[str, str] | None = None) -> Row:
    """Return a line as a row: column name -> value as in JSON. `names` has other column names, as for `struct_of`, for
    fields whose names in Python and in JSON are equal.
    """
    kind = type(line).__name__
    return {(names or {}).get(f"{kind}.{name}", column_name(name)): value for name, value in plain(line).items()}


def struct_of(
    *shapes: type[Struct],
    without: tuple[str, ...] = (),
    last: tuple[str, ...] = (),
    names: Mapping[str, str] | None = None,
    types: Mapping[str, DataType] | None = None,
    as_json: bool = False,
) -> StructType:
    """Return a schema with a column for each field of the shapes, in their order. If several fields have the same name,
    only the first gets a column. `without` names columns to leave out. `last` names columns to move to the end, in this
    order. `names` gives fields (`Unread.first_offset`) another column name. `types` gives columns another type.

    With `as_json` the columns have the names of the JSON fields, and times are numbers. Raises `TypeError` for a field
    that no column can hold.
    """
    columns: dict[str, DataType] = {}
    for shape in shapes:
        for field in fields_of(shape):
            name = (names or {}).get(f"{shape.__name__}.{field.name}")
            name = name or (field.encode_name if as_json else column_name(field.encode_name))
            if name not in columns and name not in without and field.encode_name not in without:
                other_type = (types or {}).get(name)
                columns[name] = other_type or from_arrow_type(type_of(field, with_times=not as_json))
    ordered = [*(name for name in columns if name not in last), *last]
    return StructType([StructField(name, columns[name]) for name in ordered])
