"""Whether transactions may have begun earlier than the log still shows.

Compaction takes away the first batches of an aborted transaction, and deletion the first segments of a log, while the
`.txnindex` keeps the offset at which it began (`CleanedTransactionMetadata.onControlBatchRead`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import BatchHeader, RecordBatch
from kafkalog.log.walk.batches import BatchReader
from kafkalog.log.walk.missing import first_offset_of
from kafkalog.log.walk.segment import index_of

if TYPE_CHECKING:
    from kafkalog.codec.headers.runs import BatchRun
    from kafkalog.log.directories.partition import Partition

__all__ = ["Beginning", "untrue_beginnings"]


class Beginning(NamedTuple):
    """A transaction that is said to have begun below the first batch that is there of it."""

    producer_id: int
    said: int
    """first offset, as an index has it"""
    there: int
    """first offset of what is there"""


def untrue_beginnings(
    partition: Partition, beginnings: Collection[Beginning], *, limits: Limits = DEFAULT_LIMITS
) -> set[Beginning]:
    """The beginnings that the log contradicts.

    The offset is that of a batch, or its producer still wrote something else there.

    Each is of a transaction that the log itself has, see `Partition.transactions`.  The log is read from the lowest of
    the offsets up to the highest; memory grows with the beginnings only.
    """
    return _Walk(beginnings, limits).over(partition) if beginnings else set()


class _Walk:
    """Through the batches in order."""

    def __init__(self, beginnings: Collection[Beginning], limits: Limits) -> None:
        self._limits = limits
        self._by_offset = sorted(beginnings, key=lambda each: each.said)
        self._said = [each.said for each in self._by_offset]
        self._by_batch = {(each.producer_id, each.there): each for each in beginnings}
        self._written: dict[int, int] = {each.producer_id: -1 for each in beginnings}
        """last offset of what each of the producers wrote so far"""
        self._untrue: set[Beginning] = set()

    def over(self, partition: Partition) -> set[Beginning]:
        highest = max(each.there for each in self._by_offset)
        segments = partition.segments[index_of(partition.segments, self._said[0]) :]
        for found in BatchReader(segments, limits=self._limits).by_run():
            if isinstance(found, RecordBatch):
                first = first_offset_of(found, self._limits)
                self._covered(first, found.last_offset)
                self._transactional(found)
            else:
                first = int(found["base_offset"][0])
                self._run(found)
            if first > highest:
                break
        return self._untrue

    def _covered(self, first: int, last: int) -> None:
        """Count offsets as those of a batch."""
        begin, end = bisect_left(self._said, first), bisect_right(self._said, last)
        self._untrue.update(self._by_offset[begin:end])

    def _run(self, run: BatchRun) -> None:
        first, last = run["base_offset"], run.last_offsets
        begin, end = bisect_left(self._said, int(first[0])), bisect_right(self._said, int(last[-1]))
        numbers = first.searchsorted(self._said[begin:end], "right") - 1
        for each, number in zip(self._by_offset[begin:end], numbers.tolist(), strict=True):
            if each.said <= last[number]:
                self._untrue.add(each)
        for batch in run.of_transactions():
            self._transactional(batch)

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
