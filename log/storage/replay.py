"""Producer state from the batches of a segment that is not recovered (`UnifiedLog.loadProducersFromRecords`)."""

from __future__ import annotations

from kafkalog.codec.names import FileKind
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.producer_appends import ProducerAppends
from kafkalog.log.storage.producer_runs import ProducerError, take_producers
from kafkalog.log.storage.producers import ProducerStateManager
from kafkalog.log.storage.segment import LogSegment

__all__ = ["replay"]


def replay(producers: ProducerStateManager, segment: LogSegment, start: int, size: int) -> None:
    """The batches of one segment, taken over at its end; checksums are not examined."""
    collected = ProducerAppends(producers)
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
