"""Which topic-partitions somebody wants, by topic, partition number and what is left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkalog.codec.errors import UsageError
from kafkalog.codec.names import parse_partition_directory

__all__ = ["ALL", "Chosen"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """All partitions of the topics named, or of all; `excluded` are topics, or partitions as `topic-0`."""

    topics: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()
    excluded: frozenset[str] = frozenset()

    @classmethod
    def of(cls, topics: Iterable[str], partitions: Iterable[int], excluded: Iterable[str]) -> Chosen:
        """`UsageError` for partition numbers without a topic that they could be of."""
        chosen = cls(frozenset(topics), frozenset(partitions), frozenset(excluded))
        if chosen.partitions and not chosen.topics:
            raise UsageError("a partition is chosen together with its topic")
        return chosen

    def takes(self, topic: str, partition: int) -> bool:
        """Whether a partition is wanted."""
        if self.topics and topic not in self.topics:
            return False
        if self.partitions and partition not in self.partitions:
            return False
        return topic not in self.excluded and f"{topic}-{partition}" not in self.excluded

    def directories(self, root: str, names: Iterable[str]) -> frozenset[str] | None:
        """Of the directories of a log directory those that are wanted; None for all.  `UsageError` if there is none."""
        if self == ALL:
            return None
        parsed = {each: parse_partition_directory(each) for each in names}
        found = frozenset(
            each for each, name in parsed.items() if name is not None and self.takes(name.topic, name.partition)
        )
        if not found:
            raise UsageError(f"{root} holds no partition that was asked for")
        return found


ALL = Chosen()
