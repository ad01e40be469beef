"""Runs the lines of `spark_kafka.py` in one session of the Spark whose Kafka source there is; prints them.

The argument is JSON: `jars`, `bootstrap`, `path` of the broker's log directory, `rounds`, `rows` of the topics, and
`root`, the process above all that work.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from local_session import local_session
from pyspark.sql import DataFrame, SparkSession
from spark_table import OURS, Work, measured, place

KAFKA = "Kafka source"
GOAL = 3.0
Query = Callable[[DataFrame], object]
QUERIES: dict[str, tuple[str | None, Query]] = {
    "count of all columns": (None, lambda frame: frame.count()),
    "sum(length(value))": (None, lambda frame: frame.selectExpr("sum(length(value))").collect()),
    "all columns into noop": (None, lambda frame: frame.write.format("noop").mode("overwrite").save()),
    "count, kafkalog with .schema('offset bigint')": ("offset bigint", lambda frame: frame.count()),
    "sum(length(value)), kafkalog with .schema('value binary')": (
        "value binary", lambda frame: frame.selectExpr("sum(length(value))").collect()
    ),
}  # fmt: skip
"""Title -> the columns that kafkalog is asked for, and the query; the Kafka source always gives all."""


def reading(spark: SparkSession, job: dict[str, Any]) -> list[Work]:
    """Each query on the large topic by both sources, and on the small one."""

    def frame(name: str, topic: str, schema: str | None = None) -> DataFrame:
        if name == KAFKA:
            source = spark.read.format("kafka").option("kafka.bootstrap.servers", job["bootstrap"])
            return source.option("subscribe", topic).load()
        ours = spark.read.format("kafkalog").option("subscribe", topic)
        return (ours if schema is None else ours.schema(schema)).load(job["path"])

    def run(query: Query, name: str, topic: str, schema: str | None) -> Callable[[], int]:
        def once() -> int:
            query(frame(name, topic, schema))
            return int(job["rows"][topic])

        return once

    for topic, rows in job["rows"].items():
        counts = {name: frame(name, topic).count() for name in (OURS, KAFKA)}
        if set(counts.values()) != {rows}:
            raise SystemExit(f"{topic}: {rows} rows were written, and read were {counts}")
    return [
        Work(
            title,
            {name: run(query, name, "bench", schema) for name in (OURS, KAFKA)},
            {KAFKA: GOAL},
            {name: run(query, name, "little", schema) for name in (OURS, KAFKA)},
        )
        for title, (schema, query) in QUERIES.items()
    ]


def main(job: dict[str, Any]) -> None:
    spark = local_session(spark__jars=",".join(job["jars"]))
    try:
        print(f"{place(spark)}; rows {job['rows']}, median of {job['rounds']}", flush=True)
        measured(reading(spark, job), job["rounds"], root=job["root"])
    finally:
        spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
