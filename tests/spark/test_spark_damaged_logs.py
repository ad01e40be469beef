"""Random logs, damaged at random, queried by Spark itself: the rows that the bytes hold, or an error of the query."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from reading_pairs import COLUMNS, LEVELS, Given, as_log, damaged_log, same
from testkit.judging.second_opinion import NO_END, answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGS = 40
SPLITS: list[dict[str, str]] = [
    {}, {"maxPartitionBytes": "300"}, {"maxRecordsPerPartition": "3"}, {"minPartitions": "5"},
]  # fmt: skip


def queried(spark: SparkSession, path: Path, level: str, split: dict[str, str]) -> Given:
    reader = spark.read.format("kafkalog").option("mode", "FAILFAST").option("kafka.isolation.level", level)
    try:
        rows = reader.options(**split).load(str(path)).select(*COLUMNS).collect()
    except PySparkException:
        return [], True
    return [(row.offset, *(None if each is None else bytes(each) for each in row[1:])) for row in rows], False


def test_pairs_of_a_damaged_log_and_a_query(
    spark: SparkSession, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    wrong = []
    for seed in range(LOGS):
        choose = random.Random(f"spark {seed}")
        directory, _, done = damaged_log(choose, tmp_path / str(seed))
        level, split = choose.choice(LEVELS), choose.choice(SPLITS)
        expected = answer(as_log(directory), 0, NO_END, committed=level == LEVELS[1])
        problem = same(expected, queried(spark, directory, level, split), "Spark")
        wrong += [f"seed={seed} {level} {split} [{done}]: {problem}"] if problem else []
    compared("pairs of a damaged log and a query of Spark", LOGS)
    assert wrong == []
