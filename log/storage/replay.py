"""Producer state from the batches of a segment that is not recovered (`UnifiedLog.loadProducersFromRecords`)."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.codec.names import FileKind
from kafkalog.log.storage.java import JavaError, JavaHashMap
from kafkalog.log.storage.log_file import LogBatch
from kafkalog.log.storage.producer_runs import ProducerError, StretchEnd, take_producers
from kafkalog.log.storage.producers import CompletedTransaction, ProducerAppend, ProducerStateManager
from kafkalog.log.storage.segment import LogSegment

__all__ = ["replay"]


class _Collected:
    """What producers wrote, to be taken over when all of it was seen."""

    def __init__(self, producers: ProducerStateManager) -> None:
        self._producers = producers
        self._appends: JavaHashMap[ProducerAppend] = JavaHashMap()
        self._completed: list[CompletedTransaction] = []

    def _append(self, producer_id: int) -> ProducerAppend:
        append = self._appends.get(producer_id)
        if append is None:
            append = self._producers.prepare(producer_id)
            self._appends.put(producer_id, append)
        return append

    def open_since(self, producer_id: int) -> int | None:
        """First offset of the transaction that a producer has open."""
        append = self._appends.get(producer_id) or self._producers.prepare(producer_id)
        return append.state.current_txn_first_offset

    def stretch(self, ends: Sequence[StretchEnd]) -> None:
        """Take in a stretch."""
        for header, _number, transactional_from in ends:
            self._append(header.producer_id).stretch(header, transactional_from)

    def batch(self, batch: LogBatch) -> None:
        """Take in one batch of a producer."""
        completed = self._append(batch.header.producer_id).append(batch)
        if completed is not None:
            self._completed.append(completed)

    def take_over(self) -> None:
        """All was seen."""
        for append in self._appends.values():
            self._producers.update(append)
        for transaction in self._completed:
            self._producers.complete(transaction)


def replay(producers: ProducerStateManager, segment: LogSegment, start: int, size: int) -> None:
    """The batches of one segment, taken over at its end; checksums are not looked at."""
    collected = _Collected(producers)
    end = start + size
    position = start
    for run, first in segment.log.runs(start, end):
        try:
            take_producers(run, first, len(run), lambda number, run=run: segment.log.batch(run, number), collected)  # type: ignore[misc]
        except ProducerError as error:
            raise _at(error.error, int(run.positions[error.number]), segment) from error.__cause__
        position = run.end
    for batch in segment.log.batches(position, end):
        if batch.header.has_producer_id:
            try:
                collected.batch(batch)
            except JavaError as error:
                raise _at(error, batch.position, segment) from error.__cause__
    collected.take_over()


def _at(error: JavaError, position: int, segment: LogSegment) -> JavaError:
    return error.at(position, segment.path(FileKind.LOG))
