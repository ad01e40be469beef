"""The ways that need other brokers, taken as they are printed, on a live cluster: afterwards every record is there."""

from __future__ import annotations

import base64
import random
import shlex
import time
from typing import TYPE_CHECKING

import pytest

from kafkalog.codec.model import BATCH
from kafkalog.codec.plain.scanner import scan
from kafkalog.recovery import plan
from testkit.kafka.real_cluster import RealCluster
from testkit.running.command import kafkalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from testkit.kafka.kafka_oracle import KafkaOracle

VERSION = "4.3.0"


def records(count: int, seed: int) -> list[dict[str, object]]:
    rng = random.Random(seed)
    return [{"partition": 0, "v": base64.b64encode(rng.randbytes(60)).decode()} for _ in range(count)]


def log_of(volume: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((volume / "t-0").glob("*.log")))


def flip(volume: Path, number: int) -> None:
    """Break the content of one batch beyond what a single bit explains."""
    log = min((volume / "t-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    at = scan(bytes(data)).batches[number].position + BATCH.size + 2
    data[at : at + 4] = bytes(each ^ 0xA5 for each in data[at : at + 4])
    log.write_bytes(data)


def printed(volume: Path, way: str, *more: str | Path) -> str:
    """The command of a way for the partition, as the report and the plan have it."""
    (line,) = {line.strip() for line in kafkalog("plan", *more, volume / "t-0").lines
               if line.strip().startswith("kafkalog recover ") and f"--mode {way}" in line}  # fmt: skip
    return line


@pytest.fixture
def cluster(kafka_of: Callable[[str], KafkaOracle], tmp_path: Path) -> Iterator[tuple[RealCluster, int, int]]:
    """A topic on two brokers; which of them leads, and which follows."""
    kafka_of(VERSION)
    with RealCluster(VERSION, tmp_path) as started:
        started.start()
        config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        started[1].client("create", topic="t", partitions=1, replicas=2, config=config)
        first = started.await_partition("t", lambda found: len(found.isr) == 2)
        yield started, first.leader, next(each for each in first.replicas if each != first.leader)


def produce(cluster: RealCluster, lead: int) -> list[str]:
    sent = records(200, 1)
    cluster[lead].client("produce", topic="t", records=sent, producer={"acks": "all", "batch.size": 400})
    return [str(each["v"]) for each in sent]


def read(cluster: RealCluster, node: int) -> list[str]:
    return [record["value"] for record in cluster[node].records("t")["t-0"]["records"]]


def followed(cluster: RealCluster, lead: int, follow: int) -> None:
    """The follower is in sync, and has the leader's bytes."""
    cluster.await_partition("t", lambda found: set(found.isr) == {lead, follow})
    deadline = time.monotonic() + 30
    while log_of(cluster[follow].log_dir) != log_of(cluster[lead].log_dir) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert log_of(cluster[follow].log_dir) == log_of(cluster[lead].log_dir)
    time.sleep(2)  # a fetch later it knows the high watermark too


def await_checkpoint(volume: Path, line: str) -> None:
    """Of high watermarks, which a broker writes every five seconds."""
    deadline = time.monotonic() + 30
    while line not in (volume / "replication-offset-checkpoint").read_text().splitlines():
        assert time.monotonic() < deadline, line
        time.sleep(0.2)


@pytest.mark.interop
def test_a_broker_leads_with_what_was_merged_in_place(
    cluster: tuple[RealCluster, int, int], compared: Callable[[str, int], None]
) -> None:
    """Both copies are damaged, each elsewhere."""
    brokers, lead, follow = cluster
    sent = produce(brokers, lead)
    brokers[follow].kill()
    brokers.await_partition("t", lambda found: tuple(found.isr) == (lead,))
    brokers[lead].kill()
    volumes = {node: brokers[node].log_dir for node in (lead, follow)}
    flip(volumes[lead], 2)
    flip(volumes[follow], 9)
    line = printed(volumes[lead], "merge", "--copy", volumes[follow])
    assert kafkalog(*shlex.split(line)[1:]).code == 2
    brokers[lead].start()
    brokers.await_partition("t", lambda found: found.leader == lead)
    assert read(brokers, lead) == sent
    line = printed(volumes[follow], "merge", "--copy", volumes[lead])
    assert kafkalog(*shlex.split(line)[1:]).code == 2
    brokers[follow].start()
    followed(brokers, lead, follow)
    compared("records that a broker leads with after a printed merge", len(sent))


@pytest.mark.interop
def test_a_broker_fetches_all_of_what_was_set_aside(
    cluster: tuple[RealCluster, int, int], compared: Callable[[str, int], None]
) -> None:
    """The damage lies below the recovery point of a broker that was stopped in order, whose start looks at no log."""
    brokers, lead, follow = cluster
    sent = produce(brokers, lead)
    followed(brokers, lead, follow)
    brokers[follow].stop()
    volume = brokers[follow].log_dir
    flip(volume, 2)
    line = printed(volume, "set-aside")
    assert kafkalog(*shlex.split(line)[1:]).code == 2
    brokers[follow].start()
    followed(brokers, lead, follow)
    brokers[lead].stop()
    brokers.await_partition("t", lambda found: found.leader == follow)
    assert read(brokers, follow) == sent
    compared("records that a broker has fetched again after a printed set-aside", len(sent))


@pytest.mark.interop
def test_a_broker_cuts_its_log_and_fetches_the_rest(
    cluster: tuple[RealCluster, int, int], compared: Callable[[str, int], None]
) -> None:
    """Killed, so that its start examines the log: the way `replica` is that start and nothing else."""
    brokers, lead, follow = cluster
    sent = produce(brokers, lead)
    followed(brokers, lead, follow)
    volume = brokers[follow].log_dir
    await_checkpoint(volume, "t 0 200")
    brokers[follow].kill()
    flip(volume, 2)
    ways = {str(way.way): way for way in plan(volume / "t-0")[0].choice.by_partition["t-0"]}
    assert (ways["replica"].how, ways["replica"].leaders) == (None, (lead,))
    promised = ways["replica"].measured
    assert (promised.records_kept or 0) + (promised.records_lost or 0) == len(sent), "above its high watermark none"
    brokers[follow].start()
    followed(brokers, lead, follow)
    brokers[lead].stop()
    brokers.await_partition("t", lambda found: found.leader == follow)
    assert read(brokers, follow) == sent
    compared("records that a broker has cut and fetched again by itself", len(sent))
