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

from kafkalog.log import open_partition
from kafkalog.recovery.triage.run import Triage, triage
from real_broker import SESSION_MS, START_SECONDS
from real_cluster import CONTROLLER, RealCluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkalog.cluster.metadata_image import MetadataImage

__all__ = ["Counts", "run_cuts"]

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
Ends = dict[tuple[str, int], dict[int, int]]


@dataclass
class Counts:
    cuts: int = 0
    elections: int = 0
    raced: int = 0
    """of these, in any order of starts, and more than one leader was possible"""
    alternatives: int = 0
    """in a given order of starts, where one leader is expected"""
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

    def __init__(self, cluster: RealCluster, rng: random.Random, counts: Counts) -> None:
        self.cluster, self.rng, self.counts = cluster, rng, counts

    def log_dir(self, node: int) -> Path:
        return self.cluster[node].log_dir

    def produce(self, node: int, count: int, acks: str) -> None:
        for topic in TOPICS:
            self.cluster[node].client(
                "produce", topic=topic, records=records(self.rng, count), producer={"acks": acks, "batch.size": 300}
            )

    def await_image(self, condition: Callable[[MetadataImage], bool]) -> MetadataImage:
        deadline = time.monotonic() + START_SECONDS
        while not condition(image := self.cluster.image()):
            assert time.monotonic() < deadline, image.topics
            time.sleep(0.3)
        return image

    def history(self) -> None:
        """Before the cut: perhaps a broker dies first, and the others go on."""
        self.produce(1, self.rng.randint(5, 40), "all")
        alive = list(BROKERS)
        for _ in range(self.rng.choice([0, 0, 1, 2])):
            dies = self.rng.choice(alive)
            alive.remove(dies)
            self.cluster[dies].kill()
            self.await_image(lambda image, dies=dies: image.brokers[dies].fenced)  # type: ignore[misc]
            led = {key: self.cluster.partition(*key) for key in KEYS}
            if all(each is not None and each.leader in alive for each in led.values()):
                self.produce(alive[0], self.rng.randint(1, 20), "1")
        if self.rng.random() < 0.3:
            for node in alive:
                self.cluster[node].kill()
            self.await_image(lambda image: all(each.fenced for each in image.brokers.values()))
            self.cluster[CONTROLLER].kill()
        else:
            for node in (CONTROLLER, *alive) if self.rng.random() < 0.5 else (*alive, CONTROLLER):
                self.cluster[node].kill()

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
            self.cluster[CONTROLLER].start()
            self.await_image(lambda image: all(each.fenced for each in image.brokers.values()))
            time.sleep(SESSION_MS / 1000)
            for node in order:
                self.cluster[node].start()
                self.await_image(lambda image, node=node: not image.brokers[node].fenced)  # type: ignore[misc]
            return
        epochs = {node: each.epoch for node, each in self.cluster.image().brokers.items()}
        threads = [
            threading.Thread(target=self._later, args=(node, self.rng.uniform(0, 4))) for node in (CONTROLLER, *BROKERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.await_image(
            lambda image: all(each.epoch != epochs[node] and not each.fenced for node, each in image.brokers.items())
        )

    def _later(self, node: int, seconds: float) -> None:
        time.sleep(seconds)
        self.cluster[node].start()

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
        image = self.cluster.image()
        said = {(each.topic, each.partition): each for each in foreseen.partitions}
        led = {key: image.topics[key[0]].partitions[key[1]].leader for key in KEYS}
        for key, leader in led.items():
            each = said[key]
            assert leader in each.leaders, (key, leader, each.as_dict())
            assert each.is_foreseen
            if is_given:
                self.counts.alternatives += len(each.leaders) - 1
            else:
                self.counts.raced += len(each.leaders) > 1
            self.counts.elections += 1
            self.counts.leaderless += leader == -1
        self.await_image(
            lambda now: all(
                leader == -1 or set(now.topics[key[0]].partitions[key[1]].isr) == set(started)
                for key, leader in led.items()
            )
        )
        for key, all_ends in self.ends().items():
            ends = {node: end for node, end in all_ends.items() if node in started}
            assert ends == said[key].outcomes[led[key]], (key, led[key], said[key].as_dict())
            self.counts.ends += len(ends)
        self.counts.cuts += 1

    def cut(self) -> None:
        self.history()
        self.shorten()
        order = tuple(self.rng.sample(BROKERS, self.rng.choice([1, 2, 3, 3]))) if self.rng.random() < 0.6 else None
        foreseen = triage(*(self.log_dir(node) for node in (CONTROLLER, *BROKERS)), start_order=order)
        self.start(order)
        self.compare(foreseen, order or BROKERS, is_given=order is not None)
        for node in set(BROKERS) - set(order or BROKERS):
            self.cluster[node].start()
        self.await_image(
            lambda image: all(set(image.topics[topic].partitions[number].isr) == set(BROKERS) for topic, number in KEYS)
        )


def run_cuts(version: str, elr: int, seed: str, count: int, directory: Path, counts: Counts) -> None:
    """So many cuts of a new cluster, added to `counts`; an election or an end that was not foreseen is an error."""
    rng = random.Random(f"{seed} {version} {elr}")
    features = {"eligible.leader.replicas.version": elr}
    with RealCluster(version, directory, BROKERS, features, **NEVER_REBALANCED) as cluster:
        cluster.start()
        for topic, config in TOPICS.items():
            cluster[1].client("create", topic=topic, partitions=PARTITIONS, replicas=3, config=config)
        cuts = Cuts(cluster, rng, counts)
        cuts.await_image(
            lambda image: set(TOPICS) <= image.topics.keys() and image.topics["unclean"].partitions.keys() == {0, 1, 2}
        )
        for _ in range(count):
            cuts.cut()
