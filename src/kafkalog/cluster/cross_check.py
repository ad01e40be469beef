"""Comparison of the cluster's metadata with the log directories of one or more of its brokers.

Topic ids are compared with `partition.metadata`, leader epochs with `leader-epoch-checkpoint` and the batches, and the
assigned replicas and directories with the directory that has the partition. If the metadata is older than the data
beside it, epochs may differ without an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kafkalog.cluster.kraft.metadata_image import MetadataImage
from kafkalog.cluster.zookeeper.cluster_id import cluster_id
from kafkalog.cluster.zookeeper.kafka_nodes import chroots, json_object, partition_state, replicas_of
from kafkalog.cluster.zookeeper.tree import Tree
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, META_PROPERTIES, DirectoryState
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.partition import Partition

__all__ = ["KnownPartition", "KnownTopic", "cluster_ids", "cross_check", "known_from_image", "known_from_zookeeper"]

_RESERVED = {"A" * 22, "A" * 21 + "Q", "A" * 21 + "g"}
"""directory ids that name no directory: migrating, unassigned, lost"""


class KnownPartition(Struct, frozen=True, kw_only=True):
    """A partition in the metadata."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_epoch: int
    directories: tuple[str, ...] = ()
    eligible: tuple[int, ...] = ()
    """replicas that left the ISR while it was too small to commit anything new (ELR, 4.0 and later)"""
    leader: int = -1


class KnownTopic(Struct, frozen=True):
    """A topic in the metadata; `topic_id` is None before 2.8."""

    topic_id: str | None
    partitions: Mapping[int, KnownPartition]


def known_from_image(image: MetadataImage) -> dict[str, KnownTopic]:
    """Convert the topics of a KRaft metadata image to `KnownTopic`; return them by name.

    Each has its topic id and, by partition number, the replicas, ISR, eligible leader replicas (ELR), leader, leader
    epoch and directory ids.
    """
    return {
        name: KnownTopic(
            topic.id,
            {
                number: KnownPartition(
                    replicas=partition_image.replicas,
                    isr=partition_image.isr,
                    leader_epoch=partition_image.leader_epoch,
                    directories=partition_image.directories,
                    eligible=partition_image.elr,
                    leader=partition_image.leader,
                )
                for number, partition_image in topic.partitions.items()
            },
        )
        for name, topic in image.topics.items()
    }


def known_from_zookeeper(tree: Tree, chroot: str = "") -> dict[str, KnownTopic]:
    """Read topics and partition states from a ZooKeeper tree below `chroot`; return them by topic name.

    Partitions without a readable `state` node are omitted; the topic is returned even if none is left. The topic id is
    None before 2.8. Returns an empty dict if `brokers/topics` is missing.
    """
    topics_by_name: dict[str, KnownTopic] = {}
    base = f"{chroot}/brokers/topics"
    topics = tree.nodes.get(base)
    for topic in sorted(topics.children) if topics is not None else ():
        data = tree.nodes[f"{base}/{topic}"].data
        partitions = {}
        for number, replicas in replicas_of(data).items():
            node = tree.nodes.get(f"{base}/{topic}/partitions/{number}/state")
            state = partition_state(node.data) if node is not None else None
            if state is not None:
                partitions[number] = KnownPartition(
                    replicas=replicas, isr=state.isr, leader_epoch=state.leader_epoch, leader=state.leader
                )
        identity = (json_object(data) or {}).get("topic_id")
        topics_by_name[topic] = KnownTopic(identity if isinstance(identity, str) else None, partitions)
    return topics_by_name


def cluster_ids(tree: Tree) -> dict[str, str]:
    """Return the cluster ids in a ZooKeeper tree by chroot (`ClusterIdZNode`, 0.10.1 and later); clusters without a
    readable id are omitted.
    """
    known = ((chroot, cluster_id(tree, chroot)) for chroot in chroots(tree.nodes))
    return {chroot: identity for chroot, identity in known if identity is not None}


def _of_another_cluster(log_dirs: Iterable[LogDir], clusters: Mapping[str, str]) -> Iterable[Finding]:
    ids_text = " and ".join(f"{chroot}/cluster/id {identity}" for chroot, identity in sorted(clusters.items()))
    for log_dir in log_dirs:
        meta = log_dir.meta_properties
        if clusters and meta is not None and meta.cluster_id not in (None, *clusters.values()):
            detail = f"cluster.id is {meta.cluster_id}, in ZooKeeper it is {ids_text}: a broker does not start"
            path = os.path.join(log_dir.path, META_PROPERTIES)
            yield Finding.of(FindingCode.IDENTITY_MISMATCH, None, None, detail, path)


def _largest_epoch(partition: Partition) -> int:
    """Return the largest leader epoch in the checkpoint and in the batches of the last segment; -1 if there is none."""
    epochs = [leader_epoch.epoch for leader_epoch in partition.leader_epochs]
    if partition.segments:
        epochs += [batch.header.partition_leader_epoch for batch in partition.segments[-1].batches()]
    return max(epochs, default=-1)


