"""Producers of every partition: epoch, last sequence, open transaction (`ProducerStateManager`).

They are rebuilt from the log as a broker does during recovery. Producers whose records were removed by retention are
read from the newest producer snapshot.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterable

from msgspec import Struct

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.files.index_files import read_producer_snapshot
from kafkalog.codec.model import BatchHeader, RecordBatch
from kafkalog.codec.names import parse_segment_file
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import FileSource
from kafkalog.log.reading.opened_below import start_of_state
from kafkalog.log.reading.transactions import marker_of
from kafkalog.log.storage.java import InvalidTxnStateError
from kafkalog.log.storage.producers.state import AppendOrigin, ProducerAppendInfo, ProducerStateEntry
from kafkalog.log.walk.on_damage import SKIP

__all__ = ["PartitionProducer", "PartitionProducers", "read_producers"]


class PartitionProducer(Struct, frozen=True, kw_only=True):
    """The state of a producer in a partition. `coordinator_epoch` is None if no marker is known, `transaction_start` if
    no transaction is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_start: int | None
    """first offset of its open transaction"""


class PartitionProducers(Struct, frozen=True, kw_only=True):
    """The producers of one partition, ascending by id."""

    partition: Partition
    producers: tuple[PartitionProducer, ...]
    last_stable_offset: int
    log_end_offset: int
    last_timestamp: int
    """largest timestamp in the log, ms since 1970; -1 if the log is empty"""
    findings: tuple[Finding, ...]


class _Tracker:
    """Producer state built from batches that may be damaged (`ProducerStateEntry`)."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.known: dict[int, ProducerStateEntry] = {}
        self.findings: list[Finding] = []

    def feed(self, batch: RecordBatch, file: str | None) -> None:
        header = batch.header
        if not isinstance(header, BatchHeader) or not header.has_producer_id:
            return
        try:
            marker = marker_of(batch, self.limits) if header.is_control else None
        except FormatError as error:
            detail = f"a transaction marker cannot be read: {error.message}"
            code = FindingCode.CONTROL_RECORD_INVALID
            self.findings.append(Finding(code, Severity.ERROR, batch.position, header.base_offset, detail, file))
            return
        if header.is_control and marker is None:
            return  # the whole transaction has been cleaned away
        state = self.known.get(header.producer_id) or ProducerStateEntry(producer_id=header.producer_id)
        append = ProducerAppendInfo(state, AppendOrigin.REPLICATION)
        with contextlib.suppress(InvalidTxnStateError):  # a broker refuses the batch; here it is in the log
            append.append(header, lambda: marker)
        state.update(append.state)
        self.known[header.producer_id] = state

    def producers(self) -> tuple[PartitionProducer, ...]:
        """Return all producers, ascending by id."""
        return tuple(self._producer(self.known[each]) for each in sorted(self.known))

    def _producer(self, state: ProducerStateEntry) -> PartitionProducer:
        return PartitionProducer(
            producer_id=state.producer_id,
            producer_epoch=state.producer_epoch,
            last_sequence=state.last_batch.last_sequence,
            last_timestamp=state.last_timestamp,
            coordinator_epoch=state.coordinator_epoch if state.coordinator_epoch >= 0 else None,
            transaction_start=state.current_txn_first_offset,
        )


class _Snapshots:
    """The producer snapshots of a partition that a start does not delete."""

    def __init__(self, partition: Partition, limits: Limits) -> None:
        self._limits = limits
        self._paths: dict[int, str] = {}
        for path in partition.snapshots:
            parsed = parse_segment_file(path.rsplit("/", 1)[-1])
            if parsed is not None and parsed.base_offset > partition.log_start_offset:
                self._paths[parsed.base_offset] = path
        self._offsets = sorted(self._paths)
        """offsets of snapshots that are readable, as far as is known"""
        self.findings: list[Finding] = []

    def newest(self, low: int, high: int) -> dict[int, ProducerStateEntry] | None:
        """Return the entries, by producer id, of the newest readable snapshot at an offset from `low` to `high` (both
        inclusive); None if there is none. A damaged snapshot is skipped, also in later calls, and a warning is appended
        to `self.findings`. Raises `StorageError` if a snapshot cannot be read.
        """
        while (place := bisect_right(self._offsets, high) - 1) >= 0 and self._offsets[place] >= low:
            path = self._paths[self._offsets[place]]
            try:
                with FileSource(path) as file:
                    entries = read_producer_snapshot(file, source=path, limits=self._limits)
                    return {entry.producer_id: ProducerStateEntry.from_entry(entry) for entry in entries}
            except FormatError as error:
                code = FindingCode.SNAPSHOT_INVALID
                self.findings.append(Finding(code, Severity.WARNING, None, None, error.message, path))
                del self._offsets[place]
        return None


def _read(partition: Partition, limits: Limits) -> PartitionProducers:
    """Read the producers of one log with their last sequences and open transactions. As at a broker's start, reading
    begins with a snapshot, or at the log start if there is none; older batches are not used. After damage or a gap, the
    state is taken from the next snapshot; if none follows, the state from before stays. Damage becomes findings of the
    result.

    The last stable offset is the first offset of the earliest open transaction, or the log end offset if none is open;
    it is never below the log start offset. Raises `StorageError` if files cannot be read.
    """
    tracker, snapshots = _Tracker(limits), _Snapshots(partition, limits)
    end, latest = partition.log_start_offset, -1
    reader = partition.batches(on_damage=SKIP, limits=limits)
    begins = start_of_state(partition) or 0
    passed, unknown_from = 0, None
    for batch in reader:
        if len(reader.passed) > passed or batch.header.first_offset > end:  # markers may be lost there
            passed = len(reader.passed)
            unknown_from = end if unknown_from is None else unknown_from
        if batch.last_offset < begins:
            continue  # a start does not read it
        known = None if unknown_from is None else snapshots.newest(unknown_from + 1, batch.header.first_offset)
        if known is not None:
            tracker.known, unknown_from = known, None
        tracker.feed(batch, reader.segment.path if reader.segment is not None else None)
        end = max(end, batch.header.next_offset)
        latest = max(latest, batch.header.max_timestamp)
    if partition.segments:
        end = max(end, partition.segments[-1].base_offset)
    if unknown_from is not None or len(reader.passed) > passed:
        unknown_from = end if unknown_from is None else unknown_from
        tracker.known = snapshots.newest(unknown_from + 1, end) or tracker.known
    tracker.known = {**(snapshots.newest(partition.log_start_offset + 1, end) or {}), **tracker.known}
    producers = tracker.producers()
    starts = [producer.transaction_start for producer in producers if producer.transaction_start is not None]
    return PartitionProducers(
        partition=partition,
        producers=producers,
        last_stable_offset=max(min(starts, default=end), partition.log_start_offset),
        log_end_offset=end,
        last_timestamp=latest,
        findings=(*reader.findings, *tracker.findings, *snapshots.findings),
    )


def read_producers(partitions: Iterable[Partition], *, limits: Limits = DEFAULT_LIMITS) -> list[PartitionProducers]:
    """Return the producers of every partition, in the order of `partitions`. Raises only `StorageError`."""
    return [_read(partition, limits) for partition in partitions]
