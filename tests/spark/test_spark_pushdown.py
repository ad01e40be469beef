"""Whether filters may be pushed down in the Spark at hand: a source that takes over `partition = n` tells.

While Spark keeps what one query pushed for the next query on the same DataFrame, our reader must not take any filter.
When the first test here fails because everything was counted right, that Spark is safe: offer it for such versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, InputPartition

from kafkalog.log import open_all
from testkit.recorded.broker_dirs import brokers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set(PUSHDOWN, "true")
    yield spark
    spark.conf.unset(PUSHDOWN)


def probe() -> type[DataSource]:
    """Four partitions of ten rows; made here, so that it travels to the workers by value."""

    class Reader(DataSourceReader):
        def __init__(self) -> None:
            self._numbers = [0, 1, 2, 3]

        def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
            for each in filters:
                if isinstance(each, EqualTo) and each.attribute == ("partition",):
                    self._numbers = [number for number in self._numbers if number == each.value]
                else:
                    yield each

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in self._numbers]

        def read(self, partition: InputPartition) -> Iterator[tuple[int, int]]:
            for offset in range(10 if partition.value is not None else 0):
                yield partition.value, offset

    class Probe(DataSource):
        @classmethod
        def name(cls) -> str:
            return "pushdown_probe"

        def schema(self) -> str:
            return "partition int, offset int"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    return Probe


def test_pushed_filters_still_leak_from_one_query_into_the_next(pushing: SparkSession) -> None:
    pushing.dataSource.register(probe())

    def load() -> Any:
        return pushing.read.format("pushdown_probe").load()

    again, union, join = load(), load(), load()
    counts = {
        "one partition": (again.where("partition = 1").count(), 10),
        "then all": (again.count(), 40),
        "a union with itself": (union.where("partition = 1").union(union).count(), 50),
        "a join with itself": (join.where("partition = 1").join(join, "offset").count(), 40),
    }
    assert counts["one partition"] == (10, 10), "the filter was pushed"
    wrong = {name: found for name, (found, right) in counts.items() if found != right}
    assert wrong, f"Spark {pushing.version} counts right with filters pushed down; the reader may offer it from here on"


def test_our_source_counts_right_with_pushdown_switched_on(pushing: SparkSession) -> None:
    (broker,) = brokers("4.1.1/segments")
    partition = max(open_all(broker).readable(), key=lambda each: len(each.segments))
    offsets = [record.offset for record in partition.records()]
    frame = pushing.read.format("kafkalog").load(partition.path)
    some = frame.where(f"offset < {offsets[10]}")
    assert (some.count(), frame.count(), some.union(frame).count()) == (10, len(offsets), 10 + len(offsets))
