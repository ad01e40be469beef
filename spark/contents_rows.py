"""Convert rows to Arrow batches with the requested columns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, MapType, StructType, TimestampType

from kafkalog.codec.names import without_surrogates
from kafkalog.spark.schema import arrow_schema
from kafkalog.spark.struct_columns import Row

__all__ = ["LARGEST_MS", "MICROSECONDS", "ROWS", "arrow_batches"]

ROWS = 1024
"""Number of rows per Arrow batch."""
MICROSECONDS = 1000
"""Per millisecond."""
LARGEST_MS = (2**63 - 1) // MICROSECONDS
"""Largest time in ms that fits into Spark's microseconds."""

_LARGEST: dict[type[DataType], int] = {LongType: 2**63 - 1, IntegerType: 2**31 - 1}


def _microseconds(value: object) -> int | None:
    """Convert a time from ms to microseconds. Return None if the value is not an int or the result does not fit 64
    bits.
    """
    return value * MICROSECONDS if isinstance(value, int) and -LARGEST_MS <= value <= LARGEST_MS else None


def _as_column(value: object, kind: DataType) -> object:
    """Convert a value of a row to the type `kind` of its column. Times in ms become microseconds, also inside lists and
    structs; None if they do not fit. A struct's missing fields become None, and its unknown fields are dropped. Other
    values are returned unchanged.
    """
    if isinstance(kind, TimestampType):
        return _microseconds(value)
    if isinstance(value, list | tuple) and isinstance(kind, ArrayType):
        return [_as_column(element, kind.elementType) for element in value]
    if isinstance(value, dict) and isinstance(kind, StructType):
        return {field.name: _as_column(value.get(field.name), field.dataType) for field in kind.fields}
    return value


def _clean(value: object, kind: DataType) -> object:
    """Return a copy of the value that Arrow accepts, also inside dicts and lists. Surrogates (Python's form of bytes
    that are not UTF-8) become escapes. Integers that do not fit the type become None. Tuples become lists. A dict for a
    struct type gets exactly its fields: missing ones become None, others are dropped.
    """
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list | tuple) and isinstance(kind, ArrayType):
        return [_clean(element, kind.elementType) for element in value]
    if isinstance(value, dict) and isinstance(kind, MapType):
        return {_clean(name, kind.keyType): _clean(element, kind.valueType) for name, element in value.items()}
    if isinstance(value, dict) and isinstance(kind, StructType):
        return {field.name: _clean(value.get(field.name), field.dataType) for field in kind.fields}
    largest = _LARGEST.get(type(kind))
    is_too_large = largest is not None and isinstance(value, int) and not -largest - 1 <= value <= largest
    return None if is_too_large else value


def _array(values: list[object], kind: pa.DataType, spark_kind: DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except (UnicodeEncodeError, OverflowError, pa.ArrowInvalid):
        return pa.array([_clean(value, spark_kind) for value in values], kind)


def arrow_batches(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches of up to `ROWS` rows with exactly the columns of `schema`; none if there are no rows.
    Consumes `rows`. Missing columns are null, and others are dropped. Times are converted from ms to microseconds. A
    number that does not fit its type becomes null; surrogates become escapes.
    """
    target = arrow_schema(schema)
    converted = {field.name for field in schema.fields if "timestamp" in field.dataType.simpleString()}
    while piece := list(islice(rows, ROWS)):
        arrays = []
        for field, arrow_field in zip(schema.fields, target, strict=True):
            values = [row.get(field.name) for row in piece]
            if field.name in converted:
                values = [_as_column(value, field.dataType) for value in values]
            arrays.append(_array(values, arrow_field.type, field.dataType))
        yield pa.RecordBatch.from_arrays(arrays, schema=target)
