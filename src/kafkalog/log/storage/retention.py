"""Which segments may go: by the log's start, by size, by age; in this order, always the oldest first.

Decided by `UnifiedLog.deleteOldSegments`.  The last segment may go too, unless it is empty.  A policy of the caller's
may decide instead (`Log.deleteOldSegments(predicate)` of 0.8).
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

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
    "too_old",
]


class SegmentFacts(Protocol):
    """What decides whether a segment may go."""

    @property
    def base_offset(self) -> int:
        """The segment's first offset."""

    @property
    def size(self) -> int:
        """Bytes of its log."""

    @property
    def largest_timestamp(self) -> int:
        """ms; without timestamps the time of the last change."""


class DeletableSegment(NamedTuple):
    """The description of a segment that a policy gets."""

    base_offset: int
    size: int
    """bytes of the log file"""
    largest_timestamp: int
    """ms; without timestamps the time of the last change"""
    modified_ms: int
    """when the log file was changed last"""


DeletionPolicy = Callable[[DeletableSegment], bool]
"""Whether a segment may go."""


def by_file_time(retention_ms: int, *, now_ms: int | None = None) -> DeletionPolicy:
    """The policy of brokers before 0.10.1: segments last modified more than `retention_ms` ago may be deleted.

    * `now_ms`: the time to treat as now; None: the clock's
    """

    def may_go(segment: DeletableSegment) -> bool:
        now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        return now - segment.modified_ms > retention_ms

    return may_go


def by_policy(segments: Sequence[SegmentFacts], policy: DeletionPolicy, directory: str) -> int:
    """How many of the oldest segments a policy lets go."""

    def may_go(_: int, segment: SegmentFacts) -> bool:
        path = os.path.join(directory, segment_file(segment.base_offset, FileKind.LOG))
        status = status_of(path)
        if status is None:
            raise MissingFileError(errno.ENOENT, "there is no such file", path)
        modified_ms = status.st_mtime_ns // 1_000_000
        told = DeletableSegment(segment.base_offset, segment.size, segment.largest_timestamp, modified_ms)
        return bool(policy(told))

    return _leading(segments, may_go)


def _leading(segments: Sequence[SegmentFacts], may_go: Callable[[int, SegmentFacts], bool]) -> int:
    count = 0
    for number, segment in enumerate(segments):
        is_last = number == len(segments) - 1
        if (is_last and segment.size == 0) or not may_go(number, segment):
            break
        count += 1
    return count


def below_start(segments: Sequence[SegmentFacts], log_start_offset: int) -> int:
    """How many segments end at or below the log's start."""
    return _leading(
        segments,
        lambda number, _: number + 1 < len(segments) and segments[number + 1].base_offset <= log_start_offset,
    )


def beyond_size(segments: Sequence[SegmentFacts], retention_bytes: int) -> int:
    """How many segments can go so that at least `retention_bytes` stay; -1 keeps all."""
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
    """How many segments have nothing younger than `retention_ms`; -1 keeps all."""
    if retention_ms < 0:
        return 0
    return _leading(segments, lambda _, segment: now_ms - segment.largest_timestamp > retention_ms)
