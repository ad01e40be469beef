"""Run one pass of the cleaner over a log that is open for writing (`LogCleaner`)."""

from __future__ import annotations

import os

from msgspec import Struct

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.names import CLEANED, parse_segment_file
from kafkalog.log.directories.partition import Partition
from kafkalog.log.storage.cleaning.cleanable_log import CleanableLog, dirty_part
from kafkalog.log.storage.cleaning.cleaner import Cleaner
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.segment_deletion import delete_old_segments
from kafkalog.log.writing.loading import refuse_damage

__all__ = ["CompactionCounts", "compact"]


class CompactionCounts(Struct, frozen=True, kw_only=True):
    """Result of one pass; sizes in bytes."""

    first_dirty_offset: int
    dirty_ratio: float
    cleaned_to: int | None
    """first offset that is dirty afterwards; None if the log was not dirty enough to clean"""
    bytes_before: int
    """size of the log files"""
    bytes_after: int
    records_read: int = 0
    """control records included"""
    records_dropped: int = 0
    """records of aborted transactions and control records included"""


def compact(log: CleanableLog, partition: Partition, checkpoint: int | None, now_ms: int) -> CompactionCounts:
    """Run one cleaner pass and then `delete_old_segments`, and return sizes and counts. This is only done if the log is
    dirty enough: its dirty ratio must be above `min.cleanable.dirty.ratio`, or a batch must have been dirty longer than
    `max.compaction.lag.ms`. Otherwise nothing is changed, and `cleaned_to` of the result is None. `checkpoint` is the
    offset in `cleaner-offset-checkpoint`; None if there is none.

    Raises `FormatError` if a segment that is cleaned, or one before it, is damaged, or if a broker's cleaner cannot
    clean the log. Unfinished files are then removed, but segments that were already replaced stay replaced. Raises
    `StorageError` for I/O errors.
    """
    try:
        dirty = dirty_part(log, checkpoint, now_ms)
    except JavaError as error:
        raise _unreadable(log, error) from error
    before = _size(log)
    if not dirty.is_cleaned(log.settings.min_cleanable_dirty_ratio):
        return CompactionCounts(
            first_dirty_offset=dirty.first_offset,
            dirty_ratio=dirty.ratio,
            cleaned_to=None,
            bytes_before=before,
            bytes_after=before,
        )
    refuse_damage(partition, dirty.upper_bound)
    cleaner = Cleaner(log, dirty, now_ms)
    try:
        end = cleaner.clean()
        delete_old_segments(log, now_ms)
    except (FormatError, JavaError) as error:
        _remove_unfinished(log)
        raise error if isinstance(error, FormatError) else _unreadable(log, error) from error
    counts = cleaner.counts
    dropped = counts.records_read - counts.records_kept
    return CompactionCounts(
        first_dirty_offset=dirty.first_offset,
        dirty_ratio=dirty.ratio,
        cleaned_to=end,
        bytes_before=before,
        bytes_after=_size(log),
        records_read=counts.records_read,
        records_dropped=dropped,
    )


def _size(log: CleanableLog) -> int:
    return sum(segment.log.size for segment in log.segments.all())


def _unreadable(log: CleanableLog, error: JavaError) -> FormatError:
    source = log.directory if error.segment_path is None else error.segment_path
    return FormatError(f"a broker's cleaner would give up on this log: {error}", position=error.position, source=source)


def _remove_unfinished(log: CleanableLog) -> None:
    for name in log.disk.all_names(log.directory):
        parsed = parse_segment_file(name)
        if parsed is not None and parsed.pending == CLEANED:
            log.disk.delete(os.path.join(log.directory, name))
