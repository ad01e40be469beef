"""The columns of records. Each is declared here once, with the source of its values; its type is that of the field of
`PartitionName`, `Record` or `BATCH_FIELDS`. Names, order and types of the first eight are those of Spark's Kafka
source; the others have Kafka's names in the same spelling. Every field may be null, `headers` is null for a record
without any, and timestamps are microseconds in UTC. A column that follows from a batch's header needs one entry in
`BATCH_FIELDS`, and its name here. A column that follows from a record's bytes needs a member of `ArrowBuffer`, which
`native/records.c` fills.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from msgspec import Struct

from kafkalog.codec.columnar.pieces import to_microseconds
from kafkalog.codec.columnar.struct_columns import column_types
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.model import (
    NO_SEQUENCE,
    TIMESTAMP_TYPE_FLAG,
    AnyHeader,
    Record,
    TimestampType,
    to_int64,
)
from kafkalog.codec.names import PartitionName
from kafkalog.codec.native.tables import ArrowBuffer, HeaderColumn, MessageColumn, Table
from kafkalog.codec.rules.batch_fields import BATCH_FIELDS, POSITION, Kind

__all__ = ["COLUMNS", "COPY", "DEFAULT_COLUMNS", "TYPES", "VIEW", "Column", "copied", "record_schema"]

_STORED = object()

COPY, VIEW = "copy", "view"
"""Layouts of keys and values: Arrow's `binary`, or its `binary_view`, which points to the memory from which they were
read.
"""


class Column(Struct, frozen=True, kw_only=True):
    """One column: its Arrow type, and its values for each kind of decoder. A column without `buffers` and `of_batch`
    has one value for the whole partition, which the caller supplies.
    """

    type: pa.DataType
    of_record: Callable[[AnyHeader, Record], object] | None = None
    """value of a record, given its batch's header; for the plain decoder"""
    buffers: tuple[ArrowBuffer, ...] = ()
    """buffers that compiled code fills, if the value is in the record's bytes"""
    views: tuple[ArrowBuffer, ...] = ()
    """buffers for the view layout, if the column has it"""
    of_batch: Callable[[Table], Any] | None = None
    """function from a table of `HeaderColumn` to the value of each batch, if the value is in the header"""
    of_message: Callable[[Table], Any] | None = None
    """function from a table of `MessageColumn` to the value of each entry, if magic 0 and 1 have it in the header"""
    words: Callable[[], pa.Array] | None = None
    """texts by number, if `of_batch` and `of_message` return numbers"""
    is_place: bool = False
    """whether the value is the batch's position in the file: tables have it relative to a window, and headers not at
    all
    """
    without: object = _STORED
    """value for magic 0 and 1 if they do not have the field"""

    @property
    def is_in_messages(self) -> bool:
        """Whether magic 0 and 1 have the field too."""
        return self.without is _STORED


def _header_key(key: str) -> str:
    """Return a header key as text that Arrow accepts. Surrogates, which stand for bytes that are not UTF-8, become
    U+FFFD, as in Kafka's consumer.
    """
    try:
        key.encode()
    except UnicodeEncodeError:
        return key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return key


def _headers(_: AnyHeader, record: Record) -> list[dict[str, str | bytes | None]] | None:
    return [{"key": _header_key(header.key), "value": header.value} for header in record.headers] or None


def _timestamp_types(attributes: Any) -> Any:
    return (attributes & TIMESTAMP_TYPE_FLAG) // TIMESTAMP_TYPE_FLAG


def _timestamp_types_of_messages(messages: Table) -> Any:
    known = _timestamp_types(messages[MessageColumn.ATTRIBUTES])
    is_unknown = messages[MessageColumn.MAGIC] == 0
    known[is_unknown] = int(TimestampType.NO_TIMESTAMP_TYPE)
    return known


def _of_header(word: str, of_message: str | None = None) -> Column:
    """Return the column of the header field `word` of a batch. `of_message` is the field's name in entries of magic 0
    and 1, if that differs.
    """
    batch_field = BATCH_FIELDS[word]
    of_messages = batch_field.of_messages if of_message is None else lambda columns: columns(of_message)
    is_place = word == POSITION
    return Column(
        type=getattr(pa, batch_field.kind.value + ("_" if batch_field.kind is Kind.BOOLEAN else ""))(),
        of_record=None if is_place else lambda header, _: batch_field.of_header(header),
        of_batch=lambda table: batch_field.of_columns(lambda name: table[HeaderColumn[name.upper()]]),
        of_message=None
        if of_messages is None
        else lambda table: of_messages(lambda name: table[MessageColumn[name.upper()]]),
        words=(lambda: pa.array(batch_field.labels, pa.string())) if batch_field.labels else None,
        is_place=is_place,
        without=_STORED if of_messages is not None else batch_field.without,
    )


