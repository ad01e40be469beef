"""A streaming query in a process of its own, to be killed: what it read goes to JSON files, until it is told to stop.

The argument is JSON: path, out, checkpoint, options, stop (a file; once it is there the query reads to the end and
ends) and running (a file that is made when the query has finished its first batch).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from spark_job import session


def main(job: dict[str, Any]) -> None:
    spark = session("local[2]")
    frame = spark.readStream.format("kafkalog").options(includeHeaders=True, **job["options"]).load(job["path"])
    columns = ["topic", "partition", "offset", "base64(key) as k", "base64(value) as v"]
    kept = frame.selectExpr(*columns, "unix_millis(timestamp) as ts", "size(headers) as headers")
    writer = kept.writeStream.format("json").option("path", job["out"]).option("checkpointLocation", job["checkpoint"])
    query = writer.start()
    while not Path(job["stop"]).exists() and query.isActive:
        if query.lastProgress is not None:
            Path(job["running"]).touch()
        time.sleep(0.1)
    query.processAllAvailable()
    query.stop()
    failure = query.exception()
    if failure is not None:
        raise failure
    spark.stop()
    print(json.dumps({"batches": sum(1 for each in Path(job["checkpoint"]).glob("commits/[0-9]*"))}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
