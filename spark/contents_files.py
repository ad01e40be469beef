"""Rows of what is in the files of log directories: segments, findings, indexes, snapshots, checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from kafkalog.classes import dataclass
from kafkalog.codec.findings import Finding, Severity
from kafkalog.codec.names import (
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    DirectoryState,
    FileKind,
)
from kafkalog.log import Inventory, LogDir, Partition, open_log_dir, open_segment
from kafkalog.log.directories.checkpoint_findings import checkpoint_findings
from kafkalog.log.directories.partition import read_partition
from kafkalog.log.directories.side_files import read_side_file
from kafkalog.log.disk.files import is_directory, is_file
from kafkalog.log.walk.summary import SegmentSummary, summarize
from kafkalog.recovery.checks.broker_start import broker_start, surveyed
from kafkalog.recovery.checks.missing_partitions import missing_partitions_of
from kafkalog.recovery.checks.partition import verify_partition
from kafkalog.recovery.facts.topic_facts import read_topic_facts
from kafkalog.spark.contents_rows import Row

__all__ = [
    "CHECKPOINTS",
    "PER_PARTITION",
    "Place",
    "checkpoint_rows",
    "finding_places",
    "finding_rows",
    "named",
    "places",
    "reopened",
]

CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)


@dataclass(frozen=True, slots=True)
class Place:
    """One thing to read: a partition directory or segment, a log directory, or findings that are known already."""

    path: str
    partition: Partition | None = None
    """as it was listed when the query was planned; read again from its path"""
    log_start: int = 0
    high_watermark: int | None = None
    known: tuple[Finding, ...] = ()


def places(partitions: Iterable[Partition]) -> list[Place]:
    """One for each partition."""
    return [Place(each.path, each) for each in partitions]


def reopened(place: Place) -> Partition:
    """The partition of a place as its files are now."""
    partition = place.partition
    if partition is None or partition.name is None or not is_directory(place.path):
        return open_segment(place.path)
    return read_partition(place.path, partition.name, partition.checkpointed_log_start_offset)


def named(partition: Partition, file: str, row: Row) -> Row:
    """A row with where it is from."""
    return {"topic": partition.topic, "partition": partition.partition, "file": file} | row


# -- segments ---------------------------------------------------------------------------------------------------------


def _segment(partition: Partition, summary: SegmentSummary) -> Row:
    segment = summary.segment
    return named(
        partition,
        segment.path,
        {
            "state": partition.state.value or "live",
            "baseOffset": segment.base_offset,
            "bytes": segment.size,
            "validBytes": summary.valid_bytes,
            "stop": str(summary.stop),
            "batches": summary.batches,
            "firstOffset": summary.first_offset,
            "lastOffset": summary.last_offset,
            "firstTimestamp": summary.first_timestamp,
            "lastTimestamp": summary.last_timestamp,
            "codecs": summary.codecs,
            "magics": {str(magic): count for magic, count in summary.magics.items()},
            "files": {kind.value: size for kind, size in segment.sizes.items()},
            "findings": [str(finding.code) for finding in summary.findings if finding.severity is not Severity.INFO],
        },
    )


def _segments(place: Place, _findings: list[Finding]) -> Iterator[Row]:
    """What is wrong is in the rows."""
    partition = reopened(place)
    following: list[int | None] = [segment.base_offset for segment in partition.segments[1:]]
    for segment, base in zip(partition.segments, [*following, None], strict=False):
        yield _segment(partition, summarize(segment, next_segment=base))


# -- the files beside --------------------------------------------------------------------------------------------------


def _beside(files_of: Callable[[Partition], Sequence[str]]) -> Callable[[Place, list[Finding]], Iterator[Row]]:
    def rows(place: Place, findings: list[Finding]) -> Iterator[Row]:
        partition = reopened(place)
        for path in files_of(partition):
            content = read_side_file(path)
            for entry in content.entries:
                yield named(partition, path, entry)
            findings.extend(content.findings)

    return rows


def _of_segments(kind: FileKind) -> Callable[[Partition], Sequence[str]]:
    return lambda partition: [segment.files[kind] for segment in partition.segments if kind in segment.files]


def _epochs_of(partition: Partition) -> Sequence[str]:
    path = os.path.join(partition.path, LEADER_EPOCH_CHECKPOINT)
    return [path] if is_file(path) else []


PER_PARTITION: dict[str, Callable[[Place, list[Finding]], Iterator[Row]]] = {
    "segments": _segments,
    "offset_index": _beside(_of_segments(FileKind.OFFSET_INDEX)),
    "time_index": _beside(_of_segments(FileKind.TIME_INDEX)),
    "aborted_transactions": _beside(_of_segments(FileKind.TRANSACTION_INDEX)),
    "producer_state": _beside(lambda partition: partition.snapshots),
    "leader_epochs": _beside(_epochs_of),
}
"""Rows of one partition; what was wrong is appended to the list."""


def checkpoint_rows(place: Place, findings: list[Finding]) -> Iterator[Row]:
    """The offset checkpoints of a log directory."""
    for name in CHECKPOINTS:
        path = os.path.join(place.path, name)
        if is_file(path):
            content = read_side_file(path)
            yield from ({"file": path} | entry for entry in content.entries)
            findings.extend(content.findings)


# -- findings ----------------------------------------------------------------------------------------------------------


def finding_places(inventory: Inventory) -> list[Place]:
    """Every partition, every log directory, and what only all of them together tell."""
    found = [Place(log_dir.path) for log_dir in inventory.log_dirs]
    found += [_with_checkpoints(each, log_dir) for log_dir in inventory.log_dirs for each in log_dir.partitions]
    found += places(inventory.standalone)
    known = tuple(inventory.findings_together())
    return [*found, Place("", known=known)] if known else found


def _with_checkpoints(partition: Partition, log_dir: LogDir) -> Place:
    key = (partition.topic or "", partition.partition or 0)
    if partition.state is not DirectoryState.LIVE:
        return Place(partition.path, partition)
    start, watermark = log_dir.log_start_offsets.get(key, 0), log_dir.high_watermarks.get(key)
    return Place(partition.path, partition, start, watermark)


def finding_rows(place: Place) -> Iterator[Row]:
    """What `verify` finds there; together with the other places, all that it finds."""
    if place.partition is None:
        found: Iterable[Finding] = place.known
        if place.path:
            log_dir = open_log_dir(place.path)
            facts = read_topic_facts([log_dir.path])
            found = [*log_dir.findings, *missing_partitions_of(log_dir, facts), *_refusals(log_dir)]
        yield from map(_finding_row, found)
        return
    partition = reopened(place)
    report = verify_partition(partition)
    beside = checkpoint_findings(
        partition, report.log_end_offset, place.log_start, place.high_watermark, end_behind=report.end_behind_damage
    )
    for finding in (*report.findings, *beside):
        yield named(partition, place.path, _finding_row(finding))


def _refusals(log_dir: LogDir) -> list[Finding]:
    return broker_start(log_dir.path, surveyed(log_dir.path))[1]


def _finding_row(finding: Finding) -> Row:
    unread = finding.unread
    bounds = {} if unread is None else {
        "firstUnread": unread.first_offset,
        "lastUnread": unread.last_offset,
        "newestBefore": unread.newest_before,
        "oldestAfter": unread.oldest_after,
    }  # fmt: skip
    return finding.as_dict() | bounds | {"lastOffset": finding.last_offset}
