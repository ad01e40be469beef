"""A topic that was deleted on three brokers with two log directories each: all of it comes back, and in sync."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.nights import VERSION, produced, section, values, wait_for
from testkit.kafka.real_cluster import RealCluster
from testkit.running.command import kafkalog
from testkit.running.pages import type_commands

pytestmark = pytest.mark.interop
BROKERS = (1, 2, 3)
PARTITIONS = 6
COUNT = 300
AN_HOUR = 3_600_000
TOPIC = "sessions-20"
BETWEEN = "created-between"
"""A broker places partitions in turn in its directories, those it leads first: one partition more changes the turn."""


class TwoDirectories(RealCluster):
    """Brokers with two log directories each."""

    directories = 2


@pytest.fixture
def cluster(kafka_of: Callable[[str], KafkaOracle], tmp_path: Path) -> Iterator[RealCluster]:
    """Brokers that delete late."""
    kafka_of(VERSION)
    settings: dict[str, Any] = {"log.segment.delete.delay.ms": AN_HOUR}
    with TwoDirectories(VERSION, tmp_path / "place", BROKERS, **settings) as made:
        made.start()
        yield made


def directories(cluster: RealCluster, pattern: str) -> list[Path]:
    return [path for node in BROKERS for root in cluster[node].log_dirs for path in root.glob(pattern)]


def create(cluster: RealCluster, topic: str = TOPIC, partitions: int = PARTITIONS) -> None:
    cluster[1].client("create", topic=topic, partitions=partitions, replicas=len(BROKERS), config={})
    wait_for(lambda: len(directories(cluster, f"{topic}-[0-9]")) == partitions * len(BROKERS))


def are_in_sync(cluster: RealCluster) -> bool:
    return all(set(isr) == set(BROKERS) for (topic, _), (_, isr) in cluster.elected().items() if topic == TOPIC)


def test_a_deleted_topic_comes_back(cluster: RealCluster, compared: Callable[[str, int], None]) -> None:
    place = cluster[1].directory.parent
    create(cluster)
    sent = produced(cluster[1], TOPIC, COUNT, PARTITIONS)
    for node in (1, 2):  # leaders move, and their epochs rise above those of a topic that is new
        cluster[node].stop()
        cluster[node].start()
        wait_for(lambda: are_in_sync(cluster))
    sent = sorted(sent + produced(cluster[3], TOPIC, COUNT, PARTITIONS, seed=2))
    cluster[1].client("delete", topic=TOPIC)
    wait_for(lambda: len(directories(cluster, f"{TOPIC}-*-delete")) == PARTITIONS * len(BROKERS))
    for node in BROKERS:
        cluster[node].kill()

    for beginning in ("2.", "3.", "4."):
        type_commands(section("deleted-topic", beginning), place)
    rescued = kafkalog("dump", "--json", place / "rescued")
    assert len(rescued.lines) == len(sent)
    for node in BROKERS:
        cluster[node].start()
    create(cluster, BETWEEN, partitions=1)
    create(cluster)
    for node in BROKERS:
        cluster[node].stop()
    moved = [path for path in directories(cluster, f"{TOPIC}-[0-9]") if not list(path.parent.glob(f"{path.name}.*"))]
    assert moved, "no partition is in another directory than before, so nothing was tried"

    type_commands(section("deleted-topic", "5."), place)
    type_commands(section("deleted-topic", "How to know"), place)
    for node in BROKERS:
        cluster[node].start()
    wait_for(lambda: are_in_sync(cluster))
    for node in BROKERS:  # each of them has all of it, and leads with it
        got = values(cluster[node].records(TOPIC, PARTITIONS))
        assert got == sent
    for node in BROKERS:
        cluster[node].stop()
    assert kafkalog("compare", *(place / f"broker-{node}" for node in BROKERS), "--topic", TOPIC).code == 0
    assert directories(cluster, f"{TOPIC}*-stray") == []
    compared("records that consumers read again of a topic that three brokers had deleted", len(sent))
