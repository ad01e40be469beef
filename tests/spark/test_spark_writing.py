"""`df.write` and `df.writeStream` in Spark's hands: round trips, retries, restarts."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PySparkException

import kafkalog
from testkit.made.arrow_records import expected_rows
from testkit.recorded.broker_dirs import brokers, expected_records
from testkit.recorded.fixture_data import broker_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_what_was_read_is_written_again_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    """Every record of a broker, keys, values, headers, nulls and times, in the order of each partition."""
    case = broker_case("4.1.1", "codecs")
    expected = expected_records(case, "read_uncommitted")
    topics = {topic for topic, _, _ in expected}
    source = spark.read.format("kafkalog").option("includeHeaders", True).option("subscribe", ",".join(topics))
    path = str(tmp_path / "data")
    ordered = source.load(str(brokers(case.id)[0])).repartition(2, "topic", "partition")
    writing = ordered.sortWithinPartitions("topic", "partition", "offset").write.format("kafkalog")
    writing.option("compression.type", "lz4").mode("append").save(path)
    found = [
        (topic, each.partition, record.timestamp, record.key, record.value, [(h.key, h.value) for h in record.headers])
        for topic in sorted(topics)
        for each in kafkalog.open(path).partitions
        if each.topic == topic
        for record in each.records()
    ]
    wanted = [
        (topic, partition, time, key, value, headers or [])
        for topic, partition, _, time, _, key, value, headers in expected_rows(expected)
    ]
    assert found == wanted
    assert [each for each in kafkalog.verify(path).findings if each.severity != "info"] == []


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "data"
    good = spark.range(0, 50).selectExpr("'t' as topic", "string(id) as value")
    good.write.format("kafkalog").mode("append").save(str(path))
    bad = spark.range(0, 50, 1, 2).selectExpr("if(id = 40, null, 't') as topic", "string(id) as value")
    with pytest.raises(PySparkException, match="null topic present in the data"):
        bad.write.format("kafkalog").mode("append").save(str(path))
    assert [each.value for each in kafkalog.open(path)["t", 0].records()] == [b"%d" % n for n in range(50)]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data"]


def test_refusals_are_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(3).selectExpr("string(id) as value")
    with pytest.raises(AnalysisException, match="UsageError: topic option required"):
        frame.write.format("kafkalog").mode("append").save(str(tmp_path / "data"))
    writing = frame.write.format("kafkalog").option("topic", "t")
    with pytest.raises(AnalysisException, match=r"ErrorIfExists|errorifexists"):
        writing.save(str(tmp_path / "data"))
    with pytest.raises(AnalysisException, match="UsageError: kafkalog has no option segmentbytes"):
        writing.option("segmentbytes", 5).mode("append").save(str(tmp_path / "data"))


def test_a_stream_that_is_started_again_writes_every_batch_once(spark: SparkSession, tmp_path: Path) -> None:
    source, path = tmp_path / "in", tmp_path / "data"
    source.mkdir()
    stream = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(str(source))

    def run() -> None:
        query = (
            stream.writeStream.format("kafkalog")
            .option("topic", "t")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(path))
        )
        assert query.awaitTermination(60)

    (source / "0.txt").write_text("a\nb\n")
    (source / "1.txt").write_text("c\n")
    if spark.version.startswith("4.0."):
        with pytest.raises(Exception, match=r"UsageError: writeStream needs PySpark 4\.1 or newer"):
            run()
        return
    run()
    last = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda each: int(each.name))
    last.unlink()  # as if Spark had died between our commit and its own
    last.with_name(f".{last.name}.crc").unlink()
    (source / "2.txt").write_text("d\n")
    run()
    assert sorted(each.value or b"" for each in kafkalog.open(path)["t", 0].records()) == [b"a", b"b", b"c", b"d"]


def test_another_thread_writes_once_the_session_is_active_in_it(spark: SparkSession, tmp_path: Path) -> None:
    """The line that docs/spark-writing.md gives for threads; without it Spark finds no Python source there."""
    rows = spark.createDataFrame([("t", "a"), ("t", "b")], "topic string, value string")
    raised: list[Exception] = []

    def write() -> None:
        try:
            jvm: Any = spark._jvm
            jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
            rows.write.format("kafkalog").mode("append").save(str(tmp_path / "out"))
        except Exception as error:  # noqa: BLE001 - it is examined in the test's own thread
            raised.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert raised == []
    assert spark.read.format("kafkalog").load(str(tmp_path / "out")).count() == len(["a", "b"])
