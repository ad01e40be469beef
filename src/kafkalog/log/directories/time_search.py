"""The first record of a partition with at least a timestamp, in slices, from the batches that can hold it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kafkalog.codec.findings import Finding
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import BatchHeader, RecordBatch
from kafkalog.codec.records import decode_batch
from kafkalog.log.reading.readable import OffsetAndTimestamp, ReadablePartition
from kafkalog.log.walk.batches import BatchReader
from kafkalog.log.walk.segment import index_of
from kafkalog.log.walk.sliced import Sliced
from kafkalog.log.walk.time_lookup import NewestTimestamps

__all__ = ["Look", "first_since", "looking_for_timestamp"]

Look = Callable[[RecordBatch, int, int, Limits], OffsetAndTimestamp | None]
"""Looks in a batch for the first record with at least a timestamp that is not below an offset."""


class Searched(ReadablePartition, Protocol):
    """A partition that keeps what look-ups learn."""

    @property
    def newest(self) -> NewestTimestamps:
        """The newest timestamps of its segments."""


def looking_for_timestamp(
    partition: Searched,
    timestamp: int,
    findings: list[Finding] | None = None,
    *,
    through_damage: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    look: Look | None = None,
) -> Sliced[OffsetAndTimestamp | None]:
    """`Partition.offset_for_timestamp` in slices; `look` looks for the record in a batch that may hold it."""
    look = look or first_since
    start = partition.log_start_offset
    first = index_of(partition.segments, start)
    if limits == DEFAULT_LIMITS:
        first = yield from partition.newest.first_with(timestamp)
    walk = BatchReader(
        partition.segments[first:], start_offset=start, start_timestamp=timestamp, through_damage=through_damage,
        limits=limits, hold=False,
    )  # fmt: skip
    found = None
    for batch in walk:
        yield
        # a v0 or v1 wrapper's own timestamp is the largest of its messages, as max_timestamp is in v2
        if batch.header.max_timestamp >= timestamp and not batch.header.is_control:
            found = look(batch, timestamp, start, limits)
        if found is not None:
            break
    if findings is not None:
        findings.extend(walk.findings)
    return found


def first_since(batch: RecordBatch, timestamp: int, start: int, limits: Limits) -> OffsetAndTimestamp | None:
    """The first record of a batch with at least this timestamp that is not below `start`."""
    epoch = batch.header.partition_leader_epoch if isinstance(batch.header, BatchHeader) else -1
    for record in decode_batch(batch, limits=limits).records:
        if record.timestamp >= timestamp and record.offset >= start:
            return OffsetAndTimestamp(record.offset, record.timestamp, epoch)
    return None
