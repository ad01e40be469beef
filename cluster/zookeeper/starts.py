"""Who leads a partition of a cluster with ZooKeeper once brokers that were stopped at the same moment come back.

The first to come is the controller.  Once the old sessions have ended it takes every replica that is not there out of
its ISR, but for the last one (`ZkReplicaStateMachine.removeReplicasFromIsr`), and elects from those who are there
(`PartitionLeaderElectionAlgorithms.offlinePartitionLeaderElection`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kafkalog.cluster.zookeeper.election import NO_LEADER
from kafkalog.cluster.zookeeper.removal import removal_order

__all__ = ["leaders_in_any_order", "leaders_in_order"]


def leaders_in_order(
    replicas: Sequence[int],
    isr: Sequence[int],
    order: Sequence[int],
    *,
    unclean: bool,
    cluster: Collection[int] | None = None,
) -> frozenset[int]:
    """Everybody who may lead after brokers came one after the other; `NO_LEADER` for nobody.

    `cluster` are all brokers with replicas, if the order is known in which the controller takes them out of the ISRs;
    else everybody may be the one who is left.
    """
    if not order:
        return frozenset({NO_LEADER})
    if order[0] in isr:
        return frozenset({order[0]})
    if unclean:
        return frozenset({next((each for each in order if each in replicas), NO_LEADER)})
    left = isr if cluster is None else _left(isr, cluster)
    return frozenset(each if each in order else NO_LEADER for each in left) or frozenset({NO_LEADER})


def _left(isr: Sequence[int], cluster: Collection[int]) -> list[int]:
    """Of an ISR of which nobody was there."""
    return [each for each in removal_order(cluster) if each in isr][-1:]


def leaders_in_any_order(
    replicas: Sequence[int], isr: Sequence[int], running: Collection[int], *, unclean: bool
) -> frozenset[int]:
    """The same for every order.

    Old sessions may end while brokers come, in any order: everybody may be the one who is left in an ISR.
    """
    found: set[int] = set()
    for first in running:
        rest = [each for each in running if each != first]
        for second in rest or [first]:
            found |= leaders_in_order(replicas, isr, (first, second, *rest), unclean=unclean)
    return frozenset(found) or frozenset({NO_LEADER})
