"""Runs the queries of `spark_kafka.py` on both sources in turn, in one session; prints JSON.  The argument is JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession

QUERIES = {
    "count of all columns": lambda frame: frame.count(),
    "sum(length(value))": lambda frame: frame.selectExpr("sum(length(value))").collect(),
    "all columns into noop": lambda frame: frame.write.format("noop").mode("overwrite").save(),
}


def main(job: dict[str, Any]) -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.jars": ",".join(job["jars"]),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def frames() -> dict[str, DataFrame]:
        kafka = spark.read.format("kafka").option("kafka.bootstrap.servers", job["bootstrap"])
        ours = spark.read.format("kafkalog")
        return {
            "kafkalog": ours.option("subscribe", "bench").load(job["path"]),
            "kafka": kafka.option("subscribe", "bench").load(),
        }

    counts = {name: frame.count() for name, frame in frames().items()}
    if len(set(counts.values())) != 1:
        raise SystemExit(f"the sources do not give the same rows: {counts}")
    taken: dict[str, dict[str, list[float]]] = {title: {"kafkalog": [], "kafka": []} for title in QUERIES}
    for title, query in QUERIES.items():
        for number in range(job["repeat"] + 1):
            for name, frame in frames().items():
                began = time.perf_counter()
                query(frame)
                if number:  # the first run of each warms the workers
                    taken[title][name].append(time.perf_counter() - began)
    spark.stop()
    print(json.dumps(taken), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
