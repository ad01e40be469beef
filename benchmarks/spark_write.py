"""How fast Spark writes a log directory, beside a writer that takes the same batches and keeps nothing.

`python benchmarks/spark_write.py`.  Spark makes keys and 100-byte values itself; the second writer is the ceiling of
what any Python sink can reach.  What was written is counted by reading it.  `--quick` is for correctness only.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from support.local_session import local_session
from support.spark_table import OURS, Work, measured, place

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

NOTHING = "keeping nothing"
TASKS = PARTITIONS = 4


class KeepingNothing(DataSource):
    """A sink that lets go of what it is given."""

    @classmethod
    def name(cls) -> str:
        return "keeping_nothing"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return KeepingNothingWriter()


class KeepingNothingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


def made(spark: SparkSession, rows: int) -> DataFrame:
    """Keys and values of so many rows."""
    key, value = "cast(cast(id as string) as binary)", "cast(lpad(cast(id as string), 100, 'x') as binary)"
    return spark.range(0, rows, 1, TASKS).selectExpr(f"{key} as key", f"{value} as value")


def works(spark: SparkSession, folder: Path, rows: int) -> list[Work]:
    """The lines of the table."""

    def into(name: str, compression: str) -> Callable[[], int]:
        def write() -> int:
            target = folder / "written"
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            options = {"topic": "bench", "numPartitions": str(PARTITIONS), "compression.type": compression}
            writer = made(spark, rows).write.format(name).mode("append")
            writer.options(**(options if name == OURS else {})).save(str(target))
            return rows

        return write

    into(OURS, "none")()
    there = spark.read.format("kafkalog").load(str(folder / "written")).count()
    if there != rows:
        raise SystemExit(f"{rows} rows were written, and there are {there}")
    return [
        Work(f"write, {codec}", {OURS: into("kafkalog", codec), NOTHING: into("keeping_nothing", codec)})
        for codec in ("none", "lz4")
    ]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small and for correctness only")
    arguments = parser.parse_args()
    rounds, rows = (1, 200_000) if arguments.quick else (arguments.rounds, arguments.rows)
    with tempfile.TemporaryDirectory() as name:
        spark = local_session()
        spark.dataSource.register(KeepingNothing)
        try:
            print(f"{place(spark)}; {rows} rows, median of {rounds}")
            measured(works(spark, Path(name), rows), rounds)
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
