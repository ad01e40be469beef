"""Committed offsets of consumer groups, and those that wait for the end of a transaction.

Follows `OffsetMetadataManager.replay` (before 4.0 `GroupMetadataManager`): the last commit is used, a tombstone removes
it.  A transactional commit takes effect at its COMMIT marker, and only if nothing was committed after it meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from kafkalog.cluster.coordinator_logs import CoordinatorLogs, coordinator_logs
from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC
from kafkalog.cluster.records.replay import Entry, Marker, Until, partitions_of, replay
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import NO_PRODUCER_ID
from kafkalog.log.directories.partition import Partition

__all__ = ["CommittedOffset", "CommittedOffsets", "OffsetKey", "OffsetsState", "read_offsets"]

_TYPES = (0, 1)
_NONE = -1


class OffsetKey(NamedTuple):
    """Group, topic and partition of an offset."""

    group: str
    topic: str
    partition: int


class CommittedOffset(Struct, frozen=True):
    """A commit; -1 is Kafka's value for unknown."""

    key: OffsetKey
    offset: int
    metadata: str
    leader_epoch: int
    commit_timestamp: int
    expire_timestamp: int
    """time of expiry, ms since 1970; -1 if the broker's retention decides (2.1 and later never store it)"""
    topic_id: str | None
    log_offset: int
    """offset of the record in its partition of `__consumer_offsets`"""
    log_timestamp: int
    """timestamp of the record, ms since 1970"""
    log_partition: int
    """partition of `__consumer_offsets`"""
    producer_id: int = NO_PRODUCER_ID
    """producer id of the transaction that the commit belongs to"""
    zxid: int | None = None
    """ZooKeeper transaction that wrote the offset; only for offsets in ZooKeeper"""
    chroot: str | None = None
    """node below which the cluster lies in ZooKeeper, empty at the root; only for offsets in ZooKeeper"""

    @property
    def is_commit(self) -> bool:
        """Whether the offset is not negative: Kafka's clients take a negative offset for no commit."""
        return self.offset >= 0

    @property
    def source(self) -> str:
        """Place of storage: `kafka` (in `__consumer_offsets`) or `zookeeper`."""
        return "kafka" if self.zxid is None else "zookeeper"


class OffsetsState:
    """Committed and pending offsets of one partition of `__consumer_offsets`; its entries must be passed in offset
    order.
    """

    def __init__(self, log_partition: int) -> None:
        self._log_partition = log_partition
        self.committed: dict[OffsetKey, CommittedOffset] = {}
        self._pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}

    @property
    def pending(self) -> list[CommittedOffset]:
        """Commits of transactions whose end is not in the log."""
        return [commit for commits in self._pending.values() for commit in commits.values()]

    def marker(self, marker: Marker) -> None:
        """End the producer's transaction: apply its pending offsets if it was committed, drop them if it was aborted.

        A committed offset whose record has a higher log offset than the pending one is kept.
        """
        for key, commit in self._pending.pop(marker.producer_id, {}).items():
            if not marker.committed:
                continue
            present = self.committed.get(key)
            if present is None or present.log_offset < commit.log_offset:
                self.commits(commit)

    def entry(self, entry: Entry) -> None:
        """Apply a record of `__consumer_offsets`. Records that are not offset commits, or that could not be decoded,
        are ignored.

        A commit in a transaction is pending until its marker. A tombstone is a record without a value: it removes the
        offset and all pending commits of it. A tombstone in a transaction only removes the pending commit of its own
        producer.
        """
        record = entry.record
        if record.type not in _TYPES or not record.understood or record.key is None:
            return
        fields = record.key.fields
        key = OffsetKey(fields["group"], fields["topic"], fields["partition"])
        transactional = entry.producer_id != NO_PRODUCER_ID
        if record.value is None:
            if transactional:
                self._pending.get(entry.producer_id, {}).pop(key, None)
                return
            self.removes(key, entry)
            for commits in self._pending.values():
                commits.pop(key, None)
            return
        value = record.value.fields
        commit = CommittedOffset(
            key=key,
            offset=value["offset"],
            metadata=value["metadata"],
            leader_epoch=value.get("leader_epoch", _NONE),
            commit_timestamp=value["commit_timestamp"],
            expire_timestamp=value.get("expire_timestamp", _NONE),
            topic_id=value.get("topic_id"),
            log_offset=entry.offset,
            log_timestamp=entry.timestamp,
            log_partition=self._log_partition,
            producer_id=entry.producer_id,
        )
        if transactional:
            self._pending.setdefault(entry.producer_id, {})[key] = commit
        else:
            self.commits(commit)

    def commits(self, commit: CommittedOffset) -> None:
        """Store a commit that takes effect; it replaces the committed offset of its key."""
        self.committed[commit.key] = commit

    def removes(self, key: OffsetKey, entry: Entry) -> None:
        """Remove the committed offset of a key, because it expired or its group was deleted."""
        self.committed.pop(key, None)


class CommittedOffsets(Struct, frozen=True, kw_only=True):
    """Offsets in all given partitions of `__consumer_offsets`, sorted by group, topic and partition."""

    committed: tuple[CommittedOffset, ...]
    pending: tuple[CommittedOffset, ...]
    findings: tuple[Finding, ...]
    logs: CoordinatorLogs


def read_offsets(
    partitions: Iterable[Partition], *, until: Until | None = None, limits: Limits = DEFAULT_LIMITS
) -> CommittedOffsets:
    """Read all committed offsets and the pending ones (of open transactions) in `__consumer_offsets`, as of the end of
    the log or as of `until`. Both are sorted by group, topic and partition; pending offsets of one partition are sorted
    by producer id. Raises `StorageError` if files cannot be read. Damage raises nothing and is in the findings.
    """
    partitions = tuple(partitions)
    committed: list[CommittedOffset] = []
    pending: list[CommittedOffset] = []
    findings: list[Finding] = []
    for partition in partitions_of(partitions, CONSUMER_OFFSETS_TOPIC):
        state = OffsetsState(partition.partition or 0)
        for each in replay(partition, findings, until=until, limits=limits):
            if isinstance(each, Marker):
                state.marker(each)
            else:
                state.entry(each)
        committed += state.committed.values()
        pending += state.pending
    logs = coordinator_logs(partitions, CONSUMER_OFFSETS_TOPIC, findings, limits)
    return CommittedOffsets(
        committed=tuple(sorted(committed, key=lambda each: each.key)),
        pending=tuple(sorted(pending, key=lambda each: (each.key, each.producer_id))),
        findings=tuple(findings),
        logs=logs,
    )
