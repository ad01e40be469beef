"""Build Arrow batches of v0 and v1 entries, which have fewer fields than v2 batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kafkalog.codec.columnar.builder import RecordBatchBuilder
from kafkalog.codec.columnar.schema import COLUMNS, Column
from kafkalog.codec.native.tables import ArrowBuffer

__all__ = ["MessageBatchBuilder"]


class MessageBatchBuilder(RecordBatchBuilder):
    """Builder for which `headers` are tables with the rows of `MessageColumn`."""

    def buffers_of(self, name: str) -> tuple[ArrowBuffer, ...]:
        """Return the buffers of a column; an empty tuple if v0 and v1 messages do not have the field."""
        return COLUMNS[name].buffers if COLUMNS[name].is_in_messages else ()

    def value_of_batch(self, name: str) -> Any:
        """Return the function from a table of headers to the column's value for each entry; None if the column does not
        depend on headers.
        """
        return COLUMNS[name].of_message

    def _column(self, name: str, column: Column) -> pa.Array:
        return super()._column(name, column) if column.is_in_messages else self.repeated(name, column.without)
