"""A cluster whose ZooKeeper is gone: the brokers come back on a new one with what the page takes from their logs."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.kafka.kafka_tools import write_tools
from testkit.kafka.nights import T0, produced, shell_lines, values, wait_for
from testkit.kafka.real_broker import BrokerError, RealBroker
from testkit.kafka.real_zookeeper import ZooKeeperCluster
from testkit.running.pages import DOCS, blocks_of, commands_of, follow, type_commands

pytestmark = pytest.mark.interop
VERSION = "3.9.1"
BROKERS = (3, 6)
PAGE = DOCS / "runbook" / "zookeeper-lost.md"
SETTINGS = {"log.retention.ms": 7 * 24 * 3_600_000, "offsets.topic.replication.factor": 2}
KEPT = {"retention_ms": -1}
WRITERS = 6
"""producers, each of which gets its id from one of the two brokers"""


@pytest.fixture
def cluster(kafka_of: Callable[[str], KafkaOracle], tmp_path: Path) -> Iterator[ZooKeeperCluster]:
    kafka_of(VERSION)
    with ZooKeeperCluster(VERSION, tmp_path / "cluster", BROKERS, **SETTINGS) as made:
        yield made


def committed(broker: RealBroker, offsets: list[int] | None = None) -> list[int]:
    """A group's offsets as the coordinator has them; with `offsets`, once these are committed."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
    places = [confluent_kafka.TopicPartition("both", number) for number in range(3)]
    if offsets is not None:
        for place, offset in zip(places, offsets, strict=True):
            place.offset = offset
        consumer.commit(offsets=places, asynchronous=False)
    found = [each.offset for each in consumer.committed(places, 30)]
    consumer.close()
    return found


def written_once(broker: RealBroker, topic: str, mark: bytes) -> list[str]:
    """Three records of an idempotent producer of its own in one batch; their values, as `values` gives them."""
    sent = [base64.b64encode(mark + b" %d" % number).decode() for number in range(3)]
    records = [{"partition": 0, "v": value} for value in sent]  # of now: a producer is forgotten a day after its last
    broker.client("produce", topic=topic, records=records, producer={"enable.idempotence": "true"})
    return sorted(sent)


def new_ensemble(cluster: ZooKeeperCluster) -> None:
    """An empty ZooKeeper at the address of the lost one."""
    cluster.control.kill()
    shutil.rmtree(cluster.control.log_dir)
    cluster.control.start()


def volumes(cluster: ZooKeeperCluster, place: Path) -> None:
    """The log directories under the names that the page has."""
    for node_id in BROKERS:
        (place / f"broker-{node_id}").symlink_to(cluster[node_id].log_dir)


def nodes_of(place: Path, *, with_old: bool) -> None:
    """Type what the page types to make its script."""
    wanted = {"ls broker", "transactions"} | ({"zk zookeeper-old --json"} if with_old else set())
    typed = [each for each in commands_of(PAGE) if any(words in each.text for words in wanted)]
    assert len(typed) == len(wanted) + len(BROKERS)
    type_commands(typed, place)
    if not with_old:
        (place / "old.jsonl").write_text("")
    (program,) = (text for kind, text in blocks_of(PAGE) if kind == "python")
    (place / "program.md").write_text(f"```python\n{program}```\n")
    assert [each.complaint for each in follow(place / "program.md", place)] == [""]


def typed_into(cluster: ZooKeeperCluster, place: Path) -> str:
    """The page's line that feeds the script to ZooKeeper."""
    line, _ = shell_lines("zookeeper-lost")
    tools = write_tools(VERSION, place / "bin")
    text = line.replace("HOST:PORT", f"-server {cluster.control.address}")
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", text], cwd=place, env=environment, capture_output=True, text=True, check=True, timeout=120
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.parametrize("with_old", [False, True], ids=["logs alone", "old settings"])
def test_brokers_on_a_new_zookeeper(
    with_old: bool, cluster: ZooKeeperCluster, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    cluster.start()
    first, second = (cluster[node_id] for node_id in BROKERS)
    first.client("create", topic="both", partitions=3, replicas=2, config={"retention.ms": "-1"})
    first.create("old-records", 2, **KEPT)
    sent = sorted([*produced(first, "both", 300, 3), *written_once(first, "both", b"before")])
    older = produced(first, "old-records", 100, 2, seed=2)
    assert time.time() * 1000 - T0 > SETTINGS["log.retention.ms"], "by default these would expire"
    assert committed(first, [40, 41, 42]) == [40, 41, 42]
    second.stop()
    sent = sorted([*sent, *produced(first, "both", 30, 3, seed=3)])  # the second broker has less, and an older epoch
    first.stop()

    place = tmp_path / "place"
    place.mkdir()
    volumes(cluster, place)
    if with_old:
        shutil.copytree(cluster.control.log_dir, place / "zookeeper-old")
    new_ensemble(cluster)
    with pytest.raises(BrokerError, match=r"Invalid cluster\.id"):
        first.start()
    new_ensemble(cluster)  # the refused start has made a cluster id there
    nodes_of(place, with_old=with_old)
    assert "Created /cluster/id" in typed_into(cluster, place)
    cluster[BROKERS[1]].start()
    cluster[BROKERS[0]].start()

    state = cluster.elected
    wait_for(lambda: all(leader >= 0 and len(isr) == 2 for (t, _), (leader, isr) in state().items() if t == "both"))
    assert {leader for (topic, _), (leader, _) in state().items() if topic == "both"} == {BROKERS[0]}, "it has more"
    time.sleep(3)  # retention runs every second
    assert values(first.records("both", 3)) == sent
    assert values(first.records("old-records", 2)) == older
    assert committed(first) == [40, 41, 42]
    written_once(first, "both", b"after")
    assert len(values(first.records("both", 3))) == len(sent) + 3, "new producers are not taken for old ones"
    compared("brokers that have their topics, offsets and records again on a new ZooKeeper", len(BROKERS))


def test_without_the_block_of_producer_ids_records_are_dropped(cluster: ZooKeeperCluster, tmp_path: Path) -> None:
    """Why the script has it: what the page says of a new producer with the id of an older one."""
    cluster.start()
    first, second = (cluster[node_id] for node_id in BROKERS)
    first.create("t", **KEPT)
    sent = [written_once(first, "t", b"before %d" % number) for number in range(WRITERS)]
    for broker in (first, second):
        broker.stop()
    place = tmp_path / "place"
    place.mkdir()
    volumes(cluster, place)
    new_ensemble(cluster)
    nodes_of(place, with_old=False)
    kept = [line for line in (place / "nodes.txt").read_text().splitlines() if "/latest_producer_id_block" not in line]
    (place / "nodes.txt").write_text("\n".join(kept) + "\n")
    typed_into(cluster, place)
    for broker in (first, second):
        broker.start()
    sent += [written_once(first, "t", b"after %d" % number) for number in range(WRITERS)]  # all are acknowledged
    found = values(first.records("t"))
    assert len(found) < sum(map(len, sent)), "and not all are there"
