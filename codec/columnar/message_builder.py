"""Arrow columns of v0 and v1 entries, filled by the compiled decoder: bare messages, and sets already decompressed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kafkalog.codec.columnar.builder import ColumnBuffers, ColumnFiller
from kafkalog.codec.columnar.schema import TYPES
from kafkalog.codec.headers.message_runs import MessageRun
from kafkalog.codec.kernels.messages import take_sets
from kafkalog.codec.limits import Limits
from kafkalog.codec.model import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_FLAG,
    TimestampType,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

__all__ = ["MessageColumns"]

_NEVER_THERE = {
    "headers": None,
    "leaderEpoch": NO_PARTITION_LEADER_EPOCH,
    "producerId": NO_PRODUCER_ID,
    "producerEpoch": NO_PRODUCER_EPOCH,
    "sequence": NO_SEQUENCE,
}
"""Columns that older messages have no field for, and what stands in them."""


class MessageColumns(ColumnFiller):
    """Takes entries of magic 0 and 1, gives one Arrow batch."""

    def __init__(
        self, schema: pa.Schema, topic: str | None, partition: int | None, limits: Limits, rows: int, most_bytes: int
    ) -> None:
        super().__init__(schema, topic, partition, limits, rows, most_bytes)
        self._scalars |= {name: pa.scalar(value, TYPES[name]) for name, value in _NEVER_THERE.items()}
        stored = [name for name in schema.names if name not in _NEVER_THERE]
        self.buffers = ColumnBuffers(stored, rows, most_bytes)
        self._types: list[Int64s] = []

    def fill_sets(
        self, addresses: Int64s, sizes: Int64s, run: MessageRun, found: Int64s, low: Int64s, high: int
    ) -> int:
        """Take the entries of a run, `found` as `survey` has it; how many were taken before one that holds a fault."""
        self.buffers.ensure(int(found[0].sum()), int(sizes.sum()))
        kept = np.zeros(len(addresses), np.int64)
        buffers = self.buffers
        done: int = take_sets(addresses, run.table, found, low, high, buffers.sinks, buffers.counters, kept)
        if "timestampType" in self._schema.names:
            self._kept.append(kept[:done])
            appended = (run["attributes"][:done] & TIMESTAMP_TYPE_FLAG) // TIMESTAMP_TYPE_FLAG
            none = int(TimestampType.NO_TIMESTAMP_TYPE)
            self._types.append(np.where(run["magic"][:done] == 0, none, appended))
        return done

    def drop(self) -> None:
        """Begin anew."""
        super().drop()
        self._types.clear()

    def _column(self, name: str) -> pa.Array:
        if name in _NEVER_THERE:
            return self._same(name, self.rows)
        if name == "timestampType":
            return pa.array(np.repeat(np.concatenate(self._types).astype(np.int32), np.concatenate(self._kept)))
        return super()._column(name)
