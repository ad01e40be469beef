"""What a merge gave: where each range of offsets is from, what no copy has, and what is wrong with each copy."""

from __future__ import annotations

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
