"""Whether a group's stored assignment is what its assignor computes from the stored subscriptions.

How many partitions a topic had is not in the group's record: the larger of what is assigned and what is known of the
topic otherwise.  A group whose topic has grown since then can therefore differ without anything being wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kafkalog.cluster.assignors.assignors import Assignment, GroupMember, assign, subscribe_differently, violations
from kafkalog.cluster.groups.groups import Group, Member
from kafkalog.log.directories.partition import Partition

__all__ = ["Verdict", "assignment_of", "partition_counts", "verdict"]

_NEWER_SUBSCRIPTION = 2
"""version that clients write since 3.3"""


class Verdict(Struct, frozen=True):
    """What the assignor gives, and whether that is what is stored.

    `same` is None where it cannot be said: no members, other protocols, assignors that are not known.
    """

    same: bool | None
    derived: Assignment | None
    problems: tuple[str, ...]


def partition_counts(partitions: Iterable[Partition]) -> dict[str, int]:
    """Topic -> partitions, as far as the directories at hand tell."""
    counts: dict[str, int] = {}
    for each in partitions:
        if each.topic is not None and each.partition is not None:
            counts[each.topic] = max(counts.get(each.topic, 0), each.partition + 1)
    return counts


def _member(member: Member) -> GroupMember | None:
    subscription = member.subscription
    if subscription is None:
        return None
    return GroupMember(
        member.member_id,
        subscription.topics,
        member.instance_id,
        subscription.owned,
        subscription.generation,
    )


def assignment_of(
    group: Group,
    counts: Mapping[str, int],
    *,
    without: str | None = None,
    joining: str | None = None,
    matching: Sequence[str] = (),
    rebalance: bool = False,
    early: bool = False,
) -> Assignment | None:
    """What the group's assignor gives; None where that cannot be said.

    `without` leaves out a member, `joining` adds one that subscribes to all that the group subscribes to, `matching`
    are topics that all subscribe to from now on, and `rebalance` is one without any of this: then the others own what
    they are assigned now.
    """
    members = [_member(each) for each in group.members if each.member_id != without]
    known = [each for each in members if each is not None]
    if len(known) != len(members) or group.type != "Classic" or group.protocol_type != "consumer":
        return None
    if group.assignor == "sticky" and any(_is_old(each) for each in group.members):
        return None
    if without is not None or joining is not None or matching or rebalance:
        now = {each.member_id: each.assignment or frozenset() for each in group.members}
        known = [
            GroupMember(
                each.member_id,
                tuple(dict.fromkeys((*each.topics, *matching))),
                each.instance_id,
                tuple(sorted(now[each.member_id])),
                1,
            )
            for each in known
        ]
    if joining is not None:
        topics = tuple(sorted({topic for each in known for topic in each.topics}))
        known.append(GroupMember(joining, topics))
    return assign(group.assignor, _counts(group, counts), known, early=early)


def _is_old(member: Member) -> bool:
    """Whether a member's client is of 2.3 or older, whose sticky assignor knew only the general case."""
    return member.subscription is not None and member.subscription.version == 0


def _may_be_older(group: Group, members: Sequence[GroupMember]) -> bool:
    """Different subscriptions, and a client that may be of a version with another algorithm for that (up to 3.x)."""
    versions = [each.subscription.version for each in group.members if each.subscription is not None]
    return subscribe_differently(members) and min(versions, default=0) < _NEWER_SUBSCRIPTION


def _counts(group: Group, counts: Mapping[str, int]) -> dict[str, int]:
    found = dict(counts)
    for member in group.members:
        for topic, number in member.assignment or ():
            found[topic] = max(found.get(topic, 0), number + 1)
    return found


def verdict(group: Group, counts: Mapping[str, int]) -> Verdict:
    """Compare a classic group of consumers with what its assignor gives."""
    derived = assignment_of(group, counts)
    stored = {each.member_id: each.assignment or frozenset() for each in group.members}
    known = [found for each in group.members if (found := _member(each)) is not None]
    if derived is not None and derived != stored and "sticky" in group.assignor and _may_be_older(group, known):
        derived = None
    elif derived is not None and derived != stored and "sticky" in group.assignor:
        earlier = assignment_of(group, counts, early=True)
        derived = earlier if earlier == stored else derived
    problems = (
        tuple(violations(stored, known))
        if group.type == "Classic" and group.protocol_type == "consumer" and known
        else ()
    )
    return Verdict(None if derived is None else derived == stored, derived, problems)
