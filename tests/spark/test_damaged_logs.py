"""Random logs, damaged at random, queried by Spark itself: the rows that the bytes hold, or an error of the query."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from reading_pairs import COLUMNS, LEVELS, Given, as_log, damaged_log, same
from second_opinion import NO_END, answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW = 24 if "KAFKALOG_PYSPARK" in os.environ else 4
"""Of a version that is tried by itself more than of the pinned one, whose others are among the longer tests."""
SPLITS: list[dict[str, str]] = [{}, {"maxPartitionBytes": "300"}, {"maxRecordsPerPartition": "3"}, {"minPartitions": "5"}]


def queried(spark: SparkSession, path: Path, level: str, split: dict[str, str]) -> Given:
    reader = spark.read.format("kafkalog").option("mode", "FAILFAST").option("kafka.isolation.level", level)
    try:
        rows = reader.options(**split).load(str(path)).select(*COLUMNS).collect()
    except PySparkException:
        return [], True
    return [(row.offset, *(None if each is None else bytes(each) for each in row[1:])) for row in rows], False


@pytest.mark.parametrize("seeds", [range(FEW), pytest.param(range(FEW, 40), marks=pytest.mark.interop)], ids=len)
def test_pairs_of_a_damaged_log_and_a_query(
    seeds: range, spark: SparkSession, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    wrong = []
    for seed in seeds:
        choose = random.Random(f"spark {seed}")
        directory, _, done = damaged_log(choose, tmp_path / str(seed))
        level, split = choose.choice(LEVELS), choose.choice(SPLITS)
        expected = answer(as_log(directory), 0, NO_END, committed=level == LEVELS[1])
        problem = same(expected, queried(spark, directory, level, split), "Spark")
        wrong += [f"seed={seed} {level} {split} [{done}]: {problem}"] if problem else []
    compared("pairs of a damaged log and a query of Spark", len(seeds))
    assert wrong == []
