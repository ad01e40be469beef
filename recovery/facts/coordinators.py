"""What the coordinators' topics beside a damaged partition say: committed offsets, and how transactions ended.

Read once, and only if these topics are small enough to be read for a sentence: smaller where a plan loses nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from kafkalog.codec.errors import KafkaLogError

if TYPE_CHECKING:
    from kafkalog.cluster.groups.offsets import CommittedOffset
    from kafkalog.cluster.transactions.transactions import TransactionalIds
    from kafkalog.log.directories.partition import Partition

__all__ = ["Coordinators"]

_OFFSETS, _TRANSACTIONS = "__consumer_offsets", "__transaction_state"
_MOST_BYTES = 256 << 20
"""Bytes of logs of one coordinator's topic that are read at most."""
_MOST_FOR_SOUND_LOGS = 16 << 20
"""the same, where no log loses anything: most of them have nothing to tell"""

TopicPartition = tuple[str, int]


class Coordinators:
    """The coordinators' topics in some log directories of one broker; each is read when it is first asked for."""

    def __init__(self, roots: Iterable[str]) -> None:
        self._roots = tuple(dict.fromkeys(roots))

    @cached_property
    def has_few_commits(self) -> bool:
        """Whether the topic of committed offsets is so small that it is read for a log that loses nothing."""
        return sum(each.size for each in self._open(_OFFSETS)) <= _MOST_FOR_SOUND_LOGS

    @cached_property
    def commits(self) -> dict[TopicPartition, list[CommittedOffset]]:
        """Committed offsets by topic and partition; none if the topic is missing, unreadable or too large to read.

        Negative offsets are left out: Kafka's clients take them for no commit.
        """
        from kafkalog.cluster.groups.offsets import read_offsets

        found: dict[TopicPartition, list[CommittedOffset]] = {}
        try:
            committed = read_offsets(self._partitions(_OFFSETS)).committed
        except KafkaLogError:
            return {}
        for commit in committed:
            if commit.offset >= 0:
                found.setdefault((commit.key.topic, commit.key.partition), []).append(commit)
        return found

    @cached_property
    def transactions(self) -> TransactionalIds | None:
        """What the coordinator's log says of transactions; None if it is missing, unreadable or too large to read."""
        from kafkalog.cluster.transactions.transactions import read_transactions

        partitions = self._partitions(_TRANSACTIONS)
        try:
            return read_transactions(partitions) if partitions else None
        except KafkaLogError:
            return None

    def highest_commit(self, topic: str, partition: int) -> int:
        """The highest committed offset of a partition; 0 if none is known."""
        return max((commit.offset for commit in self.commits.get((topic, partition), ())), default=0)

    def _partitions(self, topic: str) -> list[Partition]:
        """The live partitions of a topic; none if all together are too large."""
        found = list(self._open(topic))
        return found if sum(each.size for each in found) <= _MOST_BYTES else []

    def _open(self, topic: str) -> Iterator[Partition]:
        from kafkalog.log.directories.partition import open_live

        for root in self._roots:
            try:
                names = os.listdir(root)
            except OSError:
                continue
            yield from open_live(topic, root, names)
