"""Offsets that we committed into a directory, as Kafka's own tool prints them and as a live coordinator has them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.real_broker import RealBroker

T0 = 1_700_000_000_000
Compared = Callable[[str, int], None]


def test_kafkas_own_tool_reads_what_we_committed(kafka: KafkaOracle, tmp_path: Path, compared: Compared) -> None:
    root = tmp_path / "data"
    root.mkdir()
    first = kafkalog.OffsetAndMetadata(5, "слово", 3)
    number = kafkalog.commit_offsets(root, "readers", {("t", 0): first, ("t", 1): 7, ("u", 2): None}, timestamp=T0)
    path = root / f"__consumer_offsets-{number}" / "00000000000000000000.log"
    answer = kafka.dump("--offsets-decoder", "--print-data-log", "--files", str(path))
    assert answer["exit_code"] == 0, answer
    lines = [line for line in answer["stdout"].splitlines() if " key: " in line]
    found = []
    for line in lines:
        key, _, value = line.partition(" key: ")[2].partition(" payload: ")
        decoded = json.loads(key)
        assert decoded["type"] in (1, "1")
        found.append((decoded["data"], None if value == "<DELETE>" else json.loads(value)))
    assert found == [
        ({"group": "readers", "topic": "t", "partition": 0},
         {"version": "3", "data": {"offset": 5, "leaderEpoch": 3, "metadata": "слово", "commitTimestamp": T0}}),
        ({"group": "readers", "topic": "t", "partition": 1},
         {"version": "3", "data": {"offset": 7, "leaderEpoch": -1, "metadata": "", "commitTimestamp": T0}}),
        ({"group": "readers", "topic": "u", "partition": 2}, None),
    ]  # fmt: skip
    compared("committed offsets that Kafka's tool prints", len(found))


@pytest.mark.interop
@pytest.mark.parametrize("version", ["4.1.0", "3.9.1"])
def test_a_live_coordinator_has_what_we_committed(
    version: str, kafka_of: Callable[[str], KafkaOracle], tmp_path: Path, compared: Compared
) -> None:
    kafka_of(version)
    rng = random.Random(version)
    wanted: dict[str, dict[tuple[str, int], tuple[int, str, int | None]]] = {}
    with RealBroker(version, tmp_path / "broker", settings={"offsets.topic.num.partitions": 7}) as broker:
        broker.start()
        broker.create("t", 5)
        broker.create("__consumer_offsets", 7, cleanup_policy="compact")
        broker.stop()
        for number in range(60):
            group = f"group {number % 40}"
            known = wanted.setdefault(group, {})
            offsets: dict[tuple[str, int], int | kafkalog.OffsetAndMetadata | None] = {}
            for partition in rng.sample(range(5), rng.randint(1, 5)):
                place = "t", partition
                if rng.random() < 0.2:
                    offsets[place] = None
                    known.pop(place, None)
                    continue
                epoch = rng.choice([-1, 0, 3])
                commit = kafkalog.OffsetAndMetadata(rng.randrange(2**40), rng.choice(["", "слово"]), epoch)
                offsets[place] = commit
                known[place] = commit.offset, commit.metadata, None if epoch < 0 else epoch
            kafkalog.commit_offsets(broker.log_dir, group, offsets)
        broker.start()
        for group, known in wanted.items():
            answer = broker.client("committed", group=group)["offsets"]
            assert {(topic, partition): tuple(rest) for topic, partition, *rest in answer} == known, group
        compared("committed offsets that a live coordinator has", sum(map(len, wanted.values())))
