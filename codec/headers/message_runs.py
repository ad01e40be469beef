"""Runs of sound entries of magic 0 and 1, as `runs` has them of v2 batches.  Needs compiled code and numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kafkalog.codec.framing import SMALLEST_MESSAGE
from kafkalog.codec.limits import KIB
from kafkalog.codec.model import LOG_OVERHEAD, LegacyHeader, RecordBatch
from kafkalog.codec.native.functions import scan_messages
from kafkalog.codec.native.tables import MessageColumn, check_table, empty_table, names

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

__all__ = ["MessageRun", "message_run"]


_ROWS = {name: number for number, name in enumerate(names(MessageColumn))}
_MESSAGES_OF_A_RUN = 8 * KIB + 40
"""No power of two, so that the rows of the table do not all fall into the same lines of the cache."""


class MessageRun:
    """Consecutive v0 and v1 entries whose size and checksum are right: `run["offset"]` is that field of all of them.

    `run["position"]` is where they begin in `window`.
    """

    def __init__(self, table: Int64s, window: bytes | memoryview, window_start: int) -> None:
        check_table(MessageColumn, table)
        self.table = table
        """of `MessageColumn`, whose positions are those in `window`"""
        self.window = window
        """the bytes that the entries lie in"""
        self.window_start = window_start
        """where `window` begins in the file"""

    def __len__(self) -> int:
        return int(self.table.shape[1])

    def __getitem__(self, name: str) -> Int64s:
        column: Int64s = self.table[_ROWS[name]]
        return column

    @property
    def sizes(self) -> Int64s:
        """Bytes of the whole entries."""
        return self["size"] + LOG_OVERHEAD.size

    @property
    def last_offsets(self) -> Int64s:
        """The stored offsets."""
        return self["offset"]

    @property
    def end(self) -> int:
        """Position after the last entry, in the file."""
        return int(self.window_start + self.table[MessageColumn.POSITION, -1] + self.sizes[-1])

    def part(self, start: int, end: int) -> MessageRun:
        """The entries from number `start` up to, not including, `end`."""
        return MessageRun(self.table[:, start:end], self.window, self.window_start)

    def where(self, chosen: npt.NDArray[np.bool_]) -> MessageRun:
        """Only the entries that a mask selects."""
        return MessageRun(np.compress(chosen, self.table, axis=1), self.window, self.window_start)

    def batch(self, number: int) -> RecordBatch:
        """One of them, as the readable walk gives it."""
        column: list[int] = self.table[:, number].tolist()
        start, header = column[MessageColumn.POSITION], LegacyHeader(*column[: MessageColumn.POSITION])
        data = memoryview(self.window)[start : start + header.size]
        return RecordBatch(header, start + self.window_start, data)


def message_run(window: bytes | memoryview, position: int, *, largest: int, check: bool) -> MessageRun | None:
    """The entries from the beginning of a window on, which is at `position` of the file; None if there is none."""
    most = min(len(window) // (SMALLEST_MESSAGE + LOG_OVERHEAD.size), _MESSAGES_OF_A_RUN)
    table = empty_table(MessageColumn, most)
    address = np.frombuffer(window, np.uint8).ctypes.data
    found = scan_messages(address, len(window), largest, check, table)
    return MessageRun(table[:, :found], window, position) if found else None
