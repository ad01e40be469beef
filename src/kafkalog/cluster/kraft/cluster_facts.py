"""Cluster id and node id of log directories, and the topics, settings and users in the cluster's metadata
(`KRaftMetadataCache`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, DirectoryState
from kafkalog.log.directories.inventory import Inventory
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import PathLike

__all__ = ["ClusterFacts", "Entity", "cluster_facts", "live_partitions", "metadata_partition"]

_DEFAULT_NODE = 1

Entity = tuple[tuple[str, str | None], ...]
"""Entity of a quota: (kind, name) pairs; a name of None is the default."""


class ClusterFacts(Struct, frozen=True, kw_only=True):
    """Cluster id and node id of log directories, and facts from the cluster's metadata in them."""

    id: str | None
    node_id: int
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """settings of topics, groups and others by resource, as `topic:NAME`"""
    quotas: Mapping[Entity, Mapping[str, float]] = field(default_factory=dict)
    scram: tuple[tuple[str, int, int], ...] = ()
    """(user, mechanism, iterations) of each SCRAM credential"""
    topics: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """name -> (id, number of partitions)"""
    problem: str | None = None
    """reason why the metadata could not be read; None if it could, or if there is none"""

    def partition_count(self, topic: str, here: Iterable[int]) -> int:
        """Return the number of partitions of a topic: its number in the metadata, or the largest of the partition
        numbers `here` plus one if that is larger. `here` must not be empty.
        """
        return max(self.topics.get(topic, ("", 0))[1], max(here) + 1)


def cluster_facts(inventory: Inventory, *, as_of: int | None = None, limits: Limits = DEFAULT_LIMITS) -> ClusterFacts:
    """Read cluster id, node id and the cluster's metadata from log directories. The metadata are those at the end of
    the log, or at `as_of` (ms since 1970).

    The cluster id is the first one in the `meta.properties` files, or None if none has one. The node id is the smallest
    in these files, or 1 if none has one. Configs, quotas, SCRAM users and topics are empty if there is no metadata
    partition, or several. They are also empty if the metadata cannot be read, or if the log no longer reaches back to
    `as_of`; `problem` then says why. Raises nothing for damaged or unreadable files.
    """
    metas = [log_dir.meta_properties for log_dir in inventory.log_dirs if log_dir.meta_properties is not None]
    cluster_id = next((meta.cluster_id for meta in metas if meta.cluster_id), None)
    node = min((meta.node_id for meta in metas if meta.node_id is not None), default=_DEFAULT_NODE)
    partition = metadata_partition(inventory)
    if partition is None:
        return ClusterFacts(id=cluster_id, node_id=node)
    try:
        log = MetadataLog(partition, limits)
        image = log.state(None if as_of is None else log.offset_at(as_of)).image
    except KafkaLogError as error:
        problem = f"the cluster's metadata cannot be read and is left out: {error}"
        return ClusterFacts(id=cluster_id, node_id=node, problem=problem)
    scram = tuple((user, mechanism, each["iterations"]) for (mechanism, user), each in sorted(image.scram.items()))
    topics = {name: (topic.id, max(topic.partitions, default=-1) + 1) for name, topic in image.topics.items()}
    return ClusterFacts(
        id=cluster_id, node_id=node, configs=image.configs, quotas=image.client_quotas, scram=scram, topics=topics
    )


def metadata_partition(inventory: Inventory) -> Partition | None:
    """Return the live `__cluster_metadata` partition; None if there is none or several."""
    logs = [partition for partition in inventory.partitions if partition.topic == CLUSTER_METADATA_TOPIC
            and partition.state is DirectoryState.LIVE]  # fmt: skip
    return logs[0] if len(logs) == 1 else None


def live_partitions(
    inventory: Inventory, *, replica: PathLike | None = None, select: Selection = ALL
) -> Sequence[Partition]:
    """Return the partitions that a broker would serve: live ones with a valid name, without the cluster's metadata.
    `replica` (a path, or `longest` for the one with the highest log end offset) chooses one of several directories of a
    partition that `select` accepts. Of partitions that `select` does not accept, all directories are returned.

    Raises `UsageError` if the path `replica` does not exist, or if several directories have an accepted partition and
    `replica` does not choose exactly one. Raises `StorageError` if a directory cannot be examined or the end of a log
    cannot be read.
    """
    return [
        each
        for each in inventory.all_readable(replica, select, lambda name: name.topic != CLUSTER_METADATA_TOPIC)
        if each.state is DirectoryState.LIVE and each.name is not None and each.topic != CLUSTER_METADATA_TOPIC
    ]
