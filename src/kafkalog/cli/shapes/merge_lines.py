"""Lines of `kafkalog merge`."""

from __future__ import annotations

from msgspec import Struct, field

from kafkalog.cli.shapes.shared_lines import PlaceLine, UnreadableLine
from kafkalog.codec.findings import FindingJson
from kafkalog.copies.merge_result import MergedDirectory

__all__ = ["Line", "PartitionLine", "summary_line"]


class RangeLine(Struct, frozen=True, kw_only=True):
    """Offsets that one copy gave."""

    first_offset: int
    """of the range"""
    last_offset: int
    """of the range"""
    source: str
    """the copy that gave it"""


class RefusedLine(Struct, frozen=True):
    """A partition that was not written."""

    partition: str
    """partition directory"""
    reason: str
    """why"""


class CopyLine(Struct, frozen=True, kw_only=True):
    """What one copy gave to the merged log, and what it could not give."""

    path: str
    """the partition directory"""
    batches: int
    """batches that the result has from it"""
    records: int
    """records in them"""
    damage: FindingJson | None
    """its first damage; null if there is none"""
    damaged_places: int
    """number of them"""
    lacks_records: int
    """records of the result that it does not have"""
    lacks_from: int | None
    """the first such offset; null if there is none"""
    dropped_batches: int
    """batches of it that a newer leader epoch replaced"""
    dropped_records: int
    """records in them"""
    dropped_from: PlaceLine | None
    """the first of them; null if there is none"""
    passed_batches: int
    """batches of it that were skipped"""
    passed_from: PlaceLine | None
    """the first of them; null if there is none"""
    cleaned_batches: int
    """batches that compaction has changed differently"""
    error: str | None
    """why it could not be read; null otherwise"""


class PartitionLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="partition"):
    """A partition."""

    topic: str
    """its topic"""
    partition: int
    """its number"""
    target: str | None
    """the directory that was written; null if none was"""
    log_start_offset: int
    """first offset"""
    log_end_offset: int
    """where the log ends"""
    high_watermark: int | None
    """the highest that the copies' checkpoints say; null if none says anything"""
    batches_kept: int
    """number of them"""
    records_kept: int
    """in them, from the log start on"""
    bytes_kept: int
    """of logs"""
    ranges: list[RangeLine]
    """where offsets are from; the first thousand"""
    range_count: int
    """how many there are"""
    gaps: list[tuple[int, int]]
    """pairs of the first and last offset that no copy has; the first thousand"""
    gap_count: int
    """how many there are"""
    offsets_missing: int
    """offsets in them"""
    dropped: dict[str, int] = field(name="dropped_batches")
    """copy, and batches of it that a newer leader epoch replaced"""
    copies: list[CopyLine]
    """copy by copy"""


class SummaryLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="summary"):
    """The summary."""

    target: str | None
    """the directory that was written; null if none was"""
    partitions: int
    """number of them"""
    partitions_with_gaps: int
    """of those"""
    records_kept: int
    """of all"""
    refused: list[RefusedLine]
    """partitions that were not written"""
    left_out: list[str]
    """directories that were not merged"""
    unreadable: list[UnreadableLine]
    """what could not be read"""


Line = PartitionLine | SummaryLine
"""One line for each partition, and for log directories one that sums up."""


def summary_line(merged: MergedDirectory) -> SummaryLine:
    """Line that sums up a merge of log directories."""
    return SummaryLine(
        target=merged.target,
        partitions=len(merged.partitions),
        partitions_with_gaps=sum(partition.gap_count > 0 for partition in merged.partitions),
        records_kept=sum(partition.records_kept for partition in merged.partitions),
        refused=[RefusedLine(*each) for each in merged.refused],
        left_out=merged.left_out,
        unreadable=[UnreadableLine(*each) for each in merged.unreadable],
    )
