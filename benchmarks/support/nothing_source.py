"""A data source in Python whose tasks do nothing: what is left is what Spark itself takes for a task."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

__all__ = ["NothingSource"]


class _NothingReader(DataSourceReader):
    def __init__(self, tasks: int) -> None:
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return iter(())


class NothingSource(DataSource):
    """`nothing`: as many empty tasks as the option `minPartitions` says."""

    @classmethod
    def name(cls) -> str:
        """The format."""
        return "nothing"

    def schema(self) -> str:
        """One column, as any."""
        return "value binary"

    def reader(self, schema: object) -> DataSourceReader:
        """The reader."""
        return _NothingReader(int(self.options["minPartitions"]))
