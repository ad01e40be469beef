"""Decode runs (consecutive v2 batches in one window of a file) into buffers with compiled code. Batches that compiled
code cannot decode are left to the caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from kafkalog.codec.columnar.buffers import MOST_BYTES, arrow_buffer
from kafkalog.codec.columnar.collector import Collector
from kafkalog.codec.columnar.decompressed import Decompressed, decompress_batches, decompressor
from kafkalog.codec.common.buffer_pool import Block
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import NO_PARTITION_LEADER_EPOCH
from kafkalog.codec.native.functions import decode_batches, decode_window, fitting_batches, same_codec
from kafkalog.codec.native.handed_back import HandedBack
from kafkalog.codec.native.tables import (
    MEMORY_IS_FULL,
    UNDECODED,
    Decompressor,
    Filled,
    HeaderColumn,
    Table,
    Viewed,
    empty_table,
)

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    Int64s = npt.NDArray[np.int64]

__all__ = ["Order", "RunDecoder"]


_MOST_AT_ONCE = 4 * 1024 * 1024
"""Most record bytes that are decompressed before they are decoded: few enough for the processor's cache."""
_LEAST_AT_ONCE = 1024 * 1024
"""Least record bytes that are decompressed at once, even if less is wanted: ordinary batches must fit."""

_BATCHES_AT_ONCE = 4 * 1024 + 40
"""Capacity of a table of headers. It is not a power of two, so that its rows do not share cache lines."""


class Order(Struct, kw_only=True):
    """Conditions for the next batches of a segment, and the wanted offsets."""

    next_offset: int
    """next offset; lower ones are not wanted"""
    highest: int
    """highest offset that a batch of the segment may have"""
    end: int
    """end of the wanted offsets, exclusive"""
    flags: int
    """attribute bits of batches that compiled code must leave to Python"""
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    """leader epoch before the next batch; batches with a lower one are left to Python"""
    position: int = 0
    """position of the window in the file"""


