"""Read the cluster's metadata about replicas: which are in sync, which led, and which topics are compacted.

The source is KRaft's metadata log in a volume (the one that reaches furthest), or ZooKeeper's data directory. An
election chooses a leader from the ISR (`PartitionChangeBuilder.electLeader`, `PartitionLeaderElectionAlgorithms`), so
that decides with which copy a cluster would continue.
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
from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.codec.common.findings import Severity
from kafkalog.log.directories.partition import Partition

__all__ = ["ClusterMemory", "ReplicaState", "read_cluster_memory"]


class ReplicaState(Struct, frozen=True, kw_only=True):
    """State of one partition, with broker ids."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int | None
    """None if there was no leader"""
    leader_epoch: int
    eligible: tuple[int, ...] = ()
    """replicas that left the ISR and may still lead without loss (Kafka 4.0 and later)"""

    @property
    def may_lead(self) -> tuple[int, ...]:
        """Ids of brokers that may be elected without loss."""
        return self.isr or self.eligible


class ClusterMemory:
    """Metadata about replicas. This base class knows nothing and is used if nothing could be read; `source` is None
    then.
    """

    def __init__(self, source: str | None = None, problem: str | None = None) -> None:
        self.source = source
        """text that names what was read; None if nothing was"""
        self.problem = problem
        """why something could not be read or is incomplete, as one sentence; None otherwise"""

    def replica_state(self, topic: str, partition: int) -> ReplicaState | None:
        """State of one partition; None if unknown."""
        return None

    def is_compacted(self, topic: str) -> bool:
        """Whether the topic is known to be compacted."""
        return topic in COMPACTED_BY_KAFKA


class _KRaft(ClusterMemory):
    def __init__(self, image: MetadataImage, source: str, problem: str | None) -> None:
        super().__init__(source, problem)
        self._image = image

    def replica_state(self, topic: str, partition: int) -> ReplicaState | None:
        known = self._image.topics.get(topic)
        image = None if known is None else known.partitions.get(partition)
        if image is None:
            return None
        leader = image.leader if image.leader >= 0 else None
        return ReplicaState(
            replicas=tuple(image.replicas),
            isr=tuple(image.isr),
            leader=leader,
            leader_epoch=image.leader_epoch,
            eligible=tuple(image.elr),
        )

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
        return ReplicaState(
            replicas=replicas,
            isr=state.isr,
            leader=state.leader if state.leader >= 0 else None,
            leader_epoch=state.leader_epoch,
        )

    def is_compacted(self, topic: str) -> bool:
        config = (json_object(self._data.get(f"/config/topics/{topic}")) or {}).get("config")
        policy = config.get("cleanup.policy") if isinstance(config, dict) else None
        return super().is_compacted(topic) or (isinstance(policy, str) and COMPACT in policy)


def read_cluster_memory(metadata: Iterable[Partition], zookeeper: Sequence[str]) -> ClusterMemory:
    """Read and return the cluster's metadata about replicas. Among the copies of `__cluster_metadata` in `metadata`,
    the one with the highest end offset is used. If no copy has data, the first ZooKeeper data directory in `zookeeper`
    that can be read and holds exactly one Kafka cluster is used. If there is none either, the result knows nothing and
    its `source` is None. Unreadable or damaged data raises no exception. `problem` of the result describes damage of
    the data that is used; if none is used, it describes everything that cannot be read or used.
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
    if best is not None and best.problem is not None:
        problems.append(best.problem)
    for path in zookeeper:
        try:
            memory = _from_zookeeper(path)
        except KafkaLogError as error:
            problems.append(f"{path} cannot be read: {error}")
            continue
        if memory.source is not None:
            return memory
        problems.append(memory.problem or "")
    return ClusterMemory(problem="; ".join(problems) or None)


def _from_zookeeper(path: str) -> ClusterMemory:
    replay = tree_at(open_zookeeper(path))
    tree = replay.tree
    hides = [finding for finding in replay.findings if finding.severity is not Severity.INFO]
    problem = f"{path} is not whole: {hides[0]}" if hides else None
    places = chroots(tree.nodes)
    if len(places) != 1:
        return ClusterMemory(problem=f"{path} holds {len(places)} Kafka clusters")
    kept = ("/brokers/topics/", "/config/topics/")
    data = {
        name.removeprefix(places[0]): node.data or b""
        for name, node in tree.nodes.items()
        if name.startswith(tuple(places[0] + prefix for prefix in kept))
    }
    return _ZooKeeper(data, f"ZooKeeper's {os.path.normpath(path)}", problem)
