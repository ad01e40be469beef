"""Paths of which some may be ZooKeeper's directories: told apart, and the tree as of a moment."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from msgspec import Struct

from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC
from kafkalog.cluster.zookeeper import ZooKeeperDirectory, open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.cluster_id import bad_cluster_ids
from kafkalog.cluster.zookeeper.moments import zxid_at
from kafkalog.cluster.zookeeper.old_consumers import OldGroup, old_groups
from kafkalog.cluster.zookeeper.tree import Tree
from kafkalog.codec.errors import UsageError
from kafkalog.codec.findings import Finding, FindingCode
from kafkalog.codec.unknown import unknown

__all__ = ["OldConsumers", "chosen_chroot", "old_consumers", "one_chroot", "refuse_without_logs", "told_apart"]


def told_apart(paths: tuple[str, ...]) -> tuple[tuple[str, ...], ZooKeeperDirectory | None]:
    """Kafka's paths, and ZooKeeper's dataDir and dataLogDir if they are among them."""
    kafka, zookeeper = [], []
    for path in paths:
        try:
            open_zookeeper(path)
        except UsageError:
            kafka.append(path)
        else:
            zookeeper.append(path)
    return tuple(kafka), open_zookeeper(*zookeeper) if zookeeper else None


def chosen_chroot(places: Collection[str], chroot: str) -> str:
    """The place of a cluster in ZooKeeper's tree that `--chroot` names; `UnknownName` if there is none."""
    place = chroot.rstrip("/")
    if place not in places:
        raise unknown("chroot", chroot, (each or "/" for each in places))
    return place


def one_chroot(places: Sequence[str], chroot: str | None, what: str) -> str:
    """The one cluster that `what` is about; `UsageError` if there are none, or several and no `--chroot`."""
    if chroot is not None:
        return chosen_chroot(places, chroot)
    if len(places) != 1:
        names = ", ".join(place or "/" for place in places)
        several = f" ({names}); --chroot chooses one" if places else ""
        raise UsageError(f"{what} is about one Kafka cluster, and ZooKeeper knows {len(places) or 'none'}{several}")
    return places[0]


class OldConsumers(Struct, frozen=True):
    """Consumer groups in ZooKeeper's directory."""

    tree: Tree
    groups: tuple[OldGroup, ...]
    findings: tuple[Finding, ...]


def old_consumers(
    directory: ZooKeeperDirectory | None, zxid: int | None, at: int | None, chroot: str | None = None
) -> OldConsumers | None:
    """The old consumers as of a transaction or a time; `UsageError` for `zxid` without a ZooKeeper directory.

    With `chroot`, findings about groups of other clusters are left out.
    """
    if directory is None:
        if zxid is not None:
            raise UsageError("--zxid is a ZooKeeper transaction, but none of the paths is a directory of its logs")
        return None
    moment = zxid_at(directory, at) if at is not None else None
    until = moment if zxid is None else zxid if moment is None else min(zxid, moment)
    found = tree_at(directory, until)
    groups = tuple(old_groups(found.tree))
    place = os.path.commonpath([os.path.abspath(each) for each in directory.paths])
    invalid = [
        Finding.of(FindingCode.ZK_NODE_INVALID, None, None, problem, place)
        for group in groups
        for problem in (*group.problems, *group.unregistered_owners())
        if chroot is None or group.chroot == chroot.rstrip("/")
    ]
    ids = bad_cluster_ids(found.tree, chroot, place)
    return OldConsumers(found.tree, groups, (*found.findings, *invalid, *ids))


def refuse_without_logs(logs: Sequence[str], **options: object) -> None:
    """`UsageError` for options about `__consumer_offsets`, where only directories of ZooKeeper's were given."""
    if logs:
        return
    for name, value in options.items():
        if value not in (None, ()):
            rest = "; --zxid is ZooKeeper's" if name == "at_offset" else ""
            raise UsageError(
                f"--{name.replace('_', '-')} is about {CONSUMER_OFFSETS_TOPIC}, and no path is a log directory{rest}"
            )
