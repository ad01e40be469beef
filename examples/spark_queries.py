"""Four questions to a broker's log directory, answered by Spark: top keys, rate per minute, lag per group, damage map.

    python examples/spark_queries.py DATA [PLOT.svg]

Each function takes a session and the path; nothing is written but the plot.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import kafkalog
from kafkalog.spark import verify_many

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CELLS = 40
USER_TOPICS = {"subscribePattern": "(?!__).*"}
"""Kafka's own topics begin with two underscores."""


class Lag(NamedTuple):
    """How many records a group has not consumed of a partition."""

    group: str
    topic: str
    partition: int
    committed: int
    records: int


def top_keys(spark: SparkSession, data: str, count: int = 10) -> list[tuple[str, bytes, int]]:
    """The keys with the most records: (topic, key, records)."""
    # only these columns are read: values are not even copied
    records = spark.read.format("kafkalog").options(**USER_TOPICS).schema("key binary, topic string").load(data)
    counted = records.where("key is not null").groupBy("topic", "key").count()
    rows = counted.orderBy("count", "topic", "key", ascending=[False, True, True]).limit(count).collect()
    return [(row.topic, bytes(row.key), row["count"]) for row in rows]


def rate_per_minute(spark: SparkSession, data: str) -> list[tuple[int, int]]:
    """Records by the minute of their timestamp: (minute since 1970, records)."""
    records = (
        spark.read.format("kafkalog").options(**USER_TOPICS).schema("timestamp timestamp, timestampType int").load(data)
    )
    minutes = records.where("timestampType >= 0").selectExpr("unix_millis(timestamp) div 60000 as minute")
    return [(row.minute, row["count"]) for row in minutes.groupBy("minute").count().orderBy("minute").collect()]


def plot(rates: list[tuple[int, int]], width: int = 800, height: int = 200) -> str:
    """The rates as a picture (SVG): a bar for each minute that has records, in its place."""
    first, last, most = rates[0][0], rates[-1][0], max(count for _, count in rates)
    step = width / (last - first + 1)
    bars = "".join(
        f'<rect x="{(minute - first) * step:.2f}" y="{height - height * count / most:.2f}" width="{max(step, 1):.2f}" '
        f'height="{height * count / most:.2f}"><title>minute {minute}: {count} records</title></rect>'
        for minute, count in rates
    )
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" fill="steelblue">{bars}</svg>\n'


def lag_per_group(spark: SparkSession, data: str) -> list[Lag]:
    """Records at or behind the committed offset, for each group and partition; what compaction removed is no lag."""
    committed = kafkalog.offsets(data, log_ends=False).committed
    rows = [(*each.commit.key, each.commit.offset) for each in committed]
    offsets = spark.createDataFrame(rows, "group string, topic string, partition int, committed bigint")
    records = (
        spark.read.format("kafkalog")
        .options(**USER_TOPICS)
        .schema("topic string, partition int, offset bigint")
        .load(data)
    )
    joined = offsets.join(records, ["topic", "partition"], "left")
    marked = joined.selectExpr("group", "topic", "partition", "committed", "if(offset >= committed, 1, 0) as behind")
    counted = marked.groupBy("group", "topic", "partition", "committed").sum("behind")
    return sorted(Lag(*row) for row in counted.collect())


def damage_map(spark: SparkSession, directories: list[str]) -> dict[str, str]:
    """Each damaged segment as a line of cells, `#` where something is wrong; directories are checked in parallel."""
    found = verify_many(spark, directories).selectExpr("inline(findings)")
    wrong = found.where("severity != 'info' and position is not null and file like '%.log'")
    cells: dict[str, list[str]] = {}
    for row in wrong.select("file", "position").collect():
        size = max(os.path.getsize(row.file), 1)
        line = cells.setdefault(row.file, ["."] * CELLS)
        line[min(row.position * CELLS // size, CELLS - 1)] = "#"
    return {name: "".join(line) for name, line in sorted(cells.items())}


def main(data: str, picture: str | None = None) -> None:
    """Answer all four."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").appName("kafkalog examples").getOrCreate()
    print("top keys")
    for topic, key, count in top_keys(spark, data):
        print(f"  {topic:<30} {key!r:<30} {count}")
    rates = rate_per_minute(spark, data)
    print(f"rate: {len(rates)} minutes with records, at most {max(count for _, count in rates)} in one")
    if picture is not None:
        Path(picture).write_text(plot(rates), encoding="utf-8")
    print("lag")
    for lag in lag_per_group(spark, data):
        print(f"  {lag.group:<20} {lag.topic}-{lag.partition}: {lag.records} records behind {lag.committed}")
    print("damage")
    for name, line in damage_map(spark, [data]).items():
        print(f"  {line} {name}")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:3])
