"""Spark's Kafka source on a live broker and kafkalog on its directory, compared inside of Spark; prints JSON.

Runs with pyspark 4.0.0.  The argument is JSON: jars, bootstrap, path, and cases, each with the options of both and
those of each; stream, the options of a stream of ours.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr


def comparable(frame: DataFrame) -> DataFrame:
    """Every column as it is, but none that a set operation cannot compare; times in microseconds."""
    return frame.withColumn("timestamp", expr("unix_micros(timestamp)"))


def by_partition(frame: DataFrame) -> dict[tuple[str, int], list[int]]:
    """The offsets of each partition in the order they come in."""
    found: dict[tuple[str, int], list[int]] = {}
    for row in frame.select("topic", "partition", "offset").collect():
        found.setdefault((row.topic, row.partition), []).append(row.offset)
    return found


def streamed(spark: SparkSession, path: str, options: dict[str, str]) -> list[int]:
    """How many rows a stream of ours gives, and how many a batch query; before Spark 4.2 it is told no limits."""
    stream = spark.readStream.format("kafkalog").options(**options).load(path)
    query = stream.writeStream.format("memory").queryName("streamed").trigger(availableNow=True).start()
    query.awaitTermination()
    batch = spark.read.format("kafkalog").options(**options).load(path)
    return [spark.table("streamed").distinct().count(), spark.table("streamed").count(), batch.count()]


def main(job: dict[str, Any]) -> None:
    builder = SparkSession.builder.master("local[2]").appName("comparison")
    for name, value in {
        "spark.jars": ",".join(job["jars"]),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    answers = []
    for case in job["cases"]:
        kafka = spark.read.format("kafka").option("kafka.bootstrap.servers", job["bootstrap"]).options(**case).load()
        ours = spark.read.format("kafkalog").options(**case).load(job["path"])
        left, right = comparable(kafka).cache(), comparable(ours).cache()
        order = ["topic", "partition", "offset"]
        answers.append(
            {
                "same_schema": kafka.schema == ours.schema,
                "schema": ours.schema.simpleString(),
                "kafka": left.count(),
                "ours": right.count(),
                "only_kafka": [str(row) for row in left.exceptAll(right).orderBy(*order).limit(3).collect()],
                "only_ours": [str(row) for row in right.exceptAll(left).orderBy(*order).limit(3).collect()],
                "in_order": by_partition(ours) == by_partition(kafka),
                "without_headers": left.where("headers is null").count() if "headers" in left.columns else None,
                "types": sorted(row.timestampType for row in left.select("timestampType").distinct().collect()),
            }
        )
        left.unpersist()
        right.unpersist()
    answer = {"cases": answers, "streamed": streamed(spark, job["path"], job["stream"])}
    spark.stop()
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
