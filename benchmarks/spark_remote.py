"""A Spark count of a topic that is remote beside the same topic on the local disk: `python benchmarks/spark_remote.py`.

One topic of 100-byte values in segments of 16 MiB, all of which but the last are remote: as `LocalTieredStorage` has
them, in Aiven's layout as they are, and as a bucket of S3 on loopback.  Counted in turn in one session, medians of 3
rounds; the sum of the offsets is asked for too, so that records are read.  `--quick` is for correctness only.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from support.local_session import local_session

import kafkalog
from kafkalog.jobs.restore.events import RemoteMetadataRebuild, rebuild_remote_metadata
from kafkalog.tiers.layouts import open_tier
from testkit.made.many_segments import TOPIC_ID, as_tier
from testkit.recorded.aiven_objects import as_aiven
from testkit.serving.tiny_s3 import BUCKET, serving

RECORDS, QUICK_RECORDS, ROUNDS = 2_000_000, 40_000, 3


def write(root: Path, records: int) -> None:
    """`whole/`, and the same in two tiers: `remote/` or `aiven/`, with `broker/`."""
    (root / "whole").mkdir()
    config = kafkalog.LogConfig(segment_bytes=min(16 << 20, records * 12))
    with kafkalog.Log.open(root / "whole" / "orders-0", config, topic_id=TOPIC_ID) as log:
        for start in range(0, records, 150):
            log.append([b"%0100d" % number for number in range(start, min(start + 150, records))])
    as_tier(root / "whole" / "orders-0", root / "remote")
    as_aiven(root / "remote", root / "aiven")
    tier = open_tier(str(root / "remote"))
    rebuild_remote_metadata(RemoteMetadataRebuild(partitions=1), tier, target=root / "broker")
    last = max((root / "whole" / "orders-0").glob("*.log"))
    (root / "broker" / "orders-0").mkdir()
    for path in (root / "whole" / "orders-0").iterdir():
        if path.name.startswith(last.stem) or not path.name[0].isdigit():
            shutil.copy(path, root / "broker" / "orders-0")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    records = QUICK_RECORDS if parser.parse_args().quick else RECORDS
    rounds = 1 if records == QUICK_RECORDS else ROUNDS
    with tempfile.TemporaryDirectory() as work:
        root = Path(work)
        write(root, records)
        with serving(root) as store:
            ways: dict[str, tuple[Path, dict[str, str]]] = {
                "local": (root / "whole", {}),
                "remote, local-tiered-storage": (root / "broker", {"remote": str(root / "remote")}),
                "remote, aiven": (root / "broker", {"remote": str(root / "aiven")}),
                "remote, in a bucket": (root / "broker", {"remote": f"s3://{BUCKET}/remote", **store.options()}),
            }
            compare(ways, records, rounds)


def compare(ways: dict[str, tuple[Path, dict[str, str]]], records: int, rounds: int) -> None:
    """Print a line for each way."""
    spark = local_session()
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, (path, options) in ways.items():
            begun = time.perf_counter()
            frame = spark.read.format("kafkalog").options(subscribe="orders", **options).load(str(path))
            count, total = frame.selectExpr("count(value)", "sum(offset)").first()
            if (count, total) != (records, records * (records - 1) // 2):
                raise AssertionError(f"{name}: {count} records, and {records} were written")
            if number:
                taken[name].append(time.perf_counter() - begun)
    spark.stop()
    local = statistics.median(taken["local"])
    print(f"{'topic':34}{'seconds':>9}{'rows/s':>14}{'of local':>10}")
    for name, seconds in taken.items():
        median = statistics.median(seconds)
        print(f"{name:34}{median:9.2f}{records / median:14,.0f}{local / median:10.2f}")


if __name__ == "__main__":
    main()
