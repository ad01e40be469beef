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
    """Guess the number of partitions of `__consumer_offsets` if nothing states it. `places` are pairs of group id and
    the partition that has the group; `numbers` are the partition numbers that are present.

    Candidates are 50 and then the largest present number plus one. The first one is returned that is above all present
    numbers and gives every group its partition. If neither does, the larger of both is returned. 50 is tried first
    because the directories may have only some of the partitions.
    """
    largest = max(numbers, default=-1) + 1
    for count in (DEFAULT_PARTITIONS, largest):
        if largest <= count and all(coordinator_partition(group, count) == number for group, number in places):
            return count
    return max(DEFAULT_PARTITIONS, largest)


def refuse_other_count(group: str, places: Collection[tuple[str, int]], numbers: Iterable[int], count: int) -> None:
    """Raise `UsageError` if existing groups are in other partitions than a topic with `count` partitions would give.
    `places` are pairs of group id and the partition that has the group; `numbers` are the partition numbers that are
    present.

    The function searches for a number of partitions that agrees with every group, and names it in the message. If it
    finds none, it raises the error only if `group` itself is in another partition than `count` gives.
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
