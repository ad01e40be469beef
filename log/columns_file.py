"""A new Parquet or Arrow file of records, whole or not at all: written under another name and renamed at its end."""

from __future__ import annotations

import io
import os
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from kafkalog.codec.errors import StorageError, UsageError
from kafkalog.codec.names import META_PROPERTIES, parse_segment_file
from kafkalog.log import fs
from kafkalog.log.files import Entry, absolute, exists, is_directory, scan_directory

__all__ = ["ColumnsFile"]


class _Stream(io.RawIOBase):
    """What pyarrow writes into."""

    def __init__(self, file: fs.AppendFile) -> None:
        super().__init__()
        self._file = file

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.size

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._file.append(view)
        return len(view)


def _entries(directory: str) -> list[Entry]:
    """What is in a directory; nothing where one may only pass through."""
    try:
        return scan_directory(directory)
    except StorageError:
        return []


class ColumnsFile:
    """Takes Arrow batches of one schema; a context manager: an error, or an interrupt, leaves nothing behind.

    `path` must not exist and must not lie in a log directory, where a broker would meet it; `UsageError` otherwise.
    Its name decides between Arrow's two formats: `.arrows` is a stream.  Raises `StorageError` for I/O.
    """

    def __init__(self, path: str, schema: pa.Schema, *, parquet: bool) -> None:
        self.path = path
        self._refuse(path)
        self._temporary = f"{path}.{os.getpid()}.tmp"
        self._file = fs.AppendFile(self._temporary, create=True)
        self._stream = _Stream(self._file)
        try:
            self._writer = self._make(schema, parquet=parquet)
        except BaseException:
            self._give_up()
            raise

    @staticmethod
    def _refuse(path: str) -> None:
        if exists(path):
            raise UsageError(f"{path} exists already; what is written is a new file")
        directory = os.path.dirname(absolute(path))
        if not is_directory(directory):
            raise UsageError(f"{directory} is not a directory")
        while True:
            for entry in _entries(directory):
                parsed = parse_segment_file(entry.name)
                if entry.name == META_PROPERTIES or (parsed is not None and parsed.is_live_log):
                    raise UsageError(f"{path} lies in {directory}, which is a log directory or a partition")
            above = os.path.dirname(directory)
            if above == directory:
                return
            directory = above

    def _make(self, schema: pa.Schema, *, parquet: bool) -> Any:
        if parquet:
            import pyarrow.parquet as pq

            return pq.ParquetWriter(self._stream, schema, compression="zstd")
        if self.path.endswith(".arrows"):
            return pa.ipc.new_stream(self._stream, schema)
        return pa.ipc.new_file(self._stream, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch."""
        self._writer.write_batch(batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._give_up()
            return
        try:
            self._writer.close()
            self._file.sync()
            self._file.close()
            if exists(self.path):
                raise UsageError(f"{self.path} has come to exist while it was written; nothing was put in its place")
            fs.rename(self._temporary, self.path)
            fs.sync_directory(os.path.dirname(absolute(self.path)))
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        self._file.close()
        fs.remove(self._temporary)
