"""State of every transactional id by the coordinator's log, and partitions in which transactions hang.

`__transaction_state` is replayed as `TransactionStateManager` loads it: the last record of an id is used, a null value
removes it. A transaction hangs (KIP-664) if it is open in a partition and no coordinator has it as ongoing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.cluster.coordinator_logs import CoordinatorLogs, coordinator_logs
from kafkalog.cluster.records.coordinator_records import TRANSACTION_STATE_TOPIC
from kafkalog.cluster.records.replay import Entry, Until, partitions_of, replay
from kafkalog.cluster.rules.java import coordinator_partition, hash_order, topic_partition_hash
from kafkalog.cluster.transactions.lost_markers import (
    UNDECIDED,
    UNKNOWN_HISTORY,
    Decided,
    Decision,
    History,
    LastMarker,
    Listed,
    Opened,
    by_markers,
    decision_of,
    last_marker_of,
    read_opened,
)
from kafkalog.cluster.transactions.producers import PartitionProducer, PartitionProducers
from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import TransactionState
from kafkalog.log.directories.partition import Partition

__all__ = [
    "WITHOUT_COORDINATOR", "Ending", "Endings", "OpenTransaction", "TransactionState", "TransactionalId",
    "TransactionalIds", "open_transactions", "read_transactions", "sentence_about",
]  # fmt: skip

TopicPartition = tuple[str, int]


WITHOUT_COORDINATOR = (
    ", and its coordinator has none: consumers of committed data stop there. If the log was cut or put back, it may "
    "have been committed (runbook: lost-marker)"
)
_DEFAULT_PARTITIONS = 50
"""default of `transaction.state.log.num.partitions`"""
_MOST_TRIED = 1000
_STATES = frozenset(TransactionState)
_NEAR = 1000
"""last offsets of a partition in which the last marker of a producer whose transaction is ongoing is looked for"""
_TAIL = 10_000
"""offsets before an open transaction in which its producer's markers are looked for first"""
_RAISES_EPOCH = 2
"""transaction version since which each transaction has its own epoch (KIP-890)"""
_PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_COMPLETE = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


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
        return self.status in UNDECIDED


