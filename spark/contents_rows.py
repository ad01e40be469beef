"""Conversion of rows to Arrow batches with the requested columns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa
from pyspark.sql.types import StructType, TimestampType

from kafkalog.codec.names import without_surrogates
from kafkalog.spark.schema import arrow_schema

__all__ = ["LARGEST_MS", "MICROSECONDS", "ROWS", "Row", "arrow_batches"]

ROWS = 1024
"""Number of rows per Arrow batch."""
MICROSECONDS = 1000
"""Per millisecond."""
LARGEST_MS = (2**63 - 1) // MICROSECONDS
"""Largest time in ms that fits into Spark's microseconds."""

Row = dict[str, object]


def _microseconds(value: object) -> int | None:
    """Convert a time from ms; None if out of range."""
    return value * MICROSECONDS if isinstance(value, int) and -LARGEST_MS <= value <= LARGEST_MS else None


def _clean(value: object) -> object:
    """Return the value with surrogates (Python's form of bytes that are not UTF-8) escaped in all strings, also
    inside dicts and lists, since Arrow does not accept them. Tuples become lists.
    """
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {_clean(name): _clean(each) for name, each in value.items()}
    return [_clean(each) for each in value] if isinstance(value, list | tuple) else value


def _array(values: list[object], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([_clean(value) for value in values], kind)


def arrow_batches(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches of up to `ROWS` rows with exactly the columns of `schema`. Missing columns are null,
    others are dropped; times are converted from ms to microseconds.
    """
    target = arrow_schema(schema)
    times = {field.name for field in schema.fields if isinstance(field.dataType, TimestampType)}
    while piece := list(islice(rows, ROWS)):
        arrays = []
        for field in target:
            values = [row.get(field.name) for row in piece]
            if field.name in times:
                values = [_microseconds(value) for value in values]
            arrays.append(_array(values, field.type))
        yield pa.RecordBatch.from_arrays(arrays, schema=target)
