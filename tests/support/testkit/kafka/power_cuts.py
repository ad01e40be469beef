"""Power cuts of a real cluster of three brokers, and whether what follows is what triage foresaw.

All processes are killed, some logs lose their ends, triage looks at the disks, and then everything is started:
controllers alone and broker after broker, or all together.  `run_cuts` makes a cluster and cuts it several times.
"""

from __future__ import annotations

import base64
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog.jobs.triage.run import Triage, triage
from kafkalog.log import open_partition
from testkit.kafka.real_broker import SESSION_MS, START_SECONDS, RealBroker
from testkit.kafka.real_cluster import RealCluster
from testkit.kafka.real_zookeeper import ZooKeeper, ZooKeeperCluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["Counts", "run_cuts", "run_lost_disk"]

BROKERS = (1, 2, 3)
PARTITIONS = 3
TOPICS = {
    "one": {"min.insync.replicas": "1"},
    "two": {"min.insync.replicas": "2"},
    "unclean": {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
}
KEYS = [(topic, number) for topic in TOPICS for number in range(PARTITIONS)]
NEVER_REBALANCED = {"auto.leader.rebalance.enable": "false"}
SETTLED_SECONDS = 6.0
Cluster = RealCluster | ZooKeeperCluster
Node = RealBroker | ZooKeeper
Ends = dict[tuple[str, int], dict[int, int]]


@dataclass
class Counts:
    cuts: int = 0
    elections: int = 0
    raced: int = 0
    """of these, in any order of starts, and more than one leader was possible"""
    alternatives: int = 0
    """in a given order of starts, where one leader is expected"""
    outsiders: int = 0
    """in a given order of starts that begins with a broker outside of an ISR of two, without unclean elections"""
    leaderless: int = 0
    ends: int = 0
    shortened: int = 0


def records(rng: random.Random, count: int) -> list[dict[str, object]]:
    return [
        {"partition": number, "v": base64.b64encode(rng.randbytes(50)).decode()}
        for number in range(PARTITIONS)
        for _ in range(count)
    ]


class Cuts:
    """One cluster, cut again and again."""

    def __init__(self, cluster: Cluster, rng: random.Random, counts: Counts) -> None:
        self.cluster, self.rng, self.counts = cluster, rng, counts
        self.early: list[int] = []
        """who died before the others"""

    def log_dir(self, node: int) -> Path:
        return self.cluster[node].log_dir

    def produce(self, node: int, count: int, acks: str) -> None:
        for topic in TOPICS:
            self.cluster[node].client(
                "produce", topic=topic, records=records(self.rng, count), producer={"acks": acks, "batch.size": 300}
            )

    def await_that(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            assert time.monotonic() < deadline, (self.cluster.sessions(), self.cluster.elected())
            time.sleep(0.3)

    def history(self) -> None:
        """Before the cut: perhaps a broker dies first, and the others go on."""
        self.produce(1, self.rng.randint(5, 40), "all")
        alive = list(BROKERS)
        self.early.clear()
        for _ in range(self.rng.choice([0, 1, 1, 2])):
            dies = self.rng.choice(alive)
            alive.remove(dies)
            self.early.append(dies)
            self.cluster[dies].kill()
            self.await_that(lambda dies=dies: dies not in self.cluster.sessions())  # type: ignore[misc]
            if all(leader in alive for leader, _ in self.cluster.elected().values()):
                self.produce(alive[0], self.rng.randint(1, 20), "1")
        control = self.cluster.control
        if self.rng.random() < 0.3:
            for node in alive:
                self.cluster[node].kill()
            self.await_that(lambda: not self.cluster.sessions())
            control.kill()
        else:
            brokers = [self.cluster[node] for node in alive]
            for each in (control, *brokers) if self.rng.random() < 0.5 else (*brokers, control):
                each.kill()

    def shorten(self) -> None:
        """Ends of logs that never reached the disk."""
        for node in BROKERS:
            for topic, number in KEYS:
                log = max((self.log_dir(node) / f"{topic}-{number}").glob("*.log"))
                size = log.stat().st_size
                if self.rng.random() < 0.4 and size:
                    with log.open("r+b") as file:
                        file.truncate(max(0, size - self.rng.randint(1, min(size, 2500))))
                    self.counts.shortened += 1

    def start(self, order: tuple[int, ...] | None) -> None:
        if order is not None:
            self.cluster.control.start()
            self.await_that(lambda: not self.cluster.sessions())
            time.sleep(SESSION_MS / 1000)
            for node in order:
                self.cluster[node].start()
                self.await_that(lambda node=node: node in self.cluster.sessions())  # type: ignore[misc]
            return
        before = self.cluster.sessions()
        threads = [
            threading.Thread(target=self._later, args=(each, self.rng.uniform(0, 4)))
            for each in (self.cluster.control, *(self.cluster[node] for node in BROKERS))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.await_that(
            lambda: (
                (now := self.cluster.sessions()).keys() == set(BROKERS)
                and all(before.get(node) != epoch for node, epoch in now.items())
            )
        )

    @staticmethod
    def _later(each: Node, seconds: float) -> None:
        time.sleep(seconds)
        each.start()

    def ends(self) -> Ends:
        return {
            (topic, number): {
                node: open_partition(self.log_dir(node) / f"{topic}-{number}").log_end_offset() for node in BROKERS
            }
            for topic, number in KEYS
        }

    def compare(self, foreseen: Triage, started: tuple[int, ...], *, is_given: bool) -> None:
        """What happened against what was said."""
        time.sleep(SETTLED_SECONDS)
        said = {(each.topic, each.partition): each for each in foreseen.partitions}
        led = {key: leader for key, (leader, _) in self.cluster.elected().items()}
        assert set(KEYS) <= led.keys()
        for key, leader in led.items():
            each = said[key]
            assert leader in each.leaders, (key, leader, each)
            assert each.is_foreseen
            if is_given:
                self.counts.alternatives += len(each.leaders) - 1
                is_outside = len(each.known.isr) > 1 and started[0] not in each.known.isr
                self.counts.outsiders += is_outside and key[0] != "unclean"
            else:
                self.counts.raced += len(each.leaders) > 1
            self.counts.elections += 1
            self.counts.leaderless += leader == -1
        self.await_that(
            lambda: all(leader == -1 or set(isr) == set(started) for leader, isr in self.cluster.elected().values())
        )
        for key, all_ends in self.ends().items():
            ends = {node: end for node, end in all_ends.items() if node in started}
            assert ends == said[key].outcomes[led[key]], (key, led[key], said[key])
            self.counts.ends += len(ends)
        self.counts.cuts += 1

    def order(self) -> tuple[int, ...]:
        """One of starts; often first of all one who is not in the ISRs."""
        brokers = self.rng.sample(BROKERS, self.rng.choice([1, 2, 3, 3]))
        if self.early and self.rng.random() < 0.7:
            brokers = [self.early[0], *(each for each in brokers if each != self.early[0])]
        return tuple(brokers)

    def lose_the_last(self) -> None:
        """Two brokers die, the last one takes more, all end, and its disk does not come back.

        Triage asks for that disk; what it says of the way without it is gone.
        """
        first, second, last = self.rng.sample(BROKERS, 3)
        self.produce(last, 20, "all")
        for dies in (first, second):
            self.cluster[dies].kill()
            self.await_that(lambda dies=dies: dies not in self.cluster.sessions())  # type: ignore[misc]
        self.produce(last, 5, "1")
        self.cluster[last].kill()
        self.cluster.control.kill()
        foreseen = triage(*(path for path in self.cluster.log_dirs if path != self.log_dir(last)))
        lost = [each for each in foreseen.partitions if each.topic == "one"]
        assert {each.advice.what for each in lost} == {"bring"}
        assert {each.advice.bring for each in lost} == {(last,)}
        self.start(foreseen.best_order)
        for each in lost:
            key = each.topic, each.partition
            assert each.leaders == (-1,)
            assert self.cluster.elected()[key][0] == -1
            self.cluster[foreseen.best_order[0]].client("elect", topic=each.topic, partition=each.partition)
            self.await_that(lambda key=key: self.cluster.elected()[key][0] != -1)  # type: ignore[misc]
            assert self.cluster.elected()[key][0] in each.best
            self.counts.elections += 1

    def cut(self) -> None:
        self.history()
        self.shorten()
        order = self.order() if self.rng.random() < 0.6 else None
        foreseen = triage(*self.cluster.log_dirs, start_order=order)
        self.start(order)
        self.compare(foreseen, order or BROKERS, is_given=order is not None)
        for node in set(BROKERS) - set(order or BROKERS):
            self.cluster[node].start()
        self.await_that(lambda: all(set(isr) == set(BROKERS) for _, isr in self.cluster.elected().values()))


def run_lost_disk(version: str, elr: int | None, directory: Path, counts: Counts) -> None:
    """A disk that alone may lead is gone: an unclean election gives every partition a leader, as advised."""
    with _cluster(version, elr, directory) as cluster:
        _cuts(cluster, random.Random(f"lost {version} {elr}"), counts).lose_the_last()


def run_cuts(version: str, elr: int | None, seed: str, count: int, directory: Path, counts: Counts) -> None:
    """So many cuts of a new cluster, added to `counts`; an election or an end that was not foreseen is an error.

    `elr` is the level of eligible leader replicas; None: a cluster with ZooKeeper.
    """
    rng = random.Random(f"{seed} {version} {elr}")
    with _cluster(version, elr, directory) as cluster:
        cuts = _cuts(cluster, rng, counts)
        for _ in range(count):
            cuts.cut()


def _cuts(cluster: Cluster, rng: random.Random, counts: Counts) -> Cuts:
    cluster.start()
    for topic, config in TOPICS.items():
        cluster[1].client("create", topic=topic, partitions=PARTITIONS, replicas=3, config=config)
    cuts = Cuts(cluster, rng, counts)
    cuts.await_that(lambda: cluster.elected().keys() == set(KEYS))
    return cuts


def _cluster(version: str, elr: int | None, directory: Path) -> Cluster:
    if elr is None:
        return ZooKeeperCluster(version, directory, BROKERS, **NEVER_REBALANCED)
    features = {"eligible.leader.replicas.version": elr}
    return RealCluster(version, directory, BROKERS, features, **NEVER_REBALANCED)
