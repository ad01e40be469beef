"""Kafka's client-side assignors: the assignment that a classic group's leader computes from the members' subscriptions.

`range`, `roundrobin`, `sticky` and `cooperative-sticky` (`RangeAssignor`, `RoundRobinAssignor`,
`AbstractStickyAssignor`).  If all members subscribe to the same topics, the sticky assignors have a form of 2.4 and one
of later versions; otherwise the form of 3.x and later is used (`sticky_general`).  Racks are ignored, because the log
does not have the brokers' racks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from kafkalog.cluster.assignors.sticky_general import GeneralSticky, Subscriber
from kafkalog.cluster.rules.java import hash_order, java_sorted, string_hash

__all__ = ["ASSIGNORS", "Assignment", "GroupMember", "TopicPartition", "assign", "subscribe_differently", "violations"]

TopicPartition = tuple[str, int]
Assignment = dict[str, frozenset[TopicPartition]]
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
_UNKNOWN = -1


class GroupMember(Struct, frozen=True, kw_only=True):
    """A member as an assignor sees it."""

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = _UNKNOWN
    """generation in which it owned `owned`; -1 if unknown"""
    subscription_generation: int | None = None
    """generation stored in the subscription, if it differs from `generation`"""


def _key(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _sorted_members(members: Sequence[GroupMember]) -> list[GroupMember]:
    """Sort members as assignors do: static members by instance id, then the others by member id
    (`AbstractPartitionAssignor.MemberInfo`).
    """
    return sorted(
        members,
        key=lambda each: (each.instance_id is None, _key(each.instance_id or each.member_id)),
    )


def _range(counts: Mapping[str, int], members: Sequence[GroupMember]) -> dict[str, list[TopicPartition]]:
    assigned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    ordered = _sorted_members(members)
    for topic, count in counts.items():
        subscribers = [group_member.member_id for group_member in ordered if topic in group_member.topics]
        for index, partitions in enumerate(spread(count, len(subscribers))):
            assigned[subscribers[index]] += [(topic, number) for number in partitions]
    return assigned


def spread(count: int, takers: int) -> list[range]:
    """Split the indexes 0 to `count` - 1 into contiguous ranges, one per taker, in order.

    Sizes differ by at most one; the first ranges get the extra items. If there are fewer items than takers, the last
    ranges are empty. Returns an empty list if `takers` is 0.
    """
    if not takers:
        return []
    base, extra = divmod(count, takers)
    starts = [base * index + min(index, extra) for index in range(takers + 1)]
    return [range(starts[index], starts[index + 1]) for index in range(takers)]


def _round_robin(counts: Mapping[str, int], members: Sequence[GroupMember]) -> dict[str, list[TopicPartition]]:
    assigned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    ordered = _sorted_members(members)
    index = 0
    for topic in java_sorted(counts):
        if not any(topic in group_member.topics for group_member in ordered):
            continue
        for number in range(counts[topic]):
            while topic not in ordered[index].topics:
                index = (index + 1) % len(ordered)
            assigned[ordered[index].member_id].append((topic, number))
            index = (index + 1) % len(ordered)
    return assigned


class _Claims(Struct, frozen=True):
    """The partitions that each member owned before the rebalance, after contradicting claims were resolved. `doubly`
    are partitions that several members claim in the same generation.
    """

    owned: dict[str, list[TopicPartition]] = field(default_factory=dict)
    doubly: set[TopicPartition] = field(default_factory=set)

    @classmethod
    def of(cls, counts: Mapping[str, int], members: Sequence[GroupMember]) -> _Claims:
        claims = cls()
        owner: dict[TopicPartition, GroupMember] = {}
        for member in members:
            mine = claims.owned[member.member_id] = []
            for partition in member.owned:
                if partition[0] not in counts:
                    continue
                other = owner.get(partition)
                if other is None:
                    mine.append(partition)
                    owner[partition] = member
                    continue
                theirs = other.subscription_generation
                theirs = other.generation if theirs is None else theirs
                if member.generation < theirs:
                    continue
                if member.generation == theirs:
                    claims.doubly.add(partition)
                else:
                    mine.append(partition)
                if partition in claims.owned[other.member_id]:
                    claims.owned[other.member_id].remove(partition)
                owner[partition] = member
        return claims


class _Sticky:
    """Computation of a sticky assignment if all members subscribe to the same topics
    (`ConstrainedAssignmentBuilder`).
    """

    def __init__(self, counts: Mapping[str, int], members: Sequence[GroupMember]) -> None:
        claims = _Claims.of(counts, members)
        self.counts = counts
        self.doubly = claims.doubly
        self.owned = claims.owned
        total = sum(counts.values())
        self.least, self.most = total // len(members), math.ceil(total / len(members))
        self.places = total % len(members)
        """number of members that may have one partition more than the minimum"""
        self.taken = 0
        self.given: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
        self.below: list[str] = []
        self.at_least: list[str] = []
        self.revoked: dict[TopicPartition, str] = {}
        self.moved: dict[TopicPartition, str] = {}

    def _keep(self) -> None:
        for member in hash_order(list(self.owned), string_hash):
            owned = [each for each in self.owned[member] if each not in self.doubly]
            owned.sort(key=lambda each: (each[1], _key(each[0])))
            keep = len(owned)
            if keep < self.least:
                self.below.append(member)
            elif keep >= self.most and self.taken < self.places:
                keep = self.most
                self.taken += 1
                if self.taken == self.places:
                    self.at_least.clear()
            else:
                keep = self.least
                if self.taken < self.places:
                    self.at_least.append(member)
            self.given[member] = owned[:keep]
            self.revoked.update(dict.fromkeys(owned[keep:], member))

    def _deal(self) -> None:
        held = {each for partitions in self.given.values() for each in partitions}
        free = [
            (topic, number)
            for topic in java_sorted(self.counts)
            for number in range(self.counts[topic])
            if (topic, number) not in held
        ]
        below, at_least = java_sorted(self.below), java_sorted(self.at_least)
        at = 0
        for partition in free:
            if below:
                at %= len(below)
                member = below[at]
            elif at_least:
                member = at_least.pop(0)
            else:
                raise LookupError  # Kafka throws here: members claim partitions that do not exist
            self._give(partition, member)
            if len(self.given[member]) == self.least:
                del below[at]
                at_least.append(member)
            else:
                at += 1

    def _give(self, partition: TopicPartition, member: str) -> None:
        self.given[member].append(partition)
        if self.revoked.get(partition, member) != member or partition in self.doubly:
            self.moved[partition] = member

    def assign(self, *, cooperative: bool) -> dict[str, list[TopicPartition]]:
        self._keep()
        self._deal()
        if cooperative:  # what moves is given up first, and assigned in the rebalance that follows
            for partition, member in self.moved.items():
                self.given[member].remove(partition)
        return self.given


class _EarlySticky:
    """Computation of a sticky assignment as in clients of 2.4 to 2.8, if all members subscribe to the same topics.
    Members keep their partitions in the order in which they listed them.

    `given` has the partitions of each member so far; every member gets at least `least` partitions.
    """

    def __init__(self, counts: Mapping[str, int], members: Sequence[GroupMember]) -> None:
        newest = max(member.generation for member in members)
        self.owned = {
            member.member_id: [one for one in member.owned if one[0] in counts] if member.generation == newest else []
            for member in members
        }
        total = sum(counts.values())
        self.least, self.most = total // len(members), math.ceil(total / len(members))
        self.free = [(topic, number) for topic in java_sorted(counts) for number in range(counts[topic])]
        self.given: dict[str, list[TopicPartition]] = {}

    def assign(self, *, cooperative: bool) -> dict[str, list[TopicPartition]]:
        below: list[str] = []
        at_least: list[str] = []
        full: list[str] = []
        revoked: set[TopicPartition] = set()
        moved: dict[TopicPartition, str] = {}
        for member in hash_order(list(self.owned), string_hash):
            owned = self.owned[member]
            self.given[member] = owned[: self.most]
            revoked.update(owned[self.most :])
            if len(owned) < self.least:
                below.append(member)
                continue
            at_least += [member] if len(self.given[member]) == self.least else []
            full += [member] if len(self.given[member]) == self.most else []
        held = {each for partitions in self.given.values() for each in partitions}
        free = [each for each in self.free if each not in held]
        below = java_sorted(below)
        at = 0
        while below and free:
            at %= len(below)
            at += self._fill(below, at, free.pop(0), at_least, revoked, moved)
        for member in below:
            while len(self.given[member]) < self.least:
                if not full:
                    raise LookupError
                partition = self.given[full.pop(0)].pop(0)
                self.given[member].append(partition)
                moved[partition] = member
            at_least.append(member)
        for partition in free:
            if not at_least:
                raise LookupError
            member = at_least.pop(0)
            self.given[member].append(partition)
            moved.update({partition: member} if partition in revoked else {})
        if cooperative:
            for partition, member in moved.items():
                self.given[member].remove(partition)
        return self.given

    def _fill(
        self,
        below: list[str],
        index: int,
        partition: TopicPartition,
        at_least: list[str],
        revoked: set[TopicPartition],
        moved: dict[TopicPartition, str],
    ) -> int:
        """Assign `partition` to the member at `index` in `below`; return the number (0 or 1) that the caller must add
        to the index.

        `below` has the members with fewer than the minimum number of partitions. If the member reaches the minimum, it
        is moved from `below` to `at_least`. The result is then 0, because the next member now has this index; otherwise
        it is 1. A partition in `revoked` is also put into `moved`, with its new owner. Changes `self.given`, `below`,
        `at_least` and `moved` in place.
        """
        member = below[index]
        self.given[member].append(partition)
        if partition in revoked:
            moved[partition] = member
        if len(self.given[member]) < self.least:
            return 1
        at_least.append(member)
        del below[index]
        return 0


def assign(
    assignor: str, counts: Mapping[str, int], members: Sequence[GroupMember], *, early: bool = False
) -> Assignment | None:
    """Compute the assignment of a classic group; return the set of partitions of each member id.

    `assignor` is its name in the protocol: `range`, `roundrobin`, `sticky` or `cooperative-sticky`. `counts` are the
    numbers of partitions by topic; topics without subscribers or partitions are ignored. With `early` the two sticky
    assignors compute as clients up to 2.8 did; the others ignore it. A member without partitions has an empty set.

    Returns None if the assignor is unknown, if there are no members, or if a member id occurs twice. For a sticky
    assignor, also returns None if Kafka's would throw an exception, or if the group is too large to compute. It does so
    too if `early` is set and the members subscribe to different topics.
    """
    if not members or len({member.member_id for member in members}) != len(members):
        return None
    wanted = {topic for member in members for topic in member.topics}
    counts = {topic: count for topic, count in counts.items() if topic in wanted and count > 0}
    if assignor == "range":
        assigned = _range(counts, members)
    elif assignor == "roundrobin":
        assigned = _round_robin(counts, members)
    elif assignor in ASSIGNORS and not (early and subscribe_differently(members)):
        try:
            assigned = _sticky(counts, members, early=early, cooperative=assignor == "cooperative-sticky")
        except LookupError:
            return None
    else:
        return None
    return {member: frozenset(partitions) for member, partitions in assigned.items()}


def subscribe_differently(members: Sequence[GroupMember]) -> bool:
    """Whether not all members subscribe to the same topics."""
    return len({frozenset(member.topics) for member in members}) > 1


def _sticky(
    counts: Mapping[str, int], members: Sequence[GroupMember], *, early: bool, cooperative: bool
) -> dict[str, list[TopicPartition]]:
    if not subscribe_differently(members):
        return (_EarlySticky if early else _Sticky)(counts, members).assign(cooperative=cooperative)
    subscribers = [
        Subscriber(
            member_id=each.member_id, topics=frozenset(each.topics), owned=each.owned, generation=each.generation
        )
        for each in members
    ]
    given = GeneralSticky(counts, subscribers, _Claims.of(counts, members).owned).assign()
    if not cooperative:
        return given
    owned = {member.member_id: set(member.owned) for member in members}
    revoked = {place for member, had in owned.items() for place in had.difference(given[member])}
    return {
        member: [place for place in places if place in owned[member] or place not in revoked]
        for member, places in given.items()
    }


def violations(assignment: Mapping[str, frozenset[TopicPartition]], members: Sequence[GroupMember]) -> list[str]:
    """Return the contradictions of an assignment, one sentence each: a partition is assigned to two members, or a
    member does not subscribe to the partition's topic. Return an empty list if there are none.

    The sentences are ordered by member id, then by partition. The topics of a member that is not in `members` are not
    compared.
    """
    topics = {each.member_id: set(each.topics) for each in members}
    holder: dict[TopicPartition, str] = {}
    sentences = []
    for member, partitions in sorted(assignment.items()):
        for partition in sorted(partitions):
            name = f"{partition[0]}-{partition[1]}"
            if partition in holder:
                sentences.append(f"{name} is assigned to {holder[partition]} and to {member}")
            holder[partition] = member
            if member in topics and partition[0] not in topics[member]:
                sentences.append(f"{name} is assigned to {member}, which does not subscribe to its topic")
    return sentences
