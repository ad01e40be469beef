"""Find the first record of a partition with at least a given timestamp. The search is a generator that pauses between
batches, so that a caller can do other work. Only batches that can hold the record are decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import BatchHeader, RecordBatch
from kafkalog.codec.plain.records import decode_batch
from kafkalog.log.reading.readable import OffsetAndTimestamp, ReadablePartition
from kafkalog.log.walk.batches import BatchReader
from kafkalog.log.walk.on_damage import raised
from kafkalog.log.walk.segment import index_of
from kafkalog.log.walk.sliced import Sliced
from kafkalog.log.walk.time_lookup import NewestTimestamps

__all__ = ["Look", "first_since", "looking_for_timestamp"]

Look = Callable[[RecordBatch, int, int, Limits], OffsetAndTimestamp | Finding | None]
"""Function that searches a batch for the first record with at least a timestamp and an offset not below a bound. It
returns None if there is none, and a finding if a fault in the batch may hide the record.
"""


class Searched(ReadablePartition, Protocol):
    """A partition that keeps the timestamps that searches have read."""

    @property
    def newest(self) -> NewestTimestamps:
        """Newest timestamps of its segments."""


def looking_for_timestamp(
    partition: Searched,
    timestamp: int,
    findings: list[Finding] | None = None,
    *,
    through_damage: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    look: Look | None = None,
) -> Sliced[OffsetAndTimestamp | None]:
    """Return a generator that yields None between reads, so that the caller can pause. Its return value is the first
    record, from the log start offset on, whose timestamp is at least `timestamp` (ms since 1970); None if there is
    none, or if damage ends the search. The search skips control records, and what readers skip too: records with
    repeated offsets, and batches that cannot be in their segment. If a batch has a wrong base offset, the returned
    offset is corrected: the batch continues the ones before it. Timestamps of remote segments that are not known yet
    are assumed to rise from segment to segment.

    `look` searches a batch that may hold the record (default: `first_since`). Damage before the record raises
    `FormatError`. If `findings` is a list, the damage is appended to it instead and ends the search. With
    `through_damage` the search continues after damage, and damage is reported only in `findings`, if that is a list.
    Raises `StorageError` if a file cannot be read.
    """
    look = look or first_since
    start = partition.log_start_offset
    first = index_of(partition.segments, start)
    if limits == DEFAULT_LIMITS:
        first = yield from partition.newest.first_with(timestamp)
    walk = BatchReader(
        partition.segments[first:], start_offset=start, start_timestamp=timestamp, through_damage=through_damage,
        raises=findings is None and not through_damage, limits=limits, hold=False,
    )  # fmt: skip
    offset_and_timestamp: OffsetAndTimestamp | None = None
    inside: list[Finding] = []
    reached: int | None = None
    for batch in walk:
        yield
        expected = start if walk.expected is None else walk.expected
        reached = max(start, expected) if reached is None else reached
        if walk.is_passed(batch) and not walk.is_displaced:  # readers do not give its records, nor count its offsets
            continue
        moved = expected - batch.header.first_offset if walk.is_displaced else 0
        low, reached = reached, max(reached, batch.header.next_offset + moved)
        # a v0 or v1 wrapper's own timestamp is the largest of its messages, as max_timestamp is in v2
        if batch.header.max_timestamp >= timestamp and not batch.header.is_control:
            answer = look(batch, timestamp, low - moved, limits)
            if isinstance(answer, Finding):
                inside.append(answer if walk.segment is None else answer.in_file(walk.segment.path))
            elif answer is not None:
                offset_and_timestamp = answer._replace(offset=answer.offset + moved)
        if offset_and_timestamp is not None or (inside and not through_damage):
            break
    if findings is not None:
        findings.extend([*walk.findings, *inside])
    elif inside and not through_damage:
        raise raised(inside[0])
    return offset_and_timestamp


def first_since(
    batch: RecordBatch, timestamp: int, start: int, limits: Limits
) -> OffsetAndTimestamp | Finding | None:
    """Return the first record of a batch with this timestamp (ms) or a later one and an offset that is not below
    `start`. The leader epoch in it is -1 for magic 0 and 1. If there is no such record, return the finding about the
    first fault in the batch, because the fault may hide it. If the batch is sound, return None.
    """
    epoch = batch.header.partition_leader_epoch if isinstance(batch.header, BatchHeader) else -1
    decoded = decode_batch(batch, limits=limits)
    for record in decoded.records:
        if record.timestamp >= timestamp and record.offset >= start:
            return OffsetAndTimestamp(record.offset, record.timestamp, epoch)
    return decoded.finding
