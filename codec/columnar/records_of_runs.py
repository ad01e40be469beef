"""Check the records of many batches with compiled code, which names only the batches to be examined in Python. Needs
compiled code and numpy; see `codec.native.thresholds`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kafkalog.codec.columnar.collector import Collector
from kafkalog.codec.columnar.run_decoder import RunDecoder
from kafkalog.codec.common.limits import MIB, Limits
from kafkalog.codec.model import MICROSECONDS, TIMESTAMP_TYPE_FLAG
from kafkalog.codec.native.tables import ArrowBuffer, Filled

if TYPE_CHECKING:
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["RecordsOfRuns"]

_ROWS, _BYTES = 64 * 1024, 4 * MIB
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


class RecordsOfRuns:
    """Check the records of runs (consecutive v2 batches in one window of a file) without keeping them."""

    def __init__(self, limits: Limits) -> None:
        collector = Collector((ArrowBuffer.TIMESTAMP, ArrowBuffer.TIMESTAMP_VALID), _ROWS, _BYTES)
        self._decoder = RunDecoder(collector, limits, _ROWS, _BYTES)

    def doubtful(self, run: BatchRun) -> Iterator[int]:
        """Yield the numbers of the batches of a run, in order, that must be examined in Python: compiled code cannot
        decode all their records, or their largest record timestamp may differ from the header's (checked with
        CreateTime only). All other batches are sound. Batches without records are never yielded.
        """
        begin = 0
        for handed in self._decoder.decode_run(run, np.full(len(run), _LOWEST), _HIGHEST):
            if handed is None:
                yield from self._unlike(run, begin, self._decoder.reached)
                begin = self._decoder.reached
            else:
                yield from self._unlike(run, begin, handed.start)
                yield from handed
                begin = handed.stop
        yield from self._unlike(run, begin, len(run))

    def _unlike(self, run: BatchRun, begin: int, end: int) -> Iterator[int]:
        """Yield the numbers of the decoded batches from `begin` to `end` (exclusive) whose largest record timestamp is
        not the header's. Batches with LogAppendTime and batches without records are left out. If any decoded timestamp
        is beyond Arrow's range, every batch with CreateTime is yielded. Drops the decoded records afterwards.
        """
        buffers, rows = self._decoder.builder.buffers, self._decoder.builder.rows
        numbers = begin + np.flatnonzero(run["records_count"][begin:end])
        if rows:
            of_header = run["max_timestamp"][numbers]
            is_alike = run["attributes"][numbers] & TIMESTAMP_TYPE_FLAG != 0
            if buffers.count(Filled.TIMESTAMP_NULLS) == 0:
                counts = run["records_count"][numbers]
                times = buffers.view(ArrowBuffer.TIMESTAMP, np.int64, rows)
                newest = np.maximum.reduceat(times, np.cumsum(counts) - counts)
                is_alike |= newest // MICROSECONDS == of_header
            # a null timestamp is a number that Arrow cannot hold
            yield from numbers[~is_alike].tolist()
        self._decoder.drop()
