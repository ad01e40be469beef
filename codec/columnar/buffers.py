"""Growing Arrow buffers that compiled code fills, always large enough for anything that the bytes of a batch can
hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from kafkalog.codec.common.buffer_pool import Block
from kafkalog.codec.common.limits import MIB
from kafkalog.codec.native.tables import ArrowBuffer, Filled
from kafkalog.codec.rules.record_shape import SMALLEST_HEADER

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    Int64s = npt.NDArray[np.int64]

__all__ = ["MOST_BYTES", "ColumnBuffers", "arrow_buffer"]

MOST_BYTES = 2**30
"""Most record bytes to put together: Arrow's offsets are signed 32-bit numbers."""
NO_BOUND = 2**62

_DATA = {
    ArrowBuffer.KEY: Filled.KEY,
    ArrowBuffer.VALUE: Filled.VALUE,
    ArrowBuffer.HEADER_KEY: Filled.HEADER_KEY,
    ArrowBuffer.HEADER_VALUE: Filled.HEADER_VALUE,
}
"""Data buffers, each with the counter of its filled bytes."""
_OF_HEADERS = (ArrowBuffer.HEADER_KEY_ENDS, ArrowBuffer.HEADER_VALUE_ENDS, ArrowBuffer.HEADER_VALUE_VALID)
"""Buffers with one item for each header; all other buffers except data have one for each row."""
_ENDS = frozenset(buffer for buffer in ArrowBuffer if buffer.name.endswith("_ENDS"))
_NEVER_GIVEN = frozenset(buffer for buffer in ArrowBuffer if buffer.name.endswith("_VALID"))
"""Buffers that Arrow does not get: it has a bit for each row instead of these bytes."""
_ALL_OF_HEADERS = frozenset(buffer for buffer in ArrowBuffer if buffer.name.startswith("HEADER_"))
"""Buffers that Arrow does not get if there are no headers."""
_ITEM_BYTES = {
    **dict.fromkeys(ArrowBuffer, 1), **dict.fromkeys(_ENDS, 4),
    ArrowBuffer.OFFSET: 8, ArrowBuffer.TIMESTAMP: 8, ArrowBuffer.SEQUENCE: 4,
    ArrowBuffer.KEY_VIEWS: 16, ArrowBuffer.VALUE_VIEWS: 16,
}  # fmt: skip
_SHARES = {ArrowBuffer.KEY: 1 / 8, ArrowBuffer.VALUE: 1}
"""Assumed share of a record's bytes in its key and in its value, before one was decoded."""
_A_LITTLE_MORE = 1.05
_MOST_SLACK = MIB
"""Most bytes reserved beyond the estimate for the rows: any batch must fit."""


def arrow_buffer(memory: bytes | memoryview) -> pa.Buffer:
    """Return the same memory as an Arrow buffer."""
    import pyarrow as pa  # not loaded if no Arrow batch is made

    return pa.py_buffer(memory)


