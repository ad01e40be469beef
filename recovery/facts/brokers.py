"""Group log directories by broker, and read the facts about topics for each broker from the cluster's metadata.

A broker has only one metadata log (`KafkaRaftServer`), in one of its log directories. From there it reads its topics'
settings and ids, and which partitions are its own. So that log applies to all its directories, and to no other
broker's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kafkalog.codec.names import (
    CLUSTER_METADATA_DIRECTORY,
    CLUSTER_METADATA_TOPIC,
    DirectoryState,
    parse_partition_directory,
)
from kafkalog.log.directories.identities import meta_properties_of
from kafkalog.log.directories.zookeeper_directories import without_zookeeper
from kafkalog.log.disk.files import real, scan_directory
from kafkalog.recovery.facts.topic_facts import TopicFacts, directory_id_of, identity_of, read_topic_facts

__all__ = ["brothers_of", "controllers_beside", "facts_of_each", "of_one_broker"]

_METADATA = CLUSTER_METADATA_DIRECTORY


def of_one_broker(roots: Sequence[str]) -> list[list[str]]:
    """Group log directories by broker. `meta.properties`, which is read, identifies a broker by cluster id and node id.
    Groups and directories keep the order of first occurrence, without duplicates. If the files name at most one broker,
    all directories form one group. Empty if there are no directories.

    If the files name several brokers, a directory without a node id forms its own group. A directory with a node id but
    without a cluster id belongs to the only broker with this node id. If there is no such broker, or more than one, all
    such directories with this node id form a group.
    """
    owners = {root: identity_of(root) for root in dict.fromkeys(roots)}
    known = {owner for owner in owners.values() if owner is not None and owner[0] is not None}
    for root, owner in owners.items():
        alike = [broker for broker in known if owner is not None and owner == (None, broker[1])]
        owners[root] = alike[0] if len(alike) == 1 else owner
    known = {owner for owner in owners.values() if owner is not None}
    if len(known) <= 1:
        return [list(owners)] if owners else []
    groups: dict[object, list[str]] = {}
    for root, owner in owners.items():
        groups.setdefault(root if owner is None else owner, []).append(root)
    return list(groups.values())


def brothers_of(root: str, roots: Sequence[str]) -> list[str]:
    """The log directories in `roots` that belong to the broker of `root`, after `root` itself."""
    (own,) = (group for group in of_one_broker([root, *roots]) if root in group)
    return own


def facts_of_each(roots: Sequence[str], lost: Sequence[str] = ()) -> Mapping[str, TopicFacts]:
    """Return the facts about topics for each log directory, by its real path. They are read from the metadata log in
    the directories of its broker: the broker whose metadata registers its directory id, or if none does, the one that
    `meta.properties` names.

    `controllers` and `apart` of the facts are directories of other brokers. ZooKeeper's data directories among `roots`
    get no entry; they are the `controllers` of brokers that use ZooKeeper. `lost` are missing or empty directories; the
    facts have them as `lost` if all `roots` belong to one broker.

    Damage is described in `problem` of the facts and raises no exception. Raises `StorageError` if a directory cannot
    be listed.
    """
    logs, zookeepers = without_zookeeper([real(root) for root in roots])
    brokers = of_one_broker([os.fspath(root) for root in logs])
    known = [read_topic_facts(broker) for broker in brokers]
    if len(brokers) > 1:
        brokers, known = _with_registered(brokers, known)
    controllers = [
        tuple(zookeepers) if zookeepers and all(map(_is_of_zookeeper, broker)) else others
        for broker, others in zip(brokers, controllers_beside(brokers), strict=True)
    ]
    return {
        root: replace(
            facts, lost=tuple(lost) if len(brokers) == 1 else (), controllers=others, apart=_apart(broker, brokers),
            held_by_others=_held_by_others(broker, brokers, facts),
        )
        for broker, others, facts in zip(brokers, controllers, known, strict=True)
        for root in broker
    }


def _with_registered(
    brokers: Sequence[list[str]], known: Sequence[TopicFacts]
) -> tuple[list[list[str]], list[TopicFacts]]:
    """Move each log directory to the group of the broker whose metadata registers its directory id, even if its
    `meta.properties` names another broker; a directory that no metadata registers stays in its group. Return the groups
    that are not empty, and the facts of each, in the order of `brokers`. The facts are read again if the directories of
    a group changed. `known` has the facts of `brokers`, in their order. Raises `StorageError` if a file cannot be read.
    """
    ids = {root: directory_id_of(root) for broker in brokers for root in broker}
    owners = {root: number for number, facts in enumerate(known)
              for root, own in ids.items() if own in facts.registered}  # fmt: skip
    joined: list[list[str]] = [[] for _broker in brokers]
    for number, broker in enumerate(brokers):
        for root in broker:
            joined[owners.get(root, number)].append(root)
    facts = [before if now == was else read_topic_facts(now)
             for now, was, before in zip(joined, brokers, known, strict=True)]  # fmt: skip
    kept = [number for number, group in enumerate(joined) if group]
    return [joined[number] for number in kept], [facts[number] for number in kept]


def _held_by_others(
    own: Sequence[str], brokers: Sequence[Sequence[str]], facts: TopicFacts
) -> dict[int, frozenset[tuple[str, int]]]:
    """Return the live partitions of the other brokers among `brokers` that were given whole, by broker id: with all log
    directories that they registered by the metadata in `facts`, or with none of them and no partition, so that they
    were reformatted. Raises `StorageError` if a directory cannot be listed.
    """
    held = {}
    for broker in brokers:
        identity = identity_of(broker[0])
        registered = frozenset() if identity is None else facts.registered_by_others.get(identity[1], frozenset())
        if broker == own or identity is None or not registered:
            continue
        ids = {directory_id_of(root) for root in broker}
        names = [parse_partition_directory(name) for root in broker for name in _live(root)]
        live = frozenset((name.topic, name.partition) for name in names
                         if name is not None and name.topic != CLUSTER_METADATA_TOPIC)  # fmt: skip
        if registered <= ids or not (live or registered & ids):
            held[identity[1]] = live
    return held


def _apart(own: Sequence[str], brokers: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the directories that name another broker in `meta.properties` but may belong to the broker with the
    directories `own`. These are the directories of brokers that have no live partition in common with `own`. Empty
    unless all directories were written with ZooKeeper: KRaft registers directory ids. Raises `StorageError` if a
    directory cannot be listed.
    """
    others = [broker for broker in brokers if broker != own]
    if not others or not all(map(_is_of_zookeeper, (root for broker in brokers for root in broker))):
        return ()
    here = {name for root in own for name in _live(root)}
    separate = [broker for broker in others if not here & {name for root in broker for name in _live(root)}]
    return tuple(root for broker in separate for root in broker)


