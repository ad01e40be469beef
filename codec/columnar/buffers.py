"""Growing Arrow buffers for compiled code to fill, with room for whatever the bytes of a batch can hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from kafkalog.codec.buffer_pool import Block
from kafkalog.codec.limits import MIB
from kafkalog.codec.native.tables import ArrowBuffer, Filled
from kafkalog.codec.record_shape import SMALLEST_HEADER

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    Int64s = npt.NDArray[np.int64]

__all__ = ["MOST_BYTES", "ColumnBuffers", "arrow_buffer"]

MOST_BYTES = 2**30
"""Record bytes that are put together at most; Arrow's offsets are signed 32-bit numbers."""
NO_BOUND = 2**62

_DATA = {
    ArrowBuffer.KEY: Filled.KEY,
    ArrowBuffer.VALUE: Filled.VALUE,
    ArrowBuffer.HEADER_KEY: Filled.HEADER_KEY,
    ArrowBuffer.HEADER_VALUE: Filled.HEADER_VALUE,
}
"""Buffers of data, and what says how many bytes of them are filled."""
_OF_HEADERS = (ArrowBuffer.HEADER_KEY_ENDS, ArrowBuffer.HEADER_VALUE_ENDS, ArrowBuffer.HEADER_VALUE_VALID)
"""Buffers with an item for each header; those that are left have one for each row."""
_ENDS = frozenset(buffer for buffer in ArrowBuffer if buffer.name.endswith("_ENDS"))
_NEVER_GIVEN = frozenset(buffer for buffer in ArrowBuffer if buffer.name.endswith("_VALID"))
"""Arrow has a bit for each row in place of these bytes."""
_ALL_OF_HEADERS = frozenset(buffer for buffer in ArrowBuffer if buffer.name.startswith("HEADER_"))
"""Not given to Arrow where there are no headers."""
_ITEM_BYTES = {
    **dict.fromkeys(ArrowBuffer, 1), **dict.fromkeys(_ENDS, 4),
    ArrowBuffer.OFFSET: 8, ArrowBuffer.TIMESTAMP: 8, ArrowBuffer.SEQUENCE: 4,
    ArrowBuffer.KEY_VIEWS: 16, ArrowBuffer.VALUE_VIEWS: 16,
}  # fmt: skip
_SHARES = {ArrowBuffer.KEY: 1 / 8, ArrowBuffer.VALUE: 1}
"""How much of a record is thought to be its key or value before any was seen."""
_A_LITTLE_MORE = 1.05
_MOST_SLACK = MIB
"""Bytes at most beyond what rows are thought to take: there must be room for a batch whatever it holds."""


def arrow_buffer(memory: bytes | memoryview) -> pa.Buffer:
    """The same memory, as Arrow's."""
    import pyarrow as pa  # who makes no Arrow batch does without

    return pa.py_buffer(memory)


