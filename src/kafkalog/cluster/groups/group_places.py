"""Number of partitions of `__consumer_offsets` (`offsets.topic.num.partitions`), and the brokers that coordinate
groups.

The cluster's metadata has both. Without metadata Kafka's default of 50 is used, unless the groups are in the partitions
that the number of partitions here gives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from kafkalog.cluster.cross_check import KnownTopic
from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC
from kafkalog.cluster.rules.java import coordinator_partition
from kafkalog.codec.common.errors import UsageError

__all__ = ["DEFAULT_PARTITIONS", "GroupPlaces", "partition_count", "refuse_other_count"]

DEFAULT_PARTITIONS = 50
_MOST_TRIED = 1000
"""counts that are tried if neither 50 nor the present number puts groups where they are"""


class GroupPlaces(Struct, frozen=True):
    """The number of partitions of `__consumer_offsets` and their leaders, from the cluster's metadata. `partitions` is
    None if the metadata does not have the topic.
    """

    partitions: int | None
    leaders: Mapping[int, int]
    """partition -> leader; -1 if there is none"""

    @classmethod
    def of(cls, topics: Mapping[str, KnownTopic]) -> GroupPlaces:
        """Extract the facts from all topics of the metadata."""
        known = topics.get(CONSUMER_OFFSETS_TOPIC)
        if known is None or not known.partitions:
            return cls(None, {})
        return cls(len(known.partitions), {number: partition.leader for number, partition in known.partitions.items()})


def partition_count(places: Collection[tuple[str, int]], numbers: Iterable[int]) -> int:
    """Guess the number of partitions of `__consumer_offsets` if nothing states it: 50, or the largest present partition
    number plus one.

    `places` are pairs of group id and the partition that has the group; `numbers` are the partition numbers that are
    present. Returns 50 if no number is above 49 and every group is in the partition that 50 gives. Otherwise returns
    the largest number plus one if every group is in the partition that it gives, and if not, the larger of both. 50
    comes first because the directories may have only some of the partitions.
    """
    largest = max(numbers, default=-1) + 1
    for count in (DEFAULT_PARTITIONS, largest):
        if largest <= count and all(coordinator_partition(group, count) == number for group, number in places):
            return count
    return max(DEFAULT_PARTITIONS, largest)


def refuse_other_count(group: str, places: Collection[tuple[str, int]], numbers: Iterable[int], count: int) -> None:
    """Raise `UsageError` if existing groups are in other partitions than a topic with `count` partitions would give.

    `places` are pairs of group id and the partition that has the group; `numbers` are the partition numbers that are
    present. A number of partitions that agrees with every group is searched and named in the message. If there is no
    such number, the error is raised only if `group` itself is in another partition than `count` gives.
    """
    elsewhere = [(name, number) for name, number in places if coordinator_partition(name, count) != number]
    if not elsewhere:
        return
    largest = max(numbers, default=-1) + 1
    fitting = next(
        (
            candidate
            for candidate in (DEFAULT_PARTITIONS, *range(largest, largest + _MOST_TRIED))
            if candidate >= largest and all(coordinator_partition(name, candidate) == number for name, number in places)
        ),
        None,
    )
    own = [(name, number) for name, number in elsewhere if name == group]
    if fitting is None and not own:
        return
    name, number = (own or elsewhere)[0]
    said = f"group {name} is in partition {number} of {CONSUMER_OFFSETS_TOPIC}"
    if fitting is not None:
        said += f", as {fitting} partitions put it"
    place = coordinator_partition(name, count)
    raise UsageError(f"{said}; of {count} partitions (offsets_topic_num_partitions) its place is {place}")
