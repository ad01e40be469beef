"""Columns by way of the compiled walk: magic 2 only, no Python object for a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kafkalog.codec.columnar.kernel import RecordTable, scan_batches
from kafkalog.codec.columnar.pieces import Fault, Part, Piece
from kafkalog.codec.columnar.schema import TYPES
from kafkalog.codec.kernels import kernels
from kafkalog.codec.limits import MIB, Limits
from kafkalog.codec.model import MAX_SEQUENCE, MICROSECONDS, BatchHeader, TimestampType
from kafkalog.codec.records import record_finding

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["KernelColumns"]

_LARGEST = (2**63 - 1) // MICROSECONDS
_GROUP_BYTES = 8 * MIB
"""Bytes of keys and values that become columns together, where a batch alone holds more."""


class KernelColumns:
    """A `ColumnDecoder` that walks over all parts in one call and copies each wanted field once."""

    def __init__(self, schema: pa.Schema, topic: str | None, partition: int | None, limits: Limits) -> None:
        self._schema = schema
        self._topic = pa.scalar(topic, pa.string())
        self._partition = pa.scalar(partition, pa.int32())
        self._limits = limits

    def decode(self, parts: Sequence[Part]) -> Iterator[Piece]:
        """Rows of all parts in order; a fault stands behind the rows before it."""
        headers = [part.batch.header for part in parts if isinstance(part.batch.header, BatchHeader)]
        if len(headers) != len(parts):
            raise TypeError("only batches of magic 2 have a compiled walk")
        counts = [header.records_count for header in headers]
        table, outcomes = scan_batches([part.payload for part in parts], counts, self._limits)
        found = [outcome.records for outcome in outcomes]
        rows = _Rows(table, headers, np.array(found, np.int64))
        kept = rows.keep(np.array([part.low for part in parts]), np.array([part.high for part in parts]))
        if len(parts) == 1 and len(parts[0].payload) > _GROUP_BYTES:
            yield from self._in_groups(rows)
            if outcomes[0].fault is not None:
                yield Fault(parts[0].batch, record_finding(parts[0].batch, outcomes[0].records, outcomes[0].fault))
            return
        whole = self._columns(rows)
        start = 0
        for part, outcome, end in zip(parts, outcomes, np.cumsum(kept).tolist(), strict=True):
            if outcome.fault is not None:
                yield whole.slice(start, end - start)
                start = end
                yield Fault(part.batch, record_finding(part.batch, outcome.records, outcome.fault))
        yield whole.slice(start) if start else whole

    def _in_groups(self, rows: _Rows) -> Iterator[pa.RecordBatch]:
        """A large batch a part at a time: its columns would take as much again as its records."""
        ends = rows.ends_of_bytes()
        start = 0
        while start < len(rows):
            before = int(ends[start - 1]) if start else 0
            end = max(int(ends.searchsorted(before + _GROUP_BYTES, "right")), start + 1)
            yield self._columns(rows.part(start, end))
            start = end

    def _columns(self, rows: _Rows) -> pa.RecordBatch:
        arrays = [self._column(rows, field.name) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, rows: _Rows, name: str) -> pa.Array:
        match name:
            case "key" | "value":
                return _binary(rows.table, name)
            case "headers":
                return _headers(rows.table)
            case "topic":
                return pa.repeat(self._topic, len(rows))
            case "partition":
                return pa.repeat(self._partition, len(rows))
            case "timestamp":
                return rows.timestamps()
            case "sequence":
                return pa.array(rows.sequences())
            case "offset":
                return pa.array(rows.offsets)
            case "timestampType":
                return pa.array(rows.spread([int(header.timestamp_type) for header in rows.headers], np.int32))
            case "leaderEpoch":
                return pa.array(rows.spread([header.partition_leader_epoch for header in rows.headers], np.int32))
            case "producerId":
                return pa.array(rows.spread([header.producer_id for header in rows.headers], np.int64))
            case "producerEpoch":
                return pa.array(rows.spread([header.producer_epoch for header in rows.headers], np.int16))
        raise KeyError(name)


class _Rows:
    """The table of records together with the headers of their batches; `counts` are the rows of each batch."""

    def __init__(self, table: RecordTable, headers: Sequence[BatchHeader], counts: npt.NDArray[np.int64]) -> None:
        self.table = table
        self.headers = headers
        self.counts = counts
        self.offsets = self.spread([header.base_offset for header in headers]) + table.column("offset_delta")[0]

    def __len__(self) -> int:
        return len(self.table)

    def ends_of_bytes(self) -> npt.NDArray[np.int64]:
        """Bytes of keys and values up to the end of each row."""
        total = np.zeros(len(self), np.int64)
        for name in ("key", "value"):
            total += np.maximum(self.table.column(name)[1], 0)
        return np.cumsum(total)

    def part(self, start: int, end: int) -> _Rows:
        """Some rows, where all are of one batch."""
        table = self.table.where(slice(start, end))
        return _Rows(table, self.headers, np.array([end - start], np.int64))

    def spread(self, values: Any, dtype: Any = np.int64) -> npt.NDArray[Any]:
        """A value for each batch, repeated for each of its rows."""
        return np.repeat(np.array(values, dtype), self.counts)

    def keep(self, low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Leave out rows whose offset is not wanted; how many stay of each batch."""
        wanted = (self.offsets >= self.spread(low)) & (self.offsets < self.spread(high))
        if not wanted.all():
            batch = self.spread(np.arange(len(self.headers)))
            self.table = self.table.where(wanted)
            self.offsets = self.offsets[wanted]
            self.counts = np.bincount(batch[wanted], minlength=len(self.headers))
        return self.counts

    def timestamps(self) -> pa.Array:
        """Microseconds; null where they do not fit."""
        times = (
            self.spread([header.base_timestamp for header in self.headers]) + self.table.column("timestamp_delta")[0]
        )
        appended = [header.timestamp_type is TimestampType.LOG_APPEND_TIME for header in self.headers]
        if any(appended):
            append_time = self.spread([header.max_timestamp for header in self.headers])
            times = np.where(self.spread(appended, np.bool_), append_time, times)
        absurd = (times > _LARGEST) | (times < -_LARGEST)
        mask = absurd if absurd.any() else None
        return pa.array(times * MICROSECONDS, pa.int64(), mask=mask).view(pa.timestamp("us", tz="UTC"))

    def sequences(self) -> npt.NDArray[np.int32]:
        """Sequence numbers, which wrap from 2^31 - 1 to 0; -1 where the batch has none."""
        base = self.spread([header.base_sequence for header in self.headers]).astype(np.int32)
        delta = self.table.column("offset_delta")[0].astype(np.int32)
        most = np.int32(MAX_SEQUENCE)
        wrapped = np.where(base <= most - delta, base + delta, delta - (most - base) - np.int32(1))
        return np.where(base < 0, np.int32(-1), wrapped)


