"""What a merge gave: where each range of offsets is from, what no copy has, and what is wrong with each copy."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from kafkalog.codec.findings import Finding
from kafkalog.copies.copy_cursor import BatchPlace

__all__ = ["CopyShare", "MergeResult", "MergedDirectory", "MergedRange"]


class MergedRange(Struct):
    """Offsets that one copy gave."""

    first_offset: int
    last_offset: int
    source: str


class CopyShare(Struct, kw_only=True):
    """What one copy gave to the merged log, and what it could not give."""

    path: str
    batches: int = 0
    """taken from it; where copies agree it is one of them that gives"""
    records: int = 0
    damage: Finding | None = None
    """the first place that is not sound"""
    damaged_places: int = 0
    lacks_records: int = 0
    """records of the merged log that it does not have"""
    lacks_from: int | None = None
    """the first offset of these"""
    dropped_batches: int = 0
    """that an older epoch wrote and a newer one replaced"""
    dropped_records: int = 0
    dropped_from: BatchPlace | None = None
    passed_batches: int = 0
    """whose offsets another copy gave, with other bytes"""
    passed_from: BatchPlace | None = None
    cleaned_batches: int = 0
    """that compaction has taken out of the best copy, or treated otherwise there"""
    error: str | None = None
    """why it could not be read"""
    unread: list[tuple[str, str]] = field(default_factory=list)
    """path and reason of what could not be read in it"""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "path": self.path,
            "batches": self.batches,
            "records": self.records,
            "damage": None if self.damage is None else self.damage.as_dict(),
            "damaged_places": self.damaged_places,
            "lacks_records": self.lacks_records,
            "lacks_from": self.lacks_from,
            "dropped_batches": self.dropped_batches,
            "dropped_records": self.dropped_records,
            "dropped_from": None if self.dropped_from is None else self.dropped_from.as_dict(),
            "passed_batches": self.passed_batches,
            "passed_from": None if self.passed_from is None else self.passed_from.as_dict(),
            "cleaned_batches": self.cleaned_batches,
            "error": self.error,
        }


class MergeResult(Struct, kw_only=True):
    """The merged partition, where its ranges come from, and what no copy had."""

    topic: str
    partition: int
    target: str | None
    """the directory that was written; None if nothing was"""
    log_start_offset: int = 0
    log_end_offset: int = 0
    batches_kept: int = 0
    records_kept: int = 0
    """from the log start on, markers of transactions left out"""
    bytes_kept: int = 0
    """of logs"""
    ranges: list[MergedRange] = field(default_factory=list)
    """the first ones, at most a thousand"""
    range_count: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """first and last of offsets that no copy has, the first thousand ranges; without what compaction took"""
    gap_count: int = 0
    offsets_missing: int = 0
    high_watermark: int | None = None
    """the highest that checkpoints know of copies of which nothing was replaced"""
    copies: list[CopyShare] = field(default_factory=list)

    @property
    def dropped(self) -> dict[str, int]:
        """Copy -> batches that an older epoch wrote and a newer one replaced."""
        return {copy.path: copy.dropped_batches for copy in self.copies if copy.dropped_batches}

    @property
    def ends_below_high_watermark(self) -> bool:
        """Whether committed records are in no copy."""
        return self.high_watermark is not None and self.log_end_offset < self.high_watermark

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "kind": "partition",
            "topic": self.topic,
            "partition": self.partition,
            "target": self.target,
            "log_start_offset": self.log_start_offset,
            "log_end_offset": self.log_end_offset,
            "high_watermark": self.high_watermark,
            "batches_kept": self.batches_kept,
            "records_kept": self.records_kept,
            "bytes_kept": self.bytes_kept,
            "ranges": [
                {"first_offset": each.first_offset, "last_offset": each.last_offset, "source": each.source}
                for each in self.ranges
            ],
            "range_count": self.range_count,
            "gaps": [list(gap) for gap in self.gaps],
            "gap_count": self.gap_count,
            "offsets_missing": self.offsets_missing,
            "dropped_batches": self.dropped,
            "copies": [copy.as_dict() for copy in self.copies],
        }


class MergedDirectory(Struct, kw_only=True):
    """A log directory merged from several."""

    target: str | None
    """None if nothing was written"""
    partitions: list[MergeResult] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    """partition and why a broker would not load what its copies give"""
    left_out: list[str] = field(default_factory=list)
    """directories that were not merged: the metadata log, and what waits for deletion, is moving or stray"""
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    """path and reason"""

    def as_dict(self) -> dict[str, Any]:
        """The summary, as plain values for JSON; partitions have their own."""
        return {
            "kind": "summary",
            "target": self.target,
            "partitions": len(self.partitions),
            "partitions_with_gaps": sum(each.gap_count > 0 for each in self.partitions),
            "records_kept": sum(each.records_kept for each in self.partitions),
            "refused": [{"partition": name, "reason": reason} for name, reason in self.refused],
            "left_out": self.left_out,
            "unreadable": [{"path": path, "reason": reason} for path, reason in self.unreadable],
        }