class TransactionalIds(Struct, frozen=True, kw_only=True, dict=True):
    """All transactional ids, ascending, and the partitions of `__transaction_state` that were read."""

    ids: tuple[TransactionalId, ...]
    partitions_read: tuple[int, ...]
    findings: tuple[Finding, ...]
    logs: CoordinatorLogs
    sources: tuple[Partition, ...]
    """the partitions of `__transaction_state`"""

    @cached_property
    def by_producer(self) -> Mapping[int, TransactionalId]:
        """By producer id the transactional id that has it now."""
        return {transactional_id.producer_id: transactional_id for transactional_id in self.ids}

    @cached_property
    def histories(self) -> Mapping[int, History]:
        """Transactions of each producer, by producer id. `__transaction_state` is read again for them, only once.
        Raises `StorageError` if files cannot be read.
        """
        builders: dict[int, _HistoryBuilder] = {}
        known: dict[frozenset[TopicPartition], frozenset[TopicPartition]] = {}
        gaps: dict[int, int] = {}
        for partition in self.sources:
            number, next_offset = partition.partition or 0, 0
            for each in replay(partition, []):
                if each.offset > next_offset:
                    gaps[number] = each.offset
                next_offset = each.offset + 1
                value = each.record.value if isinstance(each, Entry) and each.record.understood else None
                if value is not None:
                    partitions = frozenset(_partitions(value.fields))
                    partitions = known.setdefault(partitions, partitions)
                    builder = builders.setdefault(value.fields["producer_id"], _HistoryBuilder(number))
                    builder.gap_before(gaps.get(number, 0))
                    builder.add(each.offset, value.fields, partitions)
        for builder in builders.values():
            builder.gap_before(gaps.get(builder.number, 0))
        return {producer_id: builder.history() for producer_id, builder in builders.items()}

    @property
    def are_all(self) -> bool:
        """Return whether every partition of `__transaction_state` was read completely; False if none was read.

        If no metadata states the number of partitions, those that were read count as all under three conditions: they
        are consecutive from 0; each id is in the partition that this number gives; and they are as many as Kafka
        creates by default, or no larger number below 1,000 fits all ids.
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


def _partitions(values: Mapping[str, Any]) -> list[TopicPartition]:
    return [
        (value["topic"], partition)
        for value in values["transaction_partitions"] or ()
        for partition in value["partition_ids"]
    ]


def _transactional_id(entry: Entry, values: dict[str, Any], number: int) -> TransactionalId:
    pairs = _partitions(values)
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
    ids = tuple(states[name] for name in sorted(states))
    logs = coordinator_logs(partitions, TRANSACTION_STATE_TOPIC, findings, limits)
    return TransactionalIds(
        ids=ids,
        partitions_read=tuple(place.partition or 0 for place in places),
        findings=tuple(findings),
        logs=logs,
        sources=tuple(places),
    )


class _HistoryBuilder:
    """Transactions of one producer, by all records about it in the order of the log."""

    def __init__(self, number: int) -> None:
        self.number = number
        """partition of `__transaction_state`"""
        self._offsets: list[int] = []
        """of the first two records"""
        self._transactions: list[Listed] = []
        self._last: int | None = None
        """state of the last record"""
        self._begins: int | None = None

    def history(self) -> History:
        """Return the transactions so far."""
        is_known = self._transactions or self._begins is not None
        return History(tuple(self._transactions), self._begins) if is_known else UNKNOWN_HISTORY

    def gap_before(self, offset: int) -> None:
        """Take into account that offsets are missing before `offset`. Compaction leaves one record of an id in the part
        that it has cleaned. So behind two records the gap is not its doing, and what is known by then is dropped.
        """
        if len(self._offsets) > 1 and offset > self._offsets[1]:
            self._offsets, self._transactions, self._last = [], [], -1
        if not self._offsets or offset > self._offsets[0]:
            self._begins = None

    def add(self, offset: int, values: Mapping[str, Any], partitions: frozenset[TopicPartition]) -> None:
        """Add the next record about the producer: its offset, its decoded fields, and the partitions that it lists."""
        self._offsets = [*self._offsets, offset][:2]
        status, epoch, updated = (
            values["transaction_status"], values["producer_epoch"], values["transaction_last_update_timestamp_ms"]
        )  # fmt: skip
        has_own_epoch = values.get("client_transaction_version", 0) >= _RAISES_EPOCH
        is_complete, last, transactions = status in _COMPLETE, self._last, self._transactions
        self._last = status
        is_of_other_id = has_own_epoch and is_complete and epoch == 0  # the transaction had another producer id
        if last is None and (status == TransactionState.EMPTY or is_of_other_id):
            self._begins = epoch
        elif transactions and (last == TransactionState.ONGOING or (last in _PREPARED and is_complete)):
            before = transactions[-1]
            transactions[-1] = replace(
                before,
                status=status,
                marker_epoch=epoch,
                partitions=before.partitions if is_complete else partitions,
                decided_at=before.decided_at if is_complete else updated,
                has_own_epoch=has_own_epoch,
            )
        elif status == TransactionState.ONGOING or status in _PREPARED or is_complete:
            started = max(values["transaction_start_timestamp_ms"], 0) or updated
            if transactions:
                transactions[-1] = replace(transactions[-1], followed_at=started)
            of_batches = epoch - 1 if has_own_epoch and status != TransactionState.ONGOING else epoch
            may_be_fenced = status in (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
            transactions.append(
                Listed(
                    status=status,
                    epochs=(of_batches - 1, of_batches) if may_be_fenced else (of_batches,),
                    marker_epoch=epoch,
                    partitions=None if is_complete else partitions,
                    started=started,
                    decided_at=updated,
                    has_own_epoch=has_own_epoch,
                )
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
    """its decision, if the marker was lost; None if it was not, if `hanging` is None, or if the coordinator has no such
    transaction"""
    coordinator_state: str | None = None
    """Kafka's name of the coordinator's last state; None if unknown"""

    @property
    def may_be_aborted(self) -> bool:
        """Whether it hangs, and no record shows that it was or may have been committed."""
        return bool(self.hanging) and (self.decision is None or self.decision.decided is Decided.ABORT)

    @property
    def sentence(self) -> str:
        """Describe a transaction whose coordinator will not end it, or will end it as it ends a later one; see
        `sentence_about`.
        """
        start = self.producer.transaction_start or 0
        return sentence_about(self.producer.producer_id, start, self.hanging, self.decision, self.coordinator_state)


_LATER = {
    TransactionState.PREPARE_COMMIT.label: "a start commits its records, as its coordinator writes the COMMIT marker "
    "of a later one there",
    TransactionState.PREPARE_ABORT.label: "a start hides its records, as its coordinator writes the ABORT marker of a "
    "later one there",
}
"""what ends a transaction, by the last state of its coordinator, which is of a later one"""


def sentence_about(
    producer_id: int, first_offset: int, hanging: bool | None, decision: Decision | None, state: str | None
) -> str:
    """Return a sentence about an open transaction: where it begins, whether it was committed or aborted, which marker
    is missing, and what ends it. `hanging` and `decision` are as in `Ending`, `state` is the coordinator's last one.

    If `decision` is None, the text says that the coordinator has no such transaction; if the decision is not known, it
    says so. If the transaction was committed and hangs, the text warns not to abort it.
    """
    text = f"producer {producer_id} holds a transaction open from offset {first_offset} on"
    if decision is None:
        return f"{text}{WITHOUT_COORDINATOR}"
    decided = decision.decided
    if decided is None:
        text = f"{text} whose end marker is lost, and nothing here tells whether it was committed or aborted"
    else:
        name = "COMMIT" if decided is Decided.COMMIT else "ABORT"
        text = f"{text}, but it was {decided.word} ({decision.source}): its {name} marker is lost"
    if decision.is_forgotten:
        return f"{text}; its coordinator has lost that too, and aborts it soon after a start (runbook: lost-marker)"
    if hanging is False:
        later = "the marker of a later transaction, which is ongoing, ends it too"
        return f"{text}; {_LATER.get(state or '', later)} (runbook: lost-marker)"
    if decided is None:
        return f"{text}: consumers of committed data stop there (runbook: lost-marker)"
    text = (
        f"{text}. The coordinator has completed it and does not write the marker again; consumers of committed data "
        "stop there"
    )
    if decided is Decided.ABORT:
        return text
    return (
        f"{text}. Do not abort it: its records are committed. The next commit of the same transactional id in this "
        "partition ends it (runbook: lost-marker)"
    )


class Ending(NamedTuple):
    """What the coordinator's log shows of the end of an open transaction."""

    hanging: bool | None
    """whether the coordinator will not end it; None if unknown"""
    decision: Decision | None
    """its own decision, if it hangs, or if the coordinator will end it with the marker of a later transaction that was,
    or may have been, decided differently; else None. If it may as well be that later one, it is pending. If the
    coordinator has it as ongoing although it was committed, it is forgotten"""