def _buffers(table: RecordTable, name: str) -> tuple[int, list[pa.Buffer | None]]:
    """Null count, and validity, offsets and data, of a field of bytes."""
    addresses, sizes = table.column(name)
    rows = len(table)
    offsets = pa.allocate_buffer((rows + 1) * 4)
    total = int(np.maximum(sizes, 0).sum())
    if rows == 1 and total > _GROUP_BYTES:  # where it stands: a copy would be as large as the batch
        offsets = pa.py_buffer(np.array([0, total], np.int32))
        return 0, [None, offsets, pa.foreign_buffer(int(addresses[0]), total, table.keep)]
    data = pa.allocate_buffer(total)
    valid = np.empty(rows, np.uint8)
    nulls = kernels.gather(addresses, sizes, np.frombuffer(offsets, np.int32), valid, data.address)
    bits = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
    return nulls, [bits, offsets, data]


def _binary(table: RecordTable, name: str) -> pa.Array:
    nulls, buffers = _buffers(table, name)
    return pa.Array.from_buffers(pa.binary(), len(table), buffers, nulls)


def _keys(table: RecordTable) -> pa.Array:
    """Header keys as text; bytes that are no UTF-8 become U+FFFD."""
    _, buffers = _buffers(table, "key")
    keys = pa.Array.from_buffers(pa.string(), len(table), buffers, 0)
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.cast(pa.binary()).to_pylist()], pa.string())
    return keys


def _headers(table: RecordTable) -> pa.Array:
    """A list of key and value for each record, null where it has none."""
    _, counts, _ = table.column("headers")
    kind = TYPES["headers"]
    if not counts.any():
        return pa.nulls(len(table), kind)
    elements = table.elements("headers")
    pairs = pa.StructArray.from_arrays([_keys(elements), _binary(elements, "value")], fields=list(kind.value_type))
    offsets = np.zeros(len(table) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    none = counts == 0
    bits = pa.py_buffer(np.packbits(~none, bitorder="little")) if none.any() else None
    buffers = [bits, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, len(table), buffers, int(none.sum()), children=[pairs])
