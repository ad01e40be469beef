"""A group's offsets over time: every commit that is still in `__consumer_offsets`, in the order in which commits took
effect.

The cleaner keeps the last record of a key, so older commits may be missing; the number of removed records is given for
each partition of the topic.  Segments that wait for deletion are read too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from kafkalog.cluster.coordinator_logs import CoordinatorLogs, coordinator_logs
from kafkalog.cluster.groups.group_places import partition_count
from kafkalog.cluster.groups.offsets import CommittedOffset, OffsetKey, OffsetsState
from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC
from kafkalog.cluster.records.replay import Entry, Marker, Until, partitions_of, replay
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.log.directories.partition import Partition

__all__ = ["OffsetChange", "OffsetHistory", "read_offset_history"]

_EVER = Until(timestamp=2**63 - 1)
"""the end of the log, with the contents of `.deleted` segments"""


class OffsetChange(Struct, frozen=True):
    """A commit, or the removal of an offset, when it took effect."""

    key: OffsetKey
    commit: CommittedOffset | None
    """None: the offset was removed, because it expired or its group was deleted"""
    previous: int | None
    """offset before; None if there was none, or it is unknown"""
    timestamp: int
    """timestamp of the commit record, in ms since 1970"""
    log_partition: int
    log_offset: int


class OffsetHistory(Struct, frozen=True, kw_only=True):
    """Offset changes in all given partitions of `__consumer_offsets`, sorted by group, topic and partition, then in log
    order.
    """

    changes: tuple[OffsetChange, ...]
    missing: dict[int, int]
    """partition of `__consumer_offsets` -> number of missing offsets between the records that are left"""
    findings: tuple[Finding, ...]
    logs: CoordinatorLogs
    partition_count: int
    """number of partitions of `__consumer_offsets`"""


class _RecordedState(OffsetsState):
    """Offsets of one partition that records every change of the keys for which `is_meant` returns True."""

    def __init__(self, log_partition: int, is_meant: Callable[[OffsetKey], bool]) -> None:
        super().__init__(log_partition)
        self._partition = log_partition
        self._is_meant = is_meant
        self.changes: list[OffsetChange] = []

    def commits(self, commit: CommittedOffset) -> None:
        self._note(commit.key, commit, commit.log_timestamp, commit.log_offset)
        super().commits(commit)

    def removes(self, key: OffsetKey, entry: Entry) -> None:
        if key in self.committed:
            self._note(key, None, entry.timestamp, entry.offset)
        super().removes(key, entry)

    def _note(self, key: OffsetKey, commit: CommittedOffset | None, timestamp: int, offset: int) -> None:
        if self._is_meant(key):
            before = self.committed.get(key)
            previous = None if before is None else before.offset
            self.changes.append(OffsetChange(key, commit, previous, timestamp, self._partition, offset))


def read_offset_history(
    partitions: Iterable[Partition],
    *,
    is_meant: Callable[[OffsetKey], bool] = lambda key: True,
    limits: Limits = DEFAULT_LIMITS,
) -> OffsetHistory:
    """Read every change of committed offsets that is still in `__consumer_offsets`, in `.deleted` segments too. Return
    the changes, findings, and the number of missing offsets by partition; partitions without missing offsets are not in
    `missing`.

    `is_meant` is called with each offset's key, and only offsets for which it returns True are kept. Changes are sorted
    by key; changes of one key stay in the order in which they took effect. Raises `StorageError` if files cannot be
    read. Damage raises nothing and is in the findings.
    """
    partitions = tuple(partitions)
    changes: list[OffsetChange] = []
    missing: dict[int, int] = {}
    findings: list[Finding] = []
    for partition in partitions_of(partitions, CONSUMER_OFFSETS_TOPIC):
        state = _RecordedState(partition.partition or 0, is_meant)
        expected: int | None = None
        gaps = 0
        for each in replay(partition, findings, until=_EVER, limits=limits):
            gaps += 0 if expected is None else max(0, each.offset - expected)
            expected = each.offset + 1
            if isinstance(each, Marker):
                state.marker(each)
            else:
                state.entry(each)
        changes += state.changes
        if gaps:
            missing[partition.partition or 0] = gaps
    logs = coordinator_logs(partitions, CONSUMER_OFFSETS_TOPIC, findings, limits)
    by_key = tuple(sorted(changes, key=lambda each: each.key))
    places = {(offset_change.key.group, offset_change.log_partition) for offset_change in by_key}
    return OffsetHistory(
        changes=by_key,
        missing=missing,
        findings=tuple(findings),
        logs=logs,
        partition_count=logs.count or partition_count(places, logs.read),
    )
