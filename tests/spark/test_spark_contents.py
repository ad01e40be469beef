"""Every `contents` as a DataFrame: the schema that is documented, and rows that SQL can be asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from kafkalog.spark.contents_schema import SCHEMAS
from testkit.recorded.broker_dirs import brokers, unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("contents", ["batches", "metadata", "offsets", "znodes"])
def test_contents_are_tables_of_their_schema(spark: SparkSession, contents: str) -> None:
    path = unpacked("1.1.1/groups") / "zookeeper" if contents == "znodes" else brokers("4.1.1/groups")[0]
    if contents == "batches":
        path /= "__cluster_metadata-0"
    frame = spark.read.format("kafkalog").option("contents", contents).load(str(path))
    assert frame.schema == SCHEMAS[contents]
    assert frame.count() > 10


def test_nested_columns_and_times_can_be_asked_for(spark: SparkSession) -> None:
    source = spark.read.format("kafkalog").option("contents", "groups").load(str(brokers("4.1.1/groups")[0]))
    found = source.selectExpr("group", "explode(members) as member").selectExpr(
        "group", "member.memberId", "size(member.assignment) as n"
    )
    assert {row["n"] > 0 for row in found.where("group = 'alive-68'").collect()} == {True}
    segments = spark.read.format("kafkalog").option("contents", "segments").load(str(brokers("4.1.1/segments")[0]))
    row = segments.selectExpr("sum(files['.log']) = sum(bytes) as same", "count(firstTimestamp) > 5 as timed").first()
    assert row is not None
    assert row["same"]
    assert row["timed"]


def test_unknown_columns_are_refused_at_once(spark: SparkSession) -> None:
    source = spark.read.format("kafkalog").option("contents", "batches").schema("baseOffset int")
    with pytest.raises(AnalysisException, match="column baseOffset is bigint, not int"):
        source.load(str(brokers("4.1.1/groups")[0])).count()


def test_headers_count_the_records_that_a_consumer_gets(spark: SparkSession) -> None:
    path = str(brokers("4.1.1/txn")[0])
    read = spark.read.format("kafkalog").option("subscribe", "trades-41")
    batches = read.option("contents", "batches").load(path).where("isControl is not true")
    counted = batches.groupBy("partition").agg({"count": "sum", "baseOffset": "min", "lastOffset": "max"})
    records = read.option("contents", "records").load(path).selectExpr("partition", "offset", "offset as last")
    read_all = records.groupBy("partition").agg({"partition": "count", "offset": "min", "last": "max"})
    expected = sorted(
        (row[0], row["count(partition)"], row["min(offset)"], row["max(last)"]) for row in read_all.collect()
    )
    assert expected
    found = sorted(
        (row[0], row["sum(count)"], row["min(baseOffset)"], row["max(lastOffset)"]) for row in counted.collect()
    )
    assert found == expected