_OF_FIELDS = column_types(PartitionName, Record)

COLUMNS: dict[str, Column] = {
    "key": Column(
        type=_OF_FIELDS["key"],
        of_record=lambda _, record: record.key,
        buffers=(ArrowBuffer.KEY_ENDS, ArrowBuffer.KEY_VALID, ArrowBuffer.KEY),
        views=(ArrowBuffer.KEY_VIEWS, ArrowBuffer.KEY_VALID),
    ),
    "value": Column(
        type=_OF_FIELDS["value"],
        of_record=lambda _, record: record.value,
        buffers=(ArrowBuffer.VALUE_ENDS, ArrowBuffer.VALUE_VALID, ArrowBuffer.VALUE),
        views=(ArrowBuffer.VALUE_VIEWS, ArrowBuffer.VALUE_VALID),
    ),
    "topic": Column(type=_OF_FIELDS["topic"]),
    "partition": Column(type=_OF_FIELDS["partition"]),
    "offset": Column(
        type=_OF_FIELDS["offset"], of_record=lambda _, record: to_int64(record.offset), buffers=(ArrowBuffer.OFFSET,)
    ),
    "timestamp": Column(
        type=_OF_FIELDS["timestamp"],
        of_record=lambda _, record: to_microseconds(record.timestamp),
        buffers=(ArrowBuffer.TIMESTAMP, ArrowBuffer.TIMESTAMP_VALID),
    ),
    "timestampType": Column(
        type=_OF_FIELDS["timestampType"],
        of_record=lambda _, record: int(record.timestamp_type),
        of_batch=lambda batches: _timestamp_types(batches[HeaderColumn.ATTRIBUTES]),
        of_message=_timestamp_types_of_messages,
    ),
    "headers": Column(
        type=_OF_FIELDS["headers"],
        of_record=_headers,
        buffers=(
            ArrowBuffer.HEADER_ENDS, ArrowBuffer.HEADER_KEY_ENDS, ArrowBuffer.HEADER_KEY,
            ArrowBuffer.HEADER_VALUE_ENDS, ArrowBuffer.HEADER_VALUE_VALID, ArrowBuffer.HEADER_VALUE,
        ),
        without=None,
    ),
    "leaderEpoch": _of_header("partitionLeaderEpoch"),
    "producerId": _of_header("producerId"),
    "producerEpoch": _of_header("producerEpoch"),
    "sequence": Column(
        type=_OF_FIELDS["sequence"],
        of_record=lambda _, record: record.sequence,
        buffers=(ArrowBuffer.SEQUENCE,),
        without=NO_SEQUENCE,
    ),
    "isTransactional": _of_header("isTransactional"),
    "compresscodec": _of_header("compresscodec"),
    "magic": _of_header("magic"),
    "baseOffset": _of_header("baseOffset", of_message="offset"),
    "position": _of_header(POSITION),
}  # fmt: skip
TYPES: dict[str, pa.DataType] = {name: column.type for name, column in COLUMNS.items()}
DEFAULT_COLUMNS = tuple(COLUMNS)[:8]


def record_schema(columns: Iterable[str] | None = None, layout: str = COPY) -> pa.Schema:
    """Return the schema of the named columns in the given order; by default the columns of Spark's Kafka source with
    headers. With layout `VIEW` keys and values are binary views, with `COPY` plain binary. Raises `UsageError` for an
    unknown or repeated name, for an empty selection, and for an unknown layout.
    """
    if layout not in (COPY, VIEW):
        raise UsageError(f"there is no layout {layout!r}; there are {COPY} and {VIEW}")
    names = DEFAULT_COLUMNS if columns is None else tuple(columns)
    unknown = [name for name in names if name not in TYPES]
    if unknown:
        raise UsageError(f"no column {', '.join(map(repr, unknown))}; there are {', '.join(TYPES)}")
    if not names or len(set(names)) != len(names):
        raise UsageError(f"a column is named twice: {', '.join(names)}" if names else "no column is named")
    views = {name for name in names if COLUMNS[name].views} if layout == VIEW else set()
    return pa.schema([pa.field(name, pa.binary_view() if name in views else TYPES[name]) for name in names])


def copied(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the same columns without views."""
    return record_schema(schema.names)
