"""Table of the fields of a batch's header, under the names of kafka-dump-log. Each entry defines a field of `dump` and
its `--metadata`, and a column of `to_arrow` and of Spark's `contents=batches`. It has a function for one header, and
one for columns of headers (by the names in the layout). numpy is not imported here: callers that have columns have
loaded it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from kafkalog.codec.model import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_OVERHEAD,
    MAX_SEQUENCE,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    AnyHeader,
    BatchHeader,
    codec_label,
)

__all__ = ["BATCH_FIELDS", "OF_RECORDS", "POSITION", "BatchField", "Kind"]

HeaderColumns = Callable[[str], Any]
"""Function from the name of a declared field to its values in many headers."""


class Kind(enum.Enum):
    """Type of a field's values."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    BOOLEAN = "bool"
    TEXT = "string"
    TIME = "time"
    """ms since 1970"""


class BatchField(Struct, frozen=True, kw_only=True):
    """One field of a batch's header."""

    meaning: str
    """description for the page that lists the fields"""
    kind: Kind
    of_header: Callable[[Any], object]
    """value for one header"""
    of_columns: Callable[[HeaderColumns], Any]
    """values for many v2 headers, as an array; numbers of `labels` if the field has labels"""
    of_messages: Callable[[HeaderColumns], Any] | None = None
    """values for many headers of magic 0 and 1; None: they do not have the field"""
    is_absent: Callable[[HeaderColumns], Any] | None = None
    """mask of the v2 headers without the field; None: all have it"""
    without: object = None
    """value for records of magic 0 and 1, if these do not have the field"""
    labels: tuple[str, ...] = ()

    def is_of(self, header: AnyHeader) -> bool:
        """Whether a header of this class has the field."""
        return self.of_messages is not None or isinstance(header, BatchHeader)


def _same(name: str) -> Callable[[HeaderColumns], Any]:
    return lambda columns: columns(name)


def _flag(flag: int) -> Callable[[HeaderColumns], Any]:
    return lambda columns: columns("attributes") & flag != 0


def _last_sequences(columns: HeaderColumns) -> Any:
    """Apply `codec.model.increment_sequence` to columns, for deltas that are not negative."""
    first = columns("base_sequence")
    last = first + columns("last_offset_delta")
    wrapped = last - (last > MAX_SEQUENCE) * (MAX_SEQUENCE + 1)
    return wrapped * (first != NO_SEQUENCE) + NO_SEQUENCE * (first == NO_SEQUENCE)


def _sizes(name: str) -> Callable[[HeaderColumns], Any]:
    return lambda columns: columns(name) + LOG_OVERHEAD.size


def _codecs(columns: HeaderColumns) -> Any:
    return columns("attributes") & CODEC_MASK


def _no_horizon(columns: HeaderColumns) -> Any:
    return columns("attributes") & DELETE_HORIZON_FLAG == 0


POSITION = "position"
"""Name of the field with the batch's position, which is in no header; tables have it relative to a window."""

