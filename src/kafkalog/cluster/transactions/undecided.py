"""A partition whose open transactions are decided as their coordinator would decide them, and the number of records
behind transactions that remain open.
"""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.cluster.transactions.lost_markers import Decided, decided_by
from kafkalog.cluster.transactions.transactions import Ending, Endings, TransactionalIds
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.files.index_files import ABORTED_TRANSACTION_VERSION
from kafkalog.codec.model import NO_END, AbortedTransaction, BatchHeader
from kafkalog.codec.plain.records import decode_batch
from kafkalog.log.directories.partition import Partition
from kafkalog.log.reading.readable import OffsetAndTimestamp
from kafkalog.log.reading.transactions import AbortedFilter, Transactions
from kafkalog.log.walk.on_damage import STOP
from kafkalog.log.walk.segment import Segment

__all__ = ["DecidedPartition", "OpenProducer", "Waiting"]


class OpenProducer(Struct, frozen=True, kw_only=True):
    """Open transaction."""

    producer_id: int
    """producer id of the transaction"""
    transactional_id: str | None
    """transactional id of the producer; null if it is not in any readable `__transaction_state` log"""
    state: str | None
    """last state of the transaction in `__transaction_state`, for example `Ongoing`; null if unknown"""
    first_offset: int
    """source offset of the transaction's first record in this partition"""
    records: int
    """number of the transaction's records in this partition; they are never replayed if it is aborted"""


class Waiting(Struct, frozen=True, kw_only=True):
    """Records that a consumer of committed data does not get because of open transactions."""

    topic: str
    partition: int
    first_offset: int
    """offset of the first such record"""
    records: int
    """records of other producers from there on; these were acknowledged, whatever becomes of the open transactions"""
    producers: tuple[OpenProducer, ...]


class DecidedPartition:
    """A readable partition (`ReadablePartition`) whose open transactions are decided by the coordinator's log.

    `coordinator` is what was read from `__transaction_state`. With `abort_rest` transactions that remain open
    count as aborted. Reading may be limited to the offsets from `start_offset` up to, not including, `end_offset`.
    """

    def __init__(
        self, partition: Partition, coordinator: TransactionalIds, *, abort_rest: bool,
        start_offset: int | None = None, end_offset: int | None = None,
    ) -> None:  # fmt: skip
        self.listed = partition
        self._start_offset = start_offset
        self.end_offset = end_offset
        """offset after the last one that is read; None for the log's end"""
        self._coordinator = coordinator
        self._abort_rest = abort_rest
        self._decided: Transactions | None = None

    @property
    def path(self) -> str:
        """The partition's path."""
        return self.listed.path

    @property
    def topic(self) -> str | None:
        """The partition's topic; None if it is unknown."""
        return self.listed.topic

    @property
    def partition(self) -> int | None:
        """The partition's number; None if it is unknown."""
        return self.listed.partition

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments in ascending order of base offset."""
        return self.listed.segments

    @property
    def log_start_offset(self) -> int:
        """First offset that a consumer may read: the log start offset, or `start_offset` if that is larger."""
        return max(self.listed.log_start_offset, self._start_offset or 0)

    @property
    def limits(self) -> Limits:
        """Limits with which the partition was opened."""
        return self.listed.limits

    def log_end_offset(self, *, limits: Limits = DEFAULT_LIMITS) -> int:
        """Offset that the next record would get."""
        return self.listed.log_end_offset(limits=limits)

    def offset_for_timestamp(
        self, timestamp: int, *, findings: list[Finding] | None = None, through_damage: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> OffsetAndTimestamp | None:  # fmt: skip
        """Offset and timestamp of the first record with at least this timestamp (ms since 1970); None if there
        is none.
        """
        return self.listed.offset_for_timestamp(
            timestamp, findings=findings, through_damage=through_damage, limits=limits
        )

    @property
    def size(self) -> int:
        """Bytes of its log files."""
        return self.listed.size

    def transactions(self, *, through_damage: bool = False, limits: Limits = DEFAULT_LIMITS) -> Transactions:
        """Return the aborted transactions and those that remain open. Transactions that the coordinator's log decides
        are not open. With `through_damage`, reading continues behind damaged batches. Without it, the result is
        computed once and cached. Raises `StorageError` if a file cannot be read.
        """
        if through_damage:
            return self._decide(self.listed.transactions(through_damage=True, limits=limits))
        if self._decided is None:
            self._decided = self._decide(self.listed.transactions(limits=limits))
        return self._decided

    def _decide(self, transactions: Transactions) -> Transactions:
        aborted = list(transactions.aborted)
        still_open = {}
        opened = transactions.open_first_offsets
        endings = Endings(self._coordinator).of(self.listed, opened) if opened else {}
        for producer_id, first in opened.items():
            decided = self._decided_of(producer_id, endings[producer_id])
            if decided is Decided.COMMIT:
                continue
            if decided is Decided.ABORT or self._abort_rest:
                last, stable = max(transactions.log_end_offset - 1, first), transactions.last_stable_offset
                aborted.append(AbortedTransaction(ABORTED_TRANSACTION_VERSION, producer_id, first, last, stable))
            else:
                still_open[producer_id] = first
        return replace(transactions, aborted=tuple(aborted), open_first_offsets=still_open)

    def _decided_of(self, producer_id: int, ending: Ending) -> Decided | None:
        """Return how a transaction was decided, by its own decision and never by the marker of a later one; None if it
        is ongoing, or if this is unknown.
        """
        if ending.decision is not None and not ending.decision.is_pending:
            return ending.decision.decided
        known = self._coordinator.by_producer.get(producer_id)
        return None if known is None or ending.hanging is not False else decided_by(known.status)

    @cached_property
    def waiting(self) -> Waiting | None:
        """Count the records that consumers of committed data cannot read yet, because they follow the beginning of an
        open transaction. Only transactions that begin below `end_offset`, and records below it, count. Return None if
        there is no such transaction. The result is cached.

        Records of open transactions are counted for each producer, and all others together. Records of aborted
        transactions are not counted. Counting stops at damage. Raises `StorageError` if a file cannot be read.
        """
        transactions = self.transactions()
        end = NO_END if self.end_offset is None else self.end_offset
        opened = {number: first for number, first in transactions.open_first_offsets.items() if first < end}
        begin = max(min(opened.values(), default=end), self.log_start_offset)
        if begin >= end:
            return None
        aborted = AbortedFilter(transactions.aborted)
        records, own = 0, dict.fromkeys(opened, 0)
        for batch in self.listed.batches(start_offset=begin, on_damage=STOP):
            header = batch.header
            if isinstance(header, BatchHeader) and header.base_offset >= end:
                break
            if header.is_control or aborted.rejects(batch) or header.last_offset < begin:
                continue
            first = opened.get(header.producer_id) if header.is_transactional else None
            count = sum(begin <= record.offset < end for record in decode_batch(batch).records)
            if first is not None and isinstance(header, BatchHeader) and header.base_offset >= first:
                own[header.producer_id] += count
            else:
                records += count
        producers = tuple(
            self._open_producer(number, first, own[number])
            for number, first in sorted(opened.items(), key=lambda pair: pair[1])
        )
        return Waiting(
            topic=self.topic or "",
            partition=self.partition or 0,
            first_offset=begin,
            records=records,
            producers=producers,
        )

    def _open_producer(self, producer_id: int, first: int, records: int) -> OpenProducer:
        known = self._coordinator.by_producer.get(producer_id)
        name, state = (None, None) if known is None else (known.transactional_id, known.state)
        return OpenProducer(
            producer_id=producer_id, transactional_id=name, state=state, first_offset=first, records=records
        )
