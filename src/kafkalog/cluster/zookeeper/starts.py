"""Leaders of a partition (ZooKeeper mode) when brokers that stopped at the same time come back.

The first broker becomes the controller.  When the old sessions have expired, it removes every missing replica from its
ISR except the last one (`ZkReplicaStateMachine.removeReplicasFromIsr`), and elects from the running ones
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
    """All possible leaders after brokers came back in this order; `NO_LEADER` if there may be none.

    `removed` are the brokers that are missing when the first one comes, in the order in which it removes them from the
    ISRs (`removal_order`); without it any of them may be the last one.
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
    """Possible leaders if one of the brokers in `left` stays in the ISR."""
    return frozenset(each if each in running else NO_LEADER for each in left)


def leaders_in_any_order(
    replicas: Sequence[int], isr: Sequence[int], running: Collection[int], *, unclean: bool
) -> frozenset[int]:
    """All possible leaders for any order of arrival.

    Old sessions may expire while brokers arrive, in any order, so any broker may be the last one in an ISR.
    """
    if unclean:
        found = frozenset(replica for replica in replicas if replica in running)
    elif all(each in isr for each in running):
        found = frozenset(running)
    else:
        found = _of(isr, running)
    return found or frozenset({NO_LEADER})
