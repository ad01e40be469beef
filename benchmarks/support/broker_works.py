"""Beside whole commands over many partitions: the system calls alone, and what Spark makes of a task for each."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path

__all__ = ["change", "look", "planned_tasks", "stage_of_tasks"]

_FIRST_BYTES = 8192
_SNAPSHOT_BYTES = 80
_TASK_BYTES = 4096
"""What Spark is to send for a task, at most."""


def look(root: Path) -> None:
    """Open, examine, read the first bytes of, and close every file of every partition: no command can do less."""
    for directory in os.scandir(root):
        for file in os.scandir(directory) if directory.is_dir() else ():
            descriptor = os.open(file.path, os.O_RDONLY)
            os.pread(descriptor, min(os.fstat(descriptor).st_size, _FIRST_BYTES), 0)
            os.close(descriptor)


def change(root: Path) -> None:
    """What a recovery changes after a crash: of each partition the indexes cut, a file made and renamed; one flush."""
    for directory in (each.path for each in os.scandir(root) if each.is_dir()):
        for name in os.listdir(directory):
            if name.endswith("index"):
                os.truncate(f"{directory}/{name}", 0)
        with Path(directory, "new").open("wb") as file:
            file.write(bytes(_SNAPSHOT_BYTES))
        Path(directory, "new").rename(Path(directory, f"{1:020}.snapshot"))
    os.sync()


def planned_tasks(path: Path, count: int) -> int:
    """Plan a read with `count` tasks; how many it has, none of which is large."""
    from kafkalog.spark.discovery import plan_read
    from kafkalog.spark.options import parse_options

    tasks = plan_read(parse_options({"path": str(path), "minPartitions": str(count)}))
    largest = max(len(pickle.dumps(each)) for each in tasks[:: max(1, len(tasks) // 100)])
    if largest > _TASK_BYTES:
        raise SystemExit(f"a task of {path} takes {largest} bytes")
    return len(tasks)


def stage_of_tasks(source: str, path: Path, count: int) -> float:
    """Seconds of a query of about `count` tasks; of the source `nothing` all of it is what Spark itself takes."""
    from pyspark import cloudpickle

    from support import nothing_source
    from support.local_session import local_session

    cloudpickle.register_pickle_by_value(nothing_source)  # Spark's workers know no folder of benchmarks
    spark = local_session()
    try:
        spark.dataSource.register(nothing_source.NothingSource)
        start = time.perf_counter()
        frame = spark.read.format(source).options(minPartitions=str(count)).load(str(path))
        frame.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - start
    finally:
        spark.stop()
