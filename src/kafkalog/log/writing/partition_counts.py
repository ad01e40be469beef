"""Determine how many partitions a topic has or must have."""

from __future__ import annotations

from collections.abc import Mapping

from kafkalog.codec.common.errors import UsageError

__all__ = ["PartitionCounts"]


class PartitionCounts:
    """Number of partitions by topic, for distributing keys. `there` has the number of existing partitions by topic;
    `wanted` is a number for all topics, numbers by topic, or None. `option` is the caller's name of `wanted`, for
    messages. Creating an instance raises `UsageError` for a number below 1.
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
        for count in wanted.values() if isinstance(wanted, Mapping) else (wanted,):
            if count is not None and count < 1:
                raise UsageError(f"{option} is {count}; a topic has at least one partition")

    def __getitem__(self, topic: str) -> int:
        """Return the number of partitions of a topic: the number that `wanted` gives for it, otherwise the existing
        number, or 1 if there are no partitions. Raises `UsageError` if the number in `wanted` is less than the existing
        number.
        """
        there = self._there.get(topic, 0)
        wanted = self._wanted.get(topic) if isinstance(self._wanted, Mapping) else self._wanted
        if wanted is not None and wanted < there:
            raise UsageError(
                f"partition {there - 1} of topic {topic} exists, so it has at least {there}, but {self._option} is "
                f"{wanted}"
            )
        return wanted or there or 1
