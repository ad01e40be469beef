"""What queries of an object store ask for: `python benchmarks/object_store.py [PARTITIONS [MIB]]`.

Requests and bytes of objects, of Spark's reader without Spark, from a bucket on loopback: one of 625 partitions; ten
rows at the end of a log of 256 MiB, by offsets and by times; 28 small partitions of which one answer in fifty is
throttled or cut short.  Before listing and retrying were added, the first took 636 lists and 2,517 other requests, the
second 269 MB, and the last failed in 6 of 8 runs.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from kafkalog.log import Log, LogConfig, NewRecord
from kafkalog.spark.options import parse_options
from kafkalog.spark.reader import LogReader
from kafkalog.spark.schema import full_schema, layout_of
from testkit.serving.tiny_s3 import BUCKET, CUT, serving

START = 1_700_000_000_000
VALUE_BYTES = 32 * 1024
SMALL = 28


def partitions(root: Path, topic: str, count: int) -> None:
    """Make small partitions of several segments."""
    for number in range(count):
        with Log.open(root / f"{topic}-{number}", LogConfig(segment_bytes=2000)) as log:
            for each in range(40):
                log.append([NewRecord(key=b"%d" % each, value=b"v" * 60, timestamp=START + each)])


def large(root: Path, mib: int) -> int:
    """Make a partition of about `mib` MiB; return its number of records."""
    records = mib * 1024 * 1024 // VALUE_BYTES
    with Log.open(root / "large-0") as log:
        for each in range(records):
            value = each.to_bytes(4, "big") * (VALUE_BYTES // 4)
            log.append([NewRecord(key=None, value=value, timestamp=START + each)])
    return records


def _every_50th(status: int, number: int) -> int | None:
    return None if number % 50 else status


def row(name: str, root: Path, place: str, throttled: Callable[[int], int | None] | None = None, **given: str) -> None:
    """Read, and print one line."""
    with serving(root, throttled=throttled) as store:
        began = time.perf_counter()
        options = parse_options({"path": f"s3://{BUCKET}/{place}", **given, **store.options()})
        reader = LogReader(options, layout_of(full_schema(options), options))
        rows = sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))
        seconds = time.perf_counter() - began
        lists = sum("list-type" in each for each in store.requests)
        others = len(store.requests) - lists
        print(f"{name:44}{rows:7}{lists:7}{others:8}{store.sent / 1e6:9.2f}{seconds:9.2f}", flush=True)


def main(count: int = 625, mib: int = 256) -> None:
    """Print one line for each query."""
    with tempfile.TemporaryDirectory() as work:
        root = Path(work)
        for name in ("many", "few", "one"):
            (root / name).mkdir()
        partitions(root / "many", "orders", count)
        partitions(root / "few", "few", SMALL)
        records = large(root / "one", mib)
        print(f"{'query':44}{'rows':>7}{'lists':>7}{'others':>8}{'MB':>9}{'seconds':>9}")
        row(f"one of {count} partitions", root, "many", assign=json.dumps({"orders": [3]}))
        low, high = (json.dumps({"large": {"0": records - each}}) for each in (20, 10))
        row(f"ten rows of {mib} MiB, by offsets", root, "one", startingOffsets=low, endingOffsets=high)
        since, until = str(START + records - 20), str(START + records - 10)
        row(f"ten rows of {mib} MiB, by times", root, "one", startingTimestamp=since, endingTimestamp=until)
        row(f"{SMALL} partitions", root, "few")
        for status, what in ((503, "status 503"), (429, "status 429"), (CUT, "a short answer")):
            faults = partial(_every_50th, status)
            row(f"{SMALL} partitions, {what} every 50th", root, "few", faults)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
