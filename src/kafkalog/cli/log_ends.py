"""Where the logs at hand end, for how far behind a group is."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog.cluster.offsets import CommittedOffset
from kafkalog.codec.errors import StorageError
from kafkalog.codec.findings import Finding
from kafkalog.log.files import unreadable
from kafkalog.log.partition import Partition

__all__ = ["LogEnds"]

_Key = tuple[str | None, int | None]


class LogEnds:
    """The log end offsets of partitions that are at hand, each read when it is first asked for."""

    def __init__(self, at_hand: Iterable[Partition], findings: list[Finding]) -> None:
        self._at_hand = {(each.topic, each.partition): each for each in at_hand}
        self._known: dict[_Key, int | None] = {}
        self._findings = findings

    def of(self, commit: CommittedOffset) -> int | None:
        """Where the log that the commit is about ends; None where it is not at hand or cannot be read."""
        key = commit.key.topic, commit.key.partition
        if key not in self._known:
            self._known[key] = self._read(key)
        return self._known[key]

    def lag(self, commit: CommittedOffset) -> int | None:
        """How many offsets there are from the commit to the end of the log, 0 or more; None where that is not known."""
        end = self.of(commit)
        return None if end is None else max(0, end - commit.offset)

    def _read(self, key: _Key) -> int | None:
        partition = self._at_hand.get(key)
        if partition is None:
            return None
        try:
            return partition.log_end_offset()
        except StorageError as error:
            self._findings.append(unreadable(error, partition.path))
            return None
