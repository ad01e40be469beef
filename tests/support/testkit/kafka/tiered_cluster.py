"""A `RealCluster` whose brokers move segments to a remote tier, a directory: Kafka's own test storage.

`LocalTieredStorage` is in the test jars of kafka-storage and kafka-clients.

with TieredCluster("4.3.0", directory) as cluster:
    cluster.start()
    cluster.remote                    # the directory of the remote tier
"""

from __future__ import annotations

import base64
import random
import time
from pathlib import Path
from typing import Any

from kafkalog.cluster.records.framed_records import decode_remote_log_metadata
from kafkalog.log import open_partition
from kafkalog.tiers.layouts import open_tier
from kafkalog.tiers.remote_tier import RemoteTier
from testkit.kafka import kafka_jars
from testkit.kafka.real_cluster import RealCluster

STORAGE = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
TIERED = {"remote.storage.enable": "true", "retention.ms": "-1"}
"""the settings of a topic"""
MOST_LOCAL = {**TIERED, "local.retention.bytes": "9000"}
DENSE = {"internal.segment.bytes": 4096, "index.interval.bytes": 512, "segment.index.bytes": 1024}
Json = dict[str, Any]


def tier_settings(remote: Path, brokers: int) -> dict[str, object]:
    """What a broker's configuration needs."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": STORAGE,
        "remote.log.storage.manager.impl.prefix": "rsm.config.",
        "rsm.config.dir": str(remote),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
        "rlmm.config.remote.log.metadata.topic.replication.factor": brokers,
        "rlmm.config.remote.log.metadata.topic.num.partitions": 2,
        "remote.log.manager.task.interval.ms": 300,
        "log.retention.check.interval.ms": 500,
        "file.delete.delay.ms": 300,
    }


def tier_jars(version: str) -> tuple[Path, ...]:
    return kafka_jars.further_jars(version, "kafka-storage", "kafka-clients", classifier="test")


class TieredCluster(RealCluster):
    """A controller, brokers, and the directory `remote`."""

    def __init__(self, version: str, directory: Path, brokers: tuple[int, ...] = (1, 2), **settings: object) -> None:
        self.remote = directory / "remote"
        self.remote.mkdir(parents=True, exist_ok=True)
        super().__init__(version, directory, brokers, None, **{**tier_settings(self.remote, len(brokers)), **settings})
        for node in self._nodes.values():
            node.classes = tier_jars(version)

    def tier(self) -> RemoteTier:
        """As it is read by us."""
        return open_tier(str(self.remote))


def states(log_dirs: list[Path]) -> dict[str, int]:
    """The last state of each remote segment, by its id, as the brokers' own copies of the metadata log tell."""
    found: dict[str, int] = {}
    for log_dir in log_dirs:
        for directory in sorted(log_dir.glob("__remote_log_metadata-*")):
            for record in open_partition(directory).records():
                decoded = decode_remote_log_metadata(record.value).decoded
                if decoded is not None and "remote_log_segment_state" in decoded.fields:
                    segment = decoded.fields["remote_log_segment_id"]["id"]
                    found[segment] = max(found.get(segment, 0), decoded.fields["remote_log_segment_state"])
    return found


def repeated(count: int, seed: int, keys: int = 0) -> list[Json]:
    """Values that compress well, with some keys that come again and again, or without any."""
    rng = random.Random(seed)
    found: list[Json] = []
    for _ in range(count):
        record: Json = {"partition": 0, "v": base64.b64encode(rng.randbytes(60)).decode()[:8] * 10}
        if keys:
            record["k"] = base64.b64encode(f"key-{rng.randrange(keys)}".encode()).decode()
        found.append(record)
    return found


def produce(cluster: TieredCluster, topic: str, count: int, seed: int, through: int = 1) -> None:
    what = repeated(count, seed, keys=30)
    cluster[through].client("produce", topic=topic, records=what, producer={"batch.size": 600})


def pay(cluster: TieredCluster, count: int, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(count):
        cluster[1].client(
            "transaction", topic="payments", transactional_id=f"till-{number % 2}",
            records=repeated(rng.randrange(5, 30), seed + number), end=rng.choice(["commit", "abort"]),
        )  # fmt: skip


def moving(cluster: TieredCluster, nodes: tuple[int, ...]) -> Any:
    logs = [sorted(path.relative_to(cluster[node].log_dir) for path in cluster[node].log_dir.glob("*/*.log*"))
            for node in nodes]  # fmt: skip
    return logs, sorted(cluster.remote.rglob("*"))


def quiet(cluster: TieredCluster, nodes: tuple[int, ...], seconds: float = 8) -> None:
    """Until nothing has moved between the tiers for a while."""
    seen, since = moving(cluster, nodes), time.monotonic()
    while time.monotonic() - since < seconds:
        time.sleep(0.5)
        now = moving(cluster, nodes)
        if now != seen:
            seen, since = now, time.monotonic()
