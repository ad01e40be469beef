"""Build batches from Arrow columns with compiled code. `encode.columns` decides when this is used, and builds the same
batches in Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.codec.common.limits import MIB
from kafkalog.codec.compression import compress
from kafkalog.codec.encode.batch import ProducerState, build_raw_batch, check_header, check_producer
from kafkalog.codec.encode.put_headers import put_headers
from kafkalog.codec.model import (
    BATCH,
    LOG_OVERHEAD,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Codec,
    increment_sequence,
)
from kafkalog.codec.native.functions import encode
from kafkalog.codec.native.tables import LARGEST_RECORD_OVERHEAD, ArrowBuffer, Encoded, empty_table

__all__ = ["encode_columns"]


_MAGIC = 2
_HEADER_OVERHEAD = 10
_FEWEST_ROWS = 256
_BYTES_AT_ONCE = 2 * MIB
"""Bytes of columns that are encoded at once: few enough to be in the processor's cache when they are checksummed."""


_KEY = ArrowBuffer.KEY_ENDS, ArrowBuffer.KEY_VALID, ArrowBuffer.KEY
_VALUE = ArrowBuffer.VALUE_ENDS, ArrowBuffer.VALUE_VALID, ArrowBuffer.VALUE
_HEADER_KEY = ArrowBuffer.HEADER_KEY_ENDS, None, ArrowBuffer.HEADER_KEY
_HEADER_VALUE = ArrowBuffer.HEADER_VALUE_ENDS, ArrowBuffer.HEADER_VALUE_VALID, ArrowBuffer.HEADER_VALUE


class _Columns:
    """Addresses of the column buffers of some rows, and the arrays that own them."""

    def __init__(self, columns: pa.RecordBatch) -> None:
        self.addresses = np.zeros(len(ArrowBuffer), np.int64)
        self.keep: list[Any] = []
        self.bytes = 0
        names = columns.schema.names
        if "key" in names:
            self._put(_KEY, columns["key"])
        self._put(_VALUE, columns["value"])
        self.headers = 0
        if "headers" in names:
            lists = columns["headers"]
            pairs = lists.flatten()
            self.headers = len(pairs)
            ends = np.zeros(len(lists) + 1, np.int32)
            np.cumsum(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(), out=ends[1:])
            self.keep.append(ends)
            self.addresses[ArrowBuffer.HEADER_ENDS] = ends.ctypes.data
            self._put(_HEADER_KEY, pairs.field("key").cast(pa.binary()))
            self._put(_HEADER_VALUE, pairs.field("value"))

    def _put(self, buffers: tuple[ArrowBuffer, ArrowBuffer | None, ArrowBuffer], column: pa.Array) -> None:
        """Set the addresses of the end offsets, validity and data of a column of bytes. `buffers` names these three, in
        this order; None for a column that cannot be null. End offsets count from the first byte of the data. The
        validity has one byte per row and is set only if there are nulls. Adds the column's size to `bytes`, and the
        arrays to `keep`.
        """
        for_ends, for_valid, for_data = buffers
        _, ends, data = column.buffers()
        self.bytes += column.nbytes
        self.addresses[for_ends] = 0 if ends is None else ends.address + 4 * column.offset
        if column.null_count and for_valid is not None:
            valid = column.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
            self.keep.append(valid)
            self.addresses[for_valid] = valid.ctypes.data
        self.addresses[for_data] = 0 if data is None else data.address
        self.keep.append(column)


