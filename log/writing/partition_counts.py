"""How many partitions a topic has in a log directory, and the id that they share."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kafkalog.codec.errors import FormatError, UsageError
from kafkalog.codec.limits import DEFAULT_LIMITS
from kafkalog.codec.names import PARTITION_METADATA, DirectoryState, PartitionName, parse_partition_directory
from kafkalog.codec.text import decode_partition_metadata
from kafkalog.log.disk.files import MissingFileError, read_small, scan_directory

__all__ = ["PartitionCounts", "known_topic_id", "partition_counts"]


def partition_counts(path: str) -> dict[str, int]:
    """How many partitions each topic of a directory has, by the highest number that is there."""
    found: dict[str, int] = {}
    if os.path.isdir(path):
        for entry in scan_directory(path):
            name = parse_partition_directory(entry.name)
            if name is not None and name.state is DirectoryState.LIVE and entry.is_dir(follow_symlinks=False):
                found[name.topic] = max(found.get(name.topic, 0), name.partition + 1)
    return found


class PartitionCounts:
    """The partitions among which keys are spread: as many as are wanted, else as are there, else one.

    `wanted` is a number for all topics, or one by topic; `there` what `partition_counts` says.  `option` is what the
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


def known_topic_id(root: str, topic: str, partitions: int) -> str | None:
    """The id that the partitions of a topic have so far; None where none of them says it."""
    for number in range(partitions):
        path = os.path.join(root, str(PartitionName(topic, number)), PARTITION_METADATA)
        try:
            return decode_partition_metadata(read_small(path, DEFAULT_LIMITS.checkpoint_bytes), source=path).topic_id
        except (MissingFileError, FormatError):  # who opens that partition is told of what its file holds
            continue
    return None
