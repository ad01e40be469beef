"""`offsets --format reset-csv` as Kafka's own kafka-consumer-groups reads it, and as it writes such a file itself."""

from __future__ import annotations

import csv
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from testkit.kafka import kafka_jars
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.real_broker import RealBroker
from testkit.running.command import kafkalog as command

MAIN = {
    "4.3.0": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "2.8.2": "kafka.admin.ConsumerGroupCommand",
}
MODE = {"4.3.0": "kraft", "2.8.2": "zk"}
GROUPS = ("readers", 'a "quoted", group', "слово")
Rows = set[tuple[str, ...]]


def consumer_groups(broker: RealBroker, *arguments: object) -> Rows:
    """What `kafka-consumer-groups --reset-offsets --dry-run --export` prints."""
    words = ["--bootstrap-server", broker.bootstrap, "--reset-offsets", "--dry-run", "--export", *map(str, arguments)]
    java = kafka_jars.java(broker.version, MAIN[broker.version], *words)
    java.insert(1, "-Dfile.encoding=UTF-8")
    finished = subprocess.run(java, capture_output=True, text=True, encoding="utf-8", check=False, timeout=120)
    assert finished.returncode == 0, finished.stderr + finished.stdout
    assert "Error" not in finished.stdout + finished.stderr, finished.stdout + finished.stderr
    assert finished.stdout, finished.stderr
    return rows(finished.stdout)


def rows(text: str) -> Rows:
    return {tuple(row) for row in csv.reader(text.splitlines()) if row}


@pytest.mark.interop
@pytest.mark.parametrize("version", sorted(MAIN))
def test_kafkas_own_command_reads_what_offsets_prints(
    version: str, kafka_of: Callable[[str], KafkaOracle], tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    kafka_of(version)
    rng = random.Random(version)
    settings = {"offsets.topic.num.partitions": 5}
    with RealBroker(version, tmp_path / "broker", mode=MODE[version], settings=settings) as broker:
        broker.start()
        for topic in ("t", "with.dots-and_more"):
            broker.create(topic, 3)
            records = [{"partition": n % 3, "k": None, "v": "eA=="} for n in range(60)]
            broker.client("produce", topic=topic, records=records)
        broker.create("__consumer_offsets", 5, cleanup_policy="compact")
        broker.stop()
        for group in GROUPS:
            places = [(topic, number) for topic in ("t", "with.dots-and_more") for number in range(3)]
            kafkalog.commit_offsets(broker.log_dir, group, {place: rng.randrange(20) for place in places[:5]})
        one = command("offsets", broker.log_dir, "--group", "readers", "--format", "reset-csv")
        every = command("offsets", broker.log_dir, "--format", "reset-csv")
        assert (one.code, every.code) == (0, 0), one.err + every.err
        (tmp_path / "one.csv").write_text(one.out)
        (tmp_path / "every.csv").write_text(every.out)
        assert len(rows(one.out)) == 5
        assert len(rows(every.out)) == 5 * len(GROUPS)
        broker.start()
        named = ("--group", "readers")
        assert consumer_groups(broker, *named, "--from-file", tmp_path / "one.csv") == rows(one.out)
        if version != "2.8.2":  # whose --all-topics prints nothing for these groups
            assert consumer_groups(broker, *named, "--all-topics", "--to-current") == rows(one.out)
        every_group = [word for each in GROUPS for word in ("--group", each)]
        assert consumer_groups(broker, *every_group, "--from-file", tmp_path / "every.csv") == rows(every.out)
        compared("lines of reset files that Kafka's own command reads", len(rows(one.out)) + len(rows(every.out)))
