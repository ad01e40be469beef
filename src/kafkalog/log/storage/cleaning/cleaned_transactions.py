"""Track aborted transactions during cleaning, and find markers whose transactions have no data batches left
(`CleanedTransactionMetadata`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from kafkalog.codec.model import AbortedTransaction, BatchHeader, ControlType, RecordBatch
from kafkalog.log.storage.control_record import control_type
from kafkalog.log.storage.indexes import TransactionIndex
from kafkalog.log.storage.log_file import LogBatch

__all__ = ["CleanedTransactions"]


class CleanedTransactions:
    """Open and aborted transactions at the current position of the cleaner. All batches of the log must be passed in
    order; aborted transactions must be passed to `add` before their batches.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, AbortedTransaction]] = []
        """heap by first offset; the number avoids the comparison of entries"""
        self._count = 0
        self._aborted: dict[int, AbortedTransaction] = {}
        self._observed: set[int] = set()
        """producers with a data batch of the current aborted transaction"""
        self._committed: set[int] = set()
        self._index: TransactionIndex | None = None

    def copy(self) -> CleanedTransactions:
        """Return an independent copy of the current state."""
        other = CleanedTransactions()
        other._waiting, other._count, other._aborted = self._waiting.copy(), self._count, self._aborted.copy()
        other._observed, other._committed = self._observed.copy(), self._committed.copy()
        return other

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions from an index of the log."""
        for entry in aborted:
            self._count += 1
            heapq.heappush(self._waiting, (entry.first_offset, self._count, entry))

    def write_into(self, index: TransactionIndex) -> None:
        """Set the transaction index to which `control_batch` appends aborted transactions that still have data."""
        self._index = index

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            entry = heapq.heappop(self._waiting)[2]
            self._aborted.setdefault(entry.producer_id, entry)

    def batch(self, batch: RecordBatch | LogBatch) -> bool:
        """Process the next data batch. Return True if it belongs to an aborted transaction, False if it belongs to
        another transaction or to none. Aborted transactions that were passed to `add` and start at or below the batch's
        last offset count as open from now on. The batch's transaction is noted as having data. Raises `KafkaError` if
        the file ends within the batch's header.
        """
        self._begin_up_to(batch.last_offset)
        header = batch.header
        if not isinstance(header, BatchHeader) or not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._observed.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def control_batch(self, batch: LogBatch) -> bool:
        """Process the next control batch. Return True if it may be removed; that holds for a marker of a transaction
        without data seen here, and for a control batch without records. It holds also for an abort marker of a
        transaction that is not listed as aborted. Return False for any other batch, also for other control types.

        A marker ends the producer's transaction. If that was aborted and has data, its entry is appended to the index
        set by `write_into`. Raises `JavaError` for a marker that cannot be read, or an entry that the index does not
        accept.
        """
        self._begin_up_to(batch.last_offset)
        first_record = batch.first_record()
        if first_record is None:
            return True  # an earlier pass removed the marker
        producer_id = batch.header.producer_id
        match control_type(first_record[0].key):
            case ControlType.ABORT:
                entry, was_observed = self._aborted.pop(producer_id, None), producer_id in self._observed
                self._observed.discard(producer_id)
                if entry is None or not was_observed:
                    return True
                if self._index is not None:
                    self._index.append(entry)
                return False
            case ControlType.COMMIT:
                was_observed = producer_id in self._committed
                self._committed.discard(producer_id)
                return not was_observed
        return False