def _compare(partition: Partition, known: KnownTopic | None, log_dir: LogDir) -> Iterable[tuple[Severity, str]]:
    number = partition.partition or 0
    if known is None:
        yield Severity.WARNING, f"topic {partition.topic} is not in the metadata: deleted, or newer than it"
        return
    stored = partition.metadata.topic_id if partition.metadata is not None else None
    if stored is not None and known.topic_id is not None and stored != known.topic_id:
        yield (
            Severity.ERROR,
            f"topic id {stored} here, {known.topic_id} in the metadata: another topic of the same name",
        )
        return
    facts = known.partitions.get(number)
    if facts is None:
        yield Severity.WARNING, f"{partition.name} is not in the metadata"
        return
    epoch = _largest_epoch(partition)
    if epoch > facts.leader_epoch:
        yield Severity.WARNING, f"leader epoch {epoch} here, {facts.leader_epoch} in the metadata"
    meta, node = log_dir.meta_properties, _node(log_dir)
    if node is None:
        return
    if node not in facts.replicas:
        yield Severity.WARNING, f"broker {node} is not a replica of {partition.name}: {list(facts.replicas)}"
    if not set(facts.isr) <= set(facts.replicas):
        yield Severity.ERROR, f"in-sync replicas {list(facts.isr)} are not all replicas: {list(facts.replicas)}"
    if node in facts.replicas and facts.directories and meta is not None and meta.directory_id is not None:
        assigned = (
            facts.directories[facts.replicas.index(node)] if len(facts.directories) == len(facts.replicas) else ""
        )
        if assigned and assigned not in _RESERVED and assigned != meta.directory_id:
            yield (
                Severity.WARNING,
                f"{partition.name} belongs in directory {assigned}, this one is {meta.directory_id}",
            )


def _node(log_dir: LogDir) -> int | None:
    meta = log_dir.meta_properties
    return int(meta.node_id) if meta is not None and meta.node_id is not None else None


def _in_sync(log_dirs: Sequence[LogDir], known: Mapping[str, KnownTopic]) -> Iterable[Finding]:
    """Yield findings about in-sync or eligible replicas that are missing, or whose log ends below a recorded high
    watermark. They are ordered by topic, partition and broker. Reads the ends of logs; raises `StorageError` if a file
    cannot be read.

    `known` are the topics of the metadata by name. A replica is missing if none of its broker's directories in
    `log_dirs` has a live one. Its log end is compared with the largest high watermark of the partition in any of
    `log_dirs`. Only brokers with a known node id are examined.
    """
    watermarks: dict[tuple[str, int], tuple[int, int | None]] = {}
    for log_dir in log_dirs:
        for key, offset in log_dir.high_watermarks.items():
            if offset > watermarks.get(key, (-1, None))[0]:
                watermarks[key] = (offset, _node(log_dir))
    held = {
        (_node(log_dir), partition.topic, partition.partition): partition
        for log_dir in log_dirs
        for partition in log_dir.partitions
        if partition.state is DirectoryState.LIVE
    }
    nodes = {node for log_dir in log_dirs if (node := _node(log_dir)) is not None}
    for topic, facts in sorted(known.items()):
        for number, known_partition in sorted(facts.partitions.items()):
            watermark, writer = watermarks.get((topic, number), (0, None))
            for node in sorted(nodes.intersection(known_partition.isr + known_partition.eligible)):
                partition = held.get((node, topic, number))
                if partition is None:
                    detail = f"broker {node} has all of {topic}-{number}, and none of its directories here holds it"
                    yield Finding.of(FindingCode.METADATA_INCONSISTENT, None, None, detail)
                    continue
                end = partition.log_end_offset()
                if end < watermark:
                    detail = (
                        f"broker {node} should have all and ends at {end}; "
                        f"broker {writer} knows {watermark} as committed"
                    )
                    yield Finding(FindingCode.METADATA_INCONSISTENT, Severity.ERROR, None, end, detail, partition.path)


def cross_check(
    log_dirs: Iterable[LogDir], known: Mapping[str, KnownTopic], clusters: Mapping[str, str] | None = None
) -> tuple[int, list[Finding]]:
    """Compare live partitions in log directories with the metadata. Return the number of compared partition
    directories, and findings about contradictions. Partitions of `__cluster_metadata` and directories without a valid
    partition name are not compared.

    `known` are the topics of the metadata by name. `clusters` are the cluster ids by chroot as `cluster_ids` returns
    them. A directory with another cluster id is reported, unless `clusters` is None or empty. Raises `StorageError` if
    a file cannot be read.
    """
    count = 0
    log_dirs = list(log_dirs)
    findings = [*_of_another_cluster(log_dirs, clusters or {}), *_in_sync(log_dirs, known)]
    for log_dir in log_dirs:
        for partition in log_dir.partitions:
            if partition.state is not DirectoryState.LIVE or partition.topic in (None, CLUSTER_METADATA_TOPIC):
                continue
            count += 1
            for severity, detail in _compare(partition, known.get(partition.topic or ""), log_dir):
                findings.append(
                    Finding(FindingCode.METADATA_INCONSISTENT, severity, None, None, detail, partition.path)
                )
    return count, findings
