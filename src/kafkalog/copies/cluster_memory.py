"""What a cluster's metadata says of its replicas: who is in sync, who led, which topics are compacted.

From the metadata log of KRaft that is in a volume (the one that goes furthest, where several do), or from
ZooKeeper's data directory.  An election takes a leader from the ISR (`PartitionChangeBuilder.electLeader`,
`PartitionLeaderElectionAlgorithms`), so that is what decides which copy a cluster would go on with.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from msgspec import Struct

from kafkalog.cluster.kraft.metadata_image import MetadataImage
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.rules.internal_topics import COMPACT, COMPACTED_BY_KAFKA
from kafkalog.cluster.zookeeper import open_zookeeper
from kafkalog.cluster.zookeeper.kafka_nodes import chroots, json_object, partition_state, replicas_of
from kafkalog.cluster.zookeeper.replay import tree_at
from kafkalog.codec.errors import KafkaLogError
from kafkalog.codec.findings import Severity
from kafkalog.log.directories.partition import Partition

__all__ = ["ClusterMemory", "ReplicaState", "read_cluster_memory"]


class ReplicaState(Struct, frozen=True):
    """What the memory says of one partition, under broker ids."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int | None
    """None where there was none"""
    leader_epoch: int
    eligible: tuple[int, ...] = ()
    """replicas that have left the ISR and may still lead without loss (Kafka 4.0 and later)"""

    @property
    def may_lead(self) -> tuple[int, ...]:
        """Who may be elected without loss."""
        return self.isr or self.eligible


class ClusterMemory:
    """Says nothing of anything where there was nothing to read; `source` then is None."""

    def __init__(self, source: str | None = None, problem: str | None = None) -> None:
        self.source = source
        """what was read, for a sentence"""
        self.problem = problem
        """why something could not be read, or what was read is not whole; one sentence"""

    def replica_state(self, topic: str, partition: int) -> ReplicaState | None:
        """The state of one partition; None if it is not known."""
        return None

    def is_compacted(self, topic: str) -> bool:
        """Compaction takes records out of this topic, as far as that is known."""
        return topic in COMPACTED_BY_KAFKA


class _KRaft(ClusterMemory):
    def __init__(self, image: MetadataImage, source: str, problem: str | None) -> None:
        super().__init__(source, problem)
        self._image = image

    def replica_state(self, topic: str, partition: int) -> ReplicaState | None:
        known = self._image.topics.get(topic)
        found = None if known is None else known.partitions.get(partition)
        if found is None:
            return None
        leader = found.leader if found.leader >= 0 else None
        return ReplicaState(tuple(found.replicas), tuple(found.isr), leader, found.leader_epoch, tuple(found.elr))

    def is_compacted(self, topic: str) -> bool:
        policy = self._image.configs.get(f"topic:{topic}", {}).get("cleanup.policy") or ""
        return super().is_compacted(topic) or COMPACT in policy


class _ZooKeeper(ClusterMemory):
    def __init__(self, data: dict[str, bytes], source: str, problem: str | None) -> None:
        super().__init__(source, problem)
        self._data = data

    def replica_state(self, topic: str, partition: int) -> ReplicaState | None:
        place = f"/brokers/topics/{topic}"
        state = partition_state(self._data.get(f"{place}/partitions/{partition}/state"))
        if state is None:
            return None
        replicas = replicas_of(self._data.get(place)).get(partition, ())
        return ReplicaState(replicas, state.isr, state.leader if state.leader >= 0 else None, state.leader_epoch)

    def is_compacted(self, topic: str) -> bool:
        config = (json_object(self._data.get(f"/config/topics/{topic}")) or {}).get("config")
        policy = config.get("cleanup.policy") if isinstance(config, dict) else None
        return super().is_compacted(topic) or (isinstance(policy, str) and COMPACT in policy)


def read_cluster_memory(metadata: Iterable[Partition], zookeeper: Sequence[str]) -> ClusterMemory:
    """What the cluster knew, from the copies of `__cluster_metadata`, else from ZooKeeper's data directories.

    Never raises for bad data.
    """
    best: _KRaft | None = None
    furthest = -1
    problems = []
    for partition in metadata:
        try:
            state = MetadataLog(partition).state()
        except KafkaLogError as error:
            problems.append(f"{partition.path} cannot be read: {error}")
            continue
        if state.next_offset > furthest:
            furthest = state.next_offset
            source = f"{partition.path} up to offset {state.next_offset}"
            damage = state.damage
            best = _KRaft(state.image, source, None if damage is None else f"{partition.path} is damaged: {damage}")
    if best is not None and furthest > 0:
        return best
    for path in zookeeper:
        try:
            return _from_zookeeper(path)
        except KafkaLogError as error:
            problems.append(f"{path} cannot be read: {error}")
    return ClusterMemory(problem="; ".join(problems) or None)


def _from_zookeeper(path: str) -> ClusterMemory:
    found = tree_at(open_zookeeper(path))
    tree = found.tree
    hides = [each for each in found.findings if each.severity is not Severity.INFO]
    problem = f"{path} is not whole: {hides[0]}" if hides else None
    places = chroots(tree.nodes)
    if len(places) != 1:
        return ClusterMemory(problem=f"{path} holds {len(places)} Kafka clusters")
    kept = ("/brokers/topics/", "/config/topics/")
    data = {
        name.removeprefix(places[0]): node.data or b""
        for name, node in tree.nodes.items()
        if name.startswith(tuple(places[0] + each for each in kept))
    }
    return _ZooKeeper(data, f"ZooKeeper's {os.path.normpath(path)}", problem)
