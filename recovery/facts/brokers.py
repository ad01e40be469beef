"""Which of several log directories belong to one broker, and what the cluster's metadata says to each of them.

A broker reads its topics' settings and ids, and which partitions are its own, from the one metadata log that it has
(`KafkaRaftServer`): whichever of its log directories holds that, it is about all of them, and about no other broker's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY
from kafkalog.log.directories.identities import meta_properties_of
from kafkalog.log.disk.files import real
from kafkalog.recovery.facts.topic_facts import TopicFacts, identity_of, read_topic_facts

__all__ = ["brothers_of", "controllers_beside", "facts_of_each", "of_one_broker"]

_METADATA = CLUSTER_METADATA_DIRECTORY


def of_one_broker(roots: Sequence[str]) -> list[list[str]]:
    """The log directories of each broker together, in their order.

    One that does not say whose it is belongs to the only broker that the others name, or else stands alone.
    """
    owners = {root: identity_of(root) for root in dict.fromkeys(roots)}
    known = {owner for owner in owners.values() if owner is not None}
    if len(known) <= 1:
        return [list(owners)] if owners else []
    found: dict[object, list[str]] = {}
    for root, owner in owners.items():
        found.setdefault(root if owner is None else owner, []).append(root)
    return list(found.values())


def brothers_of(root: str, roots: Sequence[str]) -> list[str]:
    """A log directory, and those of several others that belong to the same broker."""
    (own,) = (each for each in of_one_broker([root, *roots]) if root in each)
    return own


def facts_of_each(roots: Sequence[str]) -> Mapping[str, TopicFacts]:
    """What the metadata log of its broker says, for each log directory by its real path."""
    brokers = of_one_broker([real(root) for root in roots])
    controllers = controllers_beside(brokers)
    return {
        root: replace(facts, controllers=others)
        for each, others in zip(brokers, controllers, strict=True)
        for facts in [read_topic_facts(each)]
        for root in each
    }


def controllers_beside(brokers: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """For each broker, the log directories of other nodes among these that have a metadata log."""
    with_metadata = [root for each in brokers for root in each if os.path.isdir(os.path.join(root, _METADATA))]
    return [tuple(_of_others(each, with_metadata)) for each in brokers]


def _of_others(own: Sequence[str], with_metadata: Sequence[str]) -> list[str]:
    """Directories with a metadata log of other nodes, which are of the same cluster."""
    cluster = {_cluster_of(root) for root in own}
    return [root for root in with_metadata if root not in own and cluster == {_cluster_of(root)} != {None}]


def _cluster_of(root: str) -> str | None:
    meta = meta_properties_of(root)
    return None if meta is None else meta.cluster_id
