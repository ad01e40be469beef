"""Starts Spark on two threads, counts rows and adds up the sizes of their values, and ends: a process of `bounds.py`.

The arguments are what is read, where it is, and where to write JSON: `rows` and `bytes`, and the seconds of the
`processor` that this process, the JVM and Python's workers took, up to the session and in all.  `kafkalog` is followed
by a log directory; `from-memory` by an Arrow file whose batch, repeated, makes the same rows, their number, and that of
tasks; `nothing` is no source at all.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from local_session import local_session
from process_times import tree_seconds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

FROM_MEMORY, NOTHING = "from-memory", "nothing"


class FromMemory(DataSource):
    """The same columns from an Arrow batch that lies in memory."""

    @classmethod
    def name(cls) -> str:
        return FROM_MEMORY

    def schema(self) -> StructType:
        return from_arrow_schema(batch_of(self.options["path"].split(",")[0]).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        path, rows, tasks = self.options["path"].split(",")
        return FromMemoryReader(path, int(rows), int(tasks))


class FromMemoryReader(DataSourceReader):
    def __init__(self, path: str, rows: int, tasks: int) -> None:
        self.path, self.rows, self.tasks = path, rows, tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = batch_of(self.path)
        left = self.rows // self.tasks + (partition.value < self.rows % self.tasks)
        while left > 0:
            yield batch.slice(0, min(left, batch.num_rows))
            left -= batch.num_rows


def batch_of(path: str) -> pa.RecordBatch:
    return pa.ipc.open_file(pa.memory_map(path)).get_batch(0)


def frame_of(spark: SparkSession, source: str, path: str) -> DataFrame:
    if source == NOTHING:
        return spark.range(1).selectExpr("cast('value' as binary) as value")
    spark.dataSource.register(FromMemory)
    return spark.read.format(source).load(path)


def main(source: str, path: str, target: str) -> None:
    """One query; what it took is written to `target`."""
    spark = local_session()
    session = tree_seconds(os.getpid())
    rows, size = frame_of(spark, source, path).selectExpr("count(*)", "sum(length(value))").collect()[0]
    told = {"rows": rows, "bytes": size, "processor": [session, tree_seconds(os.getpid())]}
    Path(target).write_text(json.dumps(told), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
