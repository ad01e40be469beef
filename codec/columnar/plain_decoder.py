"""Columns by way of the records themselves: every magic, everywhere pyarrow is; what other ways are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from kafkalog.codec.columnar.pieces import Fault, Part, Piece, to_int64, to_microseconds
from kafkalog.codec.execution import Execution
from kafkalog.codec.limits import Limits
from kafkalog.codec.model import AnyHeader, Record
from kafkalog.codec.records import decode_batch, decode_payload

__all__ = ["PlainColumns"]

Row = tuple[AnyHeader, Record]


def header_key(key: str) -> str:
    """The key as text that Arrow accepts: bytes that are no UTF-8 become U+FFFD, as in Kafka's own consumer."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return key


def _headers(record: Record) -> list[dict[str, str | bytes | None]] | None:
    return [{"key": header_key(each.key), "value": each.value} for each in record.headers] or None


class PlainColumns:
    """A `ColumnDecoder` that goes through one `Record` after the other."""

    def __init__(
        self, schema: pa.Schema, topic: str | None, partition: int | None, limits: Limits, execution: Execution
    ) -> None:
        self._schema = schema
        self._limits = limits
        self._execution = execution
        values: dict[str, Callable[[AnyHeader, Record], object]] = {
            "key": lambda header, record: record.key,
            "value": lambda header, record: record.value,
            "topic": lambda header, record: topic,
            "partition": lambda header, record: partition,
            "offset": lambda header, record: to_int64(record.offset),
            "timestamp": lambda header, record: to_microseconds(record.timestamp),
            "timestampType": lambda header, record: int(record.timestamp_type),
            "headers": lambda header, record: _headers(record),
            "leaderEpoch": lambda header, record: record.leader_epoch,
            "producerId": lambda header, record: header.producer_id,
            "producerEpoch": lambda header, record: header.producer_epoch,
            "sequence": lambda header, record: record.sequence,
        }
        self._values = [values[name] for name in schema.names]

    def decode(self, parts: Sequence[Part]) -> Iterator[Piece]:
        """Rows of all parts in order; a fault stands behind the rows before it."""
        rows: list[Row] = []
        for part in parts:
            batch = part.batch
            if batch.magic < 2:
                decoded = decode_batch(batch, limits=self._limits, execution=self._execution)
            else:
                decoded = decode_payload(batch, part.payload, self._limits, self._execution)
            header = batch.header
            rows.extend(
                (header, record) for record in decoded.records if part.low <= to_int64(record.offset) < part.high
            )
            if decoded.finding is not None:
                yield self._columns(rows)
                rows = []
                yield Fault(batch, decoded.finding)
        yield self._columns(rows)

    def _columns(self, rows: list[Row]) -> pa.RecordBatch:
        arrays = [
            pa.array([value(header, record) for header, record in rows], field.type)
            for value, field in zip(self._values, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
