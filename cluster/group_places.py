"""In how many partitions groups are spread (`offsets.topic.num.partitions`), and who coordinates them.

The cluster's metadata knows both.  Where there is none, Kafka's default of 50 counts, unless the groups lie as in a
topic of as many partitions as are here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kafkalog.cluster.coordinator_records import CONSUMER_OFFSETS_TOPIC
from kafkalog.cluster.cross_check import KnownTopic
from kafkalog.cluster.java import coordinator_partition

__all__ = ["DEFAULT_PARTITIONS", "GroupPlaces", "partition_count"]

DEFAULT_PARTITIONS = 50


@dataclass(frozen=True, slots=True)
class GroupPlaces:
    """What the cluster's metadata says; `partitions` is None where it does not know `__consumer_offsets`."""

    partitions: int | None
    leaders: Mapping[int, int]
    """partition -> broker; -1 for none"""

    @classmethod
    def of(cls, topics: Mapping[str, KnownTopic]) -> GroupPlaces:
        """From all topics that the metadata knows."""
        known = topics.get(CONSUMER_OFFSETS_TOPIC)
        if known is None or not known.partitions:
            return cls(None, {})
        return cls(len(known.partitions), {number: each.leader for number, each in known.partitions.items()})


def partition_count(places: Collection[tuple[str, int]], numbers: Iterable[int]) -> int:
    """How many partitions `__consumer_offsets` has where nothing says so: 50, or as many as are here.

    `places` are (group, partition), `numbers` the partitions that are here.  As many as are here only if that puts
    every group where it is, and 50 does not: a part of the directories is not taken for all of them.
    """
    largest = max(numbers, default=-1) + 1
    for count in (DEFAULT_PARTITIONS, largest):
        if largest <= count and all(coordinator_partition(group, count) == number for group, number in places):
            return count
    return max(DEFAULT_PARTITIONS, largest)
