"""Snapshots in a metadata directory, checked as a start checks them: by their names, and by the log beside them."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding, FindingCode, StopReason
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.files.kraft import (
    KRaftRecord,
    KRaftVersion,
    KRaftVoters,
    SnapshotFooter,
    SnapshotHeader,
    VoterNode,
    kraft_record,
)
from kafkalog.codec.model import BatchHeader, RecordBatch
from kafkalog.codec.names import kraft_snapshot_file, parse_kraft_snapshot_file
from kafkalog.codec.plain.records import decode_batch
from kafkalog.log.directories.partition import Partition, open_segment

__all__ = ["LogEnd", "MetadataSnapshot", "control_records", "latest", "read_snapshots", "why_impossible"]


class MetadataSnapshot(Struct, frozen=True, kw_only=True):
    """A snapshot of all metadata below offset `end`. A node that reads one with `is_whole` False does not start."""

    file: str
    end: int
    epoch: int
    is_whole: bool
    kraft_version: int | None = None
    voters: tuple[VoterNode, ...] | None = None
    last_time: int = -1
    """time of the last record in it, according to its header, ms since 1970"""
    written_in: int | None = None
    """the epoch that its batches name"""
    problem: str | None = None
    """why it cannot be a snapshot of the log beside it"""

    @property
    def counts(self) -> bool:
        """Whether it is complete and fits the log, so that it can replace the beginning of the log."""
        return self.is_whole and self.problem is None

    @property
    def position(self) -> tuple[int, int]:
        """Epoch and end offset, by which a start orders snapshots."""
        return self.epoch, self.end


class LogEnd(Struct, frozen=True, kw_only=True):
    """End of the log with which snapshots are compared."""

    start: int
    end: int
    epoch: int
    last_time: int
    bases: Sequence[int]
    """first offsets of its batches"""
    ends: Sequence[int]
    """the offsets after their last ones"""
    epochs: Sequence[int]
    """of its batches"""
    latest_election: int | None
    """the epoch in `quorum-state`; None without that file"""


def latest(snapshots: Iterable[MetadataSnapshot]) -> MetadataSnapshot | None:
    """Return the snapshot that a start uses: the one with the largest epoch, then end offset; None if there is none."""
    return max(snapshots, key=lambda each: each.position, default=None)


def control_records(batch: RecordBatch, limits: Limits) -> Iterator[tuple[int, KRaftRecord]]:
    """Yield offset and decoded record of each control record in a batch, up to its first fault; nothing if it is not a
    control batch.

    Control records that cannot be decoded or are of an unknown type are skipped.
    """
    if not isinstance(batch.header, BatchHeader) or not batch.header.is_control:
        return
    for record in decode_batch(batch, limits=limits).records:
        try:
            value = kraft_record(record)
        except FormatError:
            continue
        if value is not None:
            yield record.offset, value


def read_snapshots(partition: Partition, limits: Limits, findings: list[Finding]) -> tuple[MetadataSnapshot, ...]:
    """Read the snapshots that a start keeps; return them sorted by epoch, then end offset.

    A snapshot that ends before the log's start offset is skipped, because a start deletes it; a damaged one is
    returned. For both a finding is appended to `findings`. Files with a name that Kafka would not write are skipped
    without a finding. Raises `StorageError` if a snapshot cannot be read.
    """
    metadata_snapshots = []
    for path in partition.kraft_snapshots:
        name = parse_kraft_snapshot_file(os.path.basename(path))
        if name is None or kraft_snapshot_file(name.end_offset, name.epoch) != os.path.basename(path):
            continue
        if name.end_offset < partition.log_start_offset:
            detail = f"the snapshot ends before the log begins, at {partition.log_start_offset}: a start deletes it"
            findings.append(Finding.of(FindingCode.TEMPORARY_FILE, None, None, detail, path))
            continue
        snapshot = _read(path, name.end_offset, name.epoch, limits)
        if not snapshot.is_whole:
            detail = "the snapshot is damaged or cut short: a node that reads it does not start"
            findings.append(Finding.of(FindingCode.METADATA_GAP, None, None, detail, path))
        metadata_snapshots.append(snapshot)
    return tuple(sorted(metadata_snapshots, key=lambda each: each.position))


def _read(path: str, end: int, epoch: int, limits: Limits) -> MetadataSnapshot:
    version, voters, last_time, written_in = None, None, -1, None
    has_footer, is_sound = False, True
    with open_segment(path).segments[0].scanner(limits=limits) as scanner:
        for batch in scanner:
            is_sound = is_sound and decode_batch(batch, limits=limits).finding is None
            if written_in is None and isinstance(batch.header, BatchHeader):
                written_in = batch.header.partition_leader_epoch
            for _offset, value in control_records(batch, limits):
                match value:
                    case SnapshotHeader():
                        last_time = value.last_contained_log_timestamp
                    case KRaftVersion():
                        version = value.kraft_version
                    case KRaftVoters():
                        voters = value.voters
                    case SnapshotFooter():
                        has_footer = True
    is_whole = is_sound and has_footer and scanner.stop is StopReason.END
    return MetadataSnapshot(
        file=os.path.basename(path),
        end=end,
        epoch=epoch,
        is_whole=is_whole,
        kraft_version=version,
        voters=voters,
        last_time=last_time,
        written_in=written_in,
    )


def why_impossible(snapshot: MetadataSnapshot, log: LogEnd) -> str | None:
    """Return the reason why the snapshot cannot belong to this log, as text; None if nothing contradicts it. Checked in
    this order:

    * The snapshot's epoch must equal the epoch of its own batches, if they have one.
    * It must not be above both the epoch in `quorum-state` and the last epoch of the log. Without `quorum-state` this
      is not checked.
    * If the snapshot ends beyond the last batch of the log, it must fit the epoch and the time of the log's last
      record.
    * Otherwise its epoch must equal the one that the log has at the snapshot's last offset, if the log has a batch
      there.

    An empty log is not compared with the snapshot (the last two points).
    """
    if snapshot.written_in is not None and snapshot.written_in != snapshot.epoch:
        return f"its name says epoch {snapshot.epoch}, and it was written in epoch {snapshot.written_in}"
    if log.latest_election is not None and snapshot.epoch > max(log.latest_election, log.epoch):
        return f"its name says epoch {snapshot.epoch}, and quorum-state knows of none after {log.latest_election}"
    if not log.bases:
        return None
    if snapshot.end > log.end:
        return _why_not_beyond(snapshot, log)
    number = bisect_right(log.bases, snapshot.end - 1) - 1
    if number < 0 or log.ends[number] < snapshot.end:
        return None
    there = log.epochs[number]
    if there != snapshot.epoch:
        return f"its name says epoch {snapshot.epoch}, and the log has offset {snapshot.end - 1} in epoch {there}"
    return None


def _why_not_beyond(snapshot: MetadataSnapshot, log: LogEnd) -> str | None:
    if snapshot.epoch < log.epoch:
        return (
            f"its name says offset {snapshot.end} of epoch {snapshot.epoch}, and the log ends before it, at "
            f"{log.end}, with the later epoch {log.epoch}"
        )
    if snapshot.epoch == log.epoch and 0 <= snapshot.last_time < log.last_time:
        return (
            f"its name says offset {snapshot.end}, and the last record in it is older than that at offset "
            f"{log.end - 1} of the log"
        )
    return None