def encode_columns(
    columns: pa.RecordBatch,
    offsets: pa.Array,
    times: pa.Array,
    batch_bytes: int,
    codec: Codec,
    level: int | None,
    producer: ProducerState,
    partition_leader_epoch: int,
) -> Iterator[bytes]:
    """Yield log batches from columns that are already checked, as `encode.columns.build_batches` does. `offsets` and
    `times` (ms) have one value for each row. Raises `UsageError` for an unknown compression or level, impossible
    producer fields, and a header field that does not fit or that readers would report. Raises `StorageError` if
    compiled code cannot be loaded.
    """
    check_producer(producer, codec)
    numbers, moments = np.array(offsets, np.int64), np.array(times, np.int64)
    attributes = codec | (TRANSACTIONAL_FLAG if producer.is_transactional else 0)
    fixed: dict[str, Any] = {
        "partition_leader_epoch": partition_leader_epoch, "magic": _MAGIC, "crc": 0, "attributes": attributes,
        "producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch,
    }  # fmt: skip
    # numpy would not refuse each number that does not fit
    unset = dict.fromkeys(BATCH.names, 0)
    build_raw_batch(BatchHeader(**{**unset, **fixed, "base_sequence": producer.base_sequence}), b"")
    rows = columns.num_rows
    step = max(_FEWEST_ROWS, _BYTES_AT_ONCE * rows // max(columns.nbytes, 1))
    begin = 0
    while begin < rows:
        end = min(begin + step, rows)
        part = _Part(columns.slice(begin, end - begin), numbers[begin:end], moments[begin:end], batch_bytes)
        # the last batch may continue with the next rows
        complete = part.count if end == rows else part.count - 1
        if complete == 0:
            step *= 2
            continue
        table = part.headers(complete)
        table["base_sequence"] = _sequences(producer.base_sequence, part.first_rows[:complete] + begin)
        for name, value in fixed.items():
            table[name] = value
        check_header(BatchHeader(*table[0].item()))
        yield from part.plain(table) if codec == Codec.NONE else part.compressed(table, codec, level)
        begin = rows if complete == part.count else begin + int(part.first_rows[complete])


class _Part:
    """The records of some rows, encoded and divided into `count` batches of at most `batch_bytes` bytes."""

    def __init__(self, columns: pa.RecordBatch, offsets: Any, times: Any, batch_bytes: int) -> None:
        buffers = _Columns(columns)
        rows = columns.num_rows
        room = buffers.bytes + rows * (LARGEST_RECORD_OVERHEAD + BATCH.size) + buffers.headers * _HEADER_OVERHEAD
        self._target = np.empty(room, np.uint8)
        batches = empty_table(Encoded, rows)
        address = self._target.ctypes.data
        self.count = encode(rows, offsets, times, buffers.addresses, address, batch_bytes, batches)
        self._offsets, self._times = offsets, times
        self.first_rows, self._rows, starts, self._sizes, self._newest = batches[:, : self.count]
        self._starts = starts - address

    def headers(self, count: int) -> Any:
        """Return a structured array of headers of the first `count` batches. Only fields that depend on the columns are
        set (offsets, timestamps, length, record count); the others are 0.
        """
        first = self.first_rows[:count]
        table = np.zeros(count, BATCH.dtype())
        table["base_offset"] = self._offsets[first]
        table["batch_length"] = self._sizes[:count] + (BATCH.size - LOG_OVERHEAD.size)
        table["last_offset_delta"] = self._offsets[first + self._rows[:count] - 1] - self._offsets[first]
        table["base_timestamp"] = self._times[first]
        table["max_timestamp"] = self._newest[:count]
        table["records_count"] = self._rows[:count]
        return table

    def plain(self, table: Any) -> Iterator[bytes]:
        """Yield the batches as bytes, uncompressed, each with its header from `table`. Headers and checksums are
        written into the free space before the records in this object's memory.
        """
        count = len(table)
        starts, sizes = self._starts[:count] - BATCH.size, self._sizes[:count] + BATCH.size
        put_headers(self._target, table, starts, sizes)
        view = memoryview(self._target.data)
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
            yield bytes(view[start : start + size])

    def compressed(self, table: Any, codec: Codec, level: int | None) -> Iterator[bytes]:
        """Yield the batches as bytes, each with its header from `table` and its records compressed. Length and checksum
        are computed.
        """
        view = memoryview(self._target.data)
        for start, size, fields in zip(self._starts.tolist(), self._sizes.tolist(), table.tolist(), strict=False):
            payload = compress(codec, view[start : start + size], level=level, magic=_MAGIC)
            yield build_raw_batch(BatchHeader(*fields), payload)


def _sequences(base: int, start_rows: Any) -> Any:
    if base == NO_SEQUENCE:
        return NO_SEQUENCE
    return np.array([increment_sequence(base, row) for row in start_rows.tolist()], np.int64)
