"""State of every transactional id by the coordinator's log, and partitions in which transactions hang.

`__transaction_state` is replayed as `TransactionStateManager` loads it: the last record of an id is used, a null value
removes it. A transaction hangs (KIP-664) if it is open in a partition and no coordinator has it as ongoing.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from kafkalog.cluster.coordinator_logs import CoordinatorLogs, coordinator_logs
from kafkalog.cluster.records.coordinator_records import TRANSACTION_STATE_TOPIC
from kafkalog.cluster.records.replay import Entry, Until, partitions_of, replay
from kafkalog.cluster.rules.java import coordinator_partition, hash_order, topic_partition_hash
from kafkalog.cluster.transactions.lost_markers import Decided, Decision, Listed, decision_of, markers_of
from kafkalog.cluster.transactions.producers import PartitionProducer, PartitionProducers
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.log.directories.partition import Partition

__all__ = [
    "WITHOUT_COORDINATOR", "OpenTransaction", "TransactionState", "TransactionalId", "open_transactions",
    "read_transactions",
]  # fmt: skip

TopicPartition = tuple[str, int]


class TransactionState(enum.IntEnum):
    """States of `TransactionMetadata`; an unknown number stays a number."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """Kafka's name of the state."""
        return "".join(word.capitalize() for word in self.name.split("_"))


WITHOUT_COORDINATOR = (
    ", and its coordinator has none: consumers of committed data stop there. If the log was cut or put back, it may "
    "have been committed (runbook: lost-marker)"
)
_DEFAULT_PARTITIONS = 50
"""default of `transaction.state.log.num.partitions`"""
_MOST_TRIED = 1000
_STATES = frozenset(TransactionState)
_UNDECIDED = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


class TransactionalId(Struct, frozen=True, kw_only=True):
    """The last record that a coordinator wrote about a transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: int
    partitions: tuple[TopicPartition, ...]
    """in the order of Kafka's admin client"""
    last_update_timestamp: int
    start_timestamp: int
    """ms since 1970; -1 if there was no transaction"""
    log_partition: int
    log_offset: int
    previous_producer_id: int = -1
    next_producer_id: int = -1
    client_transaction_version: int = 0

    @property
    def state(self) -> str:
        """Kafka's name of the state."""
        return TransactionState(self.status).label if self.status in _STATES else str(self.status)

    @property
    def is_undecided(self) -> bool:
        """Whether a transaction of this id is ongoing or its partitions wait for a marker."""
        return self.status in _UNDECIDED


class TransactionalIds(Struct, frozen=True, kw_only=True):
    """All transactional ids, ascending, and the partitions of `__transaction_state` that were read."""

    ids: tuple[TransactionalId, ...]
    partitions_read: tuple[int, ...]
    findings: tuple[Finding, ...]
    logs: CoordinatorLogs
    listed: Mapping[tuple[int, TopicPartition], Listed]
    """by producer id and partition: the last record that names the partition as part of a transaction"""

    @property
    def are_all(self) -> bool:
        """Return whether every partition of `__transaction_state` was read completely; False if none was read.

        If no metadata states the number of partitions, those that were read must be consecutive from 0, and each id
        must be in the partition that this number gives. They then count as all if they are as many as Kafka creates by
        default, or if no larger number below 1,000 fits all ids.
        """
        logs = self.logs
        if logs.count is not None or not logs.are_whole or not logs.read:
            return logs.are_whole and bool(logs.read)
        count = max(logs.read) + 1
        places = [(transactional_id.transactional_id, transactional_id.log_partition) for transactional_id in self.ids]
        if len(logs.read) != count or not _fits(places, count):
            return False
        return count == _DEFAULT_PARTITIONS or not any(_fits(places, each) for each in range(count + 1, _MOST_TRIED))

    def why_unknown(self, name: str | None) -> str | None:
        """Return the reason why a transactional id may exist although it was not read, as a clause; None if it
        certainly does not exist. `name` None means any id.
        """
        if self.are_all:
            return None
        why = self.logs.why_unknown(name)
        if why is None and self.logs.count is None:
            return f"there may be more partitions of {TRANSACTION_STATE_TOPIC} than were read"
        return why


