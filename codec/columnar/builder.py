"""The buffers that the compiled decoder fills, and the Arrow columns that become of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kafkalog.codec.buffer_pool import Block
from kafkalog.codec.columnar.schema import TYPES
from kafkalog.codec.kernels.decode_records import COUNTERS, SINKS, decode
from kafkalog.codec.kernels.decode_window import straight
from kafkalog.codec.kernels.scan_batches import FIELDS
from kafkalog.codec.limits import MIB, Limits
from kafkalog.codec.model import TIMESTAMP_TYPE_FLAG
from kafkalog.codec.record_shape import SMALLEST_HEADER

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafkalog.codec.headers.runs import BatchRun

    Int64s = npt.NDArray[np.int64]

__all__ = ["MOST_BYTES", "WANTED", "ColumnBuffers", "ColumnFiller", "Order"]

MOST_BYTES = 2**30
"""Record bytes that are put together at most; Arrow's offsets are signed 32-bit numbers."""

_WIDTHS = {
    "offset": 8, "timestamp": 8, "timestamp_valid": 1, "sequence": 4, "key_ends": 4, "key_valid": 1, "key": 1,
    "value_ends": 4, "value_valid": 1, "value": 1, "header_ends": 4, "header_key_ends": 4, "header_key": 1,
    "header_value_ends": 4, "header_value_valid": 1, "header_value": 1,
}  # fmt: skip
_ROW_SINKS = (
    "offset", "timestamp", "timestamp_valid", "sequence", "key_ends", "key_valid", "value_ends", "value_valid",
    "header_ends",
)  # fmt: skip
_ELEMENT_SINKS = ("header_key_ends", "header_value_ends", "header_value_valid")
_DATA_SINKS = ("key", "value", "header_key", "header_value")
_MOSTLY = ("key", "value")
"""What most of the record bytes are."""
_A_LITTLE_MORE = 1.05
_MOST_SLACK = MIB
"""Bytes at most beyond what rows are thought to take: there must be room for a batch whatever it holds."""
NO_BOUND = 2**62
_LAST_ASCII = 0x7F
_OF_HEADERS = (*_ELEMENT_SINKS, "header_key", "header_value")
_ROWS, _HEADERS = COUNTERS.index("rows"), COUNTERS.index("headers")
_DATA_COUNTERS = {name: COUNTERS.index(name) for name in _DATA_SINKS}
WANTED: dict[str, tuple[str, ...]] = {
    "offset": ("offset",),
    "timestamp": ("timestamp", "timestamp_valid"),
    "sequence": ("sequence",),
    "key": ("key_ends", "key_valid", "key"),
    "value": ("value_ends", "value_valid", "value"),
    "headers": (
        "header_ends", "header_key_ends", "header_key", "header_value_ends", "header_value_valid", "header_value",
    ),
}  # fmt: skip
"""Column -> the buffers that it is made of; the other columns follow from the headers of the batches."""
_OF_BATCH = {
    "timestampType": ("attributes", np.int32),
    "leaderEpoch": ("partition_leader_epoch", np.int32),
    "producerId": ("producer_id", np.int64),
    "producerEpoch": ("producer_epoch", np.int16),
}


@dataclass
class Order:
    """Which batches of a segment may come next, and which of their offsets are wanted."""

    next_offset: int
    """offsets below are not wanted"""
    base: int
    """of the segment"""
    end: int
    """offsets from here on are not wanted"""
    flags: int
    """bits of the attributes that somebody else has to look at"""


