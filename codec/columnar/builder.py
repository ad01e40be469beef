"""Build Arrow batches from decoded records: buffers for the values in the records' bytes, and headers for the values of
their batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kafkalog.codec.columnar.buffers import ColumnBuffers
from kafkalog.codec.columnar.collector import Collector
from kafkalog.codec.columnar.schema import COLUMNS, TYPES, Column
from kafkalog.codec.native.tables import ArrowBuffer, Filled

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafkalog.codec.native.tables import Table

    Int64s = npt.NDArray[np.int64]

__all__ = ["RecordBatchBuilder"]

_LAST_ASCII = 0x7F


class RecordBatchBuilder(Collector):
    """Builder of one Arrow batch after another. It owns the buffers that compiled code fills; the headers of the
    decoded batches are passed to `add_headers`.
    """

    def __init__(self, schema: pa.Schema, topic: str | None, partition: int | None, rows: int, most_bytes: int) -> None:
        self._schema = schema
        self._constants = {"topic": topic, "partition": partition}
        self._repeated: dict[str, pa.Array] = {}
        self._viewed = {field.name for field in schema if pa.types.is_binary_view(field.type)}
        super().__init__((buffer for name in schema.names for buffer in self.buffers_of(name)), rows, most_bytes)
        self._rows_of_batch: list[Int64s] = []
        self._of_batch: dict[str, list[Int64s]] = {name: [] for name in schema.names if self.value_of_batch(name)}

    def buffers_of(self, name: str) -> tuple[ArrowBuffer, ...]:
        """Return the buffers of a column."""
        return COLUMNS[name].views if name in self._viewed else COLUMNS[name].buffers

    def value_of_batch(self, name: str) -> Any:
        """Return the function from a table of headers to the column's value for each batch; None if the column does not
        depend on headers.
        """
        return COLUMNS[name].of_batch

    def add_headers(self, headers: Table, rows: Int64s, window_start: int = 0) -> None:
        """Add to this object copies of the header fields of decoded batches that the wanted columns need; do nothing if
        they need none. `rows` has the number of appended rows of each batch. `window_start` is added to their byte
        positions.
        """
        if self._of_batch:
            self._rows_of_batch.append(rows.copy())
            for name, values in self._of_batch.items():
                batch_values = np.array(self.value_of_batch(name)(headers))
                values.append(batch_values + window_start if COLUMNS[name].is_place else batch_values)

    def build(self) -> pa.RecordBatch:
        """Return the decoded rows as an Arrow batch with the builder's schema, and forget them."""
        arrays = [self._column(name, COLUMNS[name]) for name in self._schema.names]
        self.reset()
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def reset(self) -> None:
        """Forget the decoded rows and start a new batch."""
        self._rows_of_batch = []
        for values in self._of_batch.values():
            values.clear()
        super().reset()

    def of_rows(self, name: str) -> npt.NDArray[Any]:
        """Return the values of a column that depends on headers, one for each row. For a column of texts these are the
        numbers of the texts.
        """
        values = np.concatenate(self._of_batch[name])
        if COLUMNS[name].words is None:
            values = values.astype(TYPES[name].to_pandas_dtype())
        return np.repeat(values, np.concatenate(self._rows_of_batch))

    def _column(self, name: str, column: Column) -> pa.Array:
        buffers, rows = self.buffers, self.rows
        if name in self._of_batch:
            words = column.words
            return pa.array(self.of_rows(name)) if words is None else words().take(pa.array(self.of_rows(name)))
        if not column.buffers:
            return self.repeated(name, self._constants[name])
        if name == "headers":
            return _headers(buffers, rows, column.type) if buffers.count(Filled.HEADERS) else self.repeated(name, None)
        if len(column.buffers) == 1:
            return pa.Array.from_buffers(column.type, rows, [None, buffers.arrow(column.buffers[0])], 0)
        if name == "timestamp":
            nulls = buffers.count(Filled.TIMESTAMP_NULLS)
            bits = _validity(buffers.view(ArrowBuffer.TIMESTAMP_VALID, np.uint8, rows)) if nulls else None
            return pa.Array.from_buffers(column.type, rows, [bits, buffers.arrow(ArrowBuffer.TIMESTAMP)], nulls)
        if name in self._viewed:
            return _views(buffers, rows, *column.views)
        ends, valid, data = column.buffers
        nulls = buffers.count(Filled[f"{data.name}_NULLS"])
        return _binary(buffers, rows, ends, data, column.type, valid if nulls else None, nulls)

    def repeated(self, name: str, value: object) -> pa.Array:
        """Return column `name` with `value` in every row of the current batch. `value` must be the same in every call
        for a name: the array is cached by name, and a later call may return the cached value.
        """
        rows = self.rows
        known = self._repeated.get(name)
        if known is None or len(known) < rows:
            # the next ones may have more
            self._repeated[name] = known = pa.repeat(pa.scalar(value, TYPES[name]), 2 * rows)
        return known[:rows]


