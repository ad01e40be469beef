# ruff: noqa: E402 - the path comes first
"""How fast Spark reads a topic through kafkalog, beside Spark's own Kafka source on a live broker with the same files.

Makes a seeded topic of 100-byte values in 16 KiB batches, lets a broker of Kafka 4.3.0 serve it on loopback, and runs
both sources interleaved in one session of Spark 4.0.0, whose Kafka source is the newest that the registries hold whole.
The broker works on the same processors as Spark, as it does wherever one reads a single machine's disks through it.
Needs a JDK and Maven: `python benchmarks/spark_kafka.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "benchmarks")]

from spark_read import PARTITIONS, write_topic

import kafka_jars
import spark_kafka
from kafka_oracle import KafkaOracle
from real_broker import RealBroker

VERSION = "4.3.0"
JOB = ROOT / "benchmarks" / "support" / "spark_kafka_job.py"


def served(directory: Path, rows: int) -> tuple[RealBroker, int]:
    """A broker that is stopped, and whose topic `bench` holds the rows."""
    broker = RealBroker(VERSION, directory)
    broker.start()
    broker.client("create", topic="bench", partitions=PARTITIONS)
    broker.stop()
    made = directory / "made"
    made.mkdir()
    count = write_topic(made, rows)
    for partition in range(PARTITIONS):
        target = broker.log_dir / f"bench-{partition}"
        for path in target.glob("0*"):
            path.unlink()
        name = f"{0:020}.log"
        (made / f"bench-{partition}" / name).rename(target / name)
    return broker, count


def measured(broker: RealBroker, repeat: int) -> dict[str, dict[str, list[float]]]:
    """Query -> source -> seconds of each run."""
    directory = spark_kafka.setup()
    values = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    values |= {"PYTHONPATH": os.pathsep.join([str(directory / "python"), str(ROOT / "src")])}
    values |= {"SPARK_LOCAL_IP": "127.0.0.1"}
    values.pop("SPARK_HOME", None)
    jars = [str(path) for path in sorted((directory / "lib").glob("*.jar"))]
    job = {"jars": jars, "bootstrap": broker.bootstrap, "path": str(broker.log_dir), "repeat": repeat}
    command = [sys.executable, str(JOB), json.dumps(job)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=values, check=True)
    answer: dict[str, dict[str, list[float]]] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    reason = kafka_jars.available(VERSION)
    if reason is not None:
        kafka_jars.setup(VERSION)
    KafkaOracle(VERSION).close()
    with tempfile.TemporaryDirectory() as name:
        broker, rows = served(Path(name) / "broker", arguments.rows)
        with broker:
            broker.start()
            print(f"{rows} rows, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
            print(f"{'query':24}{'kafkalog':>14}{'Kafka source':>14}{'ratio':>8}")
            for title, taken in measured(broker, arguments.repeat).items():
                ours, theirs = (rows / statistics.median(taken[source]) for source in ("kafkalog", "kafka"))
                print(f"{title:24}{ours / 1e6:10.2f} M/s{theirs / 1e6:10.2f} M/s{ours / theirs:7.1f}x")


if __name__ == "__main__":
    main()
