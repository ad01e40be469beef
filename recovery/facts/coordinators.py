"""Read the coordinators' topics beside a damaged partition: committed offsets, and how transactions ended.

Each topic is read at most once for each question, and only if it is small enough to be worth a sentence; the limit is
lower if a plan loses nothing.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.codec.common.findings import Severity
from kafkalog.codec.model import TransactionState
from kafkalog.codec.names import (
    CONSUMER_OFFSETS_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    parse_partition_directory,
)
from kafkalog.log.disk.files import is_directory
from kafkalog.log.walk.on_damage import SKIP

if TYPE_CHECKING:
    from kafkalog.cluster.groups.groups import Groups
    from kafkalog.cluster.groups.offsets import CommittedOffset, CommittedOffsets
    from kafkalog.cluster.groups.share_lost import Initialized
    from kafkalog.cluster.records.coordinator_records import CoordinatorRecord
    from kafkalog.cluster.transactions.transactions import Ending, Endings, TransactionalIds
    from kafkalog.codec.model import Record
    from kafkalog.codec.names import PartitionName
    from kafkalog.log.directories.partition import Partition
    from kafkalog.recovery.facts.topic_facts import TopicFacts

__all__ = ["Coordinators"]

_MOST_BYTES = 256 << 20
"""Most bytes of logs of one coordinator's topic that are read."""
_MOST_FOR_SOUND_LOGS = 16 << 20
"""most bytes that are read if no log loses anything, as they rarely matter then"""

TopicPartition = tuple[str, int]


