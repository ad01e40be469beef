"""Write a Parquet or Arrow file of records, which is created completely or not at all (see `new_file`)."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from kafkalog.codec.common.errors import UsageError
from kafkalog.log.directories.outside import require_outside
from kafkalog.log.disk.new_file import NewFile

__all__ = ["ColumnsFile"]


class _Stream(io.RawIOBase):
    """File object into which pyarrow writes. After `give_up` it ignores the bytes that pyarrow still writes when it is
    closed.
    """

    def __init__(self, file: NewFile) -> None:
        super().__init__()
        self._file = file
        self._is_given_up = False

    def give_up(self) -> None:
        """Remove the written file, and ignore later writes."""
        self._is_given_up = True
        self._file.give_up()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.size

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if not self._is_given_up:
            self._file.append(view)
        return len(view)


class ColumnsFile:
    """Writer of Arrow batches of one schema to a new file, as a context manager: after an error or interrupt no file is
    left. Raises `UsageError` if `path` exists, its folder does not, or it is in a log directory or in one of the
    directories `examined`. Raises `StorageError` for I/O errors. For Arrow, the suffix `.arrows` selects the stream
    format, any other the file format. `options` are those of pyarrow's `ParquetWriter`. With `anywhere` the place of
    the file is not checked, because the caller has done it.
    """

    def __init__(
        self,
        path: str,
        schema: pa.Schema,
        *,
        parquet: bool,
        examined: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        anywhere: bool = False,
    ) -> None:
        self.path = path
        if os.path.lexists(path):
            raise UsageError(f"{path} already exists; only a new file can be written")
        if not anywhere:
            require_outside(path, examined)
        self._options = {"compression": "zstd", **(options or {})}
        self._file = NewFile(path)
        self._stream = _Stream(self._file)
        try:
            self._writer = self._make(schema, parquet=parquet)
        except BaseException:
            self._stream.give_up()
            raise

    def _make(self, schema: pa.Schema, *, parquet: bool) -> Any:
        if parquet:
            import pyarrow.parquet as pq

            return pq.ParquetWriter(self._stream, schema, **self._options)
        if self.path.endswith(".arrows"):
            return pa.ipc.new_stream(self._stream, schema)
        return pa.ipc.new_file(self._stream, schema)

    @property
    def size(self) -> int:
        """Number of bytes written so far."""
        return self._file.size

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch."""
        self._writer.write_batch(batch)

    def write_table(self, table: pa.Table) -> None:
        """Append the rows of a table; in Parquet as one row group, unless they exceed its `row_group_size`."""
        self._writer.write_table(table)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._stream.give_up()
            return
        try:
            self._writer.close()
        except BaseException:
            self._stream.give_up()
            raise
        self._file.finish()
