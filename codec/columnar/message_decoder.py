"""From runs of v0 and v1 entries to Arrow batches by the compiled decoder, as `run_filler` does it for v2.

Bare messages are read where they lie, the sets in wrappers are decompressed first.  What the decoder cannot take is
handed back, entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kafkalog.codec.columnar.builder import MOST_BYTES
from kafkalog.codec.columnar.message_builder import MessageColumns
from kafkalog.codec.columnar.message_sets import Opened, open_entries
from kafkalog.codec.headers.message_runs import MessageRun
from kafkalog.codec.kernels.messages import survey
from kafkalog.codec.limits import Limits

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

__all__ = ["MessageFiller"]


class MessageFiller:
    """Collects the records of runs up to a bound of rows and bytes; used as a `RunFiller` is."""

    def __init__(
        self, schema: pa.Schema, topic: str | None, partition: int | None, limits: Limits, rows: int, most_bytes: int
    ) -> None:
        self._columns = MessageColumns(schema, topic, partition, limits, rows, most_bytes)
        self._limits = limits
        self._bytes = 0
        self.rows_bound = rows
        self._bytes_bound = min(most_bytes, MOST_BYTES)

    @property
    def is_empty(self) -> bool:
        """Nothing was collected."""
        return self._bytes == 0

    def take(self) -> pa.RecordBatch:
        """What was collected; begins anew."""
        self._bytes = 0
        return self._columns.take()

    def take_run(self, run: MessageRun, low: Int64s, high: int) -> Iterator[int | None]:
        """Collect a run, of which the offsets from `low` (of each entry) up to, not including, `high` are wanted.

        Yields None where `take` must be called, and the number of an entry that somebody else must read.
        """
        for opened in open_entries(run, self._limits):
            start, end = opened.start, opened.start + len(opened.sizes)
            for number in self._take(run.part(start, end), opened, low[start:end], high):
                yield None if number is None else start + number

    def _take(self, run: MessageRun, opened: Opened, low: Int64s, high: int) -> Iterator[int | None]:
        found = np.empty((2, len(run)), np.int64)
        survey(opened.addresses, opened.sizes, run.table, self._limits.records_per_batch, found)
        faults = [*np.flatnonzero(found[0] < 0).tolist(), len(run)]
        done = 0
        for fault in faults:
            while done < fault:
                part = slice(done, min(fault, done + self.rows_bound + 1))
                fitting = self._fitting(found[0, part], opened.sizes[part])
                if fitting == 0:
                    yield None
                    continue
                these = slice(done, done + fitting)
                taken = self._columns.fill_sets(
                    opened.addresses[these], opened.sizes[these], run.part(done, done + fitting),
                    found[:, these], low[these], high,
                )  # fmt: skip
                self._bytes += int(opened.sizes[done : done + taken].sum())
                done += taken
                if taken < fitting:
                    yield done
                    done += 1
            if fault < len(run):
                yield fault
            done = fault + 1

    def _fitting(self, counts: Int64s, sizes: Int64s) -> int:
        """How many of the entries are within the bounds together with what is there; one at least when empty."""
        rows = self._columns.rows + np.cumsum(counts)
        total = self._bytes + np.cumsum(sizes)
        within = (rows <= self.rows_bound) & (total <= self._bytes_bound)
        number = len(within) if within.all() else int(np.argmin(within))
        return max(number, 1) if self.is_empty else number
