"""The records of a partition as a consumer sees them, from the files alone.

From the log start offset on, control records left out; with `read_committed` also without the records of aborted
transactions and with nothing at or above the last stable offset.  Decided by the consumer's `CompletedFetch` and the
broker's `UnifiedLog`.  What stops a consumer stops this reader: records before damage are yielded, the finding is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from kafkalog.codec.errors import UsageError
from kafkalog.codec.findings import Finding, FindingCode, Severity, StopReason
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import CONTROL_FLAG, BatchHeader, Record, RecordBatch
from kafkalog.codec.records import decode_batch
from kafkalog.log.batch_filter import BatchFilter
from kafkalog.log.readable import ReadablePartition
from kafkalog.log.segment import Segment
from kafkalog.log.transactions import AbortedFilter
from kafkalog.log.walk import BatchReader

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["ISOLATION_LEVELS", "RecordReader"]

READ_UNCOMMITTED = "read_uncommitted"
READ_COMMITTED = "read_committed"
NO_END = 2**63 - 1
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
ISOLATION_LEVELS = (READ_UNCOMMITTED, READ_COMMITTED)


class TakeRun(Protocol[T_co]):
    """What makes something of many batches at once."""

    def __call__(self, run: BatchRun, low: npt.NDArray[np.int64], high: int, /) -> Iterator[T_co | range]:
        """Of each batch the records from `low` up to `high`; a range of numbers gives batches back, in their place."""


class RecordReader:
    """Iterates over records; afterwards `findings` and `stop` tell whether that was all.

    `start_offset` is inclusive, `end_offset` exclusive.  `all_records` gives everything in the files: control records,
    what lies below the log start offset, aborted transactions, repeated offsets, and what stands behind damage.  What
    `batches` does not accept is not opened.
    """

    def __init__(
        self,
        partition: ReadablePartition,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        isolation_level: str = READ_UNCOMMITTED,
        include_control: bool = False,
        all_records: bool = False,
        batches: BatchFilter | None = None,
        limits: Limits = DEFAULT_LIMITS,
        on_bytes: Callable[[int], None] | None = None,
    ) -> None:
        if isolation_level not in ISOLATION_LEVELS:
            raise UsageError(f"isolation level {isolation_level!r} is none of {', '.join(ISOLATION_LEVELS)}")
        self._partition = partition
        self._limits = limits
        self._control = include_control or all_records
        self._all = all_records
        self._committed = isolation_level == READ_COMMITTED and not all_records
        self._end_offset = end_offset
        self._next_offset: int | None = start_offset
        if not all_records:
            self._next_offset = max(partition.log_start_offset, start_offset or 0)
        self._start_offset = self._next_offset
        self._aborted: AbortedFilter | None = None
        self._filter = batches
        self._ended = False
        self._batches = BatchReader(
            partition.segments,
            start_offset=self._next_offset,
            through_damage=all_records,
            limits=limits,
            on_bytes=on_bytes,
        )

    @property
    def findings(self) -> list[Finding]:
        """What was wrong so far; file and position say where."""
        return self._batches.findings

    @property
    def stop(self) -> StopReason | None:
        """Why the reading ended; None before that, or if `end_offset` ended it."""
        return self._batches.stop

    @property
    def damaged_at(self) -> tuple[Segment, int] | None:
        """Where damage ended the reading: the segment, and the position in it; None at the end of a log."""
        return self._batches.damaged_at

    @property
    def segment(self) -> Segment | None:
        """Where the latest record stands."""
        return self._batches.segment

    def __iter__(self) -> Iterator[Record]:
        for _batch, records in self.by_batch():
            yield from records

    def by_batch(self) -> Iterator[tuple[RecordBatch, Sequence[Record]]]:
        """The records batch by batch, each with its batch; batches without any are left out."""
        for found in self._read(None):
            if isinstance(found, tuple):
                yield found

    def by_run(self, take: TakeRun[T]) -> Iterator[T | tuple[RecordBatch, Sequence[Record]]]:
        """As `by_batch`, with runs of ordinary batches given to `take`, whatever it makes of them; see `TakeRun`."""
        return self._read(take)

    def _read(self, take: TakeRun[T] | None) -> Iterator[T | tuple[RecordBatch, Sequence[Record]]]:
        end = self._end_offset
        if self._committed:
            transactions = self._partition.transactions(limits=self._limits)
            self._aborted = AbortedFilter(transactions.aborted) if transactions.aborted else None
            self.findings.extend(transactions.findings)
            # not the last stable offset, which is at damage where there is some: reading has to meet it
            undecided = transactions.open_first_offsets.values()
            end = min([*undecided, *([] if end is None else [end])], default=None)
        met = self._ended = False
        for found in self._batches if take is None else self._batches.by_run():
            met = True
            if isinstance(found, RecordBatch):
                yield from self._one(found, end)
            elif take is not None:
                yield from self._run(found, end, take)
            if self._is_over():
                return
        if not met:
            self._nothing_met()

    def _run(
        self, run: BatchRun, end: int | None, take: TakeRun[T]
    ) -> Iterator[T | tuple[RecordBatch, Sequence[Record]]]:
        import numpy as np

        from kafkalog.codec.kernels.select_batches import consecutive_batches

        high = NO_END if end is None else end
        lows = np.empty(len(run), np.int64)
        while len(run) and not self._is_over():
            first = int(run["base_offset"][0])
            count = 0
            if not self._all:
                count = consecutive_batches(run.table, self._next_offset or 0, first, high, CONTROL_FLAG, lows)
            if count == 0:
                yield from self._one(run.batch(0), end)
                run = run.part(1, len(run))
                continue
            part, run = run.part(0, count), run.part(count, len(run))
            low, following = lows[:count].copy(), part.next_offset
            if self._aborted is not None:
                committed = ~self._aborted.rejected(part)
                part, low = part.where(committed), low[committed]
            if self._filter is not None:
                chosen = self._filter.chosen(part)
                part, low = part.where(chosen), low[chosen]
            for made in take(part, low, high):
                if not isinstance(made, range):
                    yield made
                    continue
                for number in made:
                    self._next_offset = int(low[number])
                    yield from self._one(part.batch(number), end, is_committed=True)
                    if self._is_over():
                        return
            self._next_offset = following
            self._ended = following >= high

    def _is_over(self) -> bool:
        return self._ended

    def _one(
        self, batch: RecordBatch, end: int | None, *, is_committed: bool = False
    ) -> Iterator[tuple[RecordBatch, Sequence[Record]]]:
        first = batch.header.base_offset if isinstance(batch.header, BatchHeader) else None
        if end is not None and first is not None and first >= end and not self._all:
            self._ended = True
            return
        records: Sequence[Record] = ()
        finding = None
        unwanted = batch.header.is_control and not self._control
        unwanted = unwanted or (not is_committed and self._aborted is not None and self._aborted.rejects(batch))
        if not unwanted and (self._filter is None or self._filter.accepts(batch.header)):
            decoded = decode_batch(batch, limits=self._limits)
            finding = decoded.finding
            records = self._wanted(decoded.records, end)
        if records:
            yield batch, records
        if finding is not None:
            segment = self._batches.segment
            if segment is not None:
                finding = finding.in_file(segment.path)
            self._batches.stop_at(finding, batch)
            if not self._all:
                self._ended = True
                return
        if self._next_offset is not None:
            self._next_offset = max(self._next_offset, batch.header.next_offset)
        if not self._all and end is not None and self._next_offset is not None and self._next_offset >= end:
            self._ended = True

    def _wanted(self, records: tuple[Record, ...], end: int | None) -> Sequence[Record]:
        low = self._start_offset if self._all else self._next_offset
        if not records:
            return records
        offsets = [record.offset for record in records]  # a valid checksum does not promise that they increase
        if (low is None or min(offsets) >= low) and (end is None or max(offsets) < end):
            return records
        return [
            record
            for record in records
            if (low is None or record.offset >= low) and (end is None or record.offset < end)
        ]

    def _nothing_met(self) -> None:
        """Say so where a log start offset beyond the end hides everything that is in the files."""
        partition = self._partition
        start = partition.log_start_offset
        if self._all or not any(segment.size for segment in partition.segments):
            return
        end = partition.log_end_offset(limits=self._limits)
        if end < start:
            detail = f"the log start offset {start} lies above the log end offset {end}: nothing is left to a consumer"
            code = FindingCode.LOG_END_BELOW_LOG_START
            self.findings.append(Finding(code, Severity.ERROR, None, end, detail, partition.path))
