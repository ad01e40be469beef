"""Streams in Spark's hands: sinks, checkpoints, restarts, triggers, what a query's failure says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

import kafkalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

T0 = 1_700_000_000_000
SMALL = kafkalog.LogConfig(segment_bytes=3000, retention_ms=-1, file_delete_delay_ms=0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[kafkalog.Log]:
    (tmp_path / "data").mkdir()
    with kafkalog.Log.open(tmp_path / "data" / "orders-0", SMALL) as opened:
        yield opened


def append(log: kafkalog.Log, count: int) -> None:
    first = log.end_offset
    for start in range(first, first + count, 10):
        numbers = range(start, min(start + 10, first + count))
        headers = (kafkalog.Header("h", b"1"),)
        log.append([kafkalog.NewRecord(b"%d" % n, b"key", T0 + n, headers) for n in numbers], compression="lz4")


def stream(spark: SparkSession, path: Path, **options: Any) -> DataFrame:
    return spark.readStream.format("kafkalog").options(**options).load(str(path))


def sink(frame: DataFrame, tmp_path: Path) -> DataStreamWriter:
    kept = frame.selectExpr("offset", "cast(value as string) as value", "size(headers) as headers")
    writer = kept.writeStream.format("json").option("path", str(tmp_path / "out"))
    return writer.option("checkpointLocation", str(tmp_path / "checkpoint"))


def written(spark: SparkSession, tmp_path: Path) -> list[tuple[int, str, int]]:
    rows = spark.read.schema("offset bigint, value string, headers int").json(str(tmp_path / "out")).collect()
    return sorted((row.offset, row.value, row.headers) for row in rows)


def expected(count: int) -> list[tuple[int, str, int]]:
    return [(n, str(n), 1) for n in range(count)]


def test_a_stream_its_checkpoint_and_its_restarts_lose_nothing_and_repeat_nothing(
    spark: SparkSession, log: kafkalog.Log, tmp_path: Path
) -> None:
    append(log, 100)
    frame = stream(spark, tmp_path / "data", startingOffsets="earliest", includeHeaders=True)
    query = sink(frame, tmp_path).start()
    try:
        query.processAllAvailable()
        assert written(spark, tmp_path) == expected(100)
        append(log, 250)
        query.processAllAvailable()
        assert written(spark, tmp_path) == expected(350)
    finally:
        query.stop()
    last = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    assert json.loads(last.read_text().splitlines()[-1]) == {"orders": {"0": 350}}
    append(log, 50)
    sink(frame, tmp_path).trigger(availableNow=True).start().awaitTermination()
    assert written(spark, tmp_path) == expected(400)


def test_available_now_keeps_to_the_limit_of_a_trigger(spark: SparkSession, log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 100)
    frame = stream(spark, tmp_path / "data", startingOffsets="earliest", includeHeaders=True, maxOffsetsPerTrigger=40)
    query = sink(frame, tmp_path).trigger(availableNow=True).start()
    if spark.version < "4.2":
        with pytest.raises(StreamingQueryException, match=r"maxOffsetsPerTrigger, .* need Spark 4.2 or later"):
            query.awaitTermination()
        return
    query.awaitTermination()
    assert [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]] == [40, 40, 20]
    assert written(spark, tmp_path) == expected(100)


def test_a_schema_of_some_columns(spark: SparkSession, log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 30)
    source = spark.readStream.format("kafkalog").option("startingOffsets", "earliest")
    frame = source.schema("offset bigint, producerId bigint").load(str(tmp_path / "data"))
    query = frame.writeStream.format("memory").queryName("some_columns").trigger(availableNow=True).start()
    query.awaitTermination()
    rows = spark.sql("select * from some_columns order by offset").collect()
    assert [tuple(row) for row in rows] == [(n, -1) for n in range(30)]


def test_data_loss_is_said_in_one_sentence(spark: SparkSession, log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 100)
    frame = stream(spark, tmp_path / "data", startingOffsets="earliest", includeHeaders=True)
    sink(frame, tmp_path).trigger(availableNow=True).start().awaitTermination()
    log.truncate_to(50)
    query = sink(frame, tmp_path).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination()
    assert "StorageError: orders-0 was read up to offset 100 and ends at 50 now: it was truncated; the option" in str(
        raised.value
    )


def test_what_a_stream_cannot_have_is_refused(spark: SparkSession, log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 1)
    with pytest.raises(AnalysisException, match=r"UsageError: .* does not exist"):
        stream(spark, tmp_path / "elsewhere")
    query = sink(stream(spark, tmp_path / "data", endingOffsets="latest", includeHeaders=True), tmp_path).start()
    with pytest.raises(StreamingQueryException, match="UsageError: option endingOffsets has no effect for a stream"):
        query.awaitTermination()
