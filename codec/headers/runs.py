"""Runs of sound v2 batches with their headers as columns in memory of their own.

Compiled code (`native/runs.c`) computes facts about all batches of a run. numpy is loaded only for readers that ask for
arrays.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import (
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_FLAG,
    AnyHeader,
    BatchHeader,
    Codec,
    RecordBatch,
)
from kafkalog.codec.native import functions
from kafkalog.codec.native.cells import Cells
from kafkalog.codec.native.tables import HeaderColumn, RunFacts, Table, names
from kafkalog.codec.rules.batches import BatchVerdict

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

__all__ = ["BatchRun"]

_OVERHEAD = LOG_OVERHEAD.size
_ROWS = {name: number for number, name in enumerate(names(HeaderColumn))}


class BatchRun:
    """Consecutive v2 batches whose size and checksum are right. `run["base_offset"]` is the column of that field.
    Iteration yields single batches.
    """

    has_producers = True
    """whether batches of this format can have a producer"""
    verdict = BatchVerdict.KEEP
    findings: Sequence[Finding] = ()
    expected: int | None = None
    last_before: int | None = None
    """last offset before the run; None if the run was not compared with earlier batches, or is the first"""
    reached = 0

    def __init__(self, table: Table | Cells, window: bytes | memoryview, window_start: int) -> None:
        self.cells = table if isinstance(table, Cells) else Cells.of(HeaderColumn, table)
        """columns of `HeaderColumn`; positions count from the start of `window`"""
        self._window = window
        self._window_start = window_start
        self._facts: memoryview | None = None

    def __len__(self) -> int:
        return self.cells.columns

    def __getitem__(self, name: str) -> Int64s:
        column: Int64s = self.table[_ROWS[name]]
        return column

    @property
    def table(self) -> Table:
        """Columns as a numpy array, not contiguous."""
        return self.cells.table()

    def fact(self, fact: RunFacts) -> int:
        """Return a fact about all batches of the run, which must not be empty. All facts are computed at the first call
        and cached.
        """
        if self._facts is None:
            self._facts = functions.facts_of_run(self.cells)
        return self._facts[fact]

    @property
    def attributes(self) -> memoryview:
        """Attributes of all batches."""
        return self.row(HeaderColumn.ATTRIBUTES)

    @property
    def producer_ids(self) -> memoryview:
        """Producer ids of all batches."""
        return self.row(HeaderColumn.PRODUCER_ID)

    def column(self, number: int) -> list[int]:
        """Return all fields of batch `number`, the last its position in `window`."""
        return self.cells.column(number)

    def row(self, row: HeaderColumn) -> memoryview:
        """Return one field of all batches, as int64."""
        return self.cells.row(row)

    def value(self, row: HeaderColumn, number: int) -> int:
        """Return one field of batch `number`."""
        return self.cells.value(row, number)

    @property
    def starts(self) -> Int64s:
        """Positions of the batches in `window`, in bytes."""
        starts: Int64s = self.table[HeaderColumn.POSITION]
        return starts

    @property
    def positions(self) -> Int64s:
        """Positions of the batches in the file, in bytes."""
        return self.starts + self._window_start

    @property
    def sizes(self) -> Int64s:
        """Sizes of the whole batches in bytes."""
        return self["batch_length"] + LOG_OVERHEAD.size

    @property
    def last_offsets(self) -> Int64s:
        """Offset of the last record of each batch when it was produced."""
        return self["base_offset"] + self["last_offset_delta"]

    def last_offset(self, number: int) -> int:
        """Return the offset of the last record of batch `number` when it was produced."""
        return self.value(HeaderColumn.BASE_OFFSET, number) + self.value(HeaderColumn.LAST_OFFSET_DELTA, number)

    @property
    def first_timestamps(self) -> Int64s:
        """Timestamp of the first record of each batch in ms since 1970, as `BatchHeader.first_timestamp`. If the header
        does not have it (LogAppendTime, a delete horizon or a negative base timestamp), it is the batch's largest
        timestamp.
        """
        base = self["base_timestamp"]
        is_told = (self["attributes"] & (TIMESTAMP_TYPE_FLAG | DELETE_HORIZON_FLAG) == 0) & (base >= 0)
        timestamps = self["max_timestamp"].copy()
        timestamps[is_told] = base[is_told]
        return timestamps

    @property
    def window_start(self) -> int:
        """Position of `window` in the file."""
        return self._window_start

    @property
    def window(self) -> bytes | memoryview:
        """Bytes that contain the batches."""
        return self._window

    @property
    def end(self) -> int:
        """Position in the file after the last batch."""
        last, value = self.cells.columns - 1, self.cells.value
        start = self._window_start + value(HeaderColumn.POSITION, last)
        return start + value(HeaderColumn.BATCH_LENGTH, last) + _OVERHEAD

    @property
    def size(self) -> int:
        """Bytes in the file from the first batch to the end of the last."""
        return self.end - self.position(0)

    def position(self, number: int) -> int:
        """Return the position of batch `number` in the file, in bytes."""
        return self.value(HeaderColumn.POSITION, number) + self._window_start

    @property
    def first_offset(self) -> int:
        """Base offset of the first batch."""
        return self.value(HeaderColumn.BASE_OFFSET, 0)

    def lowest_offset(self, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return the base offset of the first batch."""
        return self.first_offset

    @property
    def final_offset(self) -> int:
        """Last offset of the last batch."""
        return self.last_offset(len(self) - 1)

    @property
    def next_offset(self) -> int:
        """Offset after the largest one of the run."""
        return self.fact(RunFacts.LARGEST_LAST_OFFSET) + 1

    @property
    def magic(self) -> int:
        """Message format of the first batch."""
        return self.value(HeaderColumn.MAGIC, 0)

    @property
    def are_codecs_known(self) -> bool:
        """Whether consumers know the compression of each batch."""
        return self.fact(RunFacts.UNKNOWN_CODECS) == 0

    def columns(self) -> BatchRun:
        """Return this run, whose fields are columns."""
        return self

    def codecs_and_times(self) -> tuple[Mapping[str, int], tuple[int, int] | None]:
        """Return the number of batches by name of the codec (without those of an unknown one), and the smallest and
        largest timestamp in ms since 1970; None instead of the timestamps if no batch has one.
        """
        counts, times = functions.summarize_run(self.cells)
        return {codec.label: counts[codec] for codec in Codec if counts[codec]}, times

    def gaps(self) -> Iterator[tuple[int, int, int]]:
        """Yield a tuple for each gap between two batches, and between `last_before` (None: unknown) and the first
        batch. The tuple has the last offset before the gap, the first offset after it, and the position of the batch
        after it in the file. Offsets must increase.
        """
        first, before = self.first_offset, self.last_before
        if before is not None and first > before + 1:
            yield before, first, self.position(0)
        numbers = functions.gaps_of_run(self.cells)
        if not numbers:
            return
        bases, deltas = self.row(HeaderColumn.BASE_OFFSET), self.row(HeaderColumn.LAST_OFFSET_DELTA)
        positions = self.row(HeaderColumn.POSITION)
        for number in numbers:
            yield bases[number - 1] + deltas[number - 1], bases[number], self._window_start + positions[number]

    @property
    def final_epoch(self) -> int:
        """Leader epoch of the last batch."""
        return self.row(HeaderColumn.PARTITION_LEADER_EPOCH)[-1]

    @property
    def final_base(self) -> int:
        """First offset of the last batch by its header; for an entry of magic 0 or 1 its offset."""
        return self.row(HeaderColumn.BASE_OFFSET)[-1]

    @property
    def is_cleaned(self) -> bool:
        """Whether a batch has fewer records than offsets by its header, as compaction leaves it."""
        return self.fact(RunFacts.LAST_CLEANED) >= 0

    def ranges(self, limits: Limits = DEFAULT_LIMITS) -> Iterator[tuple[int, int, bool]]:
        """Yield tuples of a first offset, a last offset, and a flag. If the offsets of the run increase, there is one
        tuple for the whole run; the flag is True if offsets are missing in it. Otherwise there is one tuple for each
        batch, with the flag False. `limits` is not used: only `OneBatch.ranges` needs it.
        """
        if self.fact(RunFacts.NOT_ABOVE):
            for number, first in enumerate(self.row(HeaderColumn.BASE_OFFSET)):
                yield first, self.last_offset(number), False
        else:
            yield self.first_offset, self.final_offset, self.fact(RunFacts.GAPS) > 0

    def data_records(self) -> int:
        """Return the number of records by the headers, without those of control batches. A negative number in a header
        counts as 0.
        """
        return self.fact(RunFacts.DATA_RECORDS)

    def ending_below(self, offset: int) -> int:
        """Return the number of batches that end below `offset`. Offsets must increase."""
        return bisect_left(range(len(self)), offset, key=self.last_offset)

    def beginning_below(self, offset: int) -> int:
        """Return the number of batches that begin below `offset`. Offsets must increase."""
        return bisect_left(self.row(HeaderColumn.BASE_OFFSET), offset)

    def reaching(self, offset: int) -> BatchRun | None:
        """Return the batches from the first one that ends at `offset` or later; None if there is none. Offsets must
        increase.
        """
        below = self.ending_below(offset)
        return self.part(below, len(self)) if below < len(self) else None

    def split_at_offset(self, offset: int) -> Iterator[BatchRun]:
        """Yield the batches that begin below `offset`, and the others; a part without batches is left out. Offsets must
        increase.
        """
        yield from self._split(self.beginning_below(offset))

    def split_after(self, position: int) -> Iterator[BatchRun]:
        """Yield the batches that begin at or before `position` in the file, and the others; a part without batches is
        left out.
        """
        yield from self._split(bisect_right(self.row(HeaderColumn.POSITION), position - self._window_start))

    def number_at(self, position: int) -> int | None:
        """Return the number of the batch that begins at `position` in the file; None if none does."""
        starts, start = self.row(HeaderColumn.POSITION), position - self._window_start
        number = bisect_left(starts, start)
        return number if number < len(self) and starts[number] == start else None

    def _split(self, number: int) -> Iterator[BatchRun]:
        if number:
            yield self.part(0, number)
        if number < len(self):
            yield self.part(number, len(self))

    def holds(self, offset: int, limits: Limits = DEFAULT_LIMITS) -> bool:
        """Whether `offset` is one of a batch's offsets. Offsets must increase."""
        number = bisect_right(self.row(HeaderColumn.BASE_OFFSET), offset) - 1
        return number >= 0 and offset <= self.last_offset(number)

    def consecutive(self, next_offset: int, highest: int, end: int, leader_epoch: int, lows: Int64s) -> int:
        """Return the number of batches at the start of the run that follow each other from `next_offset` on and need
        not be examined one by one.

        The count ends at the latest before a batch that repeats an offset, is a control batch, ends above offset
        `highest`, begins at `end` or later, or has a lower leader epoch than the one before; `leader_epoch` is that
        before the run. Writes the first wanted offset of each counted batch to `lows`.
        """
        return functions.consecutive_batches(self.cells, next_offset, highest, end, CONTROL_FLAG, leader_epoch, lows)

    def behind_last_gap(self) -> int:
        """Return the number of the last batch before which offsets are missing; 0 if none are missing in the run."""
        return self.fact(RunFacts.LAST_GAP)

    def of_transactions(self) -> Iterator[RecordBatch]:
        """Yield the batches of `transaction_numbers`."""
        for number in self.transaction_numbers():
            yield self.batch(number)

    def transaction_numbers(self, first: int = 0) -> list[int]:
        """Return the numbers of the batches, from `first` on, that may change the state of a transaction, in ascending
        order: all control batches, and transactional data batches. Of consecutive transactional data batches of one
        producer only the first is listed.
        """
        return functions.transaction_numbers(self.cells, first)

    def part(self, start: int, end: int) -> BatchRun:
        """Return the batches from number `start` to `end` (exclusive)."""
        return BatchRun(self.cells.part(start, end), self._window, self._window_start)

    def chosen(self, numbers: Sequence[int]) -> BatchRun:
        """Return the batches with these numbers, in this order."""
        return BatchRun(functions.take_columns(self.cells, numbers), self._window, self._window_start)

    def v2_header(self, number: int) -> BatchHeader:
        """Return the header of batch `number` in the form of a v2 header."""
        return BatchHeader(*self.column(number)[: HeaderColumn.POSITION])

    def header(self, number: int) -> AnyHeader:
        """Return the header of batch `number`."""
        return self.v2_header(number)

    @property
    def has_markers(self) -> bool:
        """Whether the run has a control batch with a producer id, which ends a transaction."""
        return self.fact(RunFacts.MARKERS) > 0

    @property
    def has_producer_ids(self) -> bool:
        """Whether some batch has a producer id."""
        return self.fact(RunFacts.OF_PRODUCERS) > 0

    @property
    def largest_epoch(self) -> int:
        """Highest leader epoch; -1 if no batch has one."""
        return self.fact(RunFacts.LARGEST_EPOCH)

    def batch(self, number: int) -> RecordBatch:
        """Return batch `number` as a `RecordBatch`, equal to the one that `Scanner` yields. Its position is that in
        the file. Its data is a view of `window`, the bytes of the file in which the run was found.
        """
        column = self.column(number)
        start = column[HeaderColumn.POSITION]
        size = column[HeaderColumn.BATCH_LENGTH] + LOG_OVERHEAD.size
        data = memoryview(self._window)[start : start + size]
        return RecordBatch(BatchHeader(*column[: HeaderColumn.POSITION]), start + self._window_start, data)

    def __iter__(self) -> Iterator[RecordBatch]:
        for number in range(len(self)):
            yield self.batch(number)