class ColumnBuffers:
    """Buffers of the wanted members of `ArrowBuffer`, with counters of their filled parts."""

    def __init__(self, wanted: Iterable[ArrowBuffer], rows: int, most_bytes: int) -> None:
        self._wanted = frozenset(wanted)
        self._blocks: dict[ArrowBuffer, Block] = {}
        self._of_rows = [buffer for buffer in self._wanted if buffer not in _DATA and buffer not in _OF_HEADERS]
        self._of_data = [buffer for buffer in _DATA if buffer in self._wanted]
        self._has_headers = ArrowBuffer.HEADER_ENDS in self._wanted
        self.addresses = np.zeros(len(ArrowBuffer), np.int64)
        """addresses by `ArrowBuffer`"""
        self.filled = np.zeros(len(Filled), np.int64)
        """counters by `Filled`"""
        self._no_room = np.full(len(Filled), NO_BOUND, np.int64)
        self._no_room[[Filled.ROWS, *(_DATA[buffer] for buffer in self._of_data)]] = 0
        if self._has_headers:
            self._no_room[Filled.HEADERS] = 0
        self.capacity = self._no_room.copy()
        """upper bounds of the counters by `Filled`; no bound for unwanted buffers"""
        self.has_views = not self._wanted.isdisjoint((ArrowBuffer.KEY_VIEWS, ArrowBuffer.VALUE_VIEWS))
        self._viewed: list[pa.Buffer] = []
        self._in_use: set[int] = set()
        self._bytes_of_row: dict[ArrowBuffer, float] = {}
        self._headers_of_row = 0.0
        self._first_rows = rows
        self._most_bytes = most_bytes

    def count(self, what: Filled) -> int:
        """Return a counter."""
        return int(self.filled[what])

    def view(self, buffer: ArrowBuffer, kind: Any, count: int) -> npt.NDArray[Any]:
        """Return the first `count` items of a buffer as an array."""
        return self._blocks[buffer].view(kind, count)

    def arrow(self, buffer: ArrowBuffer) -> pa.Buffer:
        """Return a buffer as Arrow's."""
        return arrow_buffer(self._blocks[buffer].buffer)

    def number_of(self, memory: pa.Buffer) -> int:
        """Return the index of this memory in the list of data buffers of view columns. It is appended if it is not one
        of the last two in the list. The memory must be smaller than 2 GiB (not checked).
        """
        place = memory.address, memory.size
        for number in range(len(self._viewed) - 1, max(len(self._viewed) - 3, -1), -1):
            if (self._viewed[number].address, self._viewed[number].size) == place:
                return number
        self._viewed.append(memory)
        return len(self._viewed) - 1

    def keep(self, number: int) -> None:
        """Mark data buffer `number` as used by a view: `viewed` then contains it."""
        self._in_use.add(number)

    def point_into(self, memory: bytes | memoryview) -> None:
        """Set the memory into which the next views point. It is added to the data buffers, and kept with the
        columns.
        """
        number = self.number_of(arrow_buffer(memory))
        self.keep(number)
        self.addresses[ArrowBuffer.VIEWED] = self._viewed[number].address
        self.addresses[ArrowBuffer.VIEWED_NUMBER] = number

    @property
    def viewed(self) -> list[pa.Buffer]:
        """Data buffers of the view columns by number. Those into which no view points are replaced by an empty
        buffer.
        """
        nothing = arrow_buffer(b"")
        return [memory if number in self._in_use else nothing for number, memory in enumerate(self._viewed)]

    def ensure(self, rows: int, record_bytes: int, records: int | None = None) -> None:
        """Make the buffers large enough for `rows` more rows and `record_bytes` more bytes of encoded records. The room
        suffices for any records of this size. `records` is the number of records in these bytes (None: `rows`); it only
        improves the estimate for new buffers. A buffer that grows is copied to new memory, and its address in
        `addresses` changes.
        """
        filled, capacity = self.filled.tolist(), self.capacity.tolist()
        of_these = record_bytes / max(rows if records is None else records, 1)
        slack = min(record_bytes, _MOST_SLACK)
        need, row_capacity = filled[Filled.ROWS] + rows, capacity[Filled.ROWS]
        if need > row_capacity or not row_capacity:
            self.capacity[Filled.ROWS] = row_capacity = max(need, 2 * row_capacity, self._first_rows)
            self._resize(self._of_rows, filled[Filled.ROWS], row_capacity)
        for buffer in self._of_data:
            block = self._blocks.get(buffer)
            used = filled[_DATA[buffer]]
            least = used + record_bytes
            if block is None or block.size < least:
                if block is not None:
                    estimate = 2 * block.size
                else:  # room for all rows, if the next are as large as these: to grow a buffer is to copy it
                    of_row = self._bytes_of_row.get(buffer, _SHARES.get(buffer, 0) * of_these)
                    estimate = min(int(of_row * row_capacity), self._most_bytes) + slack
                self._put(buffer, max(least, estimate), used)
                self.capacity[_DATA[buffer]] = self._blocks[buffer].size
        if self._has_headers:
            headers = filled[Filled.HEADERS] + record_bytes // SMALLEST_HEADER
            header_capacity = capacity[Filled.HEADERS]
            if headers > header_capacity or not header_capacity:
                estimate = int(self._headers_of_row * row_capacity) + slack // SMALLEST_HEADER
                self.capacity[Filled.HEADERS] = header_capacity = max(headers, 2 * header_capacity, estimate)
                self._resize(_OF_HEADERS, filled[Filled.HEADERS], header_capacity)

    def _resize(self, buffers: Iterable[ArrowBuffer], used: int, items: int) -> None:
        """Make each buffer large enough for `items` + 1 items, because Arrow has one more end offset than rows. If a
        buffer must grow, its first `used` + 1 items are copied to new memory. The first end offset of a new buffer is
        set to 0.
        """
        for buffer in buffers:
            block, size = self._blocks.get(buffer), (items + 1) * _ITEM_BYTES[buffer]
            if block is None or block.size < size:
                self._put(buffer, size, (used + 1) * _ITEM_BYTES[buffer])
            if block is None and buffer in _ENDS:
                self.view(buffer, np.int32, 1)[0] = 0

    def _put(self, buffer: ArrowBuffer, size: int, used: int) -> None:
        block = self._blocks.get(buffer)
        self._blocks[buffer] = block = Block(size) if block is None else block.grown(size, used)
        self.addresses[buffer] = block.address

    def reset(self) -> None:
        """Start a new Arrow batch: set all counters to 0 and forget the data buffers of view columns. Keep for reuse
        the validity bytes, which Arrow never gets, and, if there were no headers, the buffers for headers. Release all
        others, which may belong to Arrow arrays. If there were rows, their bytes per row, and a little more, become the
        estimate for the next buffers.
        """
        filled = self.filled.tolist()
        if filled[Filled.ROWS]:
            for buffer in self._of_data:
                self._bytes_of_row[buffer] = _A_LITTLE_MORE * filled[_DATA[buffer]] / filled[Filled.ROWS]
            self._headers_of_row = _A_LITTLE_MORE * filled[Filled.HEADERS] / filled[Filled.ROWS]
        stays, header_capacity = _NEVER_GIVEN, 0
        if not filled[Filled.HEADERS]:
            stays, header_capacity = stays | _ALL_OF_HEADERS, self.capacity[Filled.HEADERS]
        self._blocks = {buffer: block for buffer, block in self._blocks.items() if buffer in stays}
        self.addresses[:], self.capacity[:], self.filled[:] = 0, self._no_room, 0
        self.capacity[Filled.HEADERS] = header_capacity
        for buffer, block in self._blocks.items():
            self.addresses[buffer] = block.address
            if buffer in _DATA:
                self.capacity[_DATA[buffer]] = block.size
        self._viewed = []
        self._in_use = set()
