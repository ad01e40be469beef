"""Check and convert the columns that can be written, which are those of Spark's Kafka sink
(`KafkaWriter.validateQuery`).

`timestamp` is also accepted. Other columns are ignored, as in the sink, so that what was read can be written again.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType, TimestampType

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.encode.columns import divided_down

__all__ = ["ROWS", "check_schema", "rows_of"]

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ROWS = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.int64()), ("headers", _HEADERS)])
"""Input for building batches. `timestamp` is in ms."""
_MICROSECONDS = 1000

_TEXT_OR_BYTES: tuple[type[DataType], ...] = (StringType, BinaryType)
_ALLOWED: Mapping[str, tuple[tuple[type[DataType], ...], str]] = {
    "topic": ((StringType,), "string"),
    "partition": ((IntegerType,), "int"),
    "key": (_TEXT_OR_BYTES, "string or binary"),
    "value": (_TEXT_OR_BYTES, "string or binary"),
    "timestamp": ((TimestampType,), "timestamp"),
}


def check_schema(schema: StructType, topic: str | None) -> None:
    """Raise `UsageError` if rows of this schema cannot be written: no column `value`, neither a column nor an option
    `topic`, a column with a wrong type, or two columns of one name. Unknown columns are accepted.
    """
    kinds = {field.name: field.dataType for field in schema.fields}
    if len(kinds) != len(schema.fields):
        raise UsageError("two columns have the same name")
    if "topic" not in kinds and topic is None:
        raise UsageError("topic option required when no 'topic' attribute is present: use the option topic")
    if "value" not in kinds:
        raise UsageError("required attribute 'value' not found: there must be a column value, string or binary")
    for name, (allowed, words) in _ALLOWED.items():
        kind = kinds.get(name)
        if kind is not None and not isinstance(kind, allowed):
            raise UsageError(f"column {name} must be {words}, not {kind.simpleString()}")
    headers = kinds.get("headers")
    if headers is not None and not _are_headers(headers):
        raise UsageError(f"column headers must be array<struct<key:string,value:binary>>, not {headers.simpleString()}")


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return (
        len(fields) == 2 and isinstance(fields[0].dataType, StringType) and isinstance(fields[1].dataType, BinaryType)
    )


def rows_of(batch: pa.RecordBatch, now_ms: int) -> pa.RecordBatch:
    """Return the rows with the columns of `ROWS`: key and value as bytes, timestamp in ms (rounded down) and headers.
    Missing columns are null, and missing timestamps become `now_ms`.
    """
    names = set(batch.schema.names)
    count = batch.num_rows
    columns = [
        batch.column(name).cast(pa.binary()) if name in names else pa.nulls(count, pa.binary())
        for name in ("key", "value")
    ]
    if "timestamp" in names:
        micros = batch.column("timestamp").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        columns.append(pc.fill_null(divided_down(micros, _MICROSECONDS), now_ms))
    else:
        columns.append(pa.repeat(pa.scalar(now_ms, pa.int64()), count))
    columns.append(batch.column("headers").cast(_HEADERS) if "headers" in names else pa.nulls(count, _HEADERS))
    return pa.RecordBatch.from_arrays(columns, schema=ROWS)
