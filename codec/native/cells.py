"""A table for compiled code in its own memory, without numpy."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from kafkalog.codec.native.tables import Rows

if TYPE_CHECKING:
    from kafkalog.codec.native.tables import Table

__all__ = ["Cells"]

_BYTES = 8


class Cells:
    """Rows of int64, one for each member of an enumeration, with a column for each batch."""

    __slots__ = ("_memory", "_start", "_stride", "columns", "rows")

    def __init__(self, rows: type[Rows], columns: int) -> None:
        self.rows = rows
        self.columns = columns
        self._stride = columns
        self._start = 0
        memory = (ctypes.c_int64 * (len(rows) * columns))()
        self._memory = memoryview(memory).cast("B").cast("q")

    def part(self, start: int, end: int) -> Cells:
        """Return the columns from number `start` to `end` (exclusive) in the same memory, without a copy; no columns if
        `end` is not after `start`. The bounds are not checked.
        """
        part = object.__new__(Cells)
        part.rows, part._memory, part._stride = self.rows, self._memory, self._stride
        part._start = self._start + start
        part.columns = max(end - start, 0)
        return part

    def copy(self) -> Cells:
        """Return the same cells in new memory."""
        copied = Cells(self.rows, self.columns)
        for row in self.rows:
            copied.row(row)[:] = self.row(row)
        return copied

    def row(self, row: int) -> memoryview:
        """Return the cells of a row, as a writable view of int64."""
        start = row * self._stride + self._start
        return self._memory[start : start + self.columns]

    def column(self, number: int) -> list[int]:
        """Return the cells of a column."""
        start = self._start + number
        return self._memory[start :: self._stride].tolist()

    @property
    def place(self) -> tuple[int, int, int]:
        """Address of the first cell, cells between two rows, and number of columns, as C takes a table."""
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory)) if self.columns else 0
        return address + _BYTES * self._start, self._stride, self.columns

    def table(self) -> Table:
        """Return the same memory as a numpy array."""
        import numpy as np

        whole = np.frombuffer(self._memory, np.int64).reshape(len(self.rows), self._stride)
        return whole[:, self._start : self._start + self.columns]
