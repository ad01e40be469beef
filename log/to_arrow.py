"""A whole partition as one stream of Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalog.codec.errors import FormatError, UsageError
from kafkalog.codec.fast.arrow import NO_END, ArrowAssembler, Bounds
from kafkalog.codec.fast.choice import kernel_is_worth_it
from kafkalog.codec.fast.schema import record_schema
from kafkalog.codec.findings import Finding
from kafkalog.codec.limits import DEFAULT_LIMITS, MIB, Limits
from kafkalog.codec.model import AbortedTransaction
from kafkalog.codec.scan import MAGIC_POSITION
from kafkalog.log.batch_filter import BatchFilter
from kafkalog.log.in_order import InOrder
from kafkalog.log.records import ISOLATION_LEVELS, READ_COMMITTED
from kafkalog.log.segment import Segment
from kafkalog.log.slices import Damage, Slice, SliceReader
from kafkalog.log.spans import BATCH_MAGIC, Span, spans

if TYPE_CHECKING:
    from kafkalog.log.partition import Partition

__all__ = ["partition_to_arrow"]

_PART_BYTES = 4 * MIB
"""How much of a segment a thread reads at a time."""


def partition_to_arrow(
    partition: Partition,
    columns: Iterable[str] | None = None,
    *,
    start_offset: int | None = None,
    end_offset: int | None = None,
    start_timestamp: int | None = None,
    end_timestamp: int | None = None,
    isolation_level: str,
    batches: BatchFilter | None = None,
    batch_rows: int = 65_536,
    batch_bytes: int = 16 * MIB,
    findings: list[Finding] | None = None,
    threads: int = 1,
    limits: Limits = DEFAULT_LIMITS,
) -> pa.RecordBatchReader:
    """See `Partition.to_arrow`."""
    if isolation_level not in ISOLATION_LEVELS:
        raise UsageError(f"isolation level {isolation_level!r} is none of {', '.join(ISOLATION_LEVELS)}")
    if batch_rows < 1 or batch_bytes < 1 or threads < 1:
        raise UsageError("batch_rows, batch_bytes and threads must be positive")
    schema = record_schema(columns)
    low = _start(partition, start_offset, start_timestamp, limits)
    high = _end(partition, end_offset, end_timestamp, limits)
    aborted = None
    if isolation_level == READ_COMMITTED:
        transactions = partition.transactions(limits=limits)
        aborted = transactions.aborted
        # not the last stable offset, which is at damage where there is some: reading has to meet it
        high = min([high, *transactions.open_first_offsets.values()])

    segments = partition.segments
    below = [number for number, segment in enumerate(segments) if segment.base_offset <= low]
    wanted = segments[below[-1] if below else 0 :]
    work_bytes = sum(segment.size for segment in wanted)

    def assembler() -> ArrowAssembler:
        return ArrowAssembler(
            schema,
            topic=partition.topic,
            partition=partition.partition,
            bounds=Bounds(batch_rows, batch_bytes, first_rows=batch_rows),
            limits=limits,
            work_bytes=work_bytes,
        )

    reading = _Reading(assembler, aborted, batches, limits)
    if threads > 1 and kernel_is_worth_it(work_bytes):
        pieces = reading.in_threads(_parts(_slices(wanted, low, high, limits), limits), threads)
    else:
        pieces = reading.one_by_one(part for _, part in _slices(wanted, low, high, limits))
    return pa.RecordBatchReader.from_batches(schema, _undamaged(pieces, findings))


def _undamaged(pieces: Iterable[pa.RecordBatch | Damage], findings: list[Finding] | None) -> Iterator[pa.RecordBatch]:
    for piece in pieces:
        if not isinstance(piece, Damage):
            yield piece
            continue
        found = piece.finding
        if findings is None:
            raise FormatError(found.detail, position=found.position, source=found.file, code=found.code)
        findings.append(found)
        return


def _slices(wanted: Sequence[Segment], low: int, high: int, limits: Limits) -> Iterator[tuple[Segment, Slice]]:
    """One for each segment."""
    for number, segment in enumerate(wanted):
        start = 0
        if number == 0:
            with segment.open() as source:
                start = segment.position_of(low, source, limits=limits)
        last = number == len(wanted) - 1
        yield segment, Slice(segment.path, start, segment.size, segment.base_offset, low, high, is_last=last)


def _parts(slices: Iterable[tuple[Segment, Slice]], limits: Limits) -> list[Slice]:
    """In pieces that threads can share."""
    return [
        replace(
            whole,
            start=max(span.start, whole.start),
            end=span.end,
            start_offset=max(span.first_offset, whole.start_offset),
            is_last=whole.is_last and span.end == whole.end,
        )
        for segment, whole in slices
        if segment.base_offset < whole.end_offset
        for span in _spans(segment, limits)
        if span.end > whole.start and span.first_offset < whole.end_offset
    ]


def _spans(segment: Segment, limits: Limits) -> list[Span]:
    with segment.open() as source:
        head = source.read(0, MAGIC_POSITION + 1)
    if len(head) > MAGIC_POSITION and head[MAGIC_POSITION] < BATCH_MAGIC:
        # entries of magic 0 and 1 are mostly single messages: finding a cut among them takes longer than reading them
        return [Span(0, segment.size, segment.base_offset, segment.base_offset)]
    return spans(segment, _PART_BYTES, limits=limits)


class _Reading:
    """Reads slices one behind the other, each from where the one before it ended."""

    def __init__(
        self,
        assembler: Callable[[], ArrowAssembler],
        aborted: Sequence[AbortedTransaction] | None,
        batches: BatchFilter | None,
        limits: Limits,
    ) -> None:
        self._assembler = assembler
        self._aborted = aborted
        self._batches = batches
        self._limits = limits
        self._idle: list[ArrowAssembler] = []

    def _reader(self, part: Slice, next_offset: int, assembler: ArrowAssembler) -> SliceReader:
        part = replace(part, start_offset=max(part.start_offset, next_offset))
        return SliceReader(part, assembler, aborted=self._aborted, batches=self._batches, limits=self._limits)

    def _part(self, part: Slice, next_offset: int = -1) -> Iterator[pa.RecordBatch | Damage | int]:
        """Its pieces, at last the offset behind them."""
        try:
            assembler = self._idle.pop()
        except IndexError:
            assembler = self._assembler()
        reader = self._reader(part, next_offset, assembler)
        damaged = False
        for piece in reader:
            damaged = damaged or isinstance(piece, Damage)
            yield piece
        if not damaged:
            self._idle.append(assembler)
        yield reader.next_offset

    def one_by_one(self, slices: Iterable[Slice]) -> Iterator[pa.RecordBatch | Damage]:
        assembler, next_offset = self._assembler(), -1
        for part in slices:
            if max(next_offset, part.start_offset) >= part.end_offset:
                return
            reader = self._reader(part, next_offset, assembler)
            yield from reader
            next_offset = reader.next_offset

    def in_threads(self, slices: Sequence[Slice], threads: int) -> Iterator[pa.RecordBatch | Damage]:
        """The same rows; a slice that repeats offsets of those before it is read again without them."""
        works = [partial(self._part, part) for part in slices]
        next_offset = -1
        with InOrder[pa.RecordBatch | Damage | int](works, threads) as under_way:
            for number, part in enumerate(slices):
                if max(next_offset, part.start_offset) >= part.end_offset:
                    return
                pieces = under_way.items(number)
                if next_offset > part.start_offset:
                    for _ in pieces:
                        pass
                    pieces = self._part(part, next_offset)
                for piece in pieces:
                    if isinstance(piece, int):
                        next_offset = piece
                    else:
                        yield piece


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