class ColumnBuffers:
    """Growing buffers, and how much of them is filled."""

    def __init__(self, columns: Sequence[str], rows: int, most_bytes: int) -> None:
        self._wanted = [name for column in columns for name in WANTED.get(column, ())]
        self._blocks: dict[str, Block] = {}
        self._of_rows = [name for name in self._wanted if name in _ROW_SINKS]
        self._of_data = [name for name in self._wanted if name in _DATA_SINKS]
        self.sinks = np.zeros(len(SINKS), np.int64)
        self.counters = np.zeros(len(COUNTERS), np.int64)
        self._bytes_of_row: dict[str, float] = {}
        self._headers_of_row = 0.0
        self._room_rows = self._room_elements = 0
        self._first_rows = rows
        self._most_bytes = most_bytes

    @property
    def rooms(self) -> Int64s:
        """Up to where each counter may go, see `straight`; what is not wanted has all the room there is."""
        found = np.full(len(COUNTERS), NO_BOUND, np.int64)
        found[_ROWS] = self._room_rows
        for name in self._of_data:
            found[_DATA_COUNTERS[name]] = self._blocks[name].size if name in self._blocks else 0
        if "header_ends" in self._wanted:
            found[_HEADERS] = self._room_elements
        return found

    def count(self, name: str) -> int:
        """How much is filled, see `COUNTERS`."""
        return int(self.counters[COUNTERS.index(name)])

    def address(self, name: str) -> int:
        """Where a buffer begins."""
        return self._blocks[name].address

    def view(self, name: str, kind: Any, count: int) -> npt.NDArray[Any]:
        """The first numbers of a buffer."""
        return self._blocks[name].view(kind, count)

    def buffer(self, name: str) -> pa.Buffer:
        """A buffer as Arrow's."""
        return pa.py_buffer(self._blocks[name].buffer)

    def ensure(self, rows: int, record_bytes: int, records: int | None = None) -> None:
        """Room for so many more rows, and for all that so many more record bytes can hold.

        The bytes are those of `records`, if not of all the rows.
        """
        counters = self.counters.tolist()
        of_these = record_bytes / max(rows if records is None else records, 1)
        slack = min(record_bytes, _MOST_SLACK)
        need = counters[_ROWS] + rows
        if need > self._room_rows or not self._room_rows:
            self._room_rows = max(need, 2 * self._room_rows, self._first_rows)
            self._resize(self._of_rows, counters[_ROWS], self._room_rows)
        for name, counter in _DATA_COUNTERS.items():
            if name in self._of_data:
                block = self._blocks.get(name)
                least = counters[counter] + record_bytes
                if block is None or block.size < least:
                    foreseen = 1
                    if block is not None:
                        foreseen = 2 * block.size
                    else:  # what all rows would take if they went on like these: growing means copying
                        of_row = self._bytes_of_row.get(name, of_these if name in _MOSTLY else 0)
                        foreseen = min(int(of_row * self._room_rows), self._most_bytes) + slack
                    self._put(name, max(least, foreseen), counters[counter])
        if "header_ends" in self._wanted:
            elements = counters[_HEADERS] + record_bytes // SMALLEST_HEADER
            if elements > self._room_elements or not self._room_elements:
                foreseen = int(self._headers_of_row * self._room_rows) + slack // SMALLEST_HEADER
                self._room_elements = max(elements, 2 * self._room_elements, foreseen)
                self._resize(_ELEMENT_SINKS, counters[_HEADERS], self._room_elements)

    def _resize(self, names: Sequence[str], used: int, items: int) -> None:
        """Room for `items`, and one more because there are more ends than rows."""
        for name in names:
            is_new = name not in self._blocks
            self._put(name, (items + 1) * _WIDTHS[name], (used + 1) * _WIDTHS[name])
            if is_new and name.endswith("_ends"):
                self.view(name, np.int32, 1)[0] = 0

    def _put(self, name: str, size: int, used: int) -> None:
        block = self._blocks.get(name)
        self._blocks[name] = block = Block(size) if block is None else block.grown(size, used)
        self.sinks[SINKS.index(name)] = block.address

    def reset(self) -> None:
        """Let go of what was filled, which belongs to Arrow arrays now; those of headers stay if there were none."""
        counters = self.counters.tolist()
        if counters[_ROWS]:
            for name in self._of_data:
                self._bytes_of_row[name] = _A_LITTLE_MORE * counters[_DATA_COUNTERS[name]] / counters[_ROWS]
            self._headers_of_row = _A_LITTLE_MORE * counters[_HEADERS] / counters[_ROWS]
        kept = _OF_HEADERS if counters[_HEADERS] == 0 else ()
        self._blocks = {name: block for name, block in self._blocks.items() if name in kept}
        for number, name in enumerate(SINKS):
            if name not in kept:
                self.sinks[number] = 0
        self.counters[:] = 0
        self._room_rows = 0
        if not kept:
            self._room_elements = 0


