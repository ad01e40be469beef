"""Decode runs of v0 and v1 entries (consecutive in one window of a file) to Arrow batches with compiled code, as
`run_decoder` does for v2. Single messages are read in the window; the sets inside wrappers are decompressed first.
Entries that cannot be decoded are handed back one by one.
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
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.headers.message_runs import MessageRun
from kafkalog.codec.native.functions import decode_sets, measure_sets
from kafkalog.codec.native.handed_back import HandedBack
from kafkalog.codec.native.tables import MessageSet, Table, empty_table

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

__all__ = ["MessageDecoder"]


class MessageDecoder:
    """Decoder that collects records up to a bound of rows and bytes, with the interface of `RunDecoder`."""

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
        """Bytes of the collected entries, decompressed."""
        return self._bytes

    @property
    def is_empty(self) -> bool:
        """Whether nothing was collected."""
        return self._bytes == 0

    def build(self) -> pa.RecordBatch:
        """Return the collected records as an Arrow batch with the decoder's schema, and forget them."""
        self._bytes = 0
        built = self._builder.build()
        # the cast makes view columns, which point into the copied bytes
        return built if built.schema.equals(self._schema) else built.cast(self._schema)

    def decode_run(self, run: MessageRun, low: Int64s, high: int) -> Iterator[HandedBack | None]:
        """Collect the records of a run with offsets from `low` (one for each entry) to `high` (exclusive). Yield None
        when `build` must be called before it can continue, and a `HandedBack` for entries that it did not decode.
        """
        for opened in open_entries(run, self._limits):
            start, end = opened.start, opened.start + len(opened.sizes)
            for handed in self._decode_entries(run.part(start, end), opened, low[start:end], high):
                yield None if handed is None else HandedBack(start + handed.start, start + handed.stop)

    def _decode_entries(self, run: MessageRun, opened: Opened, low: Int64s, high: int) -> Iterator[HandedBack | None]:
        sets = empty_table(MessageSet, len(run))
        measure_sets(opened.addresses, opened.sizes, run.table, self._limits.records_per_batch, sets)
        faults = [*np.flatnonzero(sets[MessageSet.COUNT] < 0).tolist(), len(run)]
        done = 0
        for fault in faults:
            while done < fault:
                part = slice(done, min(fault, done + self.rows_bound + 1))
                fitting = self._fitting(sets[MessageSet.COUNT, part], opened.sizes[part])
                if fitting == 0:
                    yield None
                    continue
                these = slice(done, done + fitting)
                taken = self._decode_sets(
                    opened.addresses[these], opened.sizes[these], run.part(done, done + fitting),
                    sets[:, these], low[these], high,
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
        self, addresses: Int64s, sizes: Int64s, run: MessageRun, sets: Table, low: Int64s, high: int
    ) -> int:
        """Decode the records of a run's first entries into the buffers; keep those with offsets from `low` (one bound
        for each entry) to `high` (exclusive). `addresses` and `sizes` (in bytes) locate the message set of each entry.
        `sets` has the counts that compiled code measured in each message set. Return the number of entries decoded:
        `len(addresses)`, or fewer if decoding stopped at a faulty entry.
        """
        buffers = self._builder.buffers
        buffers.ensure(int(sets[MessageSet.COUNT].sum()), int(sizes.sum()))
        rows = np.zeros(len(addresses), np.int64)
        done = decode_sets(addresses, run.table, sets, low, high, buffers.addresses, buffers.filled, rows)
        self._builder.add_headers(run.table[:, :done], rows[:done], run.window_start)
        return done

    def _fitting(self, counts: Int64s, sizes: Int64s) -> int:
        """Return how many of the first entries fit into the bounds of rows and bytes together with those already
        collected; at least 1 if nothing is collected. `counts` and `sizes` are the records and bytes of each entry.
        """
        rows = self._builder.rows + np.cumsum(counts)
        total = self._bytes + np.cumsum(sizes)
        within = (rows <= self.rows_bound) & (total <= self._bytes_bound)
        number = len(within) if within.all() else int(np.argmin(within))
        return max(number, 1) if self.is_empty else number
