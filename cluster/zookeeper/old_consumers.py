"""Consumers of 2.x and older that met in ZooKeeper: who owns what, and who should by their range rule.

Decided by `ZookeeperConsumerConnector` and `kafka.consumer.RangeAssignor`: the unit is a thread `<consumer>-<n>`,
ordered as a string; per topic contiguous blocks, the first ones one larger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkalog.cluster.assignors import spread
from kafkalog.cluster.java import java_sorted
from kafkalog.cluster.zookeeper.kafka_nodes import chroots, json_object, replicas_of
from kafkalog.cluster.zookeeper.tree import Tree

__all__ = ["OldGroup", "old_groups", "range_owners"]

_MOST_STREAMS = 10_000


@dataclass(frozen=True, slots=True)
class OldGroup:
    """One group's claim on one topic; threads by partition."""

    group: str
    topic: str
    owners: Mapping[int, str]
    derived: Mapping[int, str]
    """by the range rule, from the registrations"""

    @property
    def as_derived(self) -> bool:
        """Whether the owners are those of the range rule."""
        return dict(self.owners) == dict(self.derived)


def range_owners(partitions: int, threads: list[str]) -> dict[int, str]:
    """Partition -> thread by the old consumer's range rule."""
    ordered = java_sorted(threads)
    return {number: ordered[at] for at, block in enumerate(spread(partitions, len(ordered))) for number in block}


def _threads(tree: Tree, base: str, topic: str) -> list[str]:
    found = []
    node = tree.nodes.get(f"{base}/ids")
    for consumer in sorted(node.children) if node is not None else ():
        fields = json_object(tree.nodes[f"{base}/ids/{consumer}"].data) or {}
        subscription = fields.get("subscription")
        streams = subscription.get(topic, 0) if isinstance(subscription, dict) else 0
        if fields.get("pattern") == "static" and isinstance(streams, int):
            found += [f"{consumer}-{number}" for number in range(min(streams, _MOST_STREAMS))]
    return found


def old_groups(tree: Tree) -> list[OldGroup]:
    """Every group with registered consumers or owners; subscriptions by pattern are not resolved."""
    found = []
    for chroot in chroots(tree.nodes):
        consumers = tree.nodes.get(f"{chroot}/consumers")
        for group in sorted(consumers.children) if consumers is not None else ():
            base = f"{chroot}/consumers/{group}"
            owners = tree.nodes.get(f"{base}/owners")
            for topic in sorted(owners.children) if owners is not None else ():
                place = f"{base}/owners/{topic}"
                held = {
                    int(number): (tree.nodes[f"{place}/{number}"].data or b"").decode("utf-8", "replace")
                    for number in tree.nodes[place].children
                    if number.isdecimal() and len(number) < 11
                }
                topic_node = tree.nodes.get(f"{chroot}/brokers/topics/{topic}")
                count = len(replicas_of(topic_node.data)) if topic_node is not None else 0
                found.append(OldGroup(group, topic, held, range_owners(count, _threads(tree, base, topic))))
    return found
