"""Nodes that a broker creates at its start if they are missing, with the first version that does so.

Follows `ZkData.PersistentZkPaths` and `ConfigType.all` (before 1.1 `ZkUtils.persistentZkPaths`), and
`createOrGetClusterId` for `/cluster/id`.  Brokers do not store their version in ZooKeeper; the format of their
registrations and the existing nodes give a lower bound of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkalog.cluster.zookeeper.brokers import broker_registration
from kafkalog.cluster.zookeeper.kafka_nodes import chroots
from kafkalog.cluster.zookeeper.tree import Tree
from kafkalog.codec.common.findings import Finding, FindingCode

__all__ = ["PERSISTENT_PATHS", "least_version", "missing_paths"]

Version = tuple[int, int, int]

PERSISTENT_PATHS: tuple[tuple[Version, str], ...] = (
    ((0, 8, 1), "/consumers"),
    ((0, 8, 1), "/brokers/ids"),
    ((0, 8, 1), "/brokers/topics"),
    ((0, 8, 1), "/config/changes"),
    ((0, 8, 1), "/config/topics"),
    ((0, 8, 1), "/admin/delete_topics"),
    ((0, 9, 0), "/config/clients"),
    ((0, 9, 0), "/brokers/seqid"),
    ((0, 9, 0), "/isr_change_notification"),
    ((0, 10, 1), "/cluster/id"),
    ((0, 11, 0), "/latest_producer_id_block"),
    ((1, 0, 0), "/log_dir_event_notification"),
    ((1, 1, 0), "/config/users"),
    ((1, 1, 0), "/config/brokers"),
    ((2, 8, 0), "/config/ips"),
)
"""(first version, path)"""

_MADE_EARLIER = {"/config/users", "/config/brokers"}
"""created by the first configuration of their kind, so they say nothing about the version"""
_BY_REGISTRATION: dict[int, Version] = {2: (0, 9, 0), 3: (0, 10, 0), 4: (0, 10, 2), 5: (2, 7, 0)}
_BY_PATH: tuple[tuple[Version, str], ...] = (
    *((since, path) for since, path in PERSISTENT_PATHS if path not in _MADE_EARLIER),
    ((2, 7, 0), "/feature"),
)


def least_version(tree: Tree, chroot: str = "") -> Version | None:
    """Return the lowest Kafka version that the newest broker of a cluster can have. It follows from the registrations
    and from the nodes that brokers created. Return None if no broker ever registered.
    """
    place = f"{chroot}/brokers/ids"
    ids = tree.nodes.get(place)
    if ids is None or ids.cversion <= 0:
        return None
    versions = [since for since, path in _BY_PATH if f"{chroot}{path}" in tree.nodes]
    for name in ids.children:
        node = tree.nodes.get(f"{place}/{name}")
        registration = broker_registration(f"{place}/{name}", node.data) if node is not None else None
        if registration is not None:
            versions.append(_BY_REGISTRATION.get(min(registration.version, 5), (0, 8, 1)))
    return max(versions, default=None)


def _missing(tree: Tree, chroot: str) -> Iterator[Finding]:
    least = least_version(tree, chroot)
    if least is None:
        return
    text = ".".join(map(str, least))
    for since, path in PERSISTENT_PATHS:
        if since <= least and f"{chroot}{path}" not in tree.nodes:
            detail = f"{chroot}{path} is missing, which brokers of {text} and later create at start"
            yield Finding.of(FindingCode.ZK_PATH_MISSING, None, None, detail)


def missing_paths(tree: Tree, places: Sequence[str] | None = None) -> list[Finding]:
    """Return a finding for each missing node that a broker would have created. `places` are the chroots of the clusters
    to check; None means all.
    """
    known = chroots(tree.nodes) if places is None else places
    return [finding for chroot in known for finding in _missing(tree, chroot)]
