"""Tables and columns of int64 for compiled code, in their own memory and without numpy."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkalog.codec.native.tables import Rows, check_table

if TYPE_CHECKING:
    from kafkalog.codec.native.tables import Table

__all__ = ["Cells", "column_of", "zeros"]

_BYTES = 8


def zeros(count: int) -> memoryview:
    """Return a writable column of `count` numbers (int64), all 0."""
    return memoryview(bytearray(_BYTES * count)).cast("q")


def column_of(numbers: Sequence[int]) -> memoryview:
    """Return numbers (int64) as a writable column; a writable column is returned unchanged. Raises `TypeError` or
    `OverflowError` if a number is not an integer of 64 bits.
    """
    if isinstance(numbers, memoryview) and numbers.format == "q" and not numbers.readonly:
        return numbers
    return memoryview(array("q", numbers))


class Cells:
    """A table of int64: a row for each member of an enumeration, and a column for each batch."""

    __slots__ = ("_memory", "_start", "_stride", "columns", "rows")

    def __init__(self, rows: type[Rows], columns: int) -> None:
        self.rows = rows
        self.columns = columns
        self._stride = columns
        self._start = 0
        self._memory = zeros(len(rows) * columns)

    @classmethod
    def of(cls, rows: type[Rows], table: Table) -> Cells:
        """Return a numpy table with these rows as `Cells`. They share its memory if the array is writable and
        contiguous; otherwise they are a copy. Raises `TypeError` if it is not a table of int64 with these rows.
        """
        check_table(rows, table)
        if not table.flags.c_contiguous or not table.flags.writeable:
            table = table.copy()
        cells = object.__new__(cls)
        cells.rows, cells.columns, cells._stride, cells._start = rows, table.shape[1], table.shape[1], 0
        cells._memory = memoryview(table.data).cast("B").cast("q") if table.size else zeros(0)
        return cells

    def part(self, start: int, end: int) -> Cells:
        """Return the columns from number `start` to `end` (exclusive) in the same memory, without a copy; no columns if
        `end` is not above `start`. The bounds are not checked.
        """
        part = object.__new__(Cells)
        part.rows, part._memory, part._stride = self.rows, self._memory, self._stride
        part._start = self._start + start
        part.columns = max(end - start, 0)
        return part

    def copy(self) -> Cells:
        """Return a copy of the cells in new memory, without gaps between rows."""
        copied, columns = Cells(self.rows, self.columns), self.columns
        source, target, start = self._memory, copied._memory, self._start
        for row in range(len(self.rows)):
            target[row * columns : (row + 1) * columns] = source[start : start + columns]
            start += self._stride
        return copied

    @property
    def size(self) -> int:
        """Size of the cells in bytes."""
        return _BYTES * len(self.rows) * self.columns

    def row(self, row: int) -> memoryview:
        """Return the cells of a row, as a writable view of int64."""
        start = row * self._stride + self._start
        return self._memory[start : start + self.columns]

    def value(self, row: int, number: int) -> int:
        """Return the cell of a row in column `number`. The bounds are not checked."""
        return self._memory[row * self._stride + self._start + number]

    def column(self, number: int) -> list[int]:
        """Return the cells of a column."""
        start = self._start + number
        return self._memory[start :: self._stride].tolist()

    @property
    def place(self) -> tuple[int, int, int]:
        """Address of the first cell, number of cells from one row to the next, and number of columns: the three
        arguments of a C function for a table. Without columns, the address must not be used.
        """
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory)) if self.columns else 0
        return address + _BYTES * self._start, self._stride, self.columns

    def table(self) -> Table:
        """Return the same memory as a numpy array."""
        import numpy as np

        whole = np.frombuffer(self._memory, np.int64).reshape(len(self.rows), self._stride)
        return whole[:, self._start : self._start + self.columns]
