"""Assignment of partitions by the server: evenly, and with few changes.

Kafka's `UniformAssignor` has the same aims. The exact result is not part of the protocol.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping

__all__ = ["Place", "uniform"]

Place = tuple[str, int]
"""Topic and partition."""


def uniform(
    subscriptions: Mapping[str, Collection[str]],
    counts: Mapping[str, int],
    before: Mapping[str, Collection[Place]],
) -> dict[str, frozenset[Place]]:
    """Assign each partition of the subscribed topics to one member that subscribes to its topic. Return the partitions
    of each member; a member that gets none has an empty set. `subscriptions` has the topics of each member, and
    `counts` the number of partitions of each topic; topics without a count are ignored.

    Topics with the same subscribers are assigned together, those with the fewest subscribers first. Each subscriber
    gets so many of their partitions that all subscribers have as equal numbers as possible. The partitions that they
    were assigned of other topics count too. Up to its number it keeps the partitions that it has in `before`.
    """
    takers: dict[str, list[str]] = {}
    for member, topics in sorted(subscriptions.items()):
        for topic in topics:
            if topic in counts:
                takers.setdefault(topic, []).append(member)
    together: dict[tuple[str, ...], list[str]] = {}
    for topic, members in sorted(takers.items()):
        together.setdefault(tuple(members), []).append(topic)
    given: dict[str, list[Place]] = {member: [] for member in subscriptions}
    for subscribers, names in sorted(together.items(), key=lambda pair: (len(pair[0]), pair[0])):
        places = [(name, number) for name in names for number in range(counts[name])]
        _deal(subscribers, places, before, given)
    return {member: frozenset(places) for member, places in given.items()}


def _deal(
    members: tuple[str, ...], places: list[Place], before: Mapping[str, Collection[Place]],
    assigned: dict[str, list[Place]],
) -> None:  # fmt: skip
    among = set(places)
    had = {member: sorted(among.intersection(before.get(member, ()))) for member in members}
    shares = dict.fromkeys(members, 0)
    # who has least comes first, among them who keeps one more in this way, and of these who had most
    waiting = [(len(assigned[member]), not had[member], -len(had[member]), member) for member in members]
    heapq.heapify(waiting)
    for _ in places:
        load, _, most, member = waiting[0]
        shares[member] += 1
        heapq.heapreplace(waiting, (load + 1, shares[member] >= -most, most, member))
    taken: set[Place] = set()
    for member in members:
        kept = [place for place in had[member] if place not in taken][: shares[member]]
        assigned[member] += kept
        taken.update(kept)
        shares[member] -= len(kept)
    free = (place for place in places if place not in taken)
    for member in members:
        assigned[member] += [place for _, place in zip(range(shares[member]), free, strict=False)]
