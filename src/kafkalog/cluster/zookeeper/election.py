"""New state of a partition in ZooKeeper mode after one of its brokers is lost."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from kafkalog.cluster.zookeeper.kafka_nodes import PartitionState

__all__ = ["NO_LEADER", "offline_leader", "without_broker"]

NO_LEADER = -1


def offline_leader(
    replicas: Sequence[int], isr: Collection[int], live: Collection[int], *, unclean: bool
) -> int | None:
    """Id of the broker that replaces a lost leader: the first live replica in the ISR, else, if `unclean` is set, the
    first live replica. None if there is none.
    """
    for replica in replicas:
        if replica in live and replica in isr:
            return replica
    return next((each for each in replicas if each in live), None) if unclean else None


def without_broker(
    state: PartitionState,
    replicas: Sequence[int],
    broker: int,
    live: Collection[int],
    *,
    unclean: bool,
    keeps_last: bool = True,
) -> tuple[PartitionState, bool]:
    """Return the state of a partition after the loss of `broker`, and whether the new leader may lack records because
    it was elected uncleanly. The state is unchanged if `broker` neither leads nor is in the ISR. Epochs are always
    unchanged, because their increase depends on whether the controller was lost too.

    `live` are the brokers that remain, without `broker`. `unclean` allows unclean elections. A new leader's ISR has
    only live members; after an unclean election, the leader alone. If no broker can replace a leader, the leader
    becomes -1 if it was in the ISR, and stays otherwise. The last replica stays in the ISR, unless unclean elections
    are allowed and `keeps_last` is False (before 1.1).
    """
    after, lossy = state, False
    if state.leader == broker:
        leader = offline_leader(replicas, state.isr, live, unclean=unclean)
        if leader is not None:
            lossy = leader not in state.isr
            isr = (leader,) if lossy else tuple(each for each in state.isr if each in live)
            after = replace(state, leader=leader, isr=isr)
    if broker in after.isr:
        others = tuple(each for each in after.isr if each != broker)
        isr = others if others or (unclean and not keeps_last) else after.isr
        leader = NO_LEADER if after.leader == broker else after.leader
        after = replace(after, leader=leader, isr=isr)
    return after, lossy
