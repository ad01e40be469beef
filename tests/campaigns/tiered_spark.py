"""A count in Spark of a topic that is in a remote tier, beside the same topic in a log directory.

    python tests/campaigns/tiered_spark.py [--segments N]

with ``tests/support`` on the path; needs Java.  The remote one is in a directory, and found by the events of
`__remote_log_metadata`.  Each query runs once before it is measured.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from kafkalog.spark import register
from testkit.made.many_segments import RECORDS, SEGMENTS, many_segments


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=SEGMENTS)
    segments = parser.parse_args().segments
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    register(spark)
    with tempfile.TemporaryDirectory() as work:
        many_segments(Path(work), segments)
        remote = str(Path(work) / "remote")
        for name, path, options in (
            ("local", f"{work}/logs", {}),
            ("remote", f"{work}/broker", {"remote": remote}),
        ):
            query = spark.read.format("kafkalog").options(subscribe="orders", **options).load(path)
            query.count()
            began = time.perf_counter()
            count = query.count()
            print(f"{name}: {count} of {segments * RECORDS} records in {time.perf_counter() - began:.2f} s", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
