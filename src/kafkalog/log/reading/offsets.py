"""Find offsets before a time as consumers up to Kafka 0.10 requested them (`Log.legacyFetchOffsetsBefore`). The answer
depends on the modification times of the segments' files; this is coarse, but before messages had timestamps there was
no other way. `Partition.offset_for_timestamp` is exact.
"""

from __future__ import annotations

import time

from kafkalog.codec.common.errors import UsageError
from kafkalog.log.reading.readable import ReadablePartition

__all__ = ["EARLIEST", "LATEST", "offsets_before"]

LATEST = -1
EARLIEST = -2


def offsets_before(
    partition: ReadablePartition,
    timestamp: int,
    max_count: int,
    *,
    end_offset: int | None = None,
    now_ms: int | None = None,
) -> list[int]:
    """Return at most `max_count` base offsets of segments, in descending order. The first belongs to the last segment
    whose file was modified at or before `timestamp` (ms since 1970). The others belong to the segments before it.
    Return an empty list if no segment is old enough or the log has no segments. With `LATEST` (-1) all segments count;
    with `EARLIEST` (-2) only the first.

    A base offset below the log start offset is replaced by it. If the last segment is not empty, the log end offset
    counts as one more segment, modified at `now_ms` (None: now). `end_offset` is the log end offset; None: the log is
    read to find it, which may raise `StorageError`. Raises `UsageError` if `max_count` is not positive or `timestamp`
    is below -2.
    """
    if max_count < 1:
        raise UsageError("max_count must be positive")
    if timestamp < EARLIEST:
        raise UsageError(f"timestamp {timestamp}")
    if not partition.segments:
        return []
    start = partition.log_start_offset
    known = [(max(s.base_offset, start), s.modified_ns // 1_000_000) for s in partition.segments]
    if partition.segments[-1].size > 0:
        end = partition.log_end_offset() if end_offset is None else end_offset
        known.append((end, time.time_ns() // 1_000_000 if now_ms is None else now_ms))
    if timestamp == LATEST:
        last = len(known)
    elif timestamp == EARLIEST:
        last = 1
    else:
        last = max((number + 1 for number, (_, modified) in enumerate(known) if modified <= timestamp), default=0)
    return sorted((offset for offset, _ in known[max(last - max_count, 0) : last]), reverse=True)
