"""The main job, end to end, on a directory that a real broker left behind.

A Kafka 4.1 broker was killed with SIGKILL under load, and its partitions were then damaged as power cuts and bad disks
do it.  The demo examines the directory, shows what a recovery would do, recovers, looks again, and queries the records
with Spark.

    python3 dev.py demo
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import zstandard

ROOT = Path(__file__).resolve().parents[1]
ARCHIVE = ROOT / "fixtures" / "brokers" / "kafka-4.1.1" / "torn" / "data.tar.zst"
PLACE = ROOT / ".cache" / "demo"
LEFT = ROOT / "demo" / "data"
"""The same directory, damaged as it was found, for who goes on with the README."""
NOTHING_FOUND, FINDINGS, CHANGED = 0, 1, 2


def unpack(place: Path) -> Path:
    """Unpack the broker's log directory into a new folder; returns the log directory."""
    if place.exists():
        shutil.rmtree(place)
    place.mkdir(parents=True)
    with (
        ARCHIVE.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        if hasattr(tarfile, "data_filter"):  # from Python 3.11.4 on
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(place)
    return next(place.glob("broker-*"))


def leave_damaged() -> None:
    """Put the damaged directory where the README's examples expect it, without what earlier examples left."""
    for path in (LEFT, LEFT.with_name("data.recovery")):
        if path.exists():
            shutil.rmtree(path)
    LEFT.parent.mkdir(exist_ok=True)
    unpack(PLACE / "again").rename(LEFT)


def title(text: str) -> None:
    """A heading."""
    print(f"\n=== {text}\n", flush=True)


def kafkalog(*arguments: str, expected: tuple[int, ...]) -> None:
    """Show a command line and run it; any exit code but the expected ones ends the demo."""
    shown = [os.path.relpath(word) if os.path.isabs(word) else word for word in arguments]
    print(f"$ kafkalog {shlex.join(shown)}", flush=True)
    code = subprocess.run([sys.executable, "-m", "kafkalog", *shown], check=False).returncode
    if code not in expected:
        sys.exit(f"the demo expected exit code {expected}, not {code}")


def query(log_dir: Path) -> None:
    """A small table from the recovered records, made by Spark."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").config("spark.log.level", "ERROR").getOrCreate()
    path = os.path.relpath(log_dir)
    print(f'>>> spark.read.format("kafkalog").load("{path}").groupBy("topic")...', flush=True)
    records = spark.read.format("kafkalog").load(path)
    table = records.where(~f.col("topic").startswith("__")).groupBy("topic").agg(
        f.countDistinct("partition").alias("partitions"),
        f.count("*").alias("records"),
        f.sum(f.length("value")).alias("value bytes"),
        f.min("timestamp").alias("first"),
        f.max("timestamp").alias("last"),
    )  # fmt: skip
    table.orderBy("topic").show(truncate=False)
    spark.stop()


def main() -> None:
    """All of it."""
    title("A broker was killed; its log directory as it was found")
    log_dir = unpack(PLACE)
    kafkalog("ls", str(log_dir), expected=(FINDINGS,))
    title("What a recovery would do; nothing is changed yet")
    kafkalog("plan", "--mode", "kafka", str(log_dir), expected=(FINDINGS,))
    title("Recover")
    kafkalog("recover", "--mode", "kafka", "--yes", str(log_dir), expected=(CHANGED,))
    title("Verify every byte of the result")
    kafkalog("verify", str(log_dir), expected=(NOTHING_FOUND, FINDINGS))
    title("Query the records with Spark")
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        print("there is no Java here, so the records are not queried with Spark")
    else:
        query(log_dir)
    title("Nothing was destroyed")
    shown = os.path.relpath(log_dir)
    print(f"every byte that was removed is in {shown}.recovery, with a manifest; to put it all back:\n")
    print(f"    kafkalog undo {shown}")
    leave_damaged()
    print("\nthe damaged directory is in demo/data once more, for the examples of the README:\n")
    print("    source .venv/bin/activate; cd demo; kafkalog ls data")


if __name__ == "__main__":
    main()