BATCH_FIELDS: dict[str, BatchField] = {
    "baseOffset": BatchField(
        meaning="first offset; of magic 0 and 1 the offset of the entry",
        kind=Kind.INT64, of_header=lambda header: header.first_offset, of_columns=_same("base_offset"),
    ),
    "lastOffset": BatchField(
        meaning="last offset, whether or not a record has it",
        kind=Kind.INT64, of_header=lambda header: header.last_offset,
        of_columns=lambda columns: columns("base_offset") + columns("last_offset_delta"),
    ),
    "count": BatchField(
        meaning="records, or null in magic 0 and 1",
        kind=Kind.INT32, of_header=lambda header: header.records_count, of_columns=_same("records_count"),
    ),
    "baseSequence": BatchField(
        meaning="the producer's number of the first record; -1 without",
        kind=Kind.INT32, of_header=lambda header: header.base_sequence, of_columns=_same("base_sequence"),
    ),
    "lastSequence": BatchField(
        meaning="of the last record",
        kind=Kind.INT32, of_header=lambda header: header.last_sequence, of_columns=_last_sequences,
    ),
    "producerId": BatchField(
        meaning="-1 without",
        kind=Kind.INT64, of_header=lambda header: header.producer_id, of_columns=_same("producer_id"),
        without=NO_PRODUCER_ID,
    ),
    "producerEpoch": BatchField(
        meaning="-1 without",
        kind=Kind.INT16, of_header=lambda header: header.producer_epoch, of_columns=_same("producer_epoch"),
        without=NO_PRODUCER_EPOCH,
    ),
    "partitionLeaderEpoch": BatchField(
        meaning="of the leader that wrote it; outside the checksum",
        kind=Kind.INT32, of_header=lambda header: header.partition_leader_epoch,
        of_columns=_same("partition_leader_epoch"), without=NO_PARTITION_LEADER_EPOCH,
    ),
    "isTransactional": BatchField(
        meaning="belongs to a transaction",
        kind=Kind.BOOLEAN, of_header=lambda header: header.is_transactional, of_columns=_flag(TRANSACTIONAL_FLAG),
        without=False,
    ),
    "isControl": BatchField(
        meaning="holds no record of a producer, but the end of a transaction, or what a quorum of controllers writes",
        kind=Kind.BOOLEAN, of_header=lambda header: header.is_control, of_columns=_flag(CONTROL_FLAG),
    ),
    "deleteHorizonMs": BatchField(
        meaning="from when on the cleaner may remove its markers and tombstones",
        kind=Kind.TIME, of_header=lambda header: header.delete_horizon_ms, of_columns=_same("base_timestamp"),
        is_absent=_no_horizon,
    ),
    POSITION: BatchField(
        meaning="byte in the file where it begins",
        kind=Kind.INT64, of_header=lambda header: None, of_columns=_same("position"), of_messages=_same("position"),
    ),
    "timestamp": BatchField(
        meaning="the largest",
        kind=Kind.TIME, of_header=lambda header: header.max_timestamp, of_columns=_same("max_timestamp"),
        of_messages=_same("timestamp"),
    ),
    "timestampType": BatchField(
        meaning="0 CreateTime, 1 LogAppendTime, -1 none",
        kind=Kind.INT32, of_header=lambda header: int(header.timestamp_type),
        of_columns=lambda columns: (columns("attributes") & TIMESTAMP_TYPE_FLAG) // TIMESTAMP_TYPE_FLAG,
    ),
    "size": BatchField(
        meaning="bytes, header included",
        kind=Kind.INT32, of_header=lambda header: header.size, of_columns=_sizes("batch_length"),
        of_messages=_sizes("size"),
    ),
    "magic": BatchField(
        meaning="message format",
        kind=Kind.INT8, of_header=lambda header: header.magic, of_columns=_same("magic"), of_messages=_same("magic"),
    ),
    "compresscodec": BatchField(
        meaning="compression of the records, `none` without one",
        kind=Kind.TEXT, of_header=lambda header: codec_label(header.codec), of_columns=_codecs, of_messages=_codecs,
        labels=tuple(codec_label(codec) for codec in range(CODEC_MASK + 1)),
    ),
    "crc": BatchField(
        meaning="the checksum that is stored",
        kind=Kind.INT64, of_header=lambda header: header.crc, of_columns=_same("crc"), of_messages=_same("crc"),
    ),
}  # fmt: skip
"""Fields in the order in which kafka-dump-log prints them."""

OF_RECORDS = (
    "producerId", "producerEpoch", "sequence", "partitionLeaderEpoch", "isTransactional", "compresscodec", "magic",
    "baseOffset", POSITION,
)  # fmt: skip
"""Fields that `dump --metadata` prints for each record. Only `sequence` is the record's own."""
