"""Runs of sound entries of magic 0 and 1, like the runs of v2 batches in `runs`. Needs compiled code and numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kafkalog.codec.common.limits import KIB
from kafkalog.codec.model import LOG_OVERHEAD, LegacyHeader, RecordBatch
from kafkalog.codec.native.functions import consecutive_messages, scan_messages
from kafkalog.codec.native.tables import MessageColumn, check_table, empty_table, names
from kafkalog.codec.rules.framing import SMALLEST_MESSAGE

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

__all__ = ["MessageRun", "message_run"]


_ROWS = {name: number for number, name in enumerate(names(MessageColumn))}
_MESSAGES_OF_A_RUN = 8 * KIB + 40
"""Capacity of a run's table. It is not a power of two, so that its rows do not share cache lines."""


class MessageRun:
    """Consecutive entries of magic 0 and 1 whose size and checksum are right. `run["offset"]` is the column of that
    field; `run["position"]` is each entry's position in `window`.
    """

    has_producers = False
    """whether entries of this format can have a producer"""

    def __init__(self, table: Int64s, window: bytes | memoryview, window_start: int) -> None:
        check_table(MessageColumn, table)
        self.table = table
        """columns of `MessageColumn`; positions count from the start of `window`"""
        self.window = window
        """bytes that contain the entries"""
        self.window_start = window_start
        """position of `window` in the file"""

    def __len__(self) -> int:
        return int(self.table.shape[1])

    def __getitem__(self, name: str) -> Int64s:
        column: Int64s = self.table[_ROWS[name]]
        return column

    @property
    def attributes(self) -> Int64s:
        """Attributes of all entries."""
        return self["attributes"]

    @property
    def producer_ids(self) -> None:
        """None: entries of this format have no producer."""

    @property
    def sizes(self) -> Int64s:
        """Sizes of the whole entries in bytes."""
        return self["size"] + LOG_OVERHEAD.size

    @property
    def last_offsets(self) -> Int64s:
        """Offsets in the headers; a compressed wrapper has the offset of its last inner message there."""
        return self["offset"]

    @property
    def end(self) -> int:
        """Position in the file after the last entry."""
        return int(self.window_start + self.table[MessageColumn.POSITION, -1] + self.sizes[-1])

    def consecutive(self, next_offset: int, highest: int, end: int, lows: Int64s) -> int:
        """Return the number of entries at the start of the run that follow each other from `next_offset` on and need
        not be examined one by one.

        The count ends before an entry that repeats an offset, ends above offset `highest`, or begins at `end` or later.
        Writes the first wanted offset of each counted entry to `lows`.
        """
        return consecutive_messages(self.table, next_offset, highest, end, lows)

    def part(self, start: int, end: int) -> MessageRun:
        """Return the entries from number `start` to `end` (exclusive)."""
        return MessageRun(self.table[:, start:end], self.window, self.window_start)

    def chosen(self, numbers: Sequence[int]) -> MessageRun:
        """Return the entries with these numbers, in this order."""
        return MessageRun(np.take(self.table, numbers, axis=1), self.window, self.window_start)

    def where(self, chosen: npt.NDArray[np.bool_]) -> MessageRun:
        """Return the entries that a mask selects."""
        return MessageRun(np.compress(chosen, self.table, axis=1), self.window, self.window_start)

    def batch(self, number: int) -> RecordBatch:
        """Return entry `number` as a `RecordBatch`, as `Scanner` does."""
        column: list[int] = self.table[:, number].tolist()
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
    table = empty_table(MessageColumn, most)
    address = np.frombuffer(window, np.uint8).ctypes.data
    count = scan_messages(address, len(window), largest, check, table)
    return MessageRun(table[:, :count], window, position) if count else None
