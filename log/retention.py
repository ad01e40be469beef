"""Which segments may go: by the log's start, by size, by age; in this order, always the oldest first.

Decided by `UnifiedLog.deleteOldSegments`.  The last segment may go too, unless it is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

__all__ = ["below_start", "beyond_size", "too_old"]


class SegmentFacts(Protocol):
    """What decides whether a segment may go."""

    @property
    def base_offset(self) -> int:
        """Its first offset."""

    @property
    def size(self) -> int:
        """Bytes of its log."""

    @property
    def largest_timestamp(self) -> int:
        """ms; without timestamps the time of the last change."""


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
