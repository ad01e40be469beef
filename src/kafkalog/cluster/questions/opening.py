"""Functions that open the directories of a question: Kafka's log directories, and ZooKeeper's."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from kafkalog.cluster.cross_check import KnownTopic
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.zookeeper import ZooKeeperDirectory, open_zookeeper
from kafkalog.codec.common.advice import Advice, Ask, Sentence
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.unknown import unknown
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY, CLUSTER_METADATA_TOPIC
from kafkalog.log import Partition, open_all
from kafkalog.log.directories.directory import Wants
from kafkalog.log.directories.inventory import Inventory
from kafkalog.log.directories.selection import Selection
from kafkalog.log.disk.files import PathLike, refuse_no_path

__all__ = [
    "chosen_chroot", "metadata_log", "one_chroot", "partition_names", "partitions_at", "partitions_with",
    "split_zookeeper", "unique", "zookeeper_at",
]  # fmt: skip


def unique(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings without duplicates, in order."""
    return tuple(dict.fromkeys(findings))


def partitions_at(
    paths: Sequence[PathLike], replica: PathLike | None, findings: list[Finding], wants: Wants
) -> tuple[Partition, ...]:
    """Open the partitions at `paths` that `wants` accepts, as a consumer would read them.

    Unreadable files and directories are left out, and so is a path that is missing beside a log directory; findings
    about them, and about directories with an unfinished recovery, are appended to `findings`. `replica` chooses among
    several directories of one partition. Raises `UsageError` for a path without Kafka data, and the errors of
    `Inventory.readable`.
    """
    return _inventory(paths, findings).readable(replica, wants=wants)


def _inventory(paths: Sequence[PathLike], findings: list[Finding]) -> Inventory:
    inventory = open_all(*paths, tolerant=True, missing_too=True)
    findings += [*inventory.half_done, *inventory.all_unreadable]
    missing = (each for each in inventory.unreadable if each.code is FindingCode.LOG_DIRECTORY_MISSING)
    findings += [replace(each, code=FindingCode.UNREADABLE) for each in missing]  # the answer lacks what was there
    return inventory


def partitions_with(
    paths: Sequence[PathLike],
    topic: str,
    replica: PathLike | None,
    findings: list[Finding],
    *,
    or_topic: str | None = None,
) -> tuple[Partition, ...]:
    """Open all partitions at `paths`. At least one must belong to `topic` (or to `or_topic`). `replica` chooses one of
    several directories of a partition of these topics; of other partitions all directories are returned. Findings about
    unreadable files and directories, unfinished recoveries, and paths that are missing beside a log directory are
    appended to `findings`.

    Raises `UsageError` if a path has no Kafka data, or no partition belongs to these topics. It is raised too if the
    path `replica` does not exist, or if `replica` does not choose exactly one of several directories of such a
    partition. Raises `StorageError` if no such partition was found and a directory could not be read. Raises it also if
    the longest log is asked for and a log cannot be read.
    """
    topics = [topic] if or_topic is None else [topic, or_topic]
    partitions = _inventory(paths, findings).all_readable(replica, Selection.of(topics))
    if not any(partition.topic in topics for partition in partitions):
        open_all(*paths)  # raises what was left out
        raise UsageError(f"no partition of {topic} in {', '.join(map(str, paths))}")
    return partitions


def metadata_log(paths: Sequence[PathLike], replica: PathLike | None, findings: list[Finding]) -> MetadataLog:
    """Open the metadata log in log directories. Raises `UsageError` and `StorageError` as `partitions_with` does for
    the topic `__cluster_metadata`.

    Findings about directories are appended to `findings`; the log itself is not read yet.
    """
    at_hand = partitions_with(paths, CLUSTER_METADATA_TOPIC, replica, findings)
    partitions = [partition for partition in at_hand if partition.topic == CLUSTER_METADATA_TOPIC]
    if len(partitions) != 1:
        places = ", ".join(map(str, paths))
        raise UsageError(f"{places} holds {len(partitions) or 'no'} partitions of {CLUSTER_METADATA_TOPIC}")
    return MetadataLog(partitions[0])


def split_zookeeper(paths: Sequence[PathLike]) -> tuple[tuple[PathLike, ...], ZooKeeperDirectory | None]:
    """Separate ZooKeeper's dataDir and dataLogDir from the other paths. Return the other paths in order, and the opened
    ZooKeeper directory, or None if there is none. Raises `UsageError` if there are no paths, `StorageError` if a
    directory cannot be listed.
    """
    refuse_no_path(paths)
    kafka: list[PathLike] = []
    zookeeper: list[PathLike] = []
    for path in paths:
        (kafka if zookeeper_at(path) is None else zookeeper).append(path)
    return tuple(kafka), open_zookeeper(*zookeeper) if zookeeper else None


def zookeeper_at(*paths: PathLike) -> ZooKeeperDirectory | None:
    """Open ZooKeeper's files at the paths; None if no path has any, or one is not a directory. Raises `UsageError` if
    one of several paths is ZooKeeper's and one holds a metadata log, `StorageError` if a directory cannot be listed.
    """
    try:
        directory = open_zookeeper(*paths)
    except UsageError:
        return None
    for path in paths if len(paths) > 1 else ():
        if os.path.isdir(os.path.join(path, CLUSTER_METADATA_DIRECTORY)):
            name = os.fspath(path)
            raise UsageError(f"{name} holds a metadata log, and another path is ZooKeeper's: give one of them")
    return directory


def chosen_chroot(places: Collection[str], chroot: str) -> str:
    """Return the entry of `places` that `chroot` names, without slashes at the end; "" is the root. Raises
    `UnknownName` if there is no such entry.
    """
    place = chroot.rstrip("/")
    if place not in places:
        raise unknown("chroot", chroot, (each or "/" for each in places))
    return place


def one_chroot(places: Sequence[str], chroot: str | None, what: Ask | Advice) -> str:
    """Return `chroot`, without slashes at its end, if it is not None; otherwise the chroot of the only cluster. A
    chroot is the node of a cluster in ZooKeeper; "" is the root. `places` are the chroots of all clusters.

    Raises `UnknownName` if `chroot` is not among them. If `chroot` is None, raises `UsageError` if there is no cluster
    or more than one; `what` is the option that the message mentions.
    """
    if chroot is not None:
        return chosen_chroot(places, chroot)
    if len(places) != 1:
        names = ", ".join(place or "/" for place in places)
        several = [f" ({names}); ", Ask.CHROOT, " chooses one"] if places else []
        count = len(places) or "none"
        raise UsageError(Sentence(what, f" is about one Kafka cluster, and ZooKeeper knows {count}", *several))
    return places[0]


def partition_names(topics: Mapping[str, KnownTopic]) -> list[tuple[str, int]]:
    """Topic and number of every partition in the metadata."""
    return [(name, number) for name, topic in topics.items() for number in topic.partitions]
