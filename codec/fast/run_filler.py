"""From runs of batches to Arrow batches by the compiled decoder; what it cannot take is handed back, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kafkalog.codec.fast.column_buffers import MOST_BYTES, ColumnFiller
from kafkalog.codec.fast.runs import BatchRun
from kafkalog.codec.fast.unpacking import unpack
from kafkalog.codec.limits import Limits
from kafkalog.codec.model import CODEC_MASK, Codec

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

__all__ = ["RunFiller"]

_MOST_AT_ONCE = 4 * 1024 * 1024
"""Record bytes that are decompressed before they are decoded: what a processor's cache may still hold."""


class RunFiller:
    """Collects the records of runs up to a bound of rows and bytes.

    `take_run` yields None where `take` must be called, and the number of a batch that somebody else must read.
    """

    def __init__(
        self, schema: pa.Schema, topic: str | None, partition: int | None, limits: Limits, rows: int, most_bytes: int
    ) -> None:
        self.filler = ColumnFiller(schema, topic, partition, limits, rows, most_bytes)
        self._limits = limits
        self._bytes = 0
        self.reached = 0
        """how many batches of the run were passed, when `take_run` yields"""
        self.rows_bound = rows
        self.bytes_bound = min(most_bytes, MOST_BYTES)

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

    def take_run(self, run: BatchRun, low: Int64s, high: int) -> Iterator[int | None]:
        """Collect a run, of which the offsets from `low` (of each batch) up to, not including, `high` are wanted."""
        counts, codecs = run["records_count"], run["attributes"] & CODEC_MASK
        odd = (counts < 0) | (counts > self._limits.records_per_batch) | (codecs > Codec.ZSTD)
        odd |= run.sizes > self._limits.decompressed_batch_bytes
        odd |= run.sizes > MOST_BYTES // 2
        kind = np.where(odd, -1, np.where(counts == 0, -2, codecs))
        edges = np.flatnonzero(np.diff(kind)) + 1
        for start, end in zip([0, *edges.tolist()], [*edges.tolist(), len(run)], strict=True):
            codec = int(kind[start])
            if codec >= 0:
                yield from self._stretch(run, low, high, start, end, codec)
            elif codec == -1:
                yield from range(start, end)

    def _stretch(self, run: BatchRun, low: Int64s, high: int, start: int, end: int, codec: int) -> Iterator[int | None]:
        while start < end:
            opened = unpack(run.part(start, end), codec, self._limits, min(self.bytes_bound, _MOST_AT_ONCE))
            count = len(opened.addresses)
            if count == 0:
                yield start
                start += 1
            done = 0
            while done < count:
                part = run.part(start + done, start + count)
                fitting = self._fitting(part["records_count"], opened.sizes[done:])
                if fitting == 0:
                    self.reached = start + done
                    yield None
                    continue
                these = slice(done, done + fitting)
                taken = self.filler.fill(
                    opened.addresses[these],
                    opened.sizes[these],
                    part.part(0, fitting),
                    low[start + done : start + done + fitting],
                    high,
                )
                self._bytes += int(opened.sizes[done : done + taken].sum())
                done += taken
                if taken < fitting:
                    yield start + done
                    done += 1
            start += count

    def _fitting(self, counts: Int64s, sizes: Int64s) -> int:
        """How many of the batches are within the bounds together with what is there; one at least when empty."""
        rows = self.filler.rows + np.cumsum(counts)
        total = self._bytes + np.cumsum(sizes)
        within = (rows <= self.rows_bound) & (total <= self.bytes_bound)
        number = len(within) if within.all() else int(np.argmin(within))
        return max(number, 1) if self.is_empty else number