def _transactional_id(entry: Entry, values: dict[str, Any], number: int) -> TransactionalId:
    pairs = [
        (value["topic"], partition)
        for value in values["transaction_partitions"] or ()
        for partition in value["partition_ids"]
    ]
    return TransactionalId(
        transactional_id=entry.record.key_field("transactional_id"),
        producer_id=values["producer_id"],
        producer_epoch=values["producer_epoch"],
        timeout_ms=values["transaction_timeout_ms"],
        status=values["transaction_status"],
        partitions=tuple(hash_order(list(dict.fromkeys(pairs)), lambda pair: topic_partition_hash(*pair))),
        last_update_timestamp=values["transaction_last_update_timestamp_ms"],
        start_timestamp=values["transaction_start_timestamp_ms"],
        log_partition=number,
        log_offset=entry.offset,
        previous_producer_id=values.get("previous_producer_id", -1),
        next_producer_id=values.get("next_producer_id", -1),
        client_transaction_version=values.get("client_transaction_version", 0),
    )


def read_transactions(
    partitions: Iterable[Partition], *, until: Until | None = None, limits: Limits = DEFAULT_LIMITS
) -> TransactionalIds:
    """Read the newest state of every transactional id in the partitions of `__transaction_state`; return them sorted by
    id.

    Partitions of other topics are skipped. Removed ids are omitted. Reads up to `until`, None for all. Raises
    `StorageError` if files cannot be read; damage raises nothing and is in the findings.
    """
    partitions = tuple(partitions)
    states: dict[str, TransactionalId] = {}
    listed: dict[tuple[int, TopicPartition], Listed] = {}
    findings: list[Finding] = []
    places = partitions_of(partitions, TRANSACTION_STATE_TOPIC)
    for partition in places:
        number = partition.partition or 0
        for each in replay(partition, findings, until=until, limits=limits):
            if not isinstance(each, Entry) or not each.record.understood:
                continue
            if each.record.value is None:
                states.pop(each.record.key_field("transactional_id"), None)
            else:
                state = _transactional_id(each, each.record.value.fields, number)
                states[state.transactional_id] = state
                last = Listed(state.status, state.last_update_timestamp, state.producer_epoch)
                listed.update(dict.fromkeys(((state.producer_id, place) for place in state.partitions), last))
    ids = tuple(states[name] for name in sorted(states))
    logs = coordinator_logs(partitions, TRANSACTION_STATE_TOPIC, findings, limits)
    return TransactionalIds(
        ids=ids,
        partitions_read=tuple(place.partition or 0 for place in places),
        findings=tuple(findings),
        logs=logs,
        listed=listed,
    )


class OpenTransaction(Struct, frozen=True, kw_only=True):
    """A transaction without its marker in a partition.

    `hanging` is None if this is unknown, for example because the coordinator's log was not read completely.
    """

    topic: str
    partition: int
    producer: PartitionProducer
    transactional_id: str | None
    hanging: bool | None
    age_ms: int | None
    """ms from its last batch until now"""
    decision: Decision | None = None
    """its decision, if the marker was lost; None if nothing shows one"""
    coordinator_state: str | None = None
    """Kafka's name of the coordinator's last state; None if unknown"""

    @property
    def may_be_aborted(self) -> bool:
        """Whether it hangs, and no record shows that it was committed."""
        return bool(self.hanging) and (self.decision is None or self.decision.decided is Decided.ABORT)

    @property
    def sentence(self) -> str:
        """Describe a hanging transaction: where it is open, whether it was committed or aborted, and which marker is
        missing.

        If its decision is unknown, the text says that the coordinator has no such transaction. If it was committed, the
        text warns not to abort it.
        """
        producer = self.producer
        text = f"producer {producer.producer_id} holds a transaction open from offset {producer.transaction_start} on"
        if self.decision is None:
            return f"{text}{WITHOUT_COORDINATOR}"
        decided, source = self.decision.decided, self.decision.source
        name = "COMMIT" if decided is Decided.COMMIT else "ABORT"
        text = (
            f"{text}, but it was {decided.word} ({source}): its {name} marker is lost. The coordinator has "
            "completed it and does not write the marker again; consumers of committed data stop there"
        )
        if decided is Decided.ABORT:
            return text
        return (
            f"{text}. Do not abort it: its records are committed. The next commit of the same transactional id in this "
            "partition ends it (runbook: lost-marker)"
        )