class Endings:
    """How open transactions ended, by `__transaction_state`, and by markers in other partitions. These are read only if
    necessary. Each question raises `StorageError` if files cannot be read.

    * `others`: partitions that are read as a whole, once for all `producers`
    * `producers`: ids of the producers that are asked about, if there are `others`
    * `open_place`: opens the partitions of a transaction that is ongoing; by default they are looked for in `others`
    """

    def __init__(
        self,
        coordinator: TransactionalIds,
        others: Iterable[Partition] = (),
        producers: Iterable[int] = (),
        open_place: Callable[[TopicPartition], Iterable[Partition]] | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._open_place = self._among_others if open_place is None else open_place
        self._others = tuple(others)
        self._producers = tuple(producers)

    def of(self, partition: Partition, firsts: Mapping[int, int]) -> dict[int, Ending]:
        """Return, by producer id, how the transactions that are open in `partition` ended; `firsts` has their first
        offsets. If the part of `__transaction_state` with a producer's transactions was not read completely, both
        fields of its `Ending` are None, unless the decision is forgotten.
        """
        place, logs = (partition.topic or "", partition.partition or 0), self._coordinator.logs
        owners = {producer_id: self._coordinator.by_producer.get(producer_id) for producer_id in firsts}
        endings = dict.fromkeys(firsts, Ending(None, None))
        asked = {producer_id: firsts[producer_id] for producer_id, owner in owners.items()
                 if (logs.is_whole(owner.log_partition) if owner is not None else self._knows_all)}  # fmt: skip
        start = max(min(asked.values(), default=0) - _TAIL, 0)
        while asked:
            for producer_id, opened in read_opened(partition, asked, start).items():
                owner = owners[producer_id]
                is_hanging = owner is None or not (owner.is_undecided and place in owner.partitions)
                decision = self._decision(producer_id, place, opened, is_hanging=is_hanging)
                is_known = owner is None or not is_hanging or owner.log_partition in logs.watermarked
                endings[producer_id] = Ending(is_hanging if is_known else None, decision)
            unknown = {producer_id for producer_id in asked if (decision := endings[producer_id].decision) is not None
                       and decision.decided is None}  # fmt: skip
            asked = {producer_id: first for producer_id, first in asked.items() if start and producer_id in unknown}
            start = 0
        histories = self._coordinator.histories
        rest = {producer_id: firsts[producer_id] for producer_id, owner in owners.items() if producer_id in histories
                and owner is not None and owner.is_undecided and not logs.is_whole(owner.log_partition)}  # fmt: skip
        for producer_id, opened in read_opened(partition, rest, min(rest.values())).items() if rest else ():
            decision = self._forgotten(producer_id, histories[producer_id], place, opened)
            endings[producer_id] = endings[producer_id] if decision is None else Ending(False, decision)
        return endings

    @cached_property
    def _elsewhere(self) -> list[tuple[TopicPartition, dict[int, Opened]]]:
        """(topic, partition number) of each other partition, and what it shows of the producers."""
        return [((other.topic or "", other.partition or 0), read_opened(other, dict.fromkeys(self._producers)))
                for other in self._others]  # fmt: skip

    @property
    def _knows_all(self) -> bool:
        logs = self._coordinator.logs
        return self._coordinator.are_all and logs.watermarked >= set(logs.read)

    def _decision(
        self, producer_id: int, place: TopicPartition, opened: Opened, *, is_hanging: bool
    ) -> Decision | None:
        history = self._coordinator.histories.get(producer_id)
        decision = None if history is None else decision_of(history, place, opened)
        if not is_hanging:  # the coordinator will write the marker of its last transaction
            last = None if history is None else history.transactions[-1].decided
            if decision is None or (decision.is_pending and last is None):
                return None if history is None else self._forgotten(producer_id, history, place, opened)
            return None if decision.decided is not None and decision.decided is last else decision
        if history is not None and (decision is None or decision.decided is not None):
            return decision
        elsewhere = ((other, opened[producer_id]) for other, opened in self._elsewhere if other != place)
        has_own_epoch = history is not None and any(each.has_own_epoch for each in history.transactions)
        return by_markers(decision, opened, elsewhere, has_own_epoch=has_own_epoch)

    def _forgotten(self, producer_id: int, history: History, place: TopicPartition, opened: Opened) -> Decision | None:
        """Return the decision that the last transaction of `history`, which is ongoing there, was committed, if its
        marker is in another partition than `place`; else None.
        """
        last = history.transactions[-1]
        is_ongoing = last.status == TransactionState.ONGOING and opened.epoch in last.epochs
        if not is_ongoing or place not in (last.partitions or ()):
            return None
        for marker in self._last_markers.get(producer_id, ()):
            if marker.place != place and marker.decided is Decided.COMMIT and marker.ends(opened):
                topic, number = marker.place
                source = f"the marker in {topic}-{number}"
                return Decision(decided=Decided.COMMIT, source=source, is_forgotten=True)
        return None

    @cached_property
    def _last_markers(self) -> dict[int, list[LastMarker]]:
        """By producer id the last markers in the partitions of its ongoing transaction, sorted by topic and number. Of
        each partition the last `_NEAR` offsets are read; those that cannot be read are left out.
        """
        by_place: dict[TopicPartition, list[int]] = {}
        histories = self._coordinator.histories
        for producer_id, history in histories.items():
            if history.transactions and history.transactions[-1].status == TransactionState.ONGOING:
                for place in history.transactions[-1].partitions or ():
                    by_place.setdefault(place, []).append(producer_id)
        markers: dict[int, list[LastMarker]] = {}
        for place, producers in sorted(by_place.items()):
            for partition in self._open_place(place):
                try:
                    start = max(partition.log_end_offset() - _NEAR, 0)
                    seen = read_opened(partition, dict.fromkeys(producers), start)
                except KafkaLogError:
                    continue
                for producer_id, there in seen.items():
                    marker = last_marker_of(histories[producer_id], place, there)
                    if marker is not None:
                        markers.setdefault(producer_id, []).append(marker)
        return markers

    def _among_others(self, place: TopicPartition) -> Iterable[Partition]:
        return self._others_by_place.get(place, ())

    @cached_property
    def _others_by_place(self) -> dict[TopicPartition, list[Partition]]:
        by_place: dict[TopicPartition, list[Partition]] = {}
        for other in self._others:
            by_place.setdefault((other.topic or "", other.partition or 0), []).append(other)
        return by_place


def open_transactions(
    producers: Iterable[PartitionProducers],
    coordinator: TransactionalIds,
    others: Iterable[Partition] = (),
    now_ms: int | None = None,
) -> tuple[list[OpenTransaction], list[Finding]]:
    """Return the open transactions of all partitions, and warnings. There is one for each that hangs, or that its
    coordinator will or may end differently than it was decided. A transaction hangs if its coordinator no longer has
    it. `OpenTransaction.hanging` is None if this is unknown, because the coordinator's log was not read completely or
    its high watermark is not recorded.

    `others` are further partitions, which may show how a hanging transaction was decided. Ages are in ms up to `now_ms`
    (ms since 1970; None: the present time). An age is None if the producer's last timestamp is unknown. Raises
    `StorageError` if a log cannot be read.
    """
    producers = list(producers)
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    read = {place.partition.path: place.partition for place in producers}
    everywhere = {**read, **{other.path: other for other in others}}.values()
    opened_by = {each.producer_id for place in producers for each in place.producers
                 if each.transaction_start is not None}  # fmt: skip
    endings = Endings(coordinator, everywhere, opened_by)
    open_transactions: list[OpenTransaction] = []
    findings: list[Finding] = []
    for place in producers:
        firsts = {producer.producer_id: producer.transaction_start for producer in place.producers
                  if producer.transaction_start is not None}  # fmt: skip
        ended = endings.of(place.partition, firsts) if firsts else {}
        for producer in place.producers:
            if producer.transaction_start is None:
                continue
            known = coordinator.by_producer.get(producer.producer_id)
            hanging, decision = ended[producer.producer_id]
            decision = None if hanging is None or (decision is not None and decision.is_pending) else decision
            opened = OpenTransaction(
                topic=place.partition.topic or "",
                partition=place.partition.partition or 0,
                producer=producer,
                transactional_id=None if known is None else known.transactional_id,
                hanging=hanging,
                age_ms=max(now - producer.last_timestamp, 0) if producer.last_timestamp >= 0 else None,
                decision=decision,
                coordinator_state=None if known is None else known.state,
            )
            open_transactions.append(opened)
            if hanging or decision is not None:
                code = FindingCode.TRANSACTION_HANGING
                path = place.partition.path
                findings.append(
                    Finding(code, Severity.WARNING, None, producer.transaction_start, opened.sentence, path)
                )
    return open_transactions, findings


def _fits(places: Sequence[tuple[str, int]], count: int) -> bool:
    return all(coordinator_partition(name, count) == number for name, number in places)
