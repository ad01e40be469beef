"""Types of the lines of `kafkalog merge --json`."""

from __future__ import annotations

from msgspec import Struct, field

from kafkalog.cli.shapes.shared_lines import PlaceLine, UnreadableLine
from kafkalog.codec.common.findings import FindingJson
from kafkalog.copies.merge_result import MergedDirectory, MergedRange

__all__ = ["Line", "PartitionLine", "summary_line"]


class RefusedLine(Struct, frozen=True):
    """Partition that is not written because a broker would not load its merged log."""

    partition: str
    """directory name of the partition: topic-number"""
    reason: str
    """reason why the partition is not written"""


class CopyLine(Struct, frozen=True, kw_only=True):
    """Contribution of one copy to the merged log, and the records that the copy lacks."""

    path: str
    """path of the partition directory"""
    batches: int
    """number of batches in the merged log that come from this copy; a batch that several copies have counts for only
    one copy
    """
    records: int
    """number of records in the merged log that come from this copy, from the log start offset on, without control
    records
    """
    damage: FindingJson | None
    """first damage in the copy's log; null if none"""
    damaged_places: int
    """number of damaged places in the copy's log; 0 if the log is undamaged"""
    lacks_records: int
    """number of records in the merged log that this copy lacks, without control records and records that compaction may
    have removed
    """
    lacks_from: int | None
    """first offset of the merged log that this copy lacks; null if it lacks none"""
    dropped_batches: int
    """number of batches of this copy that were dropped because they diverge from the leader epochs of the merged log"""
    dropped_records: int
    """number of records in the copy's dropped batches, without control records"""
    dropped_from: PlaceLine | None
    """place of the first dropped batch of this copy; null if none"""
    passed_batches: int
    """number of batches of this copy that were skipped because another copy supplied their offsets with different bytes
    """
    passed_from: PlaceLine | None
    """place of the first batch of this copy that was skipped; null if none"""
    cleaned_batches: int
    """number of batches of this copy that were skipped because compaction removed or rewrote them in the best copy, or
    rewrote them in this copy
    """
    error: str | None
    """reason why the copy cannot be read; null if it can be read"""


class PartitionLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="partition"):
    """One merged topic-partition."""

    topic: str
    """topic"""
    partition: int
    """partition number"""
    target: str | None
    """path of the partition directory that was written; null with `--dry-run`"""
    log_start_offset: int
    """log start offset of the merged log"""
    log_end_offset: int
    """log end offset of the merged log: offset after its last batch"""
    high_watermark: int | None
    """highest high watermark in the replication-offset-checkpoints of the copies without dropped batches; null if none
    has one
    """
    batches_kept: int
    """number of batches in the merged log"""
    records_kept: int
    """number of records in the merged log from the log start offset on, without control records"""
    bytes_kept: int
    """total size of the merged log's segments, in bytes"""
    ranges: list[MergedRange]
    """consecutive ranges of offsets in the merged log, each from one copy; only the first 1000"""
    range_count: int
    """number of ranges of offsets in the merged log, including ranges after the first 1000"""
    gaps: list[tuple[int, int]]
    """pairs of the first and last offset (both inclusive) of ranges that no copy has; only the first 1000, and without
    offsets that compaction removed
    """
    gap_count: int
    """number of gaps (ranges of offsets that no copy has), including gaps after the first 1000"""
    offsets_missing: int
    """number of offsets in all gaps, including gaps after the first 1000"""
    dropped: dict[str, int] = field(name="dropped_batches")
    """number of dropped batches by path of the copy; a copy without dropped batches is omitted"""
    copies: list[CopyLine]
    """the merged copies"""


class SummaryLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="summary"):
    """Summary of a merge of log directories."""

    target: str | None
    """path of the log directory that was written; null with `--dry-run`"""
    partitions: int
    """number of merged topic-partitions, without the refused ones"""
    partitions_with_gaps: int
    """number of merged topic-partitions with offsets that no copy has"""
    records_kept: int
    """number of records in all merged logs from their log start offsets on, without control records"""
    refused: list[RefusedLine]
    """partitions that are not written because a broker would not load their merged logs"""
    left_out: list[str]
    """paths of directories that were not merged: copies of the metadata log, and partition directories that a broker
    does not serve (`-delete`, `-future` or `-stray`)
    """
    unreadable: list[UnreadableLine]
    """files, directories and partitions that could not be read"""


Line = PartitionLine | SummaryLine
"""One line for each topic-partition, and one summary if log directories are merged."""


def summary_line(merged: MergedDirectory) -> SummaryLine:
    """Return the summary of a merge of log directories: numbers of partitions and records, refused partitions, and
    paths that were skipped or unreadable. `target` in it is None if nothing was written.
    """
    return SummaryLine(
        target=merged.target,
        partitions=len(merged.partitions),
        partitions_with_gaps=sum(partition.gap_count > 0 for partition in merged.partitions),
        records_kept=sum(partition.records_kept for partition in merged.partitions),
        refused=[RefusedLine(*each) for each in merged.refused],
        left_out=merged.left_out,
        unreadable=[UnreadableLine(*each) for each in merged.unreadable],
    )
