"""Prediction of the leaders of a partition (ZooKeeper mode) when brokers that stopped at one time start again."""

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
    """Return the ids of all possible leaders after brokers start in the order `order`; `NO_LEADER` is among them if
    there may be none. If the first one is in `isr`, it leads. Otherwise, with `unclean`, the first one that is a
    replica leads. Without, only the one broker that stays in the ISR can lead, if it starts.

    `removed` are the brokers that are missing when the first one starts, in the order in which they are removed from
    the ISRs (`removal_order`). The last of them that is in `isr` stays in it. If `removed` is None, this may be any
    broker of `isr`.
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
    """Return the possible leaders if one of the brokers in `left` stays in the ISR: each that is running, and
    `NO_LEADER` if one is not.
    """
    return frozenset(each if each in running else NO_LEADER for each in left)


def leaders_in_any_order(
    replicas: Sequence[int], isr: Sequence[int], running: Collection[int], *, unclean: bool
) -> frozenset[int]:
    """Return the ids of all possible leaders if the brokers `running` start in any order; `NO_LEADER` is among them if
    there may be none. Old sessions may expire in any order while brokers start, so any broker may be the last one in
    an ISR. `unclean` allows unclean elections.
    """
    if unclean:
        leaders = frozenset(replica for replica in replicas if replica in running)
    elif all(each in isr for each in running):
        leaders = frozenset(running)
    else:
        leaders = _of(isr, running)
    return leaders or frozenset({NO_LEADER})
