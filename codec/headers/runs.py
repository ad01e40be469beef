"""Runs of sound v2 batches with their headers as columns. numpy is loaded only if columns are requested as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.compression.specs import KNOWN_CODECS
from kafkalog.codec.model import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_OVERHEAD,
    NO_PRODUCER_ID,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    AnyHeader,
    BatchHeader,
    Codec,
    RecordBatch,
)
from kafkalog.codec.native import functions
from kafkalog.codec.native.cells import Cells
from kafkalog.codec.native.tables import HeaderColumn, Table, check_table, names
from kafkalog.codec.rules.batches import BatchVerdict

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

__all__ = ["BatchRun"]

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
    """last offset before the run, if its order was judged"""
    reached = 0

    def __init__(self, table: Table | Cells, window: bytes | memoryview, window_start: int) -> None:
        self._array: Table | None = None
        self.cells: Table | Cells = table
        """columns of `HeaderColumn`; positions count from the start of `window`"""
        if not isinstance(table, Cells):
            check_table(HeaderColumn, table)
            self._array = table
        self._window = window
        self._window_start = window_start

    def __len__(self) -> int:
        return self.cells.columns if isinstance(self.cells, Cells) else int(self.cells.shape[1])

    def __getitem__(self, name: str) -> Int64s:
        column: Int64s = self.table[_ROWS[name]]
        return column

    @property
    def table(self) -> Table:
        """Columns as a numpy array, not contiguous."""
        if self._array is None:
            self._array = self.cells.table() if isinstance(self.cells, Cells) else self.cells
        return self._array

    def column(self, number: int) -> list[int]:
        """Return all fields of batch `number`, the last its position in `window`."""
        if isinstance(self.cells, Cells):
            return self.cells.column(number)
        return self.cells[:, number].tolist()  # type: ignore[no-any-return]

    def row(self, row: HeaderColumn) -> Sequence[int]:
        """Return one field of all batches."""
        return self.cells.row(row) if isinstance(self.cells, Cells) else self.cells[row].tolist()

    def value(self, row: HeaderColumn, number: int) -> int:
        """Return one field of batch `number`."""
        return self.cells.row(row)[number] if isinstance(self.cells, Cells) else int(self.cells[row, number])

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
        """Timestamp of the first record of each batch in ms since 1970, as `BatchHeader.first_timestamp`. It is the
        batch's largest timestamp if the header does not tell: with LogAppendTime, a delete horizon or a negative base
        timestamp.
        """
        base = self["base_timestamp"]
        is_told = (self["attributes"] & (TIMESTAMP_TYPE_FLAG | DELETE_HORIZON_FLAG) == 0) & (base >= 0)
        import numpy as np

        return np.where(is_told, base, self["max_timestamp"])

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
        return self.position(len(self) - 1) + self.value(HeaderColumn.BATCH_LENGTH, len(self) - 1) + LOG_OVERHEAD.size

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
        return int(self.last_offsets.max()) + 1

    @property
    def magic(self) -> int:
        """Message format of the first batch."""
        return self.value(HeaderColumn.MAGIC, 0)

    @property
    def are_codecs_known(self) -> bool:
        """Whether consumers know the compression of each batch."""
        return bool((KNOWN_CODECS[2] >> (self["attributes"] & CODEC_MASK) & 1).all())

    def columns(self) -> BatchRun:
        """Return this run, whose fields are columns."""
        return self

    def codecs_and_times(self) -> tuple[Mapping[str, int], tuple[int, int] | None]:
        """Return the number of batches by name of the codec, and the smallest and largest timestamp in ms; None if no
        batch has one.
        """
        counts, times = functions.summarize_run(self.cells)
        return {codec.label: counts[codec] for codec in Codec if counts[codec]}, times

    def gaps(self) -> Iterator[tuple[int, int, int]]:
        """Yield a tuple for each batch before which offsets are missing: last offset of the batch before it, first
        offset, and position in the file. Offsets must increase.
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

    def ranges(self, limits: Limits = DEFAULT_LIMITS) -> Iterator[tuple[int, int, bool]]:
        """Yield first and last offset, and whether offsets are missing in between: once for the run if its offsets
        increase, else for each batch.
        """
        first, last = self["base_offset"], self.last_offsets
        steps = first[1:] - last[:-1]
        if (steps < 1).any():
            yield from ((*pair, False) for pair in zip(first.tolist(), last.tolist(), strict=True))
        else:
            yield int(first[0]), int(last[-1]), bool((steps > 1).any())

    def data_records(self) -> int:
        """Return the number of records by the headers, without those of control batches."""
        return int(self["records_count"][self["attributes"] & CONTROL_FLAG == 0].sum())

    def reaching(self, offset: int) -> BatchRun | None:
        """Return the batches from the first that ends at `offset` or later on; None if none does. Offsets must
        increase.
        """
        below = int((self.last_offsets < offset).sum())
        return self.part(below, len(self)) if below < len(self) else None

    def split_at_offset(self, offset: int) -> Iterator[BatchRun]:
        """Yield the batches that begin below `offset`, and the others; a part without batches is left out."""
        yield from self._split(int(self["base_offset"].searchsorted(offset)))

    def split_after(self, position: int) -> Iterator[BatchRun]:
        """Yield the batches at or before `position` in the file, and the others; a part without batches is left out."""
        yield from self._split(int(self.positions.searchsorted(position, "right")))

    def _split(self, number: int) -> Iterator[BatchRun]:
        if number:
            yield self.part(0, number)
        if number < len(self):
            yield self.part(number, len(self))

    def holds(self, offset: int, limits: Limits = DEFAULT_LIMITS) -> bool:
        """Whether `offset` is one of a batch's offsets. Offsets must increase."""
        number = int(self["base_offset"].searchsorted(offset, "right")) - 1
        return number >= 0 and offset <= self.last_offset(number)

    def consecutive(self, next_offset: int, highest: int, end: int, lows: Int64s) -> int:
        """Return the number of batches at the start of the run that follow each other from `next_offset` on and
        need not be examined one by one. A repeated offset, a control batch, a batch that ends above offset `highest`,
        or one that begins at `end` or later stops the count. Writes the first wanted offset of each counted batch to
        `lows`.
        """
        return functions.consecutive_batches(self.table, next_offset, highest, end, CONTROL_FLAG, lows)

    def behind_last_gap(self) -> int:
        """Return the number of the last batch before which offsets are missing; 0 if none are missing in the run."""
        gaps = (self["base_offset"][1:] != self.last_offsets[:-1] + 1).nonzero()[0]
        return int(gaps[-1]) + 1 if len(gaps) else 0

    def of_transactions(self) -> Iterator[RecordBatch]:
        """Yield the batches of `transaction_numbers`."""
        for number in self.transaction_numbers():
            yield self.batch(number)

    def transaction_numbers(self, first: int = 0) -> list[int]:
        """Return the numbers of the batches from `first` that may change the state of a transaction, in ascending
        order: all control batches, and transactional data batches. Of consecutive transactional data batches of one
        producer only the first is listed.
        """
        import numpy as np

        control = self["attributes"] & CONTROL_FLAG != 0
        wanted = control | (self["attributes"] & TRANSACTIONAL_FLAG != 0)
        numbers = np.flatnonzero(wanted[first:]) + first
        producers, data = self["producer_id"][numbers], ~control[numbers]
        repeats = np.zeros(len(numbers), np.bool_)
        repeats[1:] = (producers[1:] == producers[:-1]) & data[1:] & data[:-1]
        return numbers[~repeats].tolist()  # type: ignore[no-any-return]

    def part(self, start: int, end: int) -> BatchRun:
        """Return the batches from number `start` to `end` (exclusive)."""
        cells = self.cells.part(start, end) if isinstance(self.cells, Cells) else self.cells[:, start:end]
        return BatchRun(cells, self._window, self._window_start)

    def where(self, chosen: npt.NDArray[np.bool_]) -> BatchRun:
        """Return the batches that a mask selects."""
        import numpy as np

        return BatchRun(np.compress(chosen, self.table, axis=1), self._window, self._window_start)

    def v2_header(self, number: int) -> BatchHeader:
        """Return the header of batch `number` in the form of a v2 header."""
        return BatchHeader(*self.column(number)[: HeaderColumn.POSITION])

    def header(self, number: int) -> AnyHeader:
        """Return the header of batch `number`."""
        return self.v2_header(number)

    @property
    def has_markers(self) -> bool:
        """Whether the run has a control batch with a producer id, which ends a transaction."""
        control = self["attributes"] & CONTROL_FLAG != 0
        return bool((control & (self["producer_id"] > NO_PRODUCER_ID)).any())

    @property
    def largest_epoch(self) -> int:
        """Highest leader epoch; -1 if no batch has one."""
        return int(self["partition_leader_epoch"].max())

    def batch(self, number: int) -> RecordBatch:
        """Return batch `number` as a `RecordBatch`, equal to the one that `Scanner` yields; its position is that in the
        file, and its data a view of the window.
        """
        column = self.column(number)
        start = column[HeaderColumn.POSITION]
        size = column[HeaderColumn.BATCH_LENGTH] + LOG_OVERHEAD.size
        data = memoryview(self._window)[start : start + size]
        return RecordBatch(BatchHeader(*column[: HeaderColumn.POSITION]), start + self._window_start, data)

    def __iter__(self) -> Iterator[RecordBatch]:
        for number in range(len(self)):
            yield self.batch(number)
