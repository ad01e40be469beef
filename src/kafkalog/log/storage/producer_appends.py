"""What producers wrote in several batches, taken over together (`UnifiedLog.updateProducers`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kafkalog.codec.model import BatchHeader
from kafkalog.log.storage.indexes import TransactionIndex
from kafkalog.log.storage.java import JavaHashMap
from kafkalog.log.storage.producers.known_producers import ProducerStateManager
from kafkalog.log.storage.producers.state import AppendOrigin, CompletedTransaction, Marker, ProducerAppendInfo

if TYPE_CHECKING:
    from kafkalog.log.storage.log_file import LogBatch
    from kafkalog.log.storage.producer_runs import StretchEnd

__all__ = ["ProducerAppends"]


class ProducerAppends:
    """The appends of one write, or of one segment; the producers know of them once they are taken over."""

    def __init__(self, producers: ProducerStateManager, origin: AppendOrigin = AppendOrigin.REPLICATION) -> None:
        self._producers = producers
        self._origin = origin
        self._appends: JavaHashMap[ProducerAppendInfo] = JavaHashMap()
        self._completed: list[CompletedTransaction] = []

    def _append(self, producer_id: int) -> ProducerAppendInfo:
        append = self._appends.get(producer_id)
        if append is None:
            append = self._producers.prepare(producer_id, self._origin)
            self._appends.put(producer_id, append)
        return append

    def add(self, header: BatchHeader, marker: Callable[[], Marker | None]) -> None:
        """Take in one batch of a producer; `marker` reads that of a control batch."""
        completed = self._append(header.producer_id).append(header, marker)
        if completed is not None:
            self._completed.append(completed)

    def open_since(self, producer_id: int) -> int | None:
        """First offset of the transaction that a producer has open."""
        append = self._appends.get(producer_id) or self._producers.prepare(producer_id)
        return append.state.current_txn_first_offset

    def stretch(self, ends: Sequence[StretchEnd]) -> None:
        """Take in a stretch."""
        for header, _number, transactional_from in ends:
            self._append(header.producer_id).append_stretch(header, transactional_from)

    def batch(self, batch: LogBatch) -> None:
        """Take in one batch of a producer."""
        if isinstance(batch.header, BatchHeader):
            self.add(batch.header, batch.end_transaction_marker)

    def take_over(self, index: TransactionIndex | None = None) -> None:
        """The batches are in the log; aborted transactions go into `index`, if that is kept."""
        for append in self._appends.values() if len(self._appends) else ():
            self._producers.update(append)
        for completed in self._completed:
            self._producers.finish(completed, index)
