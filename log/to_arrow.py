"""A whole partition as one stream of Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalog.codec.errors import FormatError, UsageError
from kafkalog.codec.fast.arrow import NO_END, ArrowAssembler, Bounds
from kafkalog.codec.fast.schema import record_schema
from kafkalog.codec.findings import Finding
from kafkalog.codec.limits import DEFAULT_LIMITS, MIB, Limits
from kafkalog.log.records import ISOLATION_LEVELS, READ_COMMITTED
from kafkalog.log.slices import Damage, Slice, SliceReader

if TYPE_CHECKING:
    from kafkalog.log.partition import Partition

__all__ = ["partition_to_arrow"]


def partition_to_arrow(
    partition: Partition,
    columns: Iterable[str] | None = None,
    *,
    start_offset: int | None = None,
    end_offset: int | None = None,
    start_timestamp: int | None = None,
    end_timestamp: int | None = None,
    isolation_level: str,
    batch_rows: int = 65_536,
    batch_bytes: int = 32 * MIB,
    findings: list[Finding] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> pa.RecordBatchReader:
    """See `Partition.to_arrow`."""
    if isolation_level not in ISOLATION_LEVELS:
        raise UsageError(f"isolation level {isolation_level!r} is none of {', '.join(ISOLATION_LEVELS)}")
    if batch_rows < 1 or batch_bytes < 1:
        raise UsageError("batch_rows and batch_bytes must be positive")
    schema = record_schema(columns)
    low = _start(partition, start_offset, start_timestamp, limits)
    high = _end(partition, end_offset, end_timestamp, limits)
    aborted = None
    if isolation_level == READ_COMMITTED:
        transactions = partition.transactions(limits=limits)
        aborted = transactions.aborted
        # not the last stable offset, which is at damage where there is some: reading has to meet it
        high = min([high, *transactions.open_first_offsets.values()])

    def batches() -> Iterator[pa.RecordBatch]:
        next_offset = low
        segments = partition.segments
        below = [number for number, segment in enumerate(segments) if segment.base_offset <= low]
        wanted = segments[below[-1] if below else 0 :]
        assembler = ArrowAssembler(
            schema,
            topic=partition.topic,
            partition=partition.partition,
            bounds=Bounds(batch_rows, batch_bytes, first_rows=batch_rows),
            limits=limits,
            work_bytes=sum(segment.size for segment in wanted),
        )
        for number, segment in enumerate(wanted):
            if next_offset >= high:
                return
            start = 0
            if number == 0:
                with segment.open() as source:
                    start = segment.position_of(low, source, limits=limits)
            last = number == len(wanted) - 1
            part = Slice(segment.path, start, segment.size, segment.base_offset, next_offset, high, is_last=last)
            reader = SliceReader(part, assembler, aborted=aborted, limits=limits)
            for piece in reader:
                if not isinstance(piece, Damage):
                    yield piece
                    continue
                if findings is not None:
                    findings.append(piece.finding)
                    return
                found = piece.finding
                raise FormatError(found.detail, position=found.position, source=found.file, code=found.code)
            next_offset = reader.next_offset

    return pa.RecordBatchReader.from_batches(schema, batches())


def _start(partition: Partition, offset: int | None, timestamp: int | None, limits: Limits) -> int:
    low = max(partition.log_start_offset, offset or 0)
    if timestamp is not None:
        found = partition.offset_for_timestamp(timestamp, limits=limits)
        low = max(low, NO_END if found is None else found.offset)
    return low


def _end(partition: Partition, offset: int | None, timestamp: int | None, limits: Limits) -> int:
    high = NO_END if offset is None else offset
    if timestamp is not None:
        found = partition.offset_for_timestamp(timestamp, limits=limits)
        high = min(high, NO_END if found is None else found.offset)
    return high
