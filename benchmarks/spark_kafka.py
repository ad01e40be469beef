# ruff: noqa: E402 - the path comes first
"""How fast Spark reads a topic through kafkalog, beside its own Kafka source and a live broker.

Makes seeded topics of 100-byte values in 16 KiB batches, lets a broker of Kafka 4.3.0 serve them on loopback, and runs
both sources in turn in one session of Spark 4.0.0, whose Kafka source is the newest that the registries hold whole.
The broker works on the same processors as Spark, as it does wherever one reads a single machine's disks through it;
the column of processor times counts it in.  A small topic shows what a query costs whatever it reads.
Needs a JDK and Maven: `python benchmarks/spark_kafka.py`.  `--quick` is for correctness only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support")]

from support.spark_topics import write_topic

from testkit.kafka import kafka_jars
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.real_broker import RealBroker
from testkit.spark import spark_kafka

VERSION = "4.3.0"
PARTITIONS = 4
JOB = ROOT / "benchmarks" / "support" / "spark_kafka_job.py"


def fill(broker: RealBroker, made: Path, topics: dict[str, int]) -> dict[str, int]:
    """Topics of about so many rows on a broker that is stopped afterwards; how many there are."""
    broker.start()
    for topic in topics:
        broker.client("create", topic=topic, partitions=PARTITIONS)
    broker.stop()
    counts = {}
    for topic, rows in topics.items():
        counts[topic] = write_topic(made, topic, rows, PARTITIONS)
        for partition in range(PARTITIONS):
            target = broker.log_dir / f"{topic}-{partition}"
            for path in target.glob("0*"):
                path.unlink()
            for path in (made / target.name).iterdir():
                path.rename(target / path.name)
    return counts


def measured(broker: RealBroker, rows: dict[str, int], rounds: int) -> None:
    """Run the job, which prints the table."""
    directory = spark_kafka.setup()
    values = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    values |= {"PYTHONPATH": os.pathsep.join([str(directory / "python"), str(ROOT / "src")])}
    values |= {"SPARK_LOCAL_IP": "127.0.0.1"}
    values.pop("SPARK_HOME", None)
    jars = [str(path) for path in sorted((directory / "lib").glob("*.jar"))]
    job = {"jars": jars, "bootstrap": broker.bootstrap, "path": str(broker.log_dir), "rows": rows, "rounds": rounds,
           "root": os.getpid()}  # fmt: skip
    subprocess.run([sys.executable, str(JOB), json.dumps(job)], env=values, check=True)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small and for correctness only")
    arguments = parser.parse_args()
    rows = 100_000 if arguments.quick else arguments.rows
    if kafka_jars.available(VERSION) is not None:
        kafka_jars.setup(VERSION)
    KafkaOracle(VERSION).close()
    with tempfile.TemporaryDirectory() as name, RealBroker(VERSION, Path(name) / "broker") as broker:
        counts = fill(broker, Path(name) / "made", {"bench": rows, "little": rows // 20})
        broker.start()
        print(f"beside a broker of Kafka {VERSION} on loopback", flush=True)
        measured(broker, counts, 1 if arguments.quick else arguments.rounds)


if __name__ == "__main__":
    main()
