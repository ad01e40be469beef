"""How fast Spark reads a log directory, beside the same Arrow batches from memory: `python benchmarks/spark_read.py`.

Makes a seeded topic of 100-byte values in 16 KiB batches in a temporary folder, then runs both sources in turn in one
session.  The second source yields batches that were built before: the ceiling of what any Python source can reach.
Then come tasks of other sizes than the default, counting by the headers of batches beside counting records, and a
stream with Trigger.AvailableNow beside a batch query over the same files.  `--quick` is for
correctness only: few rows, one round, counts compared.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from support.local_session import local_session
from support.spark_table import OURS, Work, measured, place
from support.spark_topics import write_topic

from kafkalog import RecordFilter
from kafkalog.log import open_partition

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

MEMORY, BATCH, DEFAULT, RECORDS = "from memory", "batch read", "tasks of 64 MiB", "counting records"
TASK_MIB = 16, 128, 256
HEADERS = "topic string, partition int, count int, baseOffset bigint, lastOffset bigint, size int"
GOAL = 0.6
STREAM_GOAL = 0.8
SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
BATCH_ROWS = 10_000


class FromMemory(DataSource):
    """The same columns from an Arrow batch that lies in memory."""

    @classmethod
    def name(cls) -> str:
        return "from_memory"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return FromMemoryReader(self.options["path"], int(self.options["rows"]), int(self.options["tasks"]), schema)


class FromMemoryReader(DataSourceReader):
    def __init__(self, path: str, rows: int, tasks: int, schema: StructType) -> None:
        self.path, self.rows, self.tasks, self.columns = path, rows, tasks, schema.names

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = pa.ipc.open_file(pa.memory_map(self.path)).get_batch(0).select(self.columns)
        left = self.rows // self.tasks + (partition.value < self.rows % self.tasks)
        while left > 0:
            yield batch.slice(0, min(left, batch.num_rows))
            left -= batch.num_rows


def keep_batch(topic: Path, target: Path) -> None:
    """The first rows of a partition as one Arrow batch, in a file that is mapped, not read."""
    columns = [field.split()[0] for field in SCHEMA.split(", ")]
    reader = open_partition(topic).to_arrow(columns, RecordFilter(end_offset=BATCH_ROWS), batch_rows=BATCH_ROWS)
    (batch,) = reader.read_all().combine_chunks().to_batches()
    with pa.ipc.new_file(str(target), batch.schema) as file:
        file.write_batch(batch)


Query = Callable[[DataFrame], object]
QUERIES: dict[str, tuple[str, Query]] = {
    "count of all columns": (SCHEMA, lambda frame: frame.count()),
    "sum(length(value))": (SCHEMA, lambda frame: frame.selectExpr("sum(length(value))").collect()),
    "all columns into noop": (SCHEMA, lambda frame: into_noop(frame)),
    "only value": ("value binary", lambda frame: frame.selectExpr("sum(length(value))").collect()),
    "only offset": ("offset bigint", lambda frame: frame.count()),
}


def into_noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def streamed(spark: SparkSession, path: str, checkpoints: Path) -> tuple[int, float]:
    """All there is as one stream into nothing; how many rows Spark says there were, and the seconds of its triggers."""
    frame = spark.readStream.format("kafkalog").option("startingOffsets", "earliest").load(path)
    checkpoint = checkpoints / str(len(list(checkpoints.iterdir())))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    triggers = query.recentProgress
    seconds = sum(progress["durationMs"]["triggerExecution"] for progress in triggers) / 1000
    return sum(int(progress["numInputRows"]) for progress in triggers), seconds


def works(spark: SparkSession, folder: Path, rows: int) -> list[Work]:
    """The lines of the table."""
    found, path = [], str(folder / "data")
    tasks = spark.read.format("kafkalog").load(path).rdd.getNumPartitions()

    def reading(query: Query, frame: Callable[[], DataFrame]) -> Callable[[], int]:
        def run() -> int:
            query(frame())
            return rows

        return run

    for title, (schema, query) in QUERIES.items():
        ours = spark.read.format("kafkalog").schema(schema)
        memory = spark.read.format("from_memory").schema(schema).options(rows=rows, tasks=tasks)
        frames: dict[str, Callable[[], DataFrame]] = {
            OURS: lambda ours=ours: ours.load(path),  # type: ignore[misc]
            MEMORY: lambda memory=memory: memory.load(str(folder / "batch.arrow")),  # type: ignore[misc]
        }
        counts = {name: frame().count() for name, frame in frames.items()}
        if set(counts.values()) != {rows}:
            raise SystemExit(f"{title}: {rows} rows were written, and read were {counts}")
        runs = {name: reading(query, frame) for name, frame in frames.items()}
        found.append(Work(title, runs, {MEMORY: GOAL}))
    return [*found, *task_sizes(spark, path, rows), by_headers(spark, path, rows), *stream(spark, folder, rows)]


def task_sizes(spark: SparkSession, path: str, rows: int) -> list[Work]:
    """The same read in tasks of other sizes."""

    def run(mib: int) -> int:
        into_noop(spark.read.format("kafkalog").option("maxPartitionBytes", mib << 20).load(path))
        return rows

    return [
        Work(f"tasks of {mib} MiB, all columns into noop", {OURS: lambda mib=mib: run(mib), DEFAULT: lambda: run(64)})  # type: ignore[misc]
        for mib in TASK_MIB
    ]


def by_headers(spark: SparkSession, path: str, rows: int) -> Work:
    """How many records there are, from which offset to which and in how many bytes."""

    def headers() -> int:
        frame = spark.read.format("kafkalog").option("contents", "batches").schema(HEADERS).load(path)
        total = {"count": "sum", "baseOffset": "min", "lastOffset": "max", "size": "sum"}
        found = frame.groupBy("topic", "partition").agg(total).selectExpr("sum(`sum(count)`)").collect()[0][0]
        if found != rows:
            raise SystemExit(f"{rows} rows were written, and the headers count {found}")
        return rows

    def records() -> int:
        return spark.read.format("kafkalog").load(path).count()

    return Work("counting by headers (contents=batches)", {OURS: headers, RECORDS: records})


def stream(spark: SparkSession, folder: Path, rows: int) -> list[Work]:
    """A stream over the files beside a batch query over them; and over few rows, for what starting a stream takes."""
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir()
    few = write_topic(folder / "little", "little", rows // 20, 4)

    def batch(path: Path, count: int) -> int:
        into_noop(spark.read.format("kafkalog").load(str(path)))
        return count

    def run(path: Path, count: int) -> tuple[int, float]:
        there, seconds = streamed(spark, str(path), checkpoints)
        if there != count:
            raise SystemExit(f"{count} rows were written, and streamed were {there}")
        return there, seconds

    whole = Work(
        "stream (AvailableNow) into noop",
        {OURS: lambda: run(folder / "data", rows)[0], BATCH: lambda: batch(folder / "data", rows)},
        {},
        {OURS: lambda: run(folder / "little", few)[0], BATCH: lambda: batch(folder / "little", few)},
    )
    trigger = Work(
        "stream into noop, its trigger alone",
        {OURS: lambda: run(folder / "data", rows), BATCH: lambda: batch(folder / "data", rows)},
        {BATCH: STREAM_GOAL},
    )
    return [whole, trigger]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="lines whose title this expression finds")
    parser.add_argument("--quick", action="store_true", help="small and for correctness only")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else arguments.rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = write_topic(folder / "data", "bench", 100_000 if arguments.quick else arguments.rows, 4)
        keep_batch(folder / "data" / "bench-0", folder / "batch.arrow")
        spark = local_session()
        spark.dataSource.register(FromMemory)
        try:
            size = sum(path.stat().st_size for path in folder.rglob("*.log"))
            print(f"{place(spark)}; {rows} rows, {size / 1e6:.0f} MB of log, median of {rounds}")
            measured([work for work in works(spark, folder, rows) if re.search(arguments.only, work.title)], rounds)
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
