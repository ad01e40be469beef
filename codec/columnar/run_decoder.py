"""From runs of batches to Arrow batches by the compiled decoder; what it cannot take is handed back, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kafkalog.codec.buffer_pool import Block
from kafkalog.codec.columnar.builder import MOST_BYTES, ColumnFiller, Order
from kafkalog.codec.columnar.decompressed import unpack
from kafkalog.codec.compression.native import lz4_decompress, zstd
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.kernels.scan_batches import FIELDS
from kafkalog.codec.kernels.select_batches import ODD, alike, fitting
from kafkalog.codec.limits import Limits
from kafkalog.codec.model import LOG_OVERHEAD

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

__all__ = ["RunFiller"]

_MOST_AT_ONCE = 4 * 1024 * 1024
"""Record bytes that are decompressed before they are decoded: what a processor's cache may still hold."""
_LEAST_AT_ONCE = 1024 * 1024
"""The same where less is wanted at a time: ordinary batches must fit."""

_BATCHES_AT_ONCE = 4 * 1024 + 40
"""Not a power of two, so that the rows of the table do not all fall into the same lines of the cache."""
_BASE, _LENGTH, _LAST_DELTA, _COUNT = (
    FIELDS.index(name) for name in ("base_offset", "batch_length", "last_offset_delta", "records_count")
)


class RunFiller:
    """Collects the records of runs up to a bound of rows and bytes.

    `take_run` yields None where `take` must be called, and the number of a batch that somebody else must read.
    """

    def __init__(
        self, schema: pa.Schema, topic: str | None, partition: int | None, limits: Limits, rows: int, most_bytes: int
    ) -> None:
        self.filler = ColumnFiller(schema, topic, partition, limits, rows, most_bytes)
        self._limits = limits
        self._table: Int64s = np.empty((len(FIELDS) + 1, _BATCHES_AT_ONCE), np.int64)
        self._scratch: Block | None = None
        self._bytes = 0
        self.reached = 0
        """how many batches of the run were passed, when `take_run` yields"""
        self.rows_bound = rows
        self.bytes_bound = min(most_bytes, MOST_BYTES)

    @property
    def record_bytes(self) -> int:
        """Those of what was collected."""
        return self._bytes

    @property
    def is_empty(self) -> bool:
        """Nothing was collected."""
        return self._bytes == 0

    def take(self) -> pa.RecordBatch:
        """What was collected; begins anew."""
        self._bytes = 0
        return self.filler.take()

    def drop(self) -> None:
        """Begin anew without what was collected."""
        self._bytes = 0
        self.filler.drop()

    def take_window(self, window: bytes | memoryview, start: int, order: Order) -> tuple[int, bool]:
        """Collect the batches from byte `start` of a window on; where that ends, and whether `take` is due.

        `order` goes on to the offset behind them.
        """
        address = np.frombuffer(window, np.uint8).ctypes.data
        table, filler = self._table, self.filler
        tools = self._tools()
        while True:
            count, total, lacking = filler.fill_straight(
                address + start, len(window) - start, order, table, tools, self.bytes_bound - self._bytes,
                self.rows_bound,
            )  # fmt: skip
            if count:
                last = table[:, count - 1]
                start += int(last[-1] + last[_LENGTH]) + LOG_OVERHEAD.size
                self._bytes += total
                order.next_offset = int(last[_BASE] + last[_LAST_DELTA]) + 1
            if lacking:
                records = int(table[_COUNT, count])
                if filler.rows + records > self.rows_bound or self._bytes + lacking > self.bytes_bound:
                    return start, not self.is_empty
                filler.buffers.ensure(self.rows_bound - filler.rows, lacking, records)
            elif count < table.shape[1]:
                return start, False

    def _tools(self) -> Int64s:
        """What decompressing needs, see `TOOLS`, for this thread."""
        if self._scratch is None:
            at_once = min(_MOST_AT_ONCE, max(self.bytes_bound, _LEAST_AT_ONCE))
            self._scratch = Block(min(at_once, self._limits.decompressed_batch_bytes))
        of_zstd = zstd()
        functions = (0, 0) if of_zstd is None else (of_zstd.decompress, of_zstd.context)
        scratch = (self._scratch.address, min(self._scratch.size, self._limits.decompressed_batch_bytes))
        return np.array([lz4_decompress(), *functions, self._limits.zstd_window_bytes, *scratch], np.int64)

    def take_run(self, run: BatchRun, low: Int64s, high: int) -> Iterator[int | None]:
        """Collect a run, of which the offsets from `low` (of each batch) up to, not including, `high` are wanted."""
        start, table = 0, run.table
        most_bytes = min(self._limits.decompressed_batch_bytes, MOST_BYTES // 2)
        while start < len(run):
            kind, end = alike(table, start, self._limits.records_per_batch, most_bytes)
            if kind >= 0:
                yield from self._stretch(run, low, high, start, end, kind)
            elif kind == ODD:
                yield from range(start, end)
            start = end

    def _stretch(self, run: BatchRun, low: Int64s, high: int, start: int, end: int, codec: int) -> Iterator[int | None]:
        filler, table = self.filler, run.table
        while start < end:
            opened = unpack(run.part(start, end), codec, self._limits, min(self.bytes_bound, _MOST_AT_ONCE))
            count = len(opened.addresses)
            if count == 0:
                yield start
                start += 1
            done = 0
            while done < count:
                rows, size = self.rows_bound - filler.rows, self.bytes_bound - self._bytes
                fits, room, total = fitting(table, start, opened.sizes[done:], int(self.is_empty), rows, size)
                if fits == 0:
                    self.reached = start
                    yield None
                    continue
                filler.buffers.ensure(room, total)
                these = slice(done, done + fits)
                taken = filler.fill(opened.addresses[these], opened.sizes[these], run, start, low[start:], high)
                self._bytes += total if taken == fits else int(opened.sizes[done : done + taken].sum())
                done += taken
                start += taken
                if taken < fits:
                    yield start
                    done += 1
                    start += 1