def _validity(valid: npt.NDArray[Any]) -> pa.Buffer:
    """Convert a byte for each row to a bit for each row."""
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _binary(
    buffers: ColumnBuffers,
    rows: int,
    ends: ArrowBuffer,
    data: ArrowBuffer,
    kind: pa.DataType,
    valid: ArrowBuffer | None = None,
    nulls: int = 0,
) -> pa.Array:
    bits = None if valid is None else _validity(buffers.view(valid, np.uint8, rows))
    return pa.Array.from_buffers(kind, rows, [bits, buffers.arrow(ends), buffers.arrow(data)], nulls)


def _views(buffers: ColumnBuffers, rows: int, views: ArrowBuffer, valid: ArrowBuffer) -> pa.Array:
    name = views.name.removesuffix("_VIEWS")
    nulls = buffers.count(Filled[f"{name}_NULLS"])
    bits = _validity(buffers.view(valid, np.uint8, rows)) if nulls else None
    viewed = buffers.viewed if buffers.count(Filled[f"{name}_VIEWED"]) else []
    return pa.Array.from_buffers(pa.binary_view(), rows, [bits, buffers.arrow(views), *viewed], nulls)


def _header_keys(buffers: ColumnBuffers, headers: int) -> pa.Array:
    """Return the keys of the first `headers` headers as an Arrow string array. Invalid UTF-8 becomes U+FFFD."""
    keys = _binary(buffers, headers, ArrowBuffer.HEADER_KEY_ENDS, ArrowBuffer.HEADER_KEY, pa.string())
    if not (buffers.view(ArrowBuffer.HEADER_KEY, np.uint8, buffers.count(Filled.HEADER_KEY)) > _LAST_ASCII).any():
        return keys
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.cast(pa.binary()).to_pylist()], pa.string())
    return keys


def _headers(buffers: ColumnBuffers, rows: int, kind: pa.DataType) -> pa.Array:
    """Return the `headers` column of the first `rows` records, of the list type `kind`: a list of (key, value) structs
    for each record, null if the record has no headers. A header value may be null.
    """
    headers, nulls = buffers.count(Filled.HEADERS), buffers.count(Filled.HEADER_VALUE_NULLS)
    valid = ArrowBuffer.HEADER_VALUE_VALID if nulls else None
    values = _binary(
        buffers, headers, ArrowBuffer.HEADER_VALUE_ENDS, ArrowBuffer.HEADER_VALUE, pa.binary(), valid, nulls
    )
    pairs = pa.StructArray.from_arrays([_header_keys(buffers, headers), values], fields=list(kind.value_type))
    some = np.diff(buffers.view(ArrowBuffer.HEADER_ENDS, np.int32, rows + 1)) > 0
    without = rows - int(np.count_nonzero(some))
    bits = _validity(some) if without else None
    return pa.Array.from_buffers(kind, rows, [bits, buffers.arrow(ArrowBuffer.HEADER_ENDS)], without, children=[pairs])
