"""Assignment of a group after a topic gets more partitions, or a new topic matches its subscription.

Members notice both with their next metadata and rejoin with what they own
(`ConsumerCoordinator.rejoinNeededOrPending`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from kafkalog.cluster.assignors.assignors import Assignment
from kafkalog.cluster.groups.groups import Group
from kafkalog.cluster.groups.rederive import assignment_of
from kafkalog.codec.common.advice import Advice, Ask, Sentence
from kafkalog.codec.common.errors import UsageError

__all__ = ["Growth"]


class Growth(Struct, frozen=True):
    """New numbers of partitions of some topics, and topics that all members subscribe to from now on."""

    partitions: Mapping[str, int]
    topics: Sequence[str] = ()

    def check(self, counts: Mapping[str, int]) -> None:
        """Raise `UsageError` if a topic would get fewer partitions, or if a new topic's number of partitions is
        unknown.

        `counts` are the present numbers of partitions by topic.
        """
        for topic, count in self.partitions.items():
            if count < counts.get(topic, 0):
                raise UsageError(f"{topic} has {counts[topic]} partitions or more, and a topic never gets fewer")
        for topic in self.topics:
            if topic not in self.partitions and topic not in counts:
                advice = Advice("{}", Ask.GROWN_TO, {"topic": topic})
                raise UsageError(Sentence(f"how many partitions {topic} has is not known here: give ", advice))

    def concerns(self, group: Group) -> bool:
        """Whether the group has members, and either new topics are added or a member subscribes to a topic that gets
        partitions.
        """
        subscribed = {topic for member in group.members if member.subscription for topic in member.subscription.topics}
        return bool(group.members) and bool(self.topics or subscribed & self.partitions.keys())

    def assignment_of(self, group: Group, counts: Mapping[str, int]) -> Assignment | None:
        """Return the partitions by member after the rebalance; None if it cannot be derived, or does not concern the
        group.
        """
        grown = {**counts, **self.partitions}
        return assignment_of(group, grown, matching=self.topics, rebalance=True) if self.concerns(group) else None
