"""State of one producer, and its changes by batches (`ProducerStateEntry`, `ProducerAppendInfo`)."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from kafkalog.codec.model import (
    MAX_SEQUENCE,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    ControlType,
    EndTransactionMarker,
    ProducerEntry,
    to_int32,
)
from kafkalog.log.storage.java import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
    int64,
)

__all__ = [
    "REMEMBERED",
    "AppendOrigin",
    "BatchMetadata",
    "CompletedTransaction",
    "Marker",
    "ProducerAppendInfo",
    "ProducerStateEntry",
]

REMEMBERED = 5
"""Batches of a producer among which duplicates are recognized (`ProducerStateEntry.NUM_BATCHES_TO_RETAIN`)."""


class AppendOrigin(enum.Enum):
    """Sender of batches. The checks of a batch depend on it."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class Marker(NamedTuple):
    """An end-transaction marker of a control batch, with its record's timestamp in ms."""

    marker: EndTransactionMarker
    timestamp: int


class CompletedTransaction(Struct, frozen=True, kw_only=True):
    """A transaction that a marker ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class BatchMetadata(NamedTuple):
    """Sequence number and offsets of a batch, which is remembered to recognize duplicates."""

    last_sequence: int
    last_offset: int
    offset_delta: int

    @property
    def first_sequence(self) -> int:
        """Sequence number of the first record. Sequence numbers continue at 0 after the largest."""
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 or self.last_sequence < 0 else first + MAX_SEQUENCE + 1

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


_NO_BATCH = BatchMetadata(NO_SEQUENCE, NO_OFFSET, 0)


class ProducerStateEntry(Struct, kw_only=True):
    """State of one producer."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = NO_TIMESTAMP
    current_txn_first_offset: int | None = None
    batches: tuple[BatchMetadata, ...] = ()
    """last batches of its epoch; a snapshot holds only the last one"""

    @property
    def last_batch(self) -> BatchMetadata:
        """Last batch of the epoch; a placeholder with sequence and offset -1 if there is none."""
        return self.batches[-1] if self.batches else _NO_BATCH

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch. A different epoch forgets the remembered batches."""
        if self.producer_epoch != epoch:
            self.batches = ()
            self.producer_epoch = epoch

    def add_batch(self, header: BatchHeader) -> None:
        """Record a data batch as the producer's latest: its epoch (a different one forgets older batches), sequence
        numbers, offsets and timestamp. The last five batches are remembered.
        """
        self.set_epoch(header.producer_epoch)
        last_offset = int64(header.last_offset)
        batch = BatchMetadata(header.last_sequence, last_offset, to_int32(last_offset - header.base_offset))
        self.batches = (*self.batches, batch)[-REMEMBERED:]
        self.last_timestamp = header.max_timestamp

    def update(self, newer: ProducerStateEntry) -> None:
        """Apply the newer state that an append collected: epochs, batches, open transaction and timestamp. Sets
        `newer.batches` to empty.
        """
        self.set_epoch(newer.producer_epoch)
        self.batches = (*self.batches, *newer.batches)[-REMEMBERED:]
        newer.batches = ()
        self.coordinator_epoch = newer.coordinator_epoch
        self.current_txn_first_offset = newer.current_txn_first_offset
        self.last_timestamp = newer.last_timestamp

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """Return the remembered batch with the same producer epoch and the same first and last sequence number as the
        data batch `header`; None if the batch is not a duplicate.
        """
        if header.producer_epoch == self.producer_epoch:
            last = header.last_sequence
            for batch in self.batches:
                if batch.last_sequence == last and batch.first_sequence == header.base_sequence:
                    return batch
        return None

    def entry(self) -> ProducerEntry:
        """Return the state as an entry of a producer snapshot. Without an open transaction its
        `current_txn_first_offset` is -1. Without a remembered batch its last sequence and last offset are -1, and its
        offset delta is 0.
        """
        batch, first = self.last_batch, self.current_txn_first_offset
        return ProducerEntry(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            last_sequence=batch.last_sequence,
            last_offset=batch.last_offset,
            offset_delta=batch.offset_delta,
            timestamp=self.last_timestamp,
            coordinator_epoch=self.coordinator_epoch,
            current_txn_first_offset=NO_OFFSET if first is None else first,
        )

    @classmethod
    def from_entry(cls, entry: ProducerEntry) -> ProducerStateEntry:
        """Return the state of a producer from its snapshot entry. A negative transaction offset means no open
        transaction, a negative last offset no remembered batch.
        """
        return cls(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            coordinator_epoch=entry.coordinator_epoch,
            last_timestamp=entry.timestamp,
            current_txn_first_offset=entry.current_txn_first_offset if entry.current_txn_first_offset >= 0 else None,
            batches=(BatchMetadata(entry.last_sequence, entry.last_offset, entry.offset_delta),)
            if entry.last_offset >= 0
            else (),
        )


class ProducerAppendInfo:
    """Changes to the state of one producer, collected from its batches in `state`; the current state is not changed.
    `started` lists the first offsets of transactions that began. All batches are checked for being transactional while
    a transaction is open; those from a coordinator or client also for their epochs, those from a client also for their
    sequence numbers.
    """

    def __init__(self, current: ProducerStateEntry, origin: AppendOrigin) -> None:
        self._current = current
        self._origin = origin
        self.state = ProducerStateEntry(
            producer_id=current.producer_id,
            producer_epoch=current.producer_epoch,
            coordinator_epoch=current.coordinator_epoch,
            last_timestamp=current.last_timestamp,
            current_txn_first_offset=current.current_txn_first_offset,
        )
        self.started: list[int] = []

    def append(self, header: BatchHeader, marker: Callable[[], Marker | None]) -> CompletedTransaction | None:
        """Add one batch of the producer to `state` and `started`. Return the transaction that it completed; None for a
        data batch, and for a marker while no transaction is open. `marker` is called only for a control batch, and
        returns its marker. It returns None for a control batch without records, because compaction removed the marker;
        nothing changes then.

        Raises `InvalidTxnStateError` for a non-transactional batch within a transaction. Except from replication,
        raises `InvalidProducerEpochError` or `TransactionCoordinatorFencedError` for an older epoch of the producer or
        coordinator. From a client, also raises `OutOfOrderSequenceError` if the sequence numbers do not continue.
        Passes on the errors of `marker`.
        """
        if not header.is_control:
            self._append_data_batch(header)
            return None
        read_marker = marker()
        return None if read_marker is None else self._append_end_txn_marker(header, read_marker)

    def append_stretch(self, last: BatchHeader, transactional_from: int | None) -> None:
        """Add several data batches without checks: `last` is the header of the last of them, which is remembered. If no
        transaction is open, one begins at offset `transactional_from`; None: none begins.
        """
        if self.state.current_txn_first_offset is None and transactional_from is not None:
            self._begin(transactional_from)
        self.state.add_batch(last)

    def _begin(self, first_offset: int) -> None:
        self.state.current_txn_first_offset = first_offset
        self.started.append(first_offset)

    def _append_data_batch(self, header: BatchHeader) -> None:
        self._check_producer_epoch(header)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(header)
        state = self.state
        state.add_batch(header)
        if state.current_txn_first_offset is not None and not header.is_transactional:
            raise InvalidTxnStateError(
                f"producer {state.producer_id} has a transaction open: offset {header.base_offset} must be part of it"
            )
        if state.current_txn_first_offset is None and header.is_transactional:
            self._begin(header.base_offset)

    def _append_end_txn_marker(self, header: BatchHeader, marker: Marker) -> CompletedTransaction | None:
        self._check_producer_epoch(header)
        state, coordinator_epoch = self.state, marker.marker.coordinator_epoch
        if coordinator_epoch < state.coordinator_epoch and self._origin is not AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFencedError(
                f"the marker for producer {state.producer_id} has coordinator epoch {coordinator_epoch}, "
                f"below the last seen one, {state.coordinator_epoch}"
            )
        first = state.current_txn_first_offset
        state.set_epoch(header.producer_epoch)
        state.coordinator_epoch = coordinator_epoch
        state.current_txn_first_offset = None
        state.last_timestamp = marker.timestamp
        if first is None:
            return None
        is_aborted = marker.marker.type is ControlType.ABORT
        return CompletedTransaction(
            producer_id=state.producer_id, first_offset=first, last_offset=header.base_offset, is_aborted=is_aborted
        )

    def _check_producer_epoch(self, header: BatchHeader) -> None:
        state = self.state
        if header.producer_epoch < state.producer_epoch and self._origin is not AppendOrigin.REPLICATION:
            raise InvalidProducerEpochError(
                f"producer {state.producer_id} at offset {header.base_offset} has epoch {header.producer_epoch}, "
                f"below the last seen one, {state.producer_epoch}"
            )

    def _check_sequence(self, header: BatchHeader) -> None:
        first, last = header.base_sequence, self._last_sequence(header)
        if header.producer_epoch != self.state.producer_epoch:
            wrong = first != 0 and self.state.producer_epoch != NO_PRODUCER_EPOCH
        else:
            in_sequence = first == last + 1 or (first == 0 and last == MAX_SEQUENCE)
            wrong = not in_sequence and self._current.producer_epoch != NO_PRODUCER_EPOCH
        if wrong:
            raise OutOfOrderSequenceError(
                f"producer {self.state.producer_id} at offset {header.base_offset} sends sequence {first}; "
                f"the last one of its epoch is {last}"
            )

    def _last_sequence(self, header: BatchHeader) -> int:
        """Return the sequence number of the last batch in the header's producer epoch; -1 if there is none."""
        for known in (self.state, self._current):
            if known.producer_epoch == header.producer_epoch and known.batches:
                return known.last_batch.last_sequence
        return NO_SEQUENCE
