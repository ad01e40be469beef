"""What a log that is written knows of its producers (`ProducerStateManager`, `ProducerAppendInfo`).

Sequences of idempotent producers, open transactions, and the snapshots that spare a scan at the next start.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kafkalog.codec.errors import FormatError, UsageError
from kafkalog.codec.index_files import decode_producer_snapshot, encode_producer_snapshot
from kafkalog.codec.java_map import JavaHashMap
from kafkalog.codec.limits import DEFAULT_LIMITS
from kafkalog.codec.model import (
    MAX_SEQUENCE,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    AbortedTransaction,
    BatchHeader,
    ControlType,
    EndTransactionMarker,
    ProducerEntry,
)
from kafkalog.codec.names import FileKind, parse_segment_file, segment_file
from kafkalog.log import fs
from kafkalog.log.files import read_small, scan_directory

__all__ = ["Marker", "Origin", "Producers", "Staged"]

_REMEMBERED = 5
"""Batches of a producer among which a duplicate is recognized (`ProducerStateEntry.NUM_BATCHES_TO_RETAIN`)."""
_VERSION = 0


class Origin(enum.Enum):
    """Who sends batches, and so how much is checked (`AppendOrigin`)."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class Marker(NamedTuple):
    """The marker that a control batch holds, with its record's timestamp (ms)."""

    marker: EndTransactionMarker
    timestamp: int


class _Batch(NamedTuple):
    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int


@dataclass(slots=True)
class _Producer:
    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = -1
    timestamp: int = NO_TIMESTAMP
    open_since: int | None = None
    batches: tuple[_Batch, ...] = ()

    def set_epoch(self, epoch: int) -> None:
        if self.epoch != epoch:
            self.batches = ()
            self.epoch = epoch

    def entry(self) -> ProducerEntry:
        last = self.batches[-1] if self.batches else _Batch(NO_SEQUENCE, NO_SEQUENCE, NO_OFFSET, 0)
        return ProducerEntry(
            self.producer_id,
            self.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            self.timestamp,
            self.coordinator_epoch,
            NO_OFFSET if self.open_since is None else self.open_since,
        )


def _loaded(entry: ProducerEntry) -> _Producer:
    first = entry.last_sequence - entry.offset_delta
    batch = _Batch(
        first if first >= 0 or entry.last_sequence < 0 else first + MAX_SEQUENCE + 1,
        entry.last_sequence,
        entry.last_offset,
        entry.offset_delta,
    )
    return _Producer(
        entry.producer_id,
        entry.producer_epoch,
        entry.coordinator_epoch,
        entry.timestamp,
        entry.current_txn_first_offset if entry.current_txn_first_offset >= 0 else None,
        (batch,) if entry.last_offset >= 0 else (),
    )


@dataclass(slots=True)
class Staged:
    """What the batches of one append would change; nothing has changed yet."""

    producers: dict[int, _Producer] = field(default_factory=dict)
    completed: list[tuple[int, int, int, bool]] = field(default_factory=list)
    """producer id, first offset, marker's offset, aborted"""


