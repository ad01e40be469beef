"""An unclean election: what the old leader alone had comes back under another name, and the group misses nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.nights import VERSION, produced, section, shell_lines, tools_of, values
from testkit.kafka.real_cluster import RealCluster
from testkit.running.command import kafkalog
from testkit.running.pages import type_commands

pytestmark = pytest.mark.interop
BROKERS = (1, 2, 3)
COMMON, OLD, NEW = 90, 40, 30
UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


@pytest.fixture
def cluster(kafka_of: Callable[[str], KafkaOracle], tmp_path: Path) -> Iterator[RealCluster]:
    """Three brokers, whose group coordinator's topic may be led uncleanly too."""
    kafka_of(VERSION)
    settings: dict[str, Any] = {
        **UNCLEAN, "offsets.topic.replication.factor": 3, "auto.leader.rebalance.enable": "false",
    }  # fmt: skip
    with RealCluster(VERSION, tmp_path / "place", BROKERS, **settings) as made:
        made.start()
        yield made


def read_on(bootstrap: str, until: int) -> list[int]:
    """The group reads on to an offset and commits; the offsets that it got."""
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": bootstrap, "group.id": "readers", "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    })  # fmt: skip
    consumer.subscribe(["tale"])
    got: list[int] = []
    deadline = time.monotonic() + 60
    while not got or got[-1] < until - 1:
        assert time.monotonic() < deadline, got
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            got.append(message.offset() or 0)
    consumer.commit(asynchronous=False)
    consumer.close()
    return got


def test_what_a_group_lost_and_how_it_goes_on(cluster: RealCluster, compared: Callable[[str, int], None]) -> None:
    place = cluster[1].directory.parent
    cluster[1].client("create", topic="tale", partitions=1, replicas=3, config=UNCLEAN)
    first = cluster.await_partition("tale", lambda found: len(found.isr) == 3)
    lead = first.leader
    behind, new = (node for node in BROKERS if node != lead)
    sent = produced(cluster[lead], "tale", COMMON)
    assert read_on(cluster[lead].bootstrap, COMMON) == list(range(COMMON))
    for node in (behind, new):
        cluster[node].stop()
    cluster.await_partition("tale", lambda found: found.isr == (lead,))
    old = produced(cluster[lead], "tale", OLD, seed=2)
    assert read_on(cluster[lead].bootstrap, COMMON + OLD)[-1] == COMMON + OLD - 1
    cluster[lead].kill()
    cluster.await_partition("tale", lambda found: found.leader == -1)
    cluster[new].start()
    cluster.await_partition("tale", lambda found: found.leader == new)
    sent += produced(cluster[new], "tale", NEW, seed=3)

    words = {"broker-3 --topic": f"broker-{lead} --topic"}
    (shown,) = type_commands(section("diverged", "1."), place)
    (row,) = (line.split() for line in shown.output.splitlines() if line.startswith("readers"))
    assert row[1:4] == ["tale-0", str(COMMON + OLD), "0"]
    assert " ".join(row[4:10]) == f"{COMMON} to {COMMON + OLD - 1} {COMMON} to {COMMON + NEW - 1}"
    saved = type_commands(section("diverged", "2."), place, words)
    assert saved[-1].output.split()[0] == str(OLD)
    type_line = tools_of(cluster[new], place)
    replay, reset = shell_lines("diverged")
    type_line(replay.replace("broker-3", f"broker-{lead}"), 2)
    type_line(reset)
    for node in (lead, behind):
        cluster[node].start()
    cluster.await_partition("tale", lambda found: set(found.isr) == set(BROKERS))
    assert read_on(cluster[new].bootstrap, COMMON + NEW) == list(range(COMMON, COMMON + NEW))
    assert values(cluster[new].records("tale")) == sorted(sent)
    assert values(cluster[new].records("tale-lost")) == old
    for node in BROKERS:
        cluster[node].stop()
    assert kafkalog("compare", *(place / f"broker-{node}" for node in BROKERS), "--topic", "tale").code == 0
    compared("records of both leaders that consumers read after an unclean election", len(sent) + len(old))