def open_transactions(
    producers: Iterable[PartitionProducers],
    coordinator: TransactionalIds,
    others: Callable[[], Sequence[PartitionProducers]] = lambda: (),
    now_ms: int | None = None,
) -> tuple[list[OpenTransaction], list[Finding]]:
    """Return the open transactions of all partitions, and a warning for each that hangs. A transaction hangs if its
    coordinator no longer has it. `OpenTransaction.hanging` is None if this is unknown, because the coordinator's log
    was not read completely or its high watermark is not recorded.

    `others` returns the producers of further partitions, which may show how a hanging transaction was decided. It is
    called at most once, and only if one hangs. Ages are in ms up to `now_ms` (ms since 1970; None: the present time).
    An age is None if the producer's last timestamp is unknown.
    """
    producers = list(producers)
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    elsewhere: list[PartitionProducers] | None = None
    by_producer = {transactional_id.producer_id: transactional_id for transactional_id in coordinator.ids}
    logs = coordinator.logs
    whole = coordinator.are_all and logs.watermarked >= set(logs.read)
    open_transactions: list[OpenTransaction] = []
    findings: list[Finding] = []
    for place in producers:
        topic, number = place.partition.topic or "", place.partition.partition or 0
        for producer in place.producers:
            if producer.transaction_start is None:
                continue
            known = by_producer.get(producer.producer_id)
            hanging: bool | None = None
            if known is not None and logs.is_whole(known.log_partition):
                hanging = not (known.is_undecided and (topic, number) in known.partitions)
                if hanging and known.log_partition not in logs.watermarked:
                    hanging = None
            elif known is None and whole:
                hanging = True
            decision = None
            if hanging:
                if elsewhere is None:
                    elsewhere = [*producers, *others()]
                decision = _decision((topic, number), producer, known, coordinator, elsewhere)
            age = max(now - producer.last_timestamp, 0) if producer.last_timestamp >= 0 else None
            opened = OpenTransaction(
                topic=topic,
                partition=number,
                producer=producer,
                transactional_id=None if known is None else known.transactional_id,
                hanging=hanging,
                age_ms=age,
                decision=decision,
                coordinator_state=None if known is None else known.state,
            )
            open_transactions.append(opened)
            if hanging:
                code = FindingCode.TRANSACTION_HANGING
                path = place.partition.path
                findings.append(
                    Finding(code, Severity.WARNING, None, producer.transaction_start, opened.sentence, path)
                )
    return open_transactions, findings


def _decision(
    place: TopicPartition,
    producer: PartitionProducer,
    known: TransactionalId | None,
    coordinator: TransactionalIds,
    everywhere: Iterable[PartitionProducers],
) -> Decision | None:
    """Return the decision about a hanging transaction of partition `place`, by the coordinator's log and by markers in
    other partitions; None if unknown. `known` is the producer's transactional id, None if the coordinator has none.
    """
    last = None if known is None else Listed(known.status, known.last_update_timestamp, known.producer_epoch)
    pairs = (((each.partition.topic or "", each.partition.partition or 0), each.producers) for each in everywhere)
    markers = markers_of(producer.producer_id, (pair for pair in pairs if pair[0] != place))
    return decision_of(producer, coordinator.listed.get((producer.producer_id, place)), last, markers)


def _fits(places: Sequence[tuple[str, int]], count: int) -> bool:
    return all(coordinator_partition(name, count) == number for name, number in places)