class Producers:
    """The producers of one partition.  `UsageError` is what a broker answers to a producer that breaks the rules."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._known: JavaHashMap[_Producer] = JavaHashMap()
        self.snapshot_offset = 0
        """of the newest snapshot that was taken or loaded"""

    @property
    def open_first_offsets(self) -> dict[int, int]:
        """Producer id -> first offset of its open transaction."""
        return {state.producer_id: state.open_since for _, state in self._known if state.open_since is not None}

    def next_sequence(self, producer_id: int) -> int:
        """The sequence that the next batch of a producer must begin with."""
        state = self._known.get(producer_id)
        last = state.batches[-1].last_sequence if state is not None and state.batches else NO_SEQUENCE
        return 0 if last in (NO_SEQUENCE, MAX_SEQUENCE) else last + 1

    # -- appending ---------------------------------------------------------------------------------------------------

    def duplicate_of(self, header: BatchHeader) -> int | None:
        """First offset of the batch that `header` repeats, if it is among the last that are remembered."""
        state = self._known.get(header.producer_id)
        if state is None or state.epoch != header.producer_epoch or header.is_control:
            return None
        for batch in state.batches:
            if (batch.first_sequence, batch.last_sequence) == (header.base_sequence, header.last_sequence):
                return batch.last_offset - batch.offset_delta
        return None

    def stage(self, staged: Staged, header: BatchHeader, marker: Marker | None, origin: Origin) -> None:
        """Take in one batch with a producer id; `UsageError` if its producer may not write it."""
        state = staged.producers.get(header.producer_id)
        if state is None:
            known = self._known.get(header.producer_id)
            state = replace(known) if known is not None else _Producer(header.producer_id)
        if header.is_control:
            if marker is not None:
                self._end(staged, state, header, marker, origin)
        else:
            self._data(state, header, origin)
        staged.producers[header.producer_id] = state

    @staticmethod
    def _check_epoch(state: _Producer, header: BatchHeader, origin: Origin) -> None:
        if header.producer_epoch < state.epoch and origin is not Origin.REPLICATION:
            raise UsageError(
                f"producer {state.producer_id} at offset {header.base_offset} has epoch {header.producer_epoch}, "
                f"below the last seen one, {state.epoch}"
            )

    def _data(self, state: _Producer, header: BatchHeader, origin: Origin) -> None:
        self._check_epoch(state, header, origin)
        if origin is Origin.CLIENT:
            _check_sequence(state, header)
        if state.open_since is not None and not header.is_transactional:
            raise UsageError(
                f"producer {state.producer_id} has a transaction open: offset {header.base_offset} must be part of it"
            )
        state.set_epoch(header.producer_epoch)
        batch = _Batch(header.base_sequence, header.last_sequence, header.last_offset, header.last_offset_delta)
        state.batches = (*state.batches, batch)[-_REMEMBERED:]
        state.timestamp = header.max_timestamp
        if state.open_since is None and header.is_transactional:
            state.open_since = header.base_offset

    def _end(self, staged: Staged, state: _Producer, header: BatchHeader, found: Marker, origin: Origin) -> None:
        self._check_epoch(state, header, origin)
        coordinator_epoch = found.marker.coordinator_epoch
        if coordinator_epoch < state.coordinator_epoch and origin is not Origin.REPLICATION:
            raise UsageError(
                f"the marker for producer {state.producer_id} has coordinator epoch {coordinator_epoch}, "
                f"below the last seen one, {state.coordinator_epoch}"
            )
        if state.open_since is not None:
            aborted = found.marker.type is ControlType.ABORT
            staged.completed.append((state.producer_id, state.open_since, header.base_offset, aborted))
        state.set_epoch(header.producer_epoch)
        state.coordinator_epoch = coordinator_epoch
        state.open_since = None
        state.timestamp = found.timestamp

    def commit(self, staged: Staged) -> list[AbortedTransaction]:
        """The staged batches are in the log now; gives the entries that belong into the transaction index."""
        open_before = self.open_first_offsets if staged.completed else {}
        for state in staged.producers.values():
            self._known.put(state.producer_id, state)
        if not staged.completed:
            return []
        aborted = []
        ongoing = {**open_before, **self.open_first_offsets}
        for producer_id, first, last, is_aborted in staged.completed:
            stable = min((offset for owner, offset in ongoing.items() if owner != producer_id), default=last + 1)
            if is_aborted:
                aborted.append(AbortedTransaction(_VERSION, producer_id, first, last, stable))
            if ongoing.get(producer_id) == first:
                del ongoing[producer_id]
        return aborted

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def snapshots(self) -> list[int]:
        """Offsets of the snapshot files, ascending."""
        found = []
        for entry in scan_directory(self._directory):
            parsed = parse_segment_file(entry.name)
            if parsed is not None and parsed.kind is FileKind.PRODUCER_SNAPSHOT and not parsed.pending:
                found.append(parsed.base_offset)
        return sorted(found)

    def path(self, offset: int) -> str:
        """Where the snapshot of an offset stands."""
        return os.path.join(self._directory, segment_file(offset, FileKind.PRODUCER_SNAPSHOT))

    def take_snapshot(self, offset: int) -> None:
        """Write what is known, as of `offset`, durably, if the log went on since the last snapshot."""
        if offset > self.snapshot_offset:
            fs.replace(self.path(offset), encode_producer_snapshot([state.entry() for state in self._known.values()]))
            self.snapshot_offset = offset

    def delete_snapshots(self, offsets: Iterable[int]) -> None:
        """Remove snapshot files."""
        for offset in offsets:
            fs.remove(self.path(offset))

    def load(self, log_start_offset: int, up_to: int, now_ms: int, expiration_ms: int) -> int:
        """Forget everything, load the newest usable snapshot, remove the others above or below the range.

        Gives the offset from which the log must be read again.
        """
        self._known = JavaHashMap()
        offsets = self.snapshots()
        usable = [offset for offset in offsets if log_start_offset < offset <= up_to]
        self.delete_snapshots(offset for offset in offsets if offset not in usable)
        while usable:
            newest = usable.pop()
            path = self.path(newest)
            try:
                entries = decode_producer_snapshot(read_small(path, DEFAULT_LIMITS.snapshot_bytes), source=path)
            except FormatError:
                self.delete_snapshots([newest])
                continue
            for entry in entries:
                if entry.current_txn_first_offset >= 0 or now_ms - entry.timestamp < expiration_ms:
                    self._known.put(entry.producer_id, _loaded(entry))
            self.snapshot_offset = newest
            return newest
        self.snapshot_offset = log_start_offset
        return log_start_offset

    def prune(self, log_start_offset: int, base_offsets: list[int]) -> None:
        """Remove what a broker would remove at its next start: all but the newest that belong to no segment."""
        offsets = self.snapshots()
        newest = offsets[-1:] if offsets and offsets[-1] >= max(base_offsets) else []
        keep = {*base_offsets, *newest}
        self.delete_snapshots(offset for offset in offsets if offset not in keep or offset <= log_start_offset)


def _check_sequence(state: _Producer, header: BatchHeader) -> None:
    first = header.base_sequence
    if header.producer_epoch != state.epoch:
        wrong = first != 0 and state.epoch != NO_PRODUCER_EPOCH
        last = NO_SEQUENCE
    else:
        last = state.batches[-1].last_sequence if state.batches else NO_SEQUENCE
        wrong = first != last + 1 and not (first == 0 and last == MAX_SEQUENCE)
    if wrong:
        raise UsageError(
            f"producer {state.producer_id} at offset {header.base_offset} sends sequence {first}; "
            f"the last one of its epoch is {last}"
        )
