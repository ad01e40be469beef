"""Comparison of a group's stored assignment with the one that its assignor computes from the stored subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kafkalog.cluster.assignors.assignors import Assignment, GroupMember, assign, subscribe_differently, violations
from kafkalog.cluster.groups.groups import Group, Member
from kafkalog.log.directories.partition import Partition

__all__ = ["Verdict", "assignment_of", "partition_counts", "verdict"]

_NEWER_SUBSCRIPTION = 2
"""version of subscriptions that clients write since 3.3"""


class Verdict(Struct, frozen=True):
    """The computed assignment, and whether it equals the stored one.

    `same` is None if that is unknown: no members, other protocols, unknown assignors.
    """

    same: bool | None
    derived: Assignment | None
    problems: tuple[str, ...]


def partition_counts(partitions: Iterable[Partition]) -> dict[str, int]:
    """Infer the number of partitions of each topic: the largest partition number in `partitions` plus one.

    The true number is larger if the last partitions are on other brokers. Directories without a valid name are skipped.
    """
    counts: dict[str, int] = {}
    for partition in partitions:
        if partition.topic is not None and partition.partition is not None:
            counts[partition.topic] = max(counts.get(partition.topic, 0), partition.partition + 1)
    return counts


def _member(member: Member) -> GroupMember | None:
    subscription = member.subscription
    if subscription is None:
        return None
    return GroupMember(
        member_id=member.member_id,
        topics=subscription.topics,
        instance_id=member.instance_id,
        owned=subscription.owned,
        generation=subscription.generation,
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
    """Compute the assignment of a group with its own assignor; return the set of partitions by member id. `counts` are
    the numbers of partitions by topic; a topic has at least as many as its assigned partitions show.

    `without` names a member that leaves. `joining` names one that joins and subscribes to all of the group's topics.
    `matching` are topics to which all members also subscribe. `rebalance` simulates a rebalance without any of these
    changes. With any of these four arguments, the members own their present assignment before the rebalance. With
    `early` the sticky assignor computes as clients up to 2.8 did.

    Returns None if the assignment cannot be derived. Reasons are a group that is not a classic consumer group, and a
    subscription that is unreadable or unknown. Further reasons are a sticky assignor of a client up to 2.3, and None
    from `assign`.
    """
    members = [_member(member) for member in group.members if member.member_id != without]
    known = [member for member in members if member is not None]
    if len(known) != len(members) or group.type != "Classic" or group.protocol_type != "consumer":
        return None
    if group.assignor == "sticky" and any(_is_old(member) for member in group.members):
        return None
    if without is not None or joining is not None or matching or rebalance:
        now = {member.member_id: member.assignment or frozenset() for member in group.members}
        known = [
            GroupMember(
                member_id=group_member.member_id,
                topics=tuple(dict.fromkeys((*group_member.topics, *matching))),
                instance_id=group_member.instance_id,
                owned=tuple(sorted(now[group_member.member_id])),
                generation=1,
            )
            for group_member in known
        ]
    if joining is not None:
        topics = tuple(sorted({topic for group_member in known for topic in group_member.topics}))
        known.append(GroupMember(member_id=joining, topics=topics))
    return assign(group.assignor, _counts(group, counts), known, early=early)


def _is_old(member: Member) -> bool:
    """Whether a member's client is of 2.3 or older, whose sticky assignor has only the general case."""
    return member.subscription is not None and member.subscription.version == 0


def _may_be_older(group: Group, members: Sequence[GroupMember]) -> bool:
    """Whether subscriptions differ and a client may be older than the algorithm used here (3.x or before)."""
    versions = [member.subscription.version for member in group.members if member.subscription is not None]
    return subscribe_differently(members) and min(versions, default=0) < _NEWER_SUBSCRIPTION


def _counts(group: Group, counts: Mapping[str, int]) -> dict[str, int]:
    complete = dict(counts)
    for member in group.members:
        for topic, number in member.assignment or ():
            complete[topic] = max(complete.get(topic, 0), number + 1)
    return complete


def verdict(group: Group, counts: Mapping[str, int]) -> Verdict:
    """Compare a group's stored assignment with the one that its assignor computes from the stored subscriptions. In the
    result, `same` says whether both are equal, and `derived` is the computed assignment. `problems` has a sentence for
    each contradiction in the stored one (`violations`). Unknown subscriptions are not contradictions.

    `same` and `derived` are None if the assignment cannot be derived. If the stored assignment of a sticky assignor
    differs, an older client may have computed it. Then `same` and `derived` are None if members subscribe to different
    topics and a client may be older than the algorithm used here. Otherwise, if clients up to 2.8 would have computed
    the stored one, `same` is True and `derived` is this one.

    `problems` is empty unless the group is a classic consumer group.
    """
    derived = assignment_of(group, counts)
    stored = {member.member_id: member.assignment or frozenset() for member in group.members}
    known = [group_member for member in group.members if (group_member := _member(member)) is not None]
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
