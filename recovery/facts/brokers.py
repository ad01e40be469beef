"""Group log directories by broker, and read what the cluster's metadata says about each.

A broker reads its topics' settings and ids, and which partitions are its own, from the only metadata log that it has
(`KafkaRaftServer`): whichever of its log directories has it, it applies to all of them, and to no other broker's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY, DirectoryState, parse_partition_directory
from kafkalog.log.directories.identities import meta_properties_of
from kafkalog.log.disk.files import real, scan_directory
from kafkalog.recovery.facts.topic_facts import TopicFacts, directory_id_of, identity_of, read_topic_facts

__all__ = ["brothers_of", "controllers_beside", "facts_of_each", "of_one_broker"]

_METADATA = CLUSTER_METADATA_DIRECTORY


def of_one_broker(roots: Sequence[str]) -> list[list[str]]:
    """Group log directories by broker, which `meta.properties` identifies by cluster id and node id. Groups and
    directories keep the order of first occurrence, and duplicates are dropped. If the files name at most one broker,
    all directories form one group; without directories there is none.

    Otherwise a directory that names no broker forms its own group. A directory that names no cluster belongs to the
    only broker with its node id; if there is none or several, such directories with one node id form a group.
    """
    owners = {root: identity_of(root) for root in dict.fromkeys(roots)}
    known = {owner for owner in owners.values() if owner is not None and owner[0] is not None}
    for root, owner in owners.items():
        alike = [each for each in known if owner is not None and owner == (None, each[1])]
        owners[root] = alike[0] if len(alike) == 1 else owner
    known = {owner for owner in owners.values() if owner is not None}
    if len(known) <= 1:
        return [list(owners)] if owners else []
    found: dict[object, list[str]] = {}
    for root, owner in owners.items():
        found.setdefault(root if owner is None else owner, []).append(root)
    return list(found.values())


def brothers_of(root: str, roots: Sequence[str]) -> list[str]:
    """A log directory, with those of `roots` that belong to its broker."""
    (own,) = (each for each in of_one_broker([root, *roots]) if root in each)
    return own


def facts_of_each(roots: Sequence[str]) -> Mapping[str, TopicFacts]:
    """Return real path -> facts about topics for each log directory, read from the metadata log among its broker's
    directories. A directory is grouped with the broker whose metadata registers its directory id, else by
    `meta.properties`. The facts' `controllers` and `apart` are set from the other brokers' directories. Damage is
    described in `problem` of the facts, and raises no exception.
    """
    brokers = of_one_broker([real(root) for root in roots])
    known = [read_topic_facts(broker) for broker in brokers]
    if len(brokers) > 1:
        brokers, known = _with_registered(brokers, known)
    controllers = controllers_beside(brokers)
    return {
        root: replace(facts, controllers=others, apart=_apart(each, brokers))
        for each, others, facts in zip(brokers, controllers, known, strict=True)
        for root in each
    }


def _with_registered(
    brokers: Sequence[list[str]], known: Sequence[TopicFacts]
) -> tuple[list[list[str]], list[TopicFacts]]:
    """Regroup log directories so that each is with the broker whose metadata registers its directory id, even if its
    `meta.properties` names another one. Return the groups that are not empty, and the facts of each, which are read
    again if its directories changed. `known` has the facts of `brokers`, in their order.
    """
    ids = {root: directory_id_of(root) for broker in brokers for root in broker}
    owners = {root: number for number, facts in enumerate(known)
              for root, own in ids.items() if own in facts.registered}  # fmt: skip
    joined: list[list[str]] = [[] for _each in brokers]
    for number, each in enumerate(brokers):
        for root in each:
            joined[owners.get(root, number)].append(root)
    facts = [before if now == was else read_topic_facts(now)
             for now, was, before in zip(joined, brokers, known, strict=True)]  # fmt: skip
    kept = [number for number, each in enumerate(joined) if each]
    return [joined[number] for number in kept], [facts[number] for number in kept]


def _apart(own: Sequence[str], brokers: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the directories of other brokers, by `meta.properties`, that have no live partition in common with the
    directories `own`, and so may in truth belong to the same broker. Empty unless all directories were written with
    ZooKeeper, because KRaft registers directory ids.
    """
    others = [broker for broker in brokers if broker != own]
    if not others or not all(map(_is_of_zookeeper, (root for broker in brokers for root in broker))):
        return ()
    here = {name for root in own for name in _live(root)}
    return tuple(root for each in others for root in each if not here & {name for one in each for name in _live(one)})


def _is_of_zookeeper(root: str) -> bool:
    meta = meta_properties_of(root)
    return meta is not None and meta.version == 0


def _live(root: str) -> list[str]:
    parsed = ((entry.name, parse_partition_directory(entry.name)) for entry in scan_directory(root))
    return [name for name, found in parsed if found is not None and found.state is DirectoryState.LIVE]


def controllers_beside(brokers: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """For each broker, the log directories of other nodes of its cluster, among these, that have a metadata log."""
    with_metadata = [root for broker in brokers for root in broker if os.path.isdir(os.path.join(root, _METADATA))]
    return [tuple(_of_others(broker, with_metadata)) for broker in brokers]


def _of_others(own: Sequence[str], with_metadata: Sequence[str]) -> list[str]:
    """Directories with a metadata log that are other nodes' of the same cluster."""
    cluster = {_cluster_of(root) for root in own}
    return [root for root in with_metadata if root not in own and cluster == {_cluster_of(root)} != {None}]


def _cluster_of(root: str) -> str | None:
    meta = meta_properties_of(root)
    return None if meta is None else meta.cluster_id