class Coordinators:
    """Topics of the coordinators (`__consumer_offsets`, `__transaction_state`) in some log directories of one broker;
    each is read when it is first needed. `share_state_partitions` is the number of partitions of
    `__share_group_state`, 0 if unknown.
    """

    def __init__(self, roots: Iterable[str], share_state_partitions: int = 0) -> None:
        self._share_state_partitions = share_state_partitions
        known: dict[str, str] = {}
        for root in roots:
            known.setdefault(os.path.realpath(root), root)
        self._roots = tuple(known.values())
        self._commits_in: dict[int, list[tuple[int, str, int]]] = {}
        self._endings: dict[tuple[str, tuple[tuple[int, int], ...]], Mapping[int, Ending]] = {}
        self._epochs_in: dict[int, list[tuple[int, str, tuple[int, int]]]] = {}

    @cached_property
    def has_few_commits(self) -> bool:
        """Whether the topic of committed offsets is small enough to be read for a log that loses nothing."""
        return sum(partition.size for partition in self._open(CONSUMER_OFFSETS_TOPIC)) <= _MOST_FOR_SOUND_LOGS

    @cached_property
    def _offsets(self) -> CommittedOffsets | None:
        """All committed offsets up to the damage of each log; None if they cannot be read. The result has no offsets if
        `__consumer_offsets` is missing or too large. Read once and cached.
        """
        from kafkalog.cluster.groups.offsets import read_offsets

        try:
            return read_offsets(self._partitions(CONSUMER_OFFSETS_TOPIC))
        except KafkaLogError:
            return None

    @property
    def are_commits_cut(self) -> bool:
        """Whether `commits` lacks those behind damage in `__consumer_offsets`."""
        findings = () if self._offsets is None else self._offsets.findings
        return any(finding.severity is Severity.ERROR for finding in findings)

    @cached_property
    def commits(self) -> dict[TopicPartition, list[CommittedOffset]]:
        """Committed offsets of all groups by (topic, partition), a list each, up to the damage of each log. Empty if
        `__consumer_offsets` is missing, unreadable or too large (256 MiB). Negative offsets are omitted, because
        Kafka's clients ignore them. Read once and cached.
        """
        commits: dict[TopicPartition, list[CommittedOffset]] = {}
        for commit in () if self._offsets is None else self._offsets.committed:
            if commit.offset >= 0:
                commits.setdefault((commit.key.topic, commit.key.partition), []).append(commit)
        return commits

    def commits_in(self, number: int) -> list[tuple[int, str, int]]:
        """Return (offset, group, timestamp in ms) of the commits in this partition of `__consumer_offsets`, including
        those behind damage, up to a place that cannot be read. Empty if the topic is missing or too large (256 MiB).
        Read once and cached.
        """
        if number not in self._commits_in:
            self._commits_in[number] = [
                (record.offset, str(decoded.key_field("group")), record.timestamp)
                for record, decoded in self._records(CONSUMER_OFFSETS_TOPIC, number)
                if decoded.key is not None and "topic" in decoded.key.fields
            ]
        return self._commits_in[number]

    def epochs_in(self, number: int) -> list[tuple[int, str, tuple[int, int]]]:
        """Return (offset, transactional id, (producer id, epoch)) of the records in this partition of
        `__transaction_state` that can be decoded, in offset order, without tombstones. Records behind damage are
        included, up to a place that cannot be read. Empty if the topic is missing or too large (256 MiB). Read once and
        cached.
        """
        if number not in self._epochs_in:
            self._epochs_in[number] = [
                (record.offset, str(decoded.key_field("transactional_id")),
                 (decoded.value.fields["producer_id"], decoded.value.fields["producer_epoch"]))
                for record, decoded in self._records(TRANSACTION_STATE_TOPIC, number)
                if decoded.understood and decoded.value is not None
            ]  # fmt: skip
        return self._epochs_in[number]

    def _records(self, topic: str, number: int) -> Iterator[tuple[Record, CoordinatorRecord]]:
        """Yield the records of one partition of a coordinator's topic, without tombstones, from one log directory after
        the other. Damaged batches are skipped. At an error, for example a file that cannot be read, the rest of that
        directory is left out. Nothing is yielded if the topic is too large.
        """
        from kafkalog.cluster.records.coordinator_records import decode_record

        for partition in self._partitions(topic):
            if partition.partition != number:
                continue
            try:
                for record in partition.records(on_damage=SKIP):
                    if record.value is not None:
                        yield record, decode_record(topic, record.key, record.value)
            except KafkaLogError:
                continue

    @cached_property
    def transactions(self) -> TransactionalIds | None:
        """State of all transactional ids in `__transaction_state`; None if the topic is missing, unreadable or too
        large (256 MiB). Read once and cached.
        """
        from kafkalog.cluster.transactions.transactions import read_transactions

        partitions = self._partitions(TRANSACTION_STATE_TOPIC)
        try:
            return read_transactions(partitions) if partitions else None
        except KafkaLogError:
            return None

    def endings(self, directory: str, firsts: Mapping[int, int]) -> Mapping[int, Ending]:
        """Return, by producer id, how the transactions that are open in the partition directory `directory` ended.
        `firsts` has their first offsets by producer id; the result has an `Ending` for each, with fields that are None
        if unknown. If several log directories have `directory`, the first one in which it can be read counts. Empty if
        there is none, or if `__transaction_state` is missing, unreadable or too large (256 MiB). Cached.
        """
        name = parse_partition_directory(directory)
        if self._all_endings is None or name is None:
            return {}
        key = directory, tuple(firsts.items())
        for partition in self._named(name.topic, directory) if key not in self._endings else ():
            try:
                self._endings.setdefault(key, self._all_endings.of(partition, firsts))
            except KafkaLogError:
                continue
        return self._endings.get(key, {})

    @cached_property
    def _all_endings(self) -> Endings | None:
        """Endings by the log of all coordinators, for `endings`; None if `transactions` is None."""
        from kafkalog.cluster.transactions.transactions import Endings

        if self.transactions is None:
            return None
        return Endings(self.transactions, open_place=lambda place: self._named(place[0], f"{place[0]}-{place[1]}"))

    def _named(self, topic: str, directory: str) -> Iterator[Partition]:
        """Yield the live partition of a topic in the partition directory `directory` of each log directory."""
        from kafkalog.log.directories.partition import open_live

        for root in self._roots:
            yield from open_live(topic, root, [directory] if is_directory(os.path.join(root, directory)) else ())

    def id_without_transaction(
        self, number: int, epoch: int | None, partition: PartitionName, facts: TopicFacts, *, resumes: bool = False
    ) -> str | None:
        """Return the transactional id of a transaction that is open at the end of `partition`, if its coordinator will
        not end it. This is so if the coordinator's log does not have the transaction. Return an empty string if no id
        has this producer id now. Return None if the coordinator will end it, or if another broker or a partition that
        is not here may know more. Return None also if `__transaction_state` is missing, unreadable or too large.

        `number` is the producer id, `epoch` its epoch, None if unknown. With `resumes`, logs keep the records behind
        their damage, and the result is None if a later one has this producer id. A coordinator ends what it loads as
        ongoing or prepared, up to the first damage. Its marker is refused if the partition has a newer epoch; an abort
        after the timeout raises the epoch by one (`TransactionCoordinator`).
        """
        known = self.transactions
        if known is None:
            return None
        owners = [each for each in known.ids
                  if number in (each.producer_id, each.previous_producer_id, each.next_producer_id)]  # fmt: skip
        for owner in owners:
            newest = owner.producer_epoch + (owner.status == TransactionState.ONGOING)
            is_listed = (partition.topic, partition.partition) in owner.partitions
            if owner.is_undecided and is_listed and (epoch is None or newest >= epoch):
                return None
        logs = known.logs
        asked = {owner.log_partition for owner in owners} or set(logs.read)
        if not owners and (logs.lost or not (known.are_all or (logs.count and asked.issuperset(range(logs.count))))):
            return None
        for asked_partition in asked:
            replicas = facts.replicas.get((TRANSACTION_STATE_TOPIC, asked_partition))
            is_read = logs.is_whole(asked_partition) and asked_partition in logs.watermarked
            if not is_read if replicas is None else replicas != (facts.node_id,):
                return None
        since = max((owner.log_offset for owner in owners), default=-1)
        later = ((offset, producer[0]) for each in asked for offset, _id, producer in self.epochs_in(each))
        if resumes and any(offset > since and producer_id == number for offset, producer_id in later):
            return None
        return next((owner.transactional_id for owner in owners if owner.producer_id == number), "")

    def share_groups_in(self, directories: Collection[str]) -> list[str]:
        """Return the share groups, sorted, whose state for an initialized partition was in one of these partition
        directories of `__share_group_state`, according to `__consumer_offsets`. Empty if the number of these partitions
        is unknown, or if `__consumer_offsets` is missing, unreadable or too large.
        """
        count = self._share_state_partitions
        if not count:
            return []
        lost = {number for number in range(count) if f"{SHARE_GROUP_STATE_TOPIC}-{number}" in directories}
        return sorted({each.group for each in self._initialized if each.place(count) in lost})

    def groups_with_old_commits(self, numbers: Collection[int], before: int, now_ms: int) -> list[str]:
        """Return the groups, sorted, of which a coordinator removes commits at `now_ms` (ms since 1970), in these
        partitions of `__consumer_offsets`; see `is_expired`, also for `before`. Empty if that topic is missing,
        unreadable or too large.
        """
        from kafkalog.cluster.groups.groups import is_expired

        return sorted(
            group.group_id
            for group in (() if self._groups is None else self._groups.groups)
            if group.log_partition in numbers
            and any(is_expired(group, offset, before, now_ms) for offset in group.offsets)
        )

    @property
    def _initialized(self) -> Sequence[Initialized]:
        return () if self._groups is None else self._groups.initialized

    @cached_property
    def _groups(self) -> Groups | None:
        from kafkalog.cluster.groups.groups import read_groups

        try:
            return read_groups(self._partitions(CONSUMER_OFFSETS_TOPIC))
        except KafkaLogError:
            return None

    def highest_commit(self, topic: str, partition: int) -> int:
        """Highest committed offset of a partition; 0 if none is known."""
        return max((commit.offset for commit in self.commits.get((topic, partition), ())), default=0)

    def _partitions(self, topic: str) -> list[Partition]:
        """Live partitions of a topic; empty if they are too large in total."""
        partitions = list(self._open(topic))
        return partitions if sum(partition.size for partition in partitions) <= _MOST_BYTES else []

    def _open(self, topic: str) -> Iterator[Partition]:
        from kafkalog.log.directories.partition import open_live

        for root in self._roots:
            try:
                names = os.listdir(root)
            except OSError:
                continue
            yield from open_live(topic, root, names)
