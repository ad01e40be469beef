"""Arrow batches of v0 and v1 entries, which have fewer fields than `builder` expects of a batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kafkalog.codec.columnar.builder import RecordBatchBuilder
from kafkalog.codec.columnar.schema import COLUMNS, Column
from kafkalog.codec.native.tables import ArrowBuffer

__all__ = ["MessageBatchBuilder"]


class MessageBatchBuilder(RecordBatchBuilder):
    """Is told tables of `MessageColumn`."""

    def buffers_of(self, name: str) -> tuple[ArrowBuffer, ...]:
        """The buffers that a column is made of; none where messages have no such field."""
        return COLUMNS[name].buffers if COLUMNS[name].is_in_messages else ()

    def value_of_batch(self, name: str) -> Any:
        """What gives the value of each entry from a table of headers, where a column follows from them; else None."""
        return COLUMNS[name].of_message

    def _column(self, name: str, column: Column) -> pa.Array:
        return super()._column(name, column) if column.is_in_messages else self.repeated(name, column.without)
