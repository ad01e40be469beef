"""Who leads a partition of a cluster with ZooKeeper once brokers that were stopped at the same moment come back.

The first to come is the controller.  Once the old sessions have ended it takes every replica that is not there out of
its ISR, but for the last one (`ZkReplicaStateMachine.removeReplicasFromIsr`), and elects from those who are there
(`PartitionLeaderElectionAlgorithms.offlinePartitionLeaderElection`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kafkalog.cluster.zookeeper.election import NO_LEADER

__all__ = ["leaders_in_any_order", "leaders_in_order"]


def leaders_in_order(
    replicas: Sequence[int], isr: Sequence[int], order: Sequence[int], *, unclean: bool
) -> frozenset[int]:
    """Everybody who may lead after brokers came one after the other; `NO_LEADER` for nobody."""
    if not order:
        return frozenset({NO_LEADER})
    if order[0] in isr:
        return frozenset({order[0]})
    if unclean:
        return frozenset({next((each for each in order if each in replicas), NO_LEADER)})
    # The first took everybody else out of the ISR: who of them is left there depends on the order of a hash table.
    return frozenset(each if each in order else NO_LEADER for each in isr) or frozenset({NO_LEADER})


def leaders_in_any_order(
    replicas: Sequence[int], isr: Sequence[int], running: Collection[int], *, unclean: bool
) -> frozenset[int]:
    """The same for every order."""
    found: set[int] = set()
    for first in running:
        rest = [each for each in running if each != first]
        for second in rest or [first]:
            found |= leaders_in_order(replicas, isr, (first, second, *rest), unclean=unclean)
    return frozenset(found) or frozenset({NO_LEADER})
