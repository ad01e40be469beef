"""Delete whole segments that end below the log start offset or exceed the retention limits
(`UnifiedLog.deleteOldSegments`).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kafkalog.log.storage import retention
from kafkalog.log.storage.cleaning.cleanable_log import CleanableLog
from kafkalog.log.storage.segment import LogSegment

__all__ = ["delete_old_segments"]


class _Facts(Struct, frozen=True):
    """Facts on which retention depends."""

    base_offset: int
    size: int
    largest_timestamp: int


def delete_old_segments(log: CleanableLog, now_ms: int) -> list[int]:
    """Delete the oldest segments of a log: those that end at or below the log start offset and, if `cleanup.policy`
    includes `delete`, those beyond the limits of size and age. Segments that end above the high watermark are kept.
    Return the base offsets in the order of deletion; empty if none is deleted.

    The log start offset moves up to the first remaining segment. Older leader epochs and the producer snapshots of the
    deleted segments are dropped. If all segments are to be deleted, a new empty one is created first. Raises
    `StorageError` for I/O errors. Raises `KafkaStorageError` if the leader epochs cannot be written, and another
    `JavaError` if the time index of the last segment takes no last entry.
    """
    settings = log.settings
    gone = _delete(log, retention.below_start(_facts(log), log.log_start_offset))
    if settings.deletes_old:
        gone += _delete(log, retention.beyond_size(_facts(log), settings.retention_bytes))
        gone += _delete(log, retention.too_old(_facts(log), settings.retention_ms, now_ms))
    return gone


def _facts(log: CleanableLog) -> list[_Facts]:
    return [_Facts(segment.base_offset, segment.log.size, segment.age_timestamp) for segment in log.segments.all()]


def _delete(log: CleanableLog, count: int) -> list[int]:
    segments = log.segments.all()
    ends = [*log.segments.bases[1:], log.end_offset]
    count = min(count, next((n for n, end in enumerate(ends) if end > log.high_watermark), len(ends)))
    if count == 0:
        return []
    if count == len(segments):
        _roll(log)
    gone = segments[:count]
    start = log.segments.bases[count]
    if start > log.log_start_offset:
        log.log_start_offset = start
        log.epochs.truncate_from_start(start)
    _remove(log, gone)
    return [segment.base_offset for segment in gone]


def _remove(log: CleanableLog, gone: Sequence[LogSegment]) -> None:
    for segment in gone:
        log.segments.remove(segment.base_offset)
        log.retire(segment)
    log.producers.delete_snapshots_of([segment.base_offset for segment in gone])


def _roll(log: CleanableLog) -> None:
    """Make the active segment inactive, take a producer snapshot, and add a new empty segment at the log end offset as
    the active one. Needed if all segments are deleted, because a log must always have an active one. Raises
    `StorageError` for I/O errors, `FullIndexError` or `InvalidOffsetError` if the time index takes no last entry.
    """
    log.segments.last.become_inactive()
    log.producers.set_map_end(log.end_offset)
    log.producers.take_snapshot()
    new = LogSegment(log.disk, log.directory, log.end_offset, log.settings)
    new.resize_indexes()
    log.segments.put(new, log.end_offset)
