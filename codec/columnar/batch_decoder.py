"""Decode one batch of any size to Arrow batches, part by part, because columns for all records would take as much
memory again. Compiled code decodes up to the first faulty record; the plain decoder then names the fault.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from kafkalog.codec.columnar.builder import RecordBatchBuilder
from kafkalog.codec.columnar.pieces import Fault, Part, Piece
from kafkalog.codec.columnar.plain_decoder import PlainDecoder
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.limits import MIB, Limits
from kafkalog.codec.model import BATCH, BatchHeader, to_int64
from kafkalog.codec.native.functions import decode_records
from kafkalog.codec.native.tables import Table
from kafkalog.codec.plain.decoding import record_at
from kafkalog.codec.plain.records import record_finding, records_of
from kafkalog.codec.rules.execution import RecordFault

__all__ = ["BatchDecoder"]


_PART_BYTES = 8 * MIB
"""Record bytes that are decoded to columns at once."""


class BatchDecoder:
    """Decoder of v2 batches whose record bytes are already decompressed. Uses compiled code."""

    def __init__(
        self, schema: pa.Schema, topic: str | None, partition: int | None, limits: Limits, rows: int, most_bytes: int
    ) -> None:
        self._limits = limits
        self._rows = rows
        self._most_bytes = min(most_bytes, _PART_BYTES)
        self._builder = RecordBatchBuilder(schema, topic, partition, rows, self._most_bytes)
        self._plain = PlainDecoder(schema, topic, partition, limits)

    def decode(self, part: Part) -> Iterator[Piece]:
        """Yield the records of a batch with offsets from `part.low` to `part.high` (exclusive) as Arrow batches in
        order. An Arrow batch has at most `rows` rows, made of at most `most_bytes` record bytes (never more than
        `_PART_BYTES`). A record with more bytes is an Arrow batch of its own, with no row if its offset is not wanted.
        View columns, and key and value of such a record, point to the record bytes; other values are copied. At a
        faulty record, or at bytes after the last record, a `Fault` follows the rows before it and ends the iterator.
        Raises `TypeError` for a batch of magic 0 or 1, `StorageError` if compiled code cannot be loaded.
        """
        header, size = part.batch.header, len(part.payload)
        if not isinstance(header, BatchHeader):
            raise TypeError("only batches of magic 2 are decoded here")
        fields = [getattr(header, name) for name in BATCH.names]
        headers = np.array([[*fields, part.batch.position]], np.int64).T
        position = done = 0
        while done < header.records_count:
            more, position = self._decode_part(part, headers, position, header.records_count - done)
            done += more
            if self._builder.rows:
                yield self._builder.build()
            if more == 0:
                decoded = record_at(memoryview(part.payload), position, self._limits)
                if isinstance(decoded, RecordFault):
                    yield Fault(part.batch, record_finding(part.batch, done, decoded), self._after(part, header, done))
                    return
                raw, position = decoded
                done += 1
                rows = [(part.batch, record) for record in records_of(header, [raw])]
                yield self._plain.columns([row for row in rows if part.low <= to_int64(row[1].offset) < part.high])
        if position != size:
            fault = RecordFault(FindingCode.RECORDS_TRAILING_BYTES, position)
            yield Fault(part.batch, record_finding(part.batch, done, fault), self._after(part, header, done))

    def _after(self, part: Part, header: BatchHeader, records: int) -> int | None:
        """Decode up to `records` records of the batch in Python, and stop at a faulty one. Return the offset after the
        last decoded record; None if none was decoded.
        """
        data, position, offset = memoryview(part.payload), 0, None
        for _ in range(records):
            decoded = record_at(data, position, self._limits)
            if isinstance(decoded, RecordFault):
                break
            record, position = decoded
            offset = to_int64(header.base_offset + record.offset_delta) + 1
        return offset

    def _decode_part(self, part: Part, headers: Table, position: int, records: int) -> tuple[int, int]:
        """Decode records from byte `position` of the record bytes into the builder's buffers: at most `records`, and
        not more rows or bytes than one Arrow batch may have. Return the number of records decoded (0 if the first is
        faulty or too large) and the position after them. Records outside the part's offsets count too, but are not
        stored.
        """
        buffers, limits = self._builder.buffers, self._limits
        most = min(records, self._rows)
        buffers.ensure(most, min(len(part.payload) - position, self._most_bytes))
        address = np.frombuffer(part.payload, np.uint8).ctypes.data if part.payload else 0
        if buffers.has_views:
            buffers.point_into(memoryview(part.payload)[position : position + self._most_bytes])
        done, size = decode_records(
            address + position, len(part.payload) - position, most, self._most_bytes, headers, 0, part.low, part.high,
            limits.headers_per_record, buffers.addresses, buffers.filled,
        )  # fmt: skip
        if self._builder.rows:
            self._builder.add_headers(headers, np.array([self._builder.rows]))
        elif buffers.has_views:
            self._builder.reset()  # what it would have pointed into is not held
        return done, position + size
