"""How many partitions a topic has, or shall have."""

from __future__ import annotations

from collections.abc import Mapping

from kafkalog.codec.errors import UsageError

__all__ = ["PartitionCounts"]


class PartitionCounts:
    """The partitions among which keys are spread: as many as are wanted, else as are there, else one.

    `wanted` is a number for all topics, or one by topic; `there` how many there are.  `option` is what the
    caller calls the number.
    """

    def __init__(
        self,
        there: Mapping[str, int],
        wanted: int | Mapping[str, int] | None,
        option: str = "num_partitions",
    ) -> None:
        self._there = there
        self._wanted = wanted
        self._option = option
        for each in wanted.values() if isinstance(wanted, Mapping) else (wanted,):
            if each is not None and each < 1:
                raise UsageError(f"{option} is {each}; a topic has at least one partition")

    def __getitem__(self, topic: str) -> int:
        """The number of partitions of a topic; `UsageError` where fewer are wanted than are there."""
        there = self._there.get(topic, 0)
        wanted = self._wanted.get(topic) if isinstance(self._wanted, Mapping) else self._wanted
        if wanted is not None and wanted < there:
            raise UsageError(
                f"partition {there - 1} of topic {topic} exists, so it has at least {there}, but {self._option} is "
                f"{wanted}"
            )
        return wanted or there or 1
