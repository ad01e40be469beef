"""Collect the producer state of several batches and apply it at once (`UnifiedLog.updateProducers`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kafkalog.codec.model import BatchHeader
from kafkalog.log.storage.indexes import TransactionIndex
from kafkalog.log.storage.java import JavaHashMap
from kafkalog.log.storage.producers.known_producers import ProducerStateManager
from kafkalog.log.storage.producers.state import (
    REMEMBERED,
    AppendOrigin,
    CompletedTransaction,
    Marker,
    ProducerAppendInfo,
)

if TYPE_CHECKING:
    from kafkalog.log.storage.log_file import LogBatch
    from kafkalog.log.storage.producer_runs import StretchEnd

__all__ = ["ProducerAppends"]


class ProducerAppends:
    """Collected changes of the producer state by the batches of one write, or of one segment. `take_over` applies them
    to the producers.
    """

    remembered = REMEMBERED

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
        """Add one batch of a producer; `marker` reads the marker of a control batch. Raises the broker's exceptions for
        a batch that violates the producer rules, and the errors of `marker`.
        """
        completed = self._append(header.producer_id).append(header, marker)
        if completed is not None:
            self._completed.append(completed)

    def open_since(self, producer_id: int) -> int | None:
        """Return the first offset of a producer's open transaction; None if none is open."""
        append = self._appends.get(producer_id) or self._producers.prepare(producer_id)
        return append.state.current_txn_first_offset

    def stretch(self, ends: Sequence[StretchEnd]) -> None:
        """Add a stretch of data batches, summarized for each producer: its last batches, and the first offset of a
        transaction that begins in it.
        """
        for headers, _number, transactional_from in ends:
            for header in headers:
                self._append(header.producer_id).append_stretch(header, transactional_from)

    def batch(self, batch: LogBatch) -> None:
        """Add one batch of a producer; v0 and v1 entries are ignored. Raises the broker's exceptions."""
        if isinstance(batch.header, BatchHeader):
            self.add(batch.header, batch.end_transaction_marker)

    def take_over(self, index: TransactionIndex | None = None) -> None:
        """Apply all collected changes to the producers, once the batches are in the log. Aborted transactions are
        appended to `index`, if it is not None. Raises `IllegalArgumentError` if one cannot be appended.
        """
        for append in self._appends.values() if len(self._appends) else ():
            self._producers.update(append)
        for completed in self._completed:
            self._producers.finish(completed, index)
