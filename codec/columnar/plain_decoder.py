"""Build columns from `Record` objects: for every magic, with pyarrow alone. Compiled decoders are compared with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from kafkalog.codec.columnar.pieces import Fault, Part, Piece
from kafkalog.codec.columnar.schema import COLUMNS
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.model import Record, RecordBatch, to_int64
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.plain.records import decode_batch, decode_payload

__all__ = ["PlainDecoder"]


class PlainDecoder:
    """Decoder that handles one `Record` after another."""

    def __init__(self, schema: pa.Schema, topic: str | None, partition: int | None, limits: Limits) -> None:
        self._schema = schema
        self._limits = limits
        self._constants = {"topic": topic, "partition": partition}

    def decode(self, parts: Sequence[Part]) -> Iterator[Piece]:
        """Yield the wanted rows (offsets from `low` to `high`, exclusive) of all parts in order as Arrow batches. A
        `Fault` follows the rows before it; records of the faulty batch after the fault are skipped, and the next parts
        continue. The last Arrow batch, and one before a fault, may be empty.
        """
        rows: list[tuple[RecordBatch, Record]] = []
        for part in parts:
            batch = part.batch
            if batch.magic < 2:
                decoded = decode_batch(batch, limits=self._limits)
            else:
                decoded = decode_payload(batch, part.payload, self._limits, PLAIN)
            rows.extend(
                (batch, record) for record in decoded.records if part.low <= to_int64(record.offset) < part.high
            )
            if decoded.finding is not None:
                yield self.columns(rows)
                rows = []
                last = decoded.records[-1].offset if decoded.records else None
                yield Fault(batch, decoded.finding, None if last is None else last + 1)
        yield self.columns(rows)

    def columns(self, rows: Sequence[tuple[RecordBatch, Record]]) -> pa.RecordBatch:
        """Return an Arrow batch with one row for each record, in order. Each record comes with its batch."""
        arrays = [self._column(field, rows) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, field: pa.Field, rows: Sequence[tuple[RecordBatch, Record]]) -> pa.Array:
        column = COLUMNS[field.name]
        if column.is_place:
            return pa.array([batch.position for batch, _ in rows], field.type)
        value = column.of_record
        if value is None:
            return pa.repeat(pa.scalar(self._constants[field.name], field.type), len(rows))
        values = [value(batch.header, record) for batch, record in rows]
        if len(values) == 1 and isinstance(values[0], memoryview):
            return _where_it_is(values[0]).cast(field.type)
        return pa.array(values, field.type)


def _where_it_is(value: memoryview) -> pa.Array:
    """Return a binary column of one value that points to the memory of `value`, which may be as large as a batch."""
    ends = pa.array([0, len(value)], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(value)], 0)