class RunDecoder:
    """Decoder that collects records in a builder up to a bound of rows and bytes. `decode_run` yields None when the
    collected records must be taken from the builder and `drop` called, and a `HandedBack` (range of batch numbers) for
    batches that it did not decode.
    """

    def __init__(self, builder: Collector, limits: Limits, rows: int, most_bytes: int) -> None:
        self.builder = builder
        self._limits = limits
        self._headers: Table = empty_table(HeaderColumn, _BATCHES_AT_ONCE)
        self._rows = np.empty(_BATCHES_AT_ONCE, np.int64)
        self._capacity = np.zeros(len(Filled), np.int64)
        self._nothing = np.zeros(max(len(Decompressor), len(Viewed)), np.int64)
        """struct without memory or views, which compiled code does not change"""
        self._foreseen: tuple[int, int] | None = None
        """record bytes and records of the last batch that did not fit"""
        self._scratch: Block | None = None
        self._scratch_used = 0
        """bytes of the scratch memory that views point into"""
        self._bytes = 0
        self.reached = 0
        """number of batches of the run that were passed when `decode_run` yields None"""
        self.rows_bound = rows
        self.bytes_bound = min(most_bytes, MOST_BYTES)

    @property
    def record_bytes(self) -> int:
        """Bytes of the collected records, decompressed."""
        return self._bytes

    @property
    def is_empty(self) -> bool:
        """Whether nothing was collected."""
        return self._bytes == 0

    def drop(self) -> None:
        """Forget the collected records."""
        self._bytes = 0
        self.builder.reset()

    def decode_window(self, window: bytes | memoryview, start: int, order: Order) -> tuple[int, bool]:
        """Collect batches from byte `start` of a window until the window or `order` ends, or at a batch that must be
        left to Python. Return the byte position after the collected batches and a flag. The flag is True if the bounds
        of the collected records are reached: call `drop` before the next call. It is False otherwise, also if nothing
        is collected because the first batch alone exceeds the bounds. Sets `order.next_offset` to the offset after
        these batches, and `order.leader_epoch` to the epoch of the last.
        """
        memory = arrow_buffer(window)
        headers, builder = self._headers, self.builder
        decompressor, viewed = self._decompressor(), self._viewed(memory)
        if self.is_empty and self._foreseen is not None:
            builder.buffers.ensure(self.rows_bound, *self._foreseen)
        while True:
            count, start, lacking = self._decode_more(memory, start, order, decompressor, viewed)
            if lacking == MEMORY_IS_FULL:
                self._take_scratch()
                decompressor, viewed = self._decompressor(), self._viewed(memory)
            elif lacking:
                records = int(headers[HeaderColumn.RECORDS_COUNT, count])
                if builder.rows + records > self.rows_bound or self._bytes + lacking > self.bytes_bound:
                    return start, not self.is_empty
                builder.buffers.ensure(self.rows_bound - builder.rows, lacking, records)
                self._foreseen = lacking, records
            elif count < headers.shape[1]:
                return start, False

    def _decode_more(
        self, memory: pa.Buffer, start: int, order: Order, decompressor: Int64s, viewed: Int64s
    ) -> tuple[int, int, int]:
        """Call the compiled `decode_window` once on the window from byte `start`. Return the number of batches decoded,
        the byte position after them, and the reason for the stop. The reason is `MEMORY_IS_FULL` if new decompression
        memory is needed. It is the size of the next batch's record bytes if the buffers or the bounds lack room for
        them. Otherwise it is 0. Sets `order.next_offset` and `order.leader_epoch`, and passes header values and viewed
        memory to the builder.
        """
        headers, buffers, limits = self._headers, self.builder.buffers, self._limits
        self._capacity[:] = buffers.capacity
        self._capacity[Filled.ROWS] = min(self._capacity[Filled.ROWS], self.rows_bound)
        count, size, order.next_offset, total, lacking = decode_window(
            memory.address + start, memory.size - start, limits.batch_bytes, headers, order.next_offset, order.highest,
            order.end, order.flags, order.leader_epoch, limits.records_per_batch, limits.headers_per_record,
            self.bytes_bound - self._bytes, decompressor, viewed, self._capacity, buffers.addresses, buffers.filled,
            self._rows,
        )  # fmt: skip
        if buffers.has_views:
            self._scratch_used = int(decompressor[Decompressor.MEMORY] - viewed[Viewed.MEMORY])
            for used, number in ((Viewed.OF_WINDOW, Viewed.WINDOW_NUMBER), (Viewed.OF_MEMORY, Viewed.MEMORY_NUMBER)):
                if viewed[used]:
                    buffers.keep(int(viewed[number]))
        self._bytes += total
        if count:
            order.leader_epoch = int(headers[HeaderColumn.PARTITION_LEADER_EPOCH, count - 1])
        self.builder.add_headers(headers[:, :count], self._rows[:count], order.position + start)
        return count, start + size, lacking

    def _take_scratch(self) -> None:
        at_once = min(_MOST_AT_ONCE, max(self.bytes_bound, _LEAST_AT_ONCE))
        self._scratch = Block(min(at_once, self._limits.decompressed_batch_bytes))
        self._scratch_used = 0

    def _decompressor(self) -> Int64s:
        """Return the C struct `Decompressor` of this thread with the free part of the scratch memory. Until a
        compressed batch is found there is no scratch memory, and the struct is all zeros.
        """
        if self._scratch is None:
            return self._nothing
        limits = self._limits
        left = min(self._scratch.size - self._scratch_used, limits.decompressed_batch_bytes)
        place = self._scratch.address + self._scratch_used
        return decompressor(limits, place, left)

    def _viewed(self, window: pa.Buffer) -> Int64s:
        """Return the C struct `Viewed`: addresses and buffer numbers of the window and of the scratch memory (zeros if
        there is none), into which views may point. Both are added to the builder's data buffers. If no column is a
        view, nothing is added and the struct is all zeros.
        """
        buffers = self.builder.buffers
        if not buffers.has_views:
            return self._nothing
        viewed = np.zeros(len(Viewed), np.int64)
        viewed[Viewed.WINDOW], viewed[Viewed.WINDOW_NUMBER] = window.address, buffers.number_of(window)
        if self._scratch is not None:
            viewed[Viewed.MEMORY] = self._scratch.address
            viewed[Viewed.MEMORY_NUMBER] = buffers.number_of(arrow_buffer(self._scratch.buffer))
        return viewed

    def decode_run(self, run: BatchRun, low: Int64s, high: int) -> Iterator[HandedBack | None]:
        """Collect the records of a run with offsets from `low` (one bound for each batch) to `high` (exclusive). Yield
        None before a batch with which the collected records would exceed the bounds: the caller must take the records
        and call `drop` before the next step. `reached` is then the number of batches that are done. A batch that alone
        exceeds the bounds is collected alone. Yield a `HandedBack` for batches that were not decoded. Batches without
        records are skipped. Records collected after the last None stay in the builder.
        """
        start, headers = 0, run.table
        most_bytes = min(self._limits.decompressed_batch_bytes, MOST_BYTES // 2)
        while start < len(run):
            codec, end = same_codec(headers, start, self._limits.records_per_batch, most_bytes)
            if codec >= 0:
                yield from self._decode_part(run, low, high, start, end, codec)
            elif codec == UNDECODED:
                yield HandedBack(start, end)
            start = end

    def _decode_part(
        self, run: BatchRun, low: Int64s, high: int, start: int, end: int, codec: int
    ) -> Iterator[HandedBack | None]:
        """Collect the batches from number `start` to `end` (exclusive), which all have the compression `codec`. `low`
        has the first wanted offset of each batch of the run; `high` is the end of the wanted offsets (exclusive). Yield
        None or `HandedBack` as `decode_run` does; a batch that cannot be decoded is handed back alone. Before None is
        yielded, `reached` is set to the number of batches done.
        """
        builder, headers = self.builder, run.table
        while start < end:
            part = run.part(start, end)
            opened = decompress_batches(part, codec, self._limits, min(self.bytes_bound, _MOST_AT_ONCE))
            count = len(opened.addresses)
            if count == 0:
                yield HandedBack(start, start + 1)
                start += 1
            done = 0
            while done < count:
                rows, size = self.rows_bound - builder.rows, self.bytes_bound - self._bytes
                fits, room, total = fitting_batches(
                    headers, start, opened.sizes[done:], int(self.is_empty), rows, size
                )
                if fits == 0:
                    self.reached = start
                    yield None
                    continue
                builder.buffers.ensure(room, total)
                decoded = self._decode_opened(opened, done, done + fits, run, start, low, high)
                self._bytes += total if decoded == fits else int(opened.sizes[done : done + decoded].sum())
                done += decoded
                start += decoded
                if decoded < fits:
                    yield HandedBack(start, start + 1)
                    done += 1
                    start += 1

    def _decode_opened(
        self, opened: Decompressed, first: int, end: int, run: BatchRun, start: int, low: Int64s, high: int
    ) -> int:
        """Decode the opened batches with index `first` to `end` (exclusive) in `opened`; the first is batch `start` of
        the run. `low` has one bound for each batch of the run. Return how many were decoded before a faulty one; all if
        none is faulty. If columns are views, one call of compiled code gets only batches in one piece of memory.
        """
        has_views = self.builder.buffers.has_views
        if has_views:
            edges = np.flatnonzero(np.diff(opened.where[first:end])) + 1 + first
        else:
            edges = np.empty(0, np.int64)
        done = 0
        for stop in [*edges.tolist(), end]:
            these = slice(first + done, stop)
            if has_views:
                self.builder.buffers.point_into(opened.memory[int(opened.where[first + done])])
            here = start + done
            done += self._decode(opened.addresses[these], opened.sizes[these], run, here, low[here:], high)
            if first + done < stop:
                break
        return done

    def _decode(self, addresses: Int64s, sizes: Int64s, run: BatchRun, start: int, lows: Int64s, high: int) -> int:
        """Decode batches of a run from number `start`, whose record bytes are at `addresses`, into the builder. Return
        how many were decoded before a faulty one. `lows` has the lowest wanted offset of each batch from `start`;
        `high` is exclusive.
        """
        rows = np.empty(len(addresses), np.int64)
        buffers = self.builder.buffers
        done = decode_batches(
            addresses, sizes, run.table, start, lows, high, self._limits.headers_per_record, buffers.addresses,
            buffers.filled, rows,
        )  # fmt: skip
        self.builder.add_headers(run.table[:, start : start + done], rows[:done], run.window_start)
        return done
