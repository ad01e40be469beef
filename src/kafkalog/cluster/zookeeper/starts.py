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
    replicas: Sequence[int],
    isr: Sequence[int],
    order: Sequence[int],
    *,
    unclean: bool,
    removed: Sequence[int] | None = None,
) -> frozenset[int]:
    """Everybody who may lead after brokers came one after the other; `NO_LEADER` for nobody.

    `removed` are the brokers that were not there when the first came, as it takes them out of the ISRs
    (`removal_order`); without it everybody may be the one who is left.
    """
    if not order:
        return frozenset({NO_LEADER})
    if order[0] in isr:
        return frozenset({order[0]})
    if unclean:
        return frozenset({next((each for each in order if each in replicas), NO_LEADER)})
    left = isr if removed is None else [each for each in removed if each in isr][-1:]
    return _of(left, order) or frozenset({NO_LEADER})


def _of(left: Sequence[int], running: Collection[int]) -> frozenset[int]:
    """Who leads if one of these is left in an ISR."""
    return frozenset(each if each in running else NO_LEADER for each in left)


def leaders_in_any_order(
    replicas: Sequence[int], isr: Sequence[int], running: Collection[int], *, unclean: bool
) -> frozenset[int]:
    """Who may lead, whatever the order.

    Old sessions may end while brokers come, in any order: everybody may be the one who is left in an ISR.
    """
    if unclean:
        found = frozenset(each for each in replicas if each in running)
    elif all(each in isr for each in running):
        found = frozenset(running)
    else:
        found = _of(isr, running)
    return found or frozenset({NO_LEADER})
