"""Reading by offset as a consumer of Kafka's documentation does: a chunk of bytes, larger if a message needs it.

"In the event of an abnormally large message, the read can be retried multiple times, each time doubling the buffer
size, until the message is read successfully."  A chunk never goes beyond its segment (`LocalLog.read`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from kafkalog.codec.errors import LimitExceeded, UsageError
from kafkalog.codec.findings import Severity
from kafkalog.codec.limits import DEFAULT_LIMITS, MIB, Limits
from kafkalog.codec.model import NO_PARTITION_LEADER_EPOCH, Record, RecordBatch
from kafkalog.codec.records import iter_records
from kafkalog.codec.scan import Scanner, scan
from kafkalog.log.consumer_view import raised
from kafkalog.log.segment import Segment

__all__ = ["Chunk", "FetchableLog", "OffsetOutOfRangeError", "fetch"]


class OffsetOutOfRangeError(UsageError):
    """An offset that the log does not hold; the valid range is `start` to `end`, where nothing is read."""

    def __init__(self, offset: int, start: int, end: int) -> None:
        self.offset = offset
        self.start = start
        self.end = end
        super().__init__(f"offset {offset} is out of range: the log holds {start} to {end}")


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one read gives; iterates over the records from the asked offset on, control records left out."""

    offset: int
    """that was asked for"""
    data: bytes
    """whole batches, the first of which holds the offset; empty at the end of the log"""
    max_bytes: int
    """the size that the chunk grew to"""
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    """of the first batch"""

    @property
    def batches(self) -> tuple[RecordBatch, ...]:
        """The batches; positions count from the start of the chunk."""
        return scan(self.data).batches

    @property
    def next_offset(self) -> int:
        """Offset to read from next."""
        batches = self.batches
        return batches[-1].header.next_offset if batches else self.offset

    def __iter__(self) -> Iterator[Record]:
        for batch in self.batches:
            if not batch.header.is_control:
                yield from (record for record in iter_records(batch) if record.offset >= self.offset)


class FetchableLog(Protocol):
    """What reading by offset needs to know of a log, be it on a disk or open for writing."""

    @property
    def log_start_offset(self) -> int:
        """First offset a consumer may read."""

    def log_end_offset(self, *, limits: Limits = DEFAULT_LIMITS) -> int:
        """Offset that the next record would get."""

    def segments_from(self, offset: int) -> Iterator[Segment]:
        """The segment that holds `offset`, if any does, and those after it."""


def fetch(
    log: FetchableLog,
    offset: int,
    max_bytes: int = MIB,
    *,
    end_offset: int | None = None,
    max_chunk_bytes: int = 64 * MIB,
    limits: Limits = DEFAULT_LIMITS,
) -> Chunk:
    """At most `max_bytes` of whole batches from `offset` on, at least one batch.

    If the first batch does not fit, the size doubles until it does; `LimitExceeded` if it would exceed
    `max_chunk_bytes`.  `OffsetOutOfRangeError` outside of the log, whose end is looked for unless `end_offset` says it.
    Damage at the offset raises `FormatError`; after it, the chunk ends before.
    """
    if max_bytes < 1 or max_chunk_bytes < max_bytes:
        raise UsageError("max_bytes must be positive, and max_chunk_bytes no less")
    if offset >= log.log_start_offset and (end_offset is None or offset < end_offset):
        for segment in log.segments_from(offset):
            chunk = _read(segment, offset, max_bytes, max_chunk_bytes, limits)
            if chunk is not None:
                return chunk
    start = log.log_start_offset  # which retention may have raised meanwhile
    end = log.log_end_offset(limits=limits) if end_offset is None else end_offset
    if not start <= offset <= end:
        raise OffsetOutOfRangeError(offset, start, end)
    return Chunk(offset, b"", max_bytes)


def _read(segment: Segment, offset: int, max_bytes: int, most: int, limits: Limits) -> Chunk | None:
    """What the segment has from an offset on; None if nothing."""
    with segment.open() as source:
        position = segment.position_of(offset, source, limits=limits)
        scanner = Scanner(source, position=position, limits=limits)
        size, epoch, taken = max_bytes, NO_PARTITION_LEADER_EPOCH, bytearray()
        for batch in scanner:
            if batch.last_offset < offset:
                continue
            if not taken:
                if batch.size > most:
                    raise LimitExceeded(
                        f"the batch of {batch.size} bytes with offset {offset} does not fit into a chunk",
                        limit="max_chunk_bytes",
                        position=batch.position,
                        source=segment.path,
                    )
                while size < batch.size:
                    size = min(size * 2, most)
                epoch = batch.header.partition_leader_epoch
            if len(taken) + batch.size > size:
                break
            taken += batch.data
        if taken:
            return Chunk(offset, bytes(taken), size, epoch)
        for finding in scanner.findings:
            if finding.severity is Severity.ERROR:
                raise raised(finding.in_file(segment.path))
    return None
