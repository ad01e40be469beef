"""What every partition knows of its producers: epoch, last sequence, open transaction (`ProducerStateManager`).

Rebuilt from the log as a broker does while it recovers; producers that only a producer snapshot still knows, because
retention removed their records, are taken from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkalog.codec.control import end_transaction_marker
from kafkalog.codec.errors import FormatError
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.index_files import read_producer_snapshot
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import NO_SEQUENCE, BatchHeader, ProducerEntry, RecordBatch
from kafkalog.codec.names import parse_segment_file
from kafkalog.codec.records import decode_batch
from kafkalog.log.files import FileSource
from kafkalog.log.partition import Partition

__all__ = ["PartitionProducers", "Producer", "read_producers"]


@dataclass(frozen=True, slots=True)
class Producer:
    """One producer in one partition; `coordinator_epoch` and `transaction_start` are None where there is none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_start: int | None
    """first offset of its open transaction"""
    transaction_started_at: int | None = None
    """timestamp of that first batch, ms; None where only a snapshot knows of it"""


@dataclass(frozen=True, slots=True)
class PartitionProducers:
    """The producers of one partition, by id."""

    partition: Partition
    producers: tuple[Producer, ...]
    last_stable_offset: int
    log_end_offset: int
    last_timestamp: int
    """largest timestamp in the log, ms; -1 where it is empty"""
    findings: tuple[Finding, ...]


class _Tracker:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.known: dict[int, Producer] = {}
        self.findings: list[Finding] = []

    def feed(self, batch: RecordBatch, file: str | None) -> None:
        header = batch.header
        if not isinstance(header, BatchHeader) or not header.has_producer_id:
            return
        before = self.known.get(header.producer_id)
        if header.is_control:
            self._marker(batch, header, before, file)
            return
        start, started_at = (before.transaction_start, before.transaction_started_at) if before else (None, None)
        if start is None and header.is_transactional:
            start, started_at = header.base_offset, header.base_timestamp
        self.known[header.producer_id] = Producer(
            header.producer_id,
            header.producer_epoch,
            header.last_sequence,
            header.max_timestamp,
            before.coordinator_epoch if before is not None else None,
            start,
            started_at,
        )

    def _marker(self, batch: RecordBatch, header: BatchHeader, before: Producer | None, file: str | None) -> None:
        records = decode_batch(batch, limits=self.limits).records
        if not records:
            return  # the whole transaction has been cleaned away
        try:
            marker = end_transaction_marker(records[0])
        except FormatError as error:
            detail = f"a transaction marker cannot be read: {error.message}"
            code = FindingCode.CONTROL_RECORD_INVALID
            self.findings.append(Finding(code, Severity.ERROR, batch.position, header.base_offset, detail, file))
            return
        if marker is None:
            return
        same_epoch = before is not None and before.producer_epoch == header.producer_epoch
        self.known[header.producer_id] = Producer(
            header.producer_id,
            header.producer_epoch,
            before.last_sequence if before is not None and same_epoch else NO_SEQUENCE,
            records[0].timestamp,
            marker.coordinator_epoch,
            None,
        )


def _from_snapshots(partition: Partition, end: int, known: dict[int, Producer], limits: Limits) -> list[Finding]:
    """Add what the newest readable snapshot within the log knows and the log does not."""
    findings = []
    for path in reversed(partition.snapshots):
        parsed = parse_segment_file(path.rsplit("/", 1)[-1])
        if parsed is None or parsed.base_offset > end:
            continue
        with FileSource(path) as file:
            try:
                entries = read_producer_snapshot(file, source=path, limits=limits)
            except FormatError as error:
                found = Finding(FindingCode.SNAPSHOT_INVALID, Severity.WARNING, None, None, error.message, path)
                findings.append(found)
                continue
            for entry in entries:
                known.setdefault(entry.producer_id, _as_known(entry))
        break
    return findings


def _as_known(entry: ProducerEntry) -> Producer:
    return Producer(
        entry.producer_id,
        entry.producer_epoch,
        entry.last_sequence if entry.last_offset >= 0 else NO_SEQUENCE,
        entry.timestamp,
        entry.coordinator_epoch if entry.coordinator_epoch >= 0 else None,
        entry.current_txn_first_offset if entry.current_txn_first_offset >= 0 else None,
    )


def _read(partition: Partition, limits: Limits) -> PartitionProducers:
    tracker = _Tracker(limits)
    end, latest = partition.log_start_offset, -1
    reader = partition.batches(limits=limits)
    for batch in reader:
        tracker.feed(batch, reader.segment.path if reader.segment is not None else None)
        end = max(end, batch.header.next_offset)
        latest = max(latest, batch.header.max_timestamp)
    if partition.segments:
        end = max(end, partition.segments[-1].base_offset)
    findings = _from_snapshots(partition, end, tracker.known, limits)
    producers = tuple(tracker.known[each] for each in sorted(tracker.known))
    starts = [each.transaction_start for each in producers if each.transaction_start is not None]
    return PartitionProducers(
        partition,
        producers,
        min(starts, default=end),
        end,
        latest,
        (*reader.findings, *tracker.findings, *findings),
    )


def read_producers(partitions: Iterable[Partition], *, limits: Limits = DEFAULT_LIMITS) -> list[PartitionProducers]:
    """The producers of every partition, in the order given.  Raises `StorageError` only."""
    return [_read(each, limits) for each in partitions]
