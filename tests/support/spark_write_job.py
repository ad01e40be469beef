"""A Spark job that writes, with a task that fails the first time and one that hangs until another attempt overtakes it.

The argument is JSON: master, path, tasks, rows (of each task) and marks, a folder for a file per attempt.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.functions import udf

from spark_job import session

FAILING, HANGING = 1, 3
HANG_SECONDS = 25.0
SPECULATION = {
    "spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.5", "spark.speculation.minTaskRuntime": "1s", "spark.task.maxFailures": "3",
}  # fmt: skip
"""A second attempt of what takes longer than the others."""


def troubled(folder: str, rows: int) -> Callable[[int], bool]:
    """True for every row; in the first attempts of two tasks something happens in the middle of their rows."""

    def mark(row: int) -> bool:
        task = TaskContext.get()
        assert task is not None
        number, attempt = task.partitionId(), task.attemptNumber()
        if row % rows == rows // 2:
            (Path(folder) / f"{number}.{attempt}").touch()
            if attempt == 0 and number == FAILING:
                raise RuntimeError("this attempt fails in the middle of its rows")
            if attempt == 0 and number == HANGING:
                time.sleep(HANG_SECONDS)
        return True

    return mark


def main(job: dict[str, Any]) -> None:
    spark = session(job["master"], SPECULATION)
    tasks, rows = job["tasks"], job["rows"]
    frame = spark.range(0, tasks * rows, 1, tasks).where(udf(troubled(job["marks"], rows), "boolean")("id"))
    frame = frame.selectExpr("'t' as topic", "cast(id % 3 as int) as partition", "cast(string(id) as binary) as value")
    frame.write.format("kafkalog").mode("append").save(job["path"])
    spark.stop()
    print(json.dumps({"written": tasks * rows}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
