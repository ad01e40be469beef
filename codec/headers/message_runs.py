"""Runs of sound entries of magic 0 and 1, like the runs of v2 batches in `runs`. Needs compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkalog.codec.common.limits import KIB
from kafkalog.codec.model import LOG_OVERHEAD, NO_PARTITION_LEADER_EPOCH, LegacyHeader, RecordBatch
from kafkalog.codec.native import functions
from kafkalog.codec.native.cells import Cells
from kafkalog.codec.native.tables import MessageColumn, Table, names
from kafkalog.codec.rules.framing import SMALLEST_MESSAGE

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

__all__ = ["MessageRun", "message_run"]


_ROWS = {name: number for number, name in enumerate(names(MessageColumn))}
_MESSAGES_OF_A_RUN = 8 * KIB + 40
"""Capacity of a run's table. It is not a power of two, so that its rows do not share cache lines."""


class MessageRun:
    """Consecutive entries of magic 0 and 1 whose size and checksum are right. `run["offset"]` is the column of that
    field as an array; `run["position"]` is each entry's position in `window`.
    """

    has_producers = False
    """whether entries of this format can have a producer"""

    def __init__(self, cells: Cells, window: bytes | memoryview, window_start: int) -> None:
        self.cells = cells
        """columns of `MessageColumn`; positions count from the start of `window`"""
        self.window = window
        """bytes that contain the entries"""
        self.window_start = window_start
        """position of `window` in the file, in bytes"""

    def __len__(self) -> int:
        return self.cells.columns

    def __getitem__(self, name: str) -> Int64s:
        column: Int64s = self.table[_ROWS[name]]
        return column

    @property
    def table(self) -> Table:
        """Columns as a numpy array, not contiguous."""
        return self.cells.table()

    @property
    def attributes(self) -> memoryview:
        """Attributes of all entries."""
        return self.cells.row(MessageColumn.ATTRIBUTES)

    @property
    def producer_ids(self) -> None:
        """None: entries of this format have no producer."""

    @property
    def sizes(self) -> Int64s:
        """Sizes of the whole entries in bytes, as an array."""
        return self["size"] + LOG_OVERHEAD.size

    @property
    def last_offsets(self) -> Int64s:
        """Offsets in the headers, as an array; a compressed wrapper has the offset of its last inner message there."""
        return self["offset"]

    def last_offset(self, number: int) -> int:
        """Return the offset in the header of entry `number`."""
        return self.cells.value(MessageColumn.OFFSET, number)

    @property
    def end(self) -> int:
        """Position in the file after the last entry, in bytes."""
        last, value = len(self) - 1, self.cells.value
        start = self.window_start + value(MessageColumn.POSITION, last)
        return start + value(MessageColumn.SIZE, last) + LOG_OVERHEAD.size

    final_epoch = NO_PARTITION_LEADER_EPOCH
    """entries of this format have no leader epoch"""

    def consecutive(self, next_offset: int, highest: int, end: int, leader_epoch: int, lows: Int64s) -> int:
        """Return the number of entries at the start of the run that follow each other from `next_offset` on and need
        not be examined one by one.

        The count ends at the latest before an entry that repeats an offset, ends above offset `highest`, or begins at
        `end` or later. Writes the first wanted offset of each counted entry to `lows`. `leader_epoch` is not used: only
        `BatchRun` needs it.
        """
        return functions.consecutive_messages(self.cells, next_offset, highest, end, lows)

    def part(self, start: int, end: int) -> MessageRun:
        """Return the entries from number `start` to `end` (exclusive)."""
        return MessageRun(self.cells.part(start, end), self.window, self.window_start)

    def chosen(self, numbers: Sequence[int]) -> MessageRun:
        """Return the entries with these numbers, in this order."""
        return MessageRun(functions.take_columns(self.cells, numbers), self.window, self.window_start)

    def batch(self, number: int) -> RecordBatch:
        """Return entry `number` as a `RecordBatch`, as `Scanner` does."""
        column = self.cells.column(number)
        start, header = column[MessageColumn.POSITION], LegacyHeader(*column[: MessageColumn.POSITION])
        data = memoryview(self.window)[start : start + header.size]
        return RecordBatch(header, start + self.window_start, data)


def message_run(window: bytes | memoryview, position: int, *, largest: int, check: bool) -> MessageRun | None:
    """Return the run of sound entries of magic 0 and 1 at the start of `window`, which is at `position` of the file;
    None if the first entry is not sound.

    The run ends before an unsound entry, before an entry of more than `largest` bytes, or at `_MESSAGES_OF_A_RUN`
    entries. If `check` is False, checksums are not checked.
    """
    most = min(len(window) // (SMALLEST_MESSAGE + LOG_OVERHEAD.size), _MESSAGES_OF_A_RUN)
    cells = Cells(MessageColumn, most)
    count = functions.scan_messages(functions.address_of(window), len(window), largest, check, cells)
    return MessageRun(cells.part(0, count), window, position) if count else None