class ColumnBuffers:
    """The wanted ones of `ArrowBuffer`, and how much of them is filled."""

    def __init__(self, wanted: Iterable[ArrowBuffer], rows: int, most_bytes: int) -> None:
        self._wanted = frozenset(wanted)
        self._blocks: dict[ArrowBuffer, Block] = {}
        self._of_rows = [each for each in self._wanted if each not in _DATA and each not in _OF_HEADERS]
        self._of_data = [each for each in _DATA if each in self._wanted]
        self._has_headers = ArrowBuffer.HEADER_ENDS in self._wanted
        self.addresses = np.zeros(len(ArrowBuffer), np.int64)
        """of each of `ArrowBuffer`"""
        self.filled = np.zeros(len(Filled), np.int64)
        """of each of `Filled`"""
        self._no_room = np.full(len(Filled), NO_BOUND, np.int64)
        self._no_room[[Filled.ROWS, *(_DATA[each] for each in self._of_data)]] = 0
        if self._has_headers:
            self._no_room[Filled.HEADERS] = 0
        self.capacity = self._no_room.copy()
        """up to where each of `Filled` may go; what is not wanted has no bound"""
        self.has_views = not self._wanted.isdisjoint((ArrowBuffer.KEY_VIEWS, ArrowBuffer.VALUE_VIEWS))
        self._viewed: list[pa.Buffer] = []
        self._in_use: set[int] = set()
        self._bytes_of_row: dict[ArrowBuffer, float] = {}
        self._headers_of_row = 0.0
        self._first_rows = rows
        self._most_bytes = most_bytes

    def count(self, what: Filled) -> int:
        """How much is filled."""
        return int(self.filled[what])

    def view(self, buffer: ArrowBuffer, kind: Any, count: int) -> npt.NDArray[Any]:
        """The first numbers of a buffer."""
        return self._blocks[buffer].view(kind, count)

    def arrow(self, buffer: ArrowBuffer) -> pa.Buffer:
        """A buffer as Arrow's."""
        return arrow_buffer(self._blocks[buffer].buffer)

    def number_of(self, memory: pa.Buffer) -> int:
        """Which data buffer of columns of views this memory is, of less than 2 GiB."""
        place = memory.address, memory.size
        for number in range(len(self._viewed) - 1, max(len(self._viewed) - 3, -1), -1):
            if (self._viewed[number].address, self._viewed[number].size) == place:
                return number
        self._viewed.append(memory)
        return len(self._viewed) - 1

    def keep(self, number: int) -> None:
        """Views point into this data buffer."""
        self._in_use.add(number)

    def point_into(self, memory: bytes | memoryview) -> None:
        """The fields that come next lie in this memory."""
        number = self.number_of(arrow_buffer(memory))
        self.keep(number)
        self.addresses[ArrowBuffer.VIEWED] = self._viewed[number].address
        self.addresses[ArrowBuffer.VIEWED_NUMBER] = number

    @property
    def viewed(self) -> list[pa.Buffer]:
        """The data buffers of columns of views; those are empty that no view points into."""
        nothing = arrow_buffer(b"")
        return [each if number in self._in_use else nothing for number, each in enumerate(self._viewed)]

    def ensure(self, rows: int, record_bytes: int, records: int | None = None) -> None:
        """Room for so many more rows, and for all that so many more record bytes can hold.

        The bytes are those of `records`, if not of all the rows.
        """
        filled, capacity = self.filled.tolist(), self.capacity.tolist()
        of_these = record_bytes / max(rows if records is None else records, 1)
        slack = min(record_bytes, _MOST_SLACK)
        need, row_capacity = filled[Filled.ROWS] + rows, capacity[Filled.ROWS]
        if need > row_capacity or not row_capacity:
            self.capacity[Filled.ROWS] = row_capacity = max(need, 2 * row_capacity, self._first_rows)
            self._resize(self._of_rows, filled[Filled.ROWS], row_capacity)
        for each in self._of_data:
            block = self._blocks.get(each)
            used = filled[_DATA[each]]
            least = used + record_bytes
            if block is None or block.size < least:
                if block is not None:
                    foreseen = 2 * block.size
                else:  # what all rows would take if they went on like these: growing means copying
                    of_row = self._bytes_of_row.get(each, _SHARES.get(each, 0) * of_these)
                    foreseen = min(int(of_row * row_capacity), self._most_bytes) + slack
                self._put(each, max(least, foreseen), used)
                self.capacity[_DATA[each]] = self._blocks[each].size
        if self._has_headers:
            headers = filled[Filled.HEADERS] + record_bytes // SMALLEST_HEADER
            header_capacity = capacity[Filled.HEADERS]
            if headers > header_capacity or not header_capacity:
                foreseen = int(self._headers_of_row * row_capacity) + slack // SMALLEST_HEADER
                self.capacity[Filled.HEADERS] = header_capacity = max(headers, 2 * header_capacity, foreseen)
                self._resize(_OF_HEADERS, filled[Filled.HEADERS], header_capacity)

    def _resize(self, buffers: Iterable[ArrowBuffer], used: int, items: int) -> None:
        """Room for `items`, and one more because there are more ends than rows."""
        for each in buffers:
            block, size = self._blocks.get(each), (items + 1) * _ITEM_BYTES[each]
            if block is None or block.size < size:
                self._put(each, size, (used + 1) * _ITEM_BYTES[each])
            if block is None and each in _ENDS:
                self.view(each, np.int32, 1)[0] = 0

    def _put(self, buffer: ArrowBuffer, size: int, used: int) -> None:
        block = self._blocks.get(buffer)
        self._blocks[buffer] = block = Block(size) if block is None else block.grown(size, used)
        self.addresses[buffer] = block.address

    def reset(self) -> None:
        """Let go of what was filled, which belongs to Arrow arrays now; what was not given to them stays."""
        filled = self.filled.tolist()
        if filled[Filled.ROWS]:
            for each in self._of_data:
                self._bytes_of_row[each] = _A_LITTLE_MORE * filled[_DATA[each]] / filled[Filled.ROWS]
            self._headers_of_row = _A_LITTLE_MORE * filled[Filled.HEADERS] / filled[Filled.ROWS]
        stays, header_capacity = _NEVER_GIVEN, 0
        if not filled[Filled.HEADERS]:
            stays, header_capacity = stays | _ALL_OF_HEADERS, self.capacity[Filled.HEADERS]
        self._blocks = {each: block for each, block in self._blocks.items() if each in stays}
        self.addresses[:], self.capacity[:], self.filled[:] = 0, self._no_room, 0
        self.capacity[Filled.HEADERS] = header_capacity
        for each, block in self._blocks.items():
            self.addresses[each] = block.address
            if each in _DATA:
                self.capacity[_DATA[each]] = block.size
        self._viewed = []
        self._in_use = set()
