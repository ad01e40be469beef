"""Select the segments to delete: by log start offset, size and age, in this order, oldest segments first
(`UnifiedLog.deleteOldSegments`). The active segment may be selected too, unless it is empty. The caller can pass its
own policy instead (`Log.deleteOldSegments(predicate)` of 0.8).
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from kafkalog.codec.common.source import Source
from kafkalog.codec.files.index_files import TIME_ENTRY
from kafkalog.codec.names import FileKind, segment_file
from kafkalog.log.disk.files import status_of
from kafkalog.log.disk.remote_file import MissingFileError

__all__ = [
    "DeletableSegment",
    "DeletionPolicy",
    "below_start",
    "beyond_size",
    "by_file_time",
    "by_policy",
    "last_indexed_timestamp",
    "too_old",
]


class SegmentFacts(Protocol):
    """Facts about a segment that decide whether it is deleted."""

    @property
    def base_offset(self) -> int:
        """Base offset of the segment."""

    @property
    def size(self) -> int:
        """Size of its log in bytes."""

    @property
    def largest_timestamp(self) -> int:
        """Largest timestamp in ms; without timestamps the modification time."""


class DeletableSegment(Struct, frozen=True, kw_only=True):
    """Facts about a segment that are passed to a policy."""

    base_offset: int
    size: int
    """size of the log file in bytes"""
    largest_timestamp: int
    """ms since 1970; without timestamps the modification time"""
    modified_ms: int
    """modification time of the log file in ms since 1970"""


DeletionPolicy = Callable[[DeletableSegment], bool]
"""Function that returns whether a segment may be deleted."""


def by_file_time(retention_ms: int, *, now_ms: int | None = None) -> DeletionPolicy:
    """Return the policy of brokers before 0.10.1: a segment may be deleted if its log file was last modified more than
    `retention_ms` ago. `now_ms` is the time to compare with, in ms since 1970; None: the current time, read at each
    call of the policy.
    """

    def may_go(segment: DeletableSegment) -> bool:
        now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        return now - segment.modified_ms > retention_ms

    return may_go


def by_policy(segments: Sequence[SegmentFacts], policy: DeletionPolicy, directory: str) -> int:
    """Return how many of the oldest segments may be deleted: all segments before the first one for which `policy`
    returns False. An empty last segment is never counted. `segments` are all segments of the log in `directory`, oldest
    first. Reads the modification times of the log files. Raises `StorageError` if that fails (`MissingFileError` if a
    file does not exist), and any exception of `policy`.
    """

    def may_go(_: int, segment: SegmentFacts) -> bool:
        path = os.path.join(directory, segment_file(segment.base_offset, FileKind.LOG))
        status = status_of(path)
        if status is None:
            raise MissingFileError(errno.ENOENT, "there is no such file", path)
        modified_ms = status.st_mtime_ns // 1_000_000
        facts = DeletableSegment(
            base_offset=segment.base_offset,
            size=segment.size,
            largest_timestamp=segment.largest_timestamp,
            modified_ms=modified_ms,
        )
        return bool(policy(facts))

    return _leading(segments, may_go)


def _leading(segments: Sequence[SegmentFacts], may_go: Callable[[int, SegmentFacts], bool]) -> int:
    count = 0
    for number, segment in enumerate(segments):
        is_last = number == len(segments) - 1
        if (is_last and segment.size == 0) or not may_go(number, segment):
            break
        count += 1
    return count


def last_indexed_timestamp(index: Source) -> int | None:
    """Return the timestamp (ms) of the last entry of a time index, which a broker takes as the largest of a segment
    that it does not recover (`LogSegment.largestTimestamp`). None if there is no entry, its timestamp is negative, or
    it is 0 and not the only one, as in an index that is not trimmed; the modification time of the log counts then.
    Raises `StorageError` if the index cannot be read.
    """
    last = index.size - index.size % TIME_ENTRY.size - TIME_ENTRY.size
    timestamp: int = TIME_ENTRY.struct.unpack(index.read(last, TIME_ENTRY.size))[0] if last >= 0 else -1
    return timestamp if timestamp > 0 or (timestamp == 0 and last == 0) else None


def below_start(segments: Sequence[SegmentFacts], log_start_offset: int) -> int:
    """Return how many of the oldest segments end at or below the log start offset. The last segment is never
    counted.
    """
    return _leading(
        segments,
        lambda number, _: number + 1 < len(segments) and segments[number + 1].base_offset <= log_start_offset,
    )


def beyond_size(segments: Sequence[SegmentFacts], retention_bytes: int) -> int:
    """Return how many of the oldest segments can be deleted while at least `retention_bytes` of log remain; 0 if
    `retention_bytes` is negative (no limit). An empty last segment is never counted. `segments` are all segments,
    oldest first.
    """
    left = sum(segment.size for segment in segments) - retention_bytes
    if retention_bytes < 0 or left < 0:
        return 0

    def may_go(_: int, segment: SegmentFacts) -> bool:
        nonlocal left
        if left < segment.size:
            return False
        left -= segment.size
        return True

    return _leading(segments, may_go)


def too_old(segments: Sequence[SegmentFacts], retention_ms: int, now_ms: int) -> int:
    """Return how many of the oldest segments have only records older than `retention_ms` at the time `now_ms`; 0 if
    `retention_ms` is negative (no limit). An empty last segment is never counted.
    """
    if retention_ms < 0:
        return 0
    return _leading(segments, lambda _, segment: now_ms - segment.largest_timestamp > retention_ms)
