"""Reads, writes and streams through Spark Connect, which nobody told about kafkalog; prints JSON.

The argument is JSON: `paths` of broker directories, and `folder` for what is made: `read.arrow` and `written/`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

OPTIONS = {"includeHeaders": "true", "replica": "longest", "kafka.isolation.level": "read_committed"}


def main(paths: list[str], folder: Path) -> None:
    spark: Any = SparkSession.builder.remote("local[2]").getOrCreate()
    answer: dict[str, object] = {"session": type(spark).__module__}
    frame = spark.read.format("kafkalog").options(**OPTIONS).load(paths)
    table = frame.toArrow()
    with pa.ipc.new_file(str(folder / "read.arrow"), table.schema) as file:
        file.write_table(table)
    rows = frame.select("key", "value", "topic", "partition", "headers", "timestamp").where("partition = 0")
    rows.write.format("kafkalog").mode("append").save(str(folder / "written"))
    answer["selected"] = rows.count()
    answer["written"] = spark.read.format("kafkalog").load(str(folder / "written")).count()
    stream = spark.readStream.format("kafkalog").options(**OPTIONS, startingOffsets="earliest").load(",".join(paths))
    query = stream.writeStream.format("memory").queryName("streamed").trigger(availableNow=True).start()
    query.awaitTermination()
    answer["streamed"] = spark.table("streamed").count()
    try:
        spark.read.format("kafkalog").option("startingOffsets", "nonsense").load(paths).count()
    except PySparkException as error:
        answer["refusal"] = str(error)
    spark.stop()
    print(json.dumps(answer))


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    main(given["paths"], Path(given["folder"]))
