"""The DataFrame is what Kafka's own consumer returned, by value, on every directory of every recorded broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testkit.made.arrow_records import expected_rows, rows_of_table
from testkit.recorded.broker_dirs import STOPPED, expected_records, unpacked
from testkit.recorded.fixture_data import BrokerCase, broker_case

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

RECORDED = [case for case in STOPPED if case.has("read_uncommitted")]
LEVELS = [(case, level) for case in RECORDED for level in ("read_uncommitted", "read_committed") if case.has(level)]


def ident(value: object) -> str:
    return value.id if isinstance(value, BrokerCase) else str(value)


def reader(spark: SparkSession, level: str) -> DataFrameReader:
    source = spark.read.format("kafkalog").option("includeHeaders", True).option("replica", "longest")
    return source.option("kafka.isolation.level", level)


def broker_paths(case: BrokerCase) -> list[str]:
    return [str(path) for path in sorted(unpacked(case.id).glob("broker-*"))]


@pytest.mark.parametrize(("case", "level"), LEVELS, ids=ident)
def test_every_record_of_a_broker_by_value(spark: SparkSession, case: BrokerCase, level: str) -> None:
    expected = expected_records(case, level)
    table = reader(spark, level).load(broker_paths(case)).toArrow()
    assert rows_of_table(table, expected) == expected_rows(expected)


SPLITS = [
    {"maxPartitionBytes": 9000},
    {"minPartitions": 9},
    {"maxRecordsPerPartition": 97},
]


@pytest.mark.parametrize("options", SPLITS, ids=str)
@pytest.mark.parametrize("place", ["4.1.1/txn", "0.10.2.2/segments"])
def test_splits_give_the_same_records(spark: SparkSession, place: str, options: dict[str, int]) -> None:
    case = broker_case(*place.split("/"))
    expected = expected_records(case, "read_committed")
    found = reader(spark, "read_committed").options(**options).load(broker_paths(case))
    found = found.selectExpr("*", "spark_partition_id() as task")
    table = found.toArrow()
    assert len(set(table["task"].to_pylist())) > 5
    assert rows_of_table(table, expected) == expected_rows(expected)
