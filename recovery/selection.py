"""Which partitions of a log directory are meant: some topics, some numbers, all but some."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkalog.codec.errors import UsageError
from kafkalog.codec.names import parse_partition_directory

__all__ = ["EVERYTHING", "Selection"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Topics and partition numbers to take (none named: all), and topics or `topic-number` to leave out."""

    topics: frozenset[str] = field(default_factory=frozenset)
    partitions: frozenset[int] = field(default_factory=frozenset)
    exclude: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_everything(self) -> bool:
        """Nothing is left out."""
        return not (self.topics or self.partitions or self.exclude)

    def takes(self, directory: str) -> bool:
        """A directory of this name is meant; one that is no partition is only where everything is."""
        name = parse_partition_directory(directory)
        if name is None:
            return self.is_everything
        if self.topics and name.topic not in self.topics:
            return False
        if self.partitions and name.partition not in self.partitions:
            return False
        return name.topic not in self.exclude and f"{name.topic}-{name.partition}" not in self.exclude

    def of(self, root: str, directories: Iterable[str]) -> frozenset[str] | None:
        """The directories that are meant; None for all of them.  `UsageError` if there is none."""
        if self.is_everything:
            return None
        found = frozenset(each for each in directories if self.takes(each))
        if not found:
            raise UsageError(f"{root} holds no partition that was asked for")
        return found


EVERYTHING = Selection()
