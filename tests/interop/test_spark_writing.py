"""What Spark's tasks and commits leave: Kafka opens it, changes nothing, and reads the records that were written."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType, TimestampType

from kafkalog.spark.commit import commit
from kafkalog.spark.schema import SPARK_TYPES
from kafkalog.spark.staging import begin, work_directory
from kafkalog.spark.write_task import Prepared, write_task
from testkit.kafka.kafka_oracle import KafkaOracle

META = "#\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.id=1\ndirectory.id=AAAAAAAAAAMAAAAAAAAABA\n"
T0 = 1_700_000_000_000
SCHEMA = (
    StructType().add("topic", StringType()).add("partition", IntegerType()).add("key", BinaryType())
    .add("value", BinaryType()).add("timestamp", TimestampType()).add("headers", SPARK_TYPES["headers"])
)  # fmt: skip
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
Row = tuple[int, bytes | None, bytes | None, int]


def rows(task: int) -> list[Row]:
    """Partition, key, value, time."""
    found: list[Row] = []
    for n in range(300):
        key = None if n % 7 == 0 else b"k%d" % n
        value = None if n % 11 == 0 else b"%d/%d" % (task, n) * (n % 13)
        found.append((n % 3, key, value, T0 + n))
    return found


def batch(task: int) -> pa.RecordBatch:
    partitions, keys, values, times = zip(*rows(task), strict=True)
    headers = [[{"key": "h", "value": b"x"}] if n % 2 else None for n in range(len(keys))]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(["t"] * len(keys)),
            pa.array(partitions, pa.int32()),
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
            pa.array([time * 1000 for time in times], pa.timestamp("us", tz="UTC")),
            pa.array(headers, HEADERS),
        ],
        ["topic", "partition", "key", "value", "timestamp", "headers"],
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kafka_opens_what_spark_wrote_and_reads_every_record(
    codec: str, kafka: KafkaOracle, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    root = tmp_path / "data"
    root.mkdir()
    (root / "meta.properties").write_text(META)
    options = {"path": str(root), "compression.type": codec, "segment.bytes": "4000", "batch.size": "400",
               "index.interval.bytes": "200"}  # fmt: skip
    params: dict[str, Any] = {"segment.bytes": 4000, "index.interval.bytes": 200, "now_ms": T0 + 1000}
    for _ in range(2):  # the second job goes on where the first one ended
        prepared = Prepared(options, SCHEMA, overwrite=False)
        begin(work_directory(str(root)), prepared.job)
        staged = [write_task(prepared, iter([batch(task)]), prepared.job, task, "0") for task in range(2)]
        commit(prepared.options, staged, overwrite=False)
    for unclean in (0, 1):
        answer = kafka.check(root, {**params, "force_unclean": unclean})
        assert answer["accepted"], (unclean, answer)
    entries = kafka.read(root, params)
    got: list[tuple[int, str | None, str | None, int]] = []
    for entry in entries:
        if entry["kind"] == "batch":
            got += [(each["offset"], each["key"], each["value"], each["timestamp"]) for each in entry["records"]]
    by_partition = [[row for task in range(2) for row in rows(task) if row[0] == number] * 2 for number in range(3)]
    wanted = [
        (offset, text(key), text(value), time)
        for partition in by_partition
        for offset, (_, key, value, time) in enumerate(partition)
    ]
    assert sorted(got, key=str) == sorted(wanted, key=str)
    compared("records that Spark wrote, as Kafka reads them", len(wanted))


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
