"""A map of latest offsets into which compiled code puts many keys at once. Needs numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kafkalog.codec.columnar.decompressed import OpenedBatches
from kafkalog.codec.common.buffer_pool import Block
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.native.functions import choose_records, move_keys, put_keys
from kafkalog.codec.native.tables import ROW_BYTES, KeyMap, RetainedBatch, empty_table
from kafkalog.log.storage.cleaning.offset_map import FULL, SLOT_BYTES, OffsetMap

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

__all__ = ["KeyColumns"]


_LARGEST = DEFAULT_LIMITS.headers_per_record


def _address(memory: bytearray) -> int:
    return int(np.frombuffer(memory, np.uint8).ctypes.data)


class KeyColumns(OffsetMap):
    """Offset map into which compiled code also puts the keys of many batches at once."""

    def __init__(self, slots: int, limit: int) -> None:
        super().__init__(slots, limit)
        self._memory: Block | None = None

    def _take_over(self, old: bytearray) -> None:
        move_keys(_address(old), len(old) // SLOT_BYTES, _address(self._table), self._slots)

    def _rows(self, opened: OpenedBatches) -> int:
        """Return the address of scratch memory for the records of the largest of the opened batches. It is reused by
        later calls.
        """
        size = ROW_BYTES * opened.most_records
        if self._memory is None or self._memory.size < size:
            self._memory = Block(size)
        return self._memory.address

    def put_batches(self, opened: OpenedBatches, low: int) -> tuple[int, int | None]:
        """Put the keys of records with offset `low` or higher into the map. Stop when it is full, or at a batch that
        compiled code cannot read. Return the number of batches that were put in completely, and an offset. If the map
        became full, it is the last offset that was put in from the next batch, or -1 if there is none. Otherwise it is
        None. The table may grow; `latest_offset` is not changed.
        """
        while self._slots < self._largest and self._used + opened.records > self._slots * FULL:
            self._grow()
        state = np.zeros(len(KeyMap), np.int64)
        state[KeyMap.USED], state[KeyMap.LIMIT] = self._used, self._limit
        processed: int = put_keys(
            opened.addresses, opened.sizes, opened.headers, opened.first, low, _LARGEST, _address(self._table),
            self._slots, self._rows(opened), state,
        )  # fmt: skip
        self._used = int(state[KeyMap.USED])
        return processed, int(state[KeyMap.LAST_PUT]) if state[KeyMap.IS_FULL] else None

    def choose(self, opened: OpenedBatches, keeps_deletes: Int64s) -> tuple[Int64s, npt.NDArray[np.uint8]]:
        """Choose the records that cleaning keeps, up to the first batch that compiled code cannot read. `keeps_deletes`
        has 1 for each batch whose tombstones must be kept, and 0 for every other batch.

        Return a `RetainedBatch` table with a column for each batch processed, and an array with a flag for each record
        (1 if it is kept). The table has addresses of the flags, so the caller must hold the array while it uses the
        table.
        """
        chosen = empty_table(RetainedBatch, len(opened.addresses))
        flags = np.empty(opened.records, np.uint8)
        processed = choose_records(
            opened.addresses, opened.sizes, opened.headers, opened.first, self.latest_offset, _LARGEST,
            _address(self._table), self._slots, self._rows(opened), keeps_deletes, flags.ctypes.data, chosen,
        )  # fmt: skip
        return np.ascontiguousarray(chosen[:, :processed]), flags
