"""Consumer groups in ZooKeeper's directory, as of a moment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.cluster.cross_check import KnownTopic, known_from_zookeeper
from kafkalog.cluster.questions.moment import Moment, zookeeper_transaction
from kafkalog.cluster.questions.opening import chosen_chroot
from kafkalog.cluster.zookeeper import ZooKeeperDirectory, tree_at
from kafkalog.cluster.zookeeper.cluster_id import bad_cluster_ids
from kafkalog.cluster.zookeeper.kafka_nodes import chroots
from kafkalog.cluster.zookeeper.old_consumers import OldGroup, old_groups
from kafkalog.cluster.zookeeper.tree import Tree
from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding, FindingCode

__all__ = ["OldConsumers", "old_consumers"]


class OldConsumers(Struct, frozen=True):
    """Consumer groups in ZooKeeper's directory."""

    tree: Tree
    groups: tuple[OldGroup, ...]
    findings: tuple[Finding, ...]

    @property
    def places(self) -> list[str]:
        """Sorted chroots of the clusters, empty at the root."""
        return chroots(self.tree.nodes)

    def place_of(self, chroot: str) -> str:
        """Return the chroot of the cluster or group root that `chroot` names, without slashes at the end. Raises
        `UnknownName` if there is none.
        """
        return chosen_chroot({*self.places, *(group.chroot for group in self.groups)}, chroot)

    def below(self, chroot: str | None) -> tuple[OldGroup, ...]:
        """Return the groups of one cluster, or all groups for None. Raises `UnknownName` if there is no such
        cluster.
        """
        if chroot is None:
            return self.groups
        place = self.place_of(chroot)
        return tuple(group for group in self.groups if group.chroot == place)

    def topics_below(self, chroot: str | None) -> Mapping[str, KnownTopic] | None:
        """Return the topics of one cluster by name; None if `chroot` is None and there is not exactly one cluster.
        Raises `UnknownName` if there is no such cluster.
        """
        places = self.places if chroot is None else [self.place_of(chroot)]
        return known_from_zookeeper(self.tree, places[0]) if len(places) == 1 else None


def old_consumers(
    directory: ZooKeeperDirectory | None, moment: Moment, chroot: str | None = None
) -> OldConsumers | None:
    """Read the groups of consumers that used ZooKeeper, at a moment. Return None if `directory` is None. Groups of all
    clusters are returned. Invalid nodes and cluster ids become findings; `chroot` restricts these findings to one
    cluster. An offset in the moment is ignored.

    Raises `UsageError` if the logs begin after the moment's time, if they end before its ZooKeeper transaction, or if
    it has one and `directory` is None. A transaction before the logs' beginning is a finding. Raises `StorageError` if
    a file cannot be read.
    """
    if directory is None:
        if moment.zxid is not None:
            detail = " is a ZooKeeper transaction, but none of the paths is a directory of its logs"
            raise UsageError(Sentence(Ask.AT_ZXID, detail))
        return None
    replay = tree_at(directory, zookeeper_transaction(directory, replace(moment, offset=None)))
    groups = tuple(old_groups(replay.tree))
    place = os.path.commonpath([os.path.abspath(path) for path in directory.paths])
    invalid = [
        Finding.of(FindingCode.ZK_NODE_INVALID, None, None, problem, place)
        for group in groups
        for problem in (*group.problems, *group.unregistered_owners())
        if chroot is None or group.chroot == chroot.rstrip("/")
    ]
    ids = bad_cluster_ids(replay.tree, chroot, place)
    return OldConsumers(replay.tree, groups, (*replay.findings, *invalid, *ids))