def _is_of_zookeeper(root: str) -> bool:
    meta = meta_properties_of(root)
    return meta is not None and meta.version == 0


def _live(root: str) -> list[str]:
    parsed = ((entry.name, parse_partition_directory(entry.name)) for entry in scan_directory(root))
    return [name for name, found in parsed if found is not None and found.state is DirectoryState.LIVE]


def controllers_beside(brokers: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """For each broker, in order, the log directories among all of these that belong to other nodes of its cluster and
    have a metadata log, or are of a node of which none has one. Empty for a broker whose cluster id is unknown.
    """
    with_metadata = [root for broker in brokers for root in broker if os.path.isdir(os.path.join(root, _METADATA))]
    known = set(with_metadata)
    shown = [root for broker in brokers for root in broker if root in known or known.isdisjoint(broker)]
    return [tuple(_of_others(broker, shown)) for broker in brokers]


def _of_others(own: Sequence[str], with_metadata: Sequence[str]) -> list[str]:
    """Directories in `with_metadata` that belong to other nodes of the cluster of the broker with the directories
    `own`.
    """
    cluster = {_cluster_of(root) for root in own}
    return [root for root in with_metadata if root not in own and cluster == {_cluster_of(root)} != {None}]


def _cluster_of(root: str) -> str | None:
    meta = meta_properties_of(root)
    return None if meta is None else meta.cluster_id