class ColumnFiller:
    """Takes the records of many batches, gives one Arrow batch."""

    def __init__(
        self, schema: pa.Schema, topic: str | None, partition: int | None, limits: Limits, rows: int, most_bytes: int
    ) -> None:
        self._schema = schema
        self._scalars = {"topic": pa.scalar(topic, pa.string()), "partition": pa.scalar(partition, pa.int32()),
                         "headers": pa.scalar(None, TYPES["headers"])}  # fmt: skip
        self._repeated: dict[str, pa.Array] = {}
        self._limits = limits
        self.buffers = ColumnBuffers(schema.names, rows, most_bytes)
        self._kept: list[Int64s] = []
        self._of_batch: dict[str, list[Int64s]] = {name: [] for name in schema.names if name in _OF_BATCH}

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self.buffers.count("rows")

    def fill(self, addresses: Int64s, sizes: Int64s, run: BatchRun, start: int, lows: Int64s, high: int) -> int:
        """Take batches of a run from number `start` on; how many were taken before one that holds a fault.

        There must be room for them, see `ColumnBuffers.ensure`.  `lows` begins with that of the first one.
        """
        kept = np.empty(len(addresses), np.int64)
        buffers = self.buffers
        done: int = decode(
            addresses, sizes, run.table, start, lows, high, self._limits.headers_per_record, buffers.sinks,
            buffers.counters, kept,
        )  # fmt: skip
        self._note(run.table[:, start : start + done], kept[:done])
        return done

    def fill_straight(
        self, address: int, size: int, order: Order, table: Int64s, tools: Int64s, record_bytes: int, rows: int
    ) -> tuple[int, int, int]:
        """Take batches from the bytes at an address on, see `straight`; no more than `rows` together."""
        buffers, limits = self.buffers, self._limits
        kept = np.empty(table.shape[1], np.int64)
        rooms = buffers.rooms
        rooms[_ROWS] = min(rooms[_ROWS], rows)
        done, total, lacking = straight(
            address, size, limits.batch_bytes, table, order.next_offset, order.base, order.end, order.flags,
            limits.records_per_batch, limits.headers_per_record, record_bytes, tools, rooms, buffers.sinks,
            buffers.counters, kept,
        )  # fmt: skip
        self._note(table[:, :done], kept[:done])
        return done, total, lacking

    def _note(self, table: Int64s, kept: Int64s) -> None:
        """Keep what columns need of the headers of batches, and how many rows each has."""
        if self._of_batch:
            self._kept.append(kept)
            for name, values in self._of_batch.items():
                values.append(table[FIELDS.index(_OF_BATCH[name][0])].copy())

    def take(self) -> pa.RecordBatch:
        """What was filled in, as an Arrow batch; begins anew."""
        arrays = [self._column(name) for name in self._schema.names]
        self.drop()
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def drop(self) -> None:
        """Begin anew."""
        self._kept = []
        for values in self._of_batch.values():
            values.clear()
        self.buffers.reset()

    def of_rows(self, name: str) -> npt.NDArray[Any]:
        """A column that follows from the headers of the batches."""
        field, kind = _OF_BATCH[name]
        values = np.concatenate(self._of_batch[name])
        if field == "attributes":
            values = (values & TIMESTAMP_TYPE_FLAG) // TIMESTAMP_TYPE_FLAG
        return np.repeat(values.astype(kind), np.concatenate(self._kept))

    def _column(self, name: str) -> pa.Array:
        buffers, rows = self.buffers, self.rows
        if name in ("topic", "partition") or (name == "headers" and buffers.count("headers") == 0):
            return self._same(name, rows)
        if name in _OF_BATCH:
            return pa.array(self.of_rows(name))
        if name in ("key", "value"):
            return binary(buffers, name, rows, pa.binary())
        if name == "headers":
            return _headers(buffers, rows)
        nulls, bits = 0, None
        if name == "timestamp":
            nulls = buffers.count("timestamp_nulls")
            bits = validity(buffers.view("timestamp_valid", np.uint8, rows)) if nulls else None
        return pa.Array.from_buffers(TYPES[name], rows, [bits, buffers.buffer(name)], nulls)

    def _same(self, name: str, rows: int) -> pa.Array:
        """The same value for each row."""
        known = self._repeated.get(name)
        if known is None or len(known) < rows:
            self._repeated[name] = known = pa.repeat(self._scalars[name], 2 * rows)  # the next ones may have more
        return known[:rows]


def validity(valid: npt.NDArray[Any]) -> pa.Buffer:
    """A byte for each row as a bit for each row."""
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def binary(buffers: ColumnBuffers, name: str, rows: int, kind: pa.DataType) -> pa.Array:
    """A column of bytes."""
    nulls = buffers.count(f"{name}_nulls") if f"{name}_nulls" in COUNTERS else 0
    bits = validity(buffers.view(f"{name}_valid", np.uint8, rows)) if nulls else None
    return pa.Array.from_buffers(kind, rows, [bits, buffers.buffer(f"{name}_ends"), buffers.buffer(name)], nulls)


def _header_keys(buffers: ColumnBuffers, elements: int) -> pa.Array:
    """As text; bytes that are no UTF-8 become U+FFFD."""
    keys = binary(buffers, "header_key", elements, pa.string())
    if not (buffers.view("header_key", np.uint8, buffers.count("header_key")) > _LAST_ASCII).any():
        return keys
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.cast(pa.binary()).to_pylist()], pa.string())
    return keys


def _headers(buffers: ColumnBuffers, rows: int) -> pa.Array:
    """A list of key and value for each record, null where it has none."""
    elements = buffers.count("headers")
    kind = TYPES["headers"]
    fields = list(kind.value_type)
    columns = [_header_keys(buffers, elements), binary(buffers, "header_value", elements, pa.binary())]
    pairs = pa.StructArray.from_arrays(columns, fields=fields)
    ends = buffers.view("header_ends", np.int32, rows + 1)
    some = np.diff(ends) > 0
    nulls = rows - int(np.count_nonzero(some))
    bits = validity(some) if nulls else None
    return pa.Array.from_buffers(kind, rows, [bits, buffers.buffer("header_ends")], nulls, children=[pairs])
