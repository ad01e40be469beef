"""From runs of v0 and v1 entries to Arrow batches by the compiled decoder, as `run_decoder` does it for v2.

Bare messages are read where they lie, the sets in wrappers are decompressed first.  What the decoder cannot take is
handed back, entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kafkalog.codec.columnar.buffers import MOST_BYTES
from kafkalog.codec.columnar.message_builder import MessageBatchBuilder
from kafkalog.codec.columnar.message_sets import Opened, open_entries
from kafkalog.codec.columnar.schema import copied
from kafkalog.codec.handed_back import HandedBack
from kafkalog.codec.headers.message_runs import MessageRun
from kafkalog.codec.limits import Limits
from kafkalog.codec.native.functions import decode_sets, measure_sets
from kafkalog.codec.native.tables import MessageSet, Table, empty_table

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

__all__ = ["MessageDecoder"]



class MessageDecoder:
    """Collects the records of runs up to a bound of rows and bytes; used as a `RunDecoder` is."""

    def __init__(
        self, schema: pa.Schema, topic: str | None, partition: int | None, limits: Limits, rows: int, most_bytes: int
    ) -> None:
        self._schema = schema
        self._builder = MessageBatchBuilder(copied(schema), topic, partition, rows, most_bytes)
        self._limits = limits
        self._bytes = 0
        self.rows_bound = rows
        self._bytes_bound = min(most_bytes, MOST_BYTES)

    @property
    def record_bytes(self) -> int:
        """The bytes of the entries collected, in which all that they hold lies."""
        return self._bytes

    @property
    def is_empty(self) -> bool:
        """Nothing was collected."""
        return self._bytes == 0

    def build(self) -> pa.RecordBatch:
        """What was collected; starts over."""
        self._bytes = 0
        built = self._builder.build()
        return built if built.schema.equals(self._schema) else built.cast(self._schema)  # views into what was copied

    def decode_run(self, run: MessageRun, low: Int64s, high: int) -> Iterator[HandedBack | None]:
        """Collect a run, of which the offsets from `low` (of each entry) up to, not including, `high` are wanted.

        Yields None where `build` must be called, and what it hands back.
        """
        for opened in open_entries(run, self._limits):
            start, end = opened.start, opened.start + len(opened.sizes)
            for handed in self._decode_entries(run.part(start, end), opened, low[start:end], high):
                yield None if handed is None else HandedBack(start + handed.start, start + handed.stop)

    def _decode_entries(self, run: MessageRun, opened: Opened, low: Int64s, high: int) -> Iterator[HandedBack | None]:
        found = empty_table(MessageSet, len(run))
        measure_sets(opened.addresses, opened.sizes, run.table, self._limits.records_per_batch, found)
        faults = [*np.flatnonzero(found[MessageSet.COUNT] < 0).tolist(), len(run)]
        done = 0
        for fault in faults:
            while done < fault:
                part = slice(done, min(fault, done + self.rows_bound + 1))
                fitting = self._fitting(found[MessageSet.COUNT, part], opened.sizes[part])
                if fitting == 0:
                    yield None
                    continue
                these = slice(done, done + fitting)
                taken = self._decode_sets(
                    opened.addresses[these], opened.sizes[these], run.part(done, done + fitting),
                    found[:, these], low[these], high,
                )  # fmt: skip
                self._bytes += int(opened.sizes[done : done + taken].sum())
                done += taken
                if taken < fitting:
                    yield HandedBack(done, done + 1)
                    done += 1
            if fault < len(run):
                yield HandedBack(fault, fault + 1)
            done = fault + 1

    def _decode_sets(
        self, addresses: Int64s, sizes: Int64s, run: MessageRun, found: Table, low: Int64s, high: int
    ) -> int:
        """Take the entries of a run, `found` as the kernel has it; how many were taken before one with a fault."""
        buffers = self._builder.buffers
        buffers.ensure(int(found[MessageSet.COUNT].sum()), int(sizes.sum()))
        rows = np.zeros(len(addresses), np.int64)
        done = decode_sets(addresses, run.table, found, low, high, buffers.addresses, buffers.filled, rows)
        self._builder.add_headers(run.table[:, :done], rows[:done], run.window_start)
        return done

    def _fitting(self, counts: Int64s, sizes: Int64s) -> int:
        """How many of the entries are within the bounds together with what is there; one at least when empty."""
        rows = self._builder.rows + np.cumsum(counts)
        total = self._bytes + np.cumsum(sizes)
        within = (rows <= self.rows_bound) & (total <= self._bytes_bound)
        number = len(within) if within.all() else int(np.argmin(within))
        return max(number, 1) if self.is_empty else number
