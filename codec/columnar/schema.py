"""The columns that records can be had in, and their Arrow types.

Names, order and types of the first eight are those of Spark's Kafka source; the others are Kafka's words in the same
spelling.  Every field may be null, `headers` is null where a record has none, and timestamps are microseconds in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from kafkalog.codec.errors import UsageError

__all__ = ["DEFAULT_COLUMNS", "TYPES", "record_schema"]

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", _HEADER)),
    "leaderEpoch": pa.int32(),
    "producerId": pa.int64(),
    "producerEpoch": pa.int16(),
    "sequence": pa.int32(),
}
DEFAULT_COLUMNS = tuple(TYPES)[:8]


def record_schema(columns: Iterable[str] | None = None) -> pa.Schema:
    """The schema of the named columns in the given order, by default Spark's with headers; raises `UsageError`."""
    names = DEFAULT_COLUMNS if columns is None else tuple(columns)
    unknown = [name for name in names if name not in TYPES]
    if unknown:
        raise UsageError(f"no column {', '.join(map(repr, unknown))}; there are {', '.join(TYPES)}")
    if not names or len(set(names)) != len(names):
        raise UsageError(f"a column is named twice: {', '.join(names)}" if names else "no column is named")
    return pa.schema([pa.field(name, TYPES[name]) for name in names])
