"""Runs the page's example of Spark's own `from_avro`, then compares its values with ours; prints JSON.

The argument is JSON: jars, the example's source, and the path of a log directory.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession


def in_order(value: Any) -> Any:
    """Maps by their keys: the order in which Avro writes them means nothing."""
    if isinstance(value, dict):
        return [(name, in_order(value[name])) for name in sorted(value)]
    return [in_order(each) for each in value] if isinstance(value, list) else value


def main(job: dict[str, Any]) -> None:
    builder = SparkSession.builder.master("local[2]").appName("avro").config("spark.jars", ",".join(job["jars"]))
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    names: dict[str, Any] = {"spark": spark}
    exec(compile(job["source"], "the page", "exec"), names)
    theirs = names["of_schema"].select(
        "partition",
        "offset",
        names["from_avro"](names["expr"]("substring(value, 6)"), names["schema"].text).alias("value"),
    )
    ours = (
        spark.read.format("kafkalog")
        .options(
            subscribe=job["topic"], valueFormat="confluent", valueSchema=str(names["schema"].id), mode="DROPMALFORMED"
        )
        .load(job["path"])
        .join(theirs.select("partition", "offset"), ["partition", "offset"], "left_semi")
        .select("partition", "offset", "value")
    )
    rows = [sorted(repr(in_order(row.asDict(recursive=True))) for row in frame.collect()) for frame in (theirs, ours)]
    types = [frame.schema["value"].dataType.simpleString() for frame in (theirs, ours)]
    print(json.dumps({"types": types, "rows": rows}))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
