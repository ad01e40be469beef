"""How fast Spark reads a log directory, beside the same Arrow batches from memory: `python benchmarks/spark_read.py`.

Makes a seeded topic of 100-byte values in 16 KiB batches in a temporary folder, then runs both sources interleaved in
one session and prints the median of each query in rows a second.  The second source yields batches that were built
before: the ceiling of what any Python source can reach.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from kafkalog.codec.crc32c import crc32c
from kafkalog.codec.layout.record_batch import RECORD
from kafkalog.codec.model import BATCH, LOG_OVERHEAD
from kafkalog.log import open_partition

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

VALUE_BYTES = 100
RECORDS_OF_A_BATCH = 140
PARTITIONS = 2
SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


def batch_template(seed: int) -> bytes:
    """One batch of random records; only its base offset differs from copy to copy, and no checksum covers that."""
    source = random.Random(seed)
    records = bytearray()
    for number in range(RECORDS_OF_A_BATCH):
        fields = {"attributes": 0, "timestamp_delta": number, "offset_delta": number, "headers": [],
                  "key": source.randbytes(10), "value": source.randbytes(VALUE_BYTES)}  # fmt: skip
        size = len(RECORD.build(fields | {"length": 0})) - 1
        records += RECORD.build(fields | {"length": size})
    values = dict.fromkeys(BATCH.names, 0) | {
        "batch_length": BATCH.size - LOG_OVERHEAD.size + len(records), "magic": 2,
        "last_offset_delta": RECORDS_OF_A_BATCH - 1, "base_timestamp": 1_700_000_000_000,
        "max_timestamp": 1_700_000_000_000 + RECORDS_OF_A_BATCH, "producer_id": -1, "producer_epoch": -1,
        "base_sequence": -1, "records_count": RECORDS_OF_A_BATCH,
    }  # fmt: skip
    values["crc"] = crc32c((BATCH.struct.pack(*values.values()) + records)[BATCH.end("crc") :])
    return BATCH.struct.pack(*values.values()) + bytes(records)


def write_topic(folder: Path, rows: int) -> int:
    """The partitions of one topic; returns how many rows there are."""
    batches = -(-rows // PARTITIONS // RECORDS_OF_A_BATCH)
    for partition in range(PARTITIONS):
        directory = folder / f"bench-{partition}"
        directory.mkdir()
        templates = [batch_template(seed)[8:] for seed in range(16)]
        with (directory / f"{0:020}.log").open("wb") as log:
            for number in range(batches):
                log.write((number * RECORDS_OF_A_BATCH).to_bytes(8, "big") + templates[number % len(templates)])
    return batches * RECORDS_OF_A_BATCH * PARTITIONS


class FromMemory(DataSource):
    """The same columns from Arrow batches that every worker builds once."""

    @classmethod
    def name(cls) -> str:
        return "from_memory"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return FromMemoryReader(self.options["path"], int(self.options["rows"]), schema.names)


class FromMemoryReader(DataSourceReader):
    def __init__(self, path: str, rows: int, columns: list[str]) -> None:
        self.path, self.rows, self.columns = path, rows, columns

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        reader = open_partition(self.path).to_arrow(self.columns, end_offset=10_000, batch_rows=10_000)
        batch = reader.read_all().combine_chunks().to_batches()[0]
        for _ in range(self.rows // PARTITIONS // batch.num_rows):
            yield batch


Query = Callable[[DataFrame], object]
QUERIES: dict[str, tuple[str, Query]] = {
    "count of all columns": (SCHEMA, lambda frame: frame.count()),
    "sum(length(value))": (SCHEMA, lambda frame: frame.selectExpr("sum(length(value))").collect()),
    "all columns into noop": (SCHEMA, lambda frame: frame.write.format("noop").mode("overwrite").save()),
    "only value": ("value binary", lambda frame: frame.selectExpr("sum(length(value))").collect()),
    "only offset": ("offset bigint", lambda frame: frame.count()),
}


def seconds(run: Callable[..., object], *arguments: object) -> float:
    start = time.perf_counter()
    run(*arguments)
    return time.perf_counter() - start


def without_spark(folder: Path, rows: int) -> str:
    def read() -> None:
        for partition in range(PARTITIONS):
            for _ in open_partition(folder / f"bench-{partition}").to_arrow(batch_rows=10_000):
                pass

    read()
    return f"{rows / min(seconds(read) for _ in range(3)) / 1e6:.2f} M rows/s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = write_topic(folder, arguments.rows)
        size = sum(path.stat().st_size for path in folder.rglob("*.log"))
        print(f"{rows} rows, {size / 1e6:.0f} MB of log, {os.cpu_count()} cores, {platform.machine()}, "
              f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")  # fmt: skip
        print(f"to_arrow without Spark, one thread: {without_spark(folder, rows)}")
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        spark.dataSource.register(FromMemory)
        made = rows // PARTITIONS // 10_000 * 10_000 * PARTITIONS
        print(f"{'query':24}{'kafkalog':>14}{'from memory':>14}{'ratio':>8}")
        for title, (schema, query) in QUERIES.items():
            ours = spark.read.format("kafkalog").schema(schema)
            memory = spark.read.format("from_memory").schema(schema).options(rows=made)
            taken: dict[str, list[float]] = {"ours": [], "memory": []}
            for number in range(arguments.repeat + 1):
                one = seconds(query, ours.load(name))
                other = seconds(query, memory.load(str(folder / "bench-0")))
                if number:  # the first run of each warms the workers
                    taken["ours"].append(one)
                    taken["memory"].append(other)
            reached, ceiling = rows / statistics.median(taken["ours"]), made / statistics.median(taken["memory"])
            print(f"{title:24}{reached / 1e6:10.2f} M/s{ceiling / 1e6:10.2f} M/s{reached / ceiling:8.0%}")
        print(f"load {os.getloadavg()[0]:.1f}")
        spark.stop()


if __name__ == "__main__":
    main()
