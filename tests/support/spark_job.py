"""One Spark job for any master: what it reads, summed up so that order and place do not matter; prints JSON.

The argument is JSON: master, path, options; py_files (the zipped package, registered by hand), marks (a folder for a
file per running task, to be seen from outside) and pause (seconds for each task).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf


def session(master: str, more: Mapping[str, str] | None = None) -> SparkSession:
    builder = SparkSession.builder.master(master).appName("kafkalog job")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "600m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        **(more or {}),
    }
    if os.environ.get("PYTHONPATH"):
        settings["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def marking(folder: str, pause: float) -> Callable[[int], bool]:
    """True for every row; the first one of a task leaves a file that says so, and waits."""
    seen: set[str] = set()

    def mark(_: int) -> bool:
        task = TaskContext.get()
        assert task is not None
        name = f"{task.stageId()}.{task.partitionId()}.{task.attemptNumber()}"
        if name not in seen:
            seen.add(name)
            (Path(folder) / name).touch()
            time.sleep(pause)
        return True

    return mark


def summary(frame: DataFrame) -> dict[str, Any]:
    hashed = (
        "sum(cast(xxhash64(key, value, topic, partition, offset, timestamp, timestampType, headers) as decimal(20)))"
    )
    rows = frame.selectExpr("count(*) as n", f"cast({hashed} as string) as hash", "sum(offset) as offsets").collect()
    topics = frame.groupBy("topic", "partition").count().orderBy("topic", "partition").collect()
    return {"all": list(rows[0]), "topics": [list(row) for row in topics]}


def where_from(spark: SparkSession) -> list[str]:
    def imported(_: int) -> str:
        import kafkalog

        return str(kafkalog.__file__)

    found: list[str] = spark.sparkContext.parallelize(range(8), 8).map(imported).distinct().collect()
    return sorted(found)


def main(job: dict[str, Any]) -> None:
    spark = session(job["master"])
    if "py_files" in job:
        spark.sparkContext.addPyFile(job["py_files"])
        from kafkalog.spark import register

        register(spark)
    reader = spark.read.format("kafkalog").options(includeHeaders=True, replica="longest", **job["options"])
    frame = reader.load(job["path"])
    if "marks" in job:
        frame = frame.where(udf(marking(job["marks"], job["pause"]), "boolean")("offset"))
    answer = {**summary(frame), "imported": where_from(spark)}
    spark.stop()
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
