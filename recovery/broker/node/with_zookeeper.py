"""Predict how ZooKeeper's data affect the start of a broker that has its metadata there: the cluster id, topic ids, and
the partitions that it places on the broker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kafkalog.cluster.kraft.metadata_image import PartitionImage
from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.names import PARTITION_METADATA, DirectoryState
from kafkalog.recovery.broker.node.answer import ConsequenceKind, Fault, Part, StartConsequence
from kafkalog.recovery.broker.node.partition_directory import PartitionDirectory
from kafkalog.recovery.broker.node.partitions import made_again
from kafkalog.recovery.broker.node.sentences import listed

__all__ = [
    "ZooKeeperFacts", "consequences_of_topic_ids", "consequences_of_unknown", "consequences_without_directory",
    "zookeeper_facts",
]  # fmt: skip


class ZooKeeperFacts(Struct, frozen=True, kw_only=True):
    """Facts about a cluster from ZooKeeper's data; the defaults mean that nothing is known."""

    is_known: bool = False
    cluster_id: str | None = None
    topic_ids: Mapping[str, str | None] | None = None
    numbers: Mapping[str, frozenset[int]] = {}
    """partition numbers by topic; empty for a topic whose assignment cannot be read"""
    partitions: Mapping[tuple[str, int], PartitionImage] = {}
    """by topic and partition number; partitions without a readable state are left out"""
    next_producer_id: int | None = None
    """first producer id that is not allocated yet; None if unknown"""

    def may_have(self, topic: str) -> bool:
        """Whether the cluster has a topic, or may have it because its ZooKeeper is unknown."""
        return self.topic_ids is None or topic in self.topic_ids


def zookeeper_facts(directories: Sequence[str]) -> ZooKeeperFacts:
    """Read cluster id, topic ids, partitions and the next producer id from the data directories of one ZooKeeper. The
    result says that nothing is known (`is_known` False) if there are no directories, they cannot be read, or they hold
    no cluster or several.
    """
    if not directories:
        return ZooKeeperFacts()
    # most starts ask no ZooKeeper
    from kafkalog.cluster.transactions.producer_ids import next_block_of_zookeeper
    from kafkalog.cluster.zookeeper import open_zookeeper, tree_at
    from kafkalog.cluster.zookeeper.cluster_id import cluster_id
    from kafkalog.cluster.zookeeper.departures import partition_states
    from kafkalog.cluster.zookeeper.kafka_nodes import chroots, topic_nodes

    try:
        tree = tree_at(open_zookeeper(*directories)).tree
    except (StorageError, UsageError):
        return ZooKeeperFacts()
    places = chroots(tree.nodes)
    if len(places) != 1:
        return ZooKeeperFacts()
    topics = topic_nodes(tree, places[0])
    partitions = {
        key: PartitionImage(replicas, state.isr, state.leader, state.leader_epoch, 0, ())
        for key, (replicas, state) in sorted(partition_states(tree, places[0]).items())
    }
    return ZooKeeperFacts(
        is_known=True,
        cluster_id=cluster_id(tree, places[0]),
        topic_ids={name: node.id for name, node in topics.items()},
        numbers={name: node.partitions for name, node in topics.items()},
        partitions=partitions,
        next_producer_id=next_block_of_zookeeper(tree, places[0]),
    )


def consequences_without_directory(
    directories: Sequence[PartitionDirectory], facts: ZooKeeperFacts, node_id: int, *, is_certain: bool
) -> list[StartConsequence]:
    """Return a consequence for the partitions that ZooKeeper places on broker `node_id` and that are not among
    `directories`: they are created empty. Unless `is_certain`, its sentence says that another log directory may have
    them. Empty if there are none.
    """
    placed = {directory.partition for directory in directories}
    nowhere = {
        key: partition
        for key, partition in facts.partitions.items()
        if node_id in partition.replicas and key not in placed
    }
    return made_again(None, node_id, nowhere, (), is_certain=is_certain)


def consequences_of_unknown(
    directories: Sequence[PartitionDirectory], facts: ZooKeeperFacts
) -> list[StartConsequence]:
    """Return one consequence for the live directories whose topic or partition number ZooKeeper does not have: the
    controller sends the broker nothing about them, so they are not served; their directories stay as they are. Empty if
    there are none, or if ZooKeeper was not read.
    """
    unknown = [
        directory
        for directory in directories
        if facts.is_known and directory.parsed.state is DirectoryState.LIVE and not _is_known(directory, facts)
    ]
    if not unknown:
        return []
    names = tuple(directory.name for directory in unknown)
    detail = f"partitions that ZooKeeper does not know are not served, and their directories stay: {listed(names)}"
    return [StartConsequence(kind=ConsequenceKind.NOT_SERVING, detail=detail, file=unknown[0].path, names=names)]


def _is_known(directory: PartitionDirectory, facts: ZooKeeperFacts) -> bool:
    topic, partition = directory.partition
    numbers = facts.numbers.get(topic)
    return facts.may_have(topic) and (not numbers or partition in numbers)


def consequences_of_topic_ids(
    directories: Sequence[PartitionDirectory], facts: ZooKeeperFacts
) -> tuple[list[StartConsequence], list[Fault]]:
    """Return consequences and faults, one of each per directory, for partition directories with a wrong topic id: they
    are not served. A topic id is wrong if it differs from the one in ZooKeeper. If ZooKeeper was not read and the live
    directories of a topic have different ids, all directories of the topic are reported. Directories without a topic id
    are ignored. So are topics that are missing in ZooKeeper or have no id there.
    """
    known: dict[str, set[str]] = {}
    for directory in directories:
        if directory.topic_id and directory.parsed.state is DirectoryState.LIVE:
            known.setdefault(directory.parsed.topic, set()).add(directory.topic_id)
    start_consequences: list[StartConsequence] = []
    faults: list[Fault] = []
    for directory in directories:
        topic = directory.parsed.topic
        right = None if facts.topic_ids is None else facts.topic_ids.get(topic)
        if not directory.topic_id or (right == directory.topic_id) or (right is None and len(known.get(topic, ())) < 2):
            continue
        if facts.is_known and right is None:
            continue  # a topic that ZooKeeper does not have: its directories stay
        detail = f"the topic id of {directory.name} is not the one of its topic: the partition is not served"
        if right is None:
            detail = f"the partitions of {topic} have different topic ids: some are not served"
        path = os.path.join(directory.path, PARTITION_METADATA)
        start_consequences.append(
            StartConsequence(kind=ConsequenceKind.NOT_SERVING, detail=detail, file=path, names=(directory.name,))
        )
        faults.append(Fault(part=Part.PARTITION_METADATA, kind="mismatch", file=path, detail=detail))
    return start_consequences, faults
