"""Define the columns of the Spark source, which are those of Spark's Kafka source, and check a user's `.schema(...)`.

Spark accepts any schema from the user without checking, so names and types are checked here. It expects Arrow data of
exactly that schema.
"""

from __future__ import annotations

from inspect import signature

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from kafkalog.codec.columnar.schema import DEFAULT_COLUMNS, TYPES
from kafkalog.codec.common.errors import UsageError
from kafkalog.spark.decoded import NOTHING_DECODED, DecodedParts
from kafkalog.spark.options import Mode, ReadOptions

__all__ = ["Layout", "arrow_schema", "full_schema", "layout_of"]

SPARK_TYPES: dict[str, DataType] = {name: from_arrow_type(kind) for name, kind in TYPES.items()}
"""The columns of `codec.columnar.schema.TYPES`."""
_CORRUPT_TYPES: dict[DataType, pa.DataType] = {
    spark_types.StringType(): pa.string(),
    spark_types.BinaryType(): pa.binary(),
}


class Layout(Struct, frozen=True, kw_only=True):
    """The columns to return, in order. One of them may be for damage: the reason as text, or the raw bytes."""

    names: tuple[str, ...]
    corrupt: str | None
    corrupt_is_binary: bool = False
    decoded: DecodedParts = NOTHING_DECODED
    """for the keys and values among the names"""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read from records; at least one. `offset` and `headers` are added where decoding needs
        them.
        """
        read = tuple(name for name in self.names if name != self.corrupt) or ("offset",)
        beside = ("offset", "headers") if self.decoded.parts else ()
        return (*read, *(name for name in beside if name not in read))

    def arrow(self) -> pa.Schema:
        """Return the Arrow schema that Spark expects for these columns."""
        types = TYPES | self.decoded.types
        corrupt = pa.binary() if self.corrupt_is_binary else pa.string()
        return pa.schema([pa.field(name, corrupt if name == self.corrupt else types[name]) for name in self.names])


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects from a source for its own schema. Timestamps are in UTC; before Spark
    4.2, `to_arrow_schema` decides on their time zone.
    """
    takes_timezone = "timezone" in signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if takes_timezone else to_arrow_schema(schema)


def _spark_types(decoded: DecodedParts) -> dict[str, DataType]:
    return SPARK_TYPES | {part: from_arrow_type(kind) for part, kind in decoded.types.items()}


def full_schema(options: ReadOptions, decoded: DecodedParts = NOTHING_DECODED) -> StructType:
    """Return the schema that is used if the user gives none: the columns of Spark's Kafka source, with headers if
    requested, and with mode PERMISSIVE the corrupt column, as text. Decoded keys and values have their decoded types.
    """
    types = _spark_types(decoded)
    names = [name for name in DEFAULT_COLUMNS if name != "headers" or options.include_headers]
    fields = [StructField(name, types[name]) for name in names]
    if options.mode is Mode.PERMISSIVE:
        fields.append(StructField(options.corrupt_column, spark_types.StringType()))
    return StructType(fields)


def layout_of(schema: StructType, options: ReadOptions, decoded: DecodedParts = NOTHING_DECODED) -> Layout:
    """Return the layout of the columns that a schema requests, in its order. Raises `UsageError` if there is no column,
    and for a column that is unknown, has another type or is NOT NULL. It is raised too if the corrupt column is used
    without mode PERMISSIVE.
    """
    corrupt = None
    is_binary = False
    types = _spark_types(decoded)
    for field in schema.fields:
        name = field.name
        if not field.nullable:
            raise UsageError(f"column {name} is declared NOT NULL, but any column of kafkalog may be null")
        if name == options.corrupt_column and options.mode is Mode.PERMISSIVE:
            if field.dataType not in _CORRUPT_TYPES:
                raise UsageError(f"column {name} is string (the reason) or binary (the bytes), not {_text(field)}")
            corrupt = name
            is_binary = field.dataType == spark_types.BinaryType()
        elif name == options.corrupt_column:
            raise UsageError(f"column {name} needs the option mode to be PERMISSIVE")
        elif name not in SPARK_TYPES:
            raise UsageError(f"kafkalog has no column {name}; there are {', '.join(SPARK_TYPES)}")
        elif field.dataType != types[name]:
            raise UsageError(f"column {name} is {types[name].simpleString()}, not {_text(field)}")
    if not schema.fields:
        raise UsageError("the schema has no column")
    names = tuple(field.name for field in schema.fields)
    return Layout(names=names, corrupt=corrupt, corrupt_is_binary=is_binary, decoded=decoded.among(names))


def _text(field: StructField) -> str:
    return field.dataType.simpleString()
