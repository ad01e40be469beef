"""Check whether transactions may have begun before the first of their batches that is still in the log.

Compaction removes the first batches of an aborted transaction, and deletion the first segments of a log, while the
`.txnindex` keeps the offset at which it began (`CleanedTransactionMetadata.onControlBatchRead`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import BatchHeader, RecordBatch
from kafkalog.log.walk.batches import BatchReader
from kafkalog.log.walk.segment import index_of

if TYPE_CHECKING:
    from kafkalog.log.directories.partition import Partition

__all__ = ["Beginning", "untrue_beginnings"]


class Beginning(NamedTuple):
    """A transaction whose listed first offset is below its first batch in the log."""

    producer_id: int
    said: int
    """first offset in an index"""
    there: int
    """first offset of its batches in the log"""


def untrue_beginnings(
    partition: Partition, beginnings: Collection[Beginning], *, limits: Limits = DEFAULT_LIMITS
) -> set[Beginning]:
    """Return the beginnings that the log contradicts: a batch has their offset, or their producer wrote another
    transactional batch between it and the first batch of the transaction.

    All `beginnings` must be of transactions in the log, see `Partition.transactions`. The log is read from the lowest
    to the highest of their offsets; memory grows only with the number of beginnings. Empty, and nothing is read,
    without beginnings. Raises `StorageError` if a log cannot be read.
    """
    return _Walk(beginnings, limits).over(partition) if beginnings else set()


class _Walk:
    """A walk over the batches of a log, in order, that finds the contradicted beginnings."""

    def __init__(self, beginnings: Collection[Beginning], limits: Limits) -> None:
        self._limits = limits
        self._by_offset = sorted(beginnings, key=lambda beginning: beginning.said)
        self._said = [beginning.said for beginning in self._by_offset]
        self._by_batch = {(beginning.producer_id, beginning.there): beginning for beginning in beginnings}
        self._written: dict[int, int] = {beginning.producer_id: -1 for beginning in beginnings}
        """last offset written so far by each producer; -1 before the first"""
        self._untrue: set[Beginning] = set()

    def over(self, partition: Partition) -> set[Beginning]:
        highest = max(beginning.there for beginning in self._by_offset)
        segments = partition.segments[index_of(partition.segments, self._said[0]) :]
        for run in BatchReader(segments, limits=self._limits).by_run():
            first = run.lowest_offset(self._limits)
            begin, end = bisect_left(self._said, first), bisect_right(self._said, run.final_offset)
            listed = self._by_offset[begin:end]
            self._untrue.update(beginning for beginning in listed if run.holds(beginning.said, self._limits))
            for batch in run.of_transactions():
                self._transactional(batch)
            if first > highest:
                break
        return self._untrue

    def _transactional(self, batch: RecordBatch) -> None:
        header = batch.header
        written = self._written.get(header.producer_id)
        if written is None or not isinstance(header, BatchHeader):
            return
        producer_id = header.producer_id
        beginning = self._by_batch.get((producer_id, header.base_offset))
        if beginning is not None and written >= beginning.said:
            self._untrue.add(beginning)
        self._written[producer_id] = max(written, batch.last_offset)
