"""Rebuild producer state from the newest snapshot and the batches after it (`UnifiedLog.rebuildProducerState`)."""

from __future__ import annotations

from kafkalog.codec.names import FileKind
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.producer_appends import ProducerAppends
from kafkalog.log.storage.producer_runs import ProducerError, take_producers
from kafkalog.log.storage.producers.known_producers import ProducerStateManager
from kafkalog.log.storage.segment import LogSegment
from kafkalog.log.storage.segments import LogSegments

__all__ = ["rebuild_producer_state"]


def rebuild_producer_state(
    producers: ProducerStateManager,
    segments: LogSegments,
    log_start: int,
    end: int,
    *,
    reload_from_clean: bool = False,
) -> None:
    """Rebuild the producer state at offset `end` from the newest usable snapshot and the batches after it. Deletes
    snapshot files at or below `log_start` or above `end`, and damaged ones. Writes a snapshot at `end`, and during the
    scan at each of the last two segment base offsets that it reaches. No snapshot is written if the state has not
    advanced since the last one.

    No batches are read if the state already ends at `end`, or if it is empty and ends above `end`. With
    `reload_from_clean`, if there is no snapshot file, the log is not read either: the unchanged state is written as
    snapshot at the last two segment base offsets and `end`. Raises the broker's `JavaError` for a batch that cannot be
    read or that violates the producer rules. Raises `StorageError` if a file cannot be read, written or deleted.
    """
    snapshots_at = [*segments.bases[-2:], end]
    if not producers.has_snapshots and reload_from_clean:
        for offset in snapshots_at:
            producers.set_map_end(offset)
            producers.take_snapshot()
        return
    was_empty = producers.is_empty and producers.map_end_offset >= end
    producers.truncate_and_reload(log_start, end)
    if end > producers.map_end_offset and not was_empty:
        last = segments.floor(end)
        for segment in segments.between(producers.map_end_offset, end):
            start = max(segment.base_offset, producers.map_end_offset, log_start)
            producers.set_map_end(start)
            if segment.base_offset in snapshots_at:
                producers.take_snapshot()
            limit = segment.log.size
            if segment is last:
                batch = segment.translate(end)
                limit = segment.log.size if batch is None else batch.position
            piece = segment.read(start, 2**31 - 1, limit)
            if piece is not None:
                _replay(producers, segment, *piece)
    producers.set_map_end(end)
    producers.take_snapshot()


def _replay(producers: ProducerStateManager, segment: LogSegment, start: int, size: int) -> None:
    """Process the batches in `size` bytes of a segment from byte position `start` (`loadProducersFromRecords`). All
    their changes are applied to the producer state at the end. Checksums are not verified. Raises `JavaError`, with
    position and path of the batch, for a malformed batch or one that violates the producer rules; the state is then
    unchanged. Raises `StorageError` if the log cannot be read.
    """
    collected = ProducerAppends(producers)
    end = start + size
    position = start
    for run, first in segment.log.runs(start, end):
        try:
            take_producers(run, first, len(run), lambda number, run=run: segment.log.batch(run, number), collected)  # type: ignore[misc]
        except ProducerError as error:
            raise _at(error.error, run.position(error.number), segment) from error.__cause__
        position = run.end
    try:
        for batch in segment.log.batches(position, end):
            position = batch.position
            if batch.header.has_producer_id:
                collected.batch(batch)
    except JavaError as error:
        raise _at(error, position, segment) from error.__cause__
    collected.take_over()


def _at(error: JavaError, position: int, segment: LogSegment) -> JavaError:
    return error.at(position, segment.path(FileKind.LOG))
