"""Define the result of a merge: the copy from which each range of offsets comes, the offsets that no copy has, and the
problems of each copy.
"""

from __future__ import annotations

from msgspec import Struct, field

from kafkalog.codec.common.findings import Finding
from kafkalog.copies.copy_cursor import BatchPlace

__all__ = ["CopyShare", "MergeResult", "MergedDirectory", "MergedRange"]


class MergedRange(Struct):
    """Range of consecutive offsets in the merged log that come from one copy."""

    first_offset: int
    """first offset of the range (inclusive)"""
    last_offset: int
    """last offset of the range (inclusive)"""
    source: str
    """path of the copy that supplied the range"""


class CopyShare(Struct, kw_only=True):
    """Contribution of one copy to the merged log, and what it lacks."""

    path: str
    batches: int = 0
    """batches from this copy; if copies agree, only one of them counts"""
    records: int = 0
    damage: Finding | None = None
    """first damage in its log; None if there is none"""
    damaged_places: int = 0
    lacks_records: int = 0
    """records of the merged log that it does not have"""
    lacks_from: int | None = None
    """first offset that it lacks; None if it lacks nothing"""
    dropped_batches: int = 0
    """batches that do not fit the leader epochs of the merged log"""
    dropped_records: int = 0
    dropped_from: BatchPlace | None = None
    passed_batches: int = 0
    """batches whose offsets another copy contributed with other bytes"""
    passed_from: BatchPlace | None = None
    cleaned_batches: int = 0
    """batches that compaction removed from the best copy or treated otherwise there"""
    error: str | None = None
    """why it could not be read; None if it could"""
    unread: list[tuple[str, str]] = field(default_factory=list)
    """path and reason of everything in it that could not be read"""


class MergeResult(Struct, kw_only=True):
    """The merged partition: where its ranges come from, and what no copy had."""

    topic: str
    partition: int
    target: str | None
    """the directory that was written; None if nothing was"""
    log_start_offset: int = 0
    log_end_offset: int = 0
    batches_kept: int = 0
    records_kept: int = 0
    """records from the log start on, without control records"""
    bytes_kept: int = 0
    """bytes of logs"""
    ranges: list[MergedRange] = field(default_factory=list)
    """the first ranges, at most 1000"""
    range_count: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """first and last offset of the first 1000 ranges that no copy has, without what compaction removed"""
    gap_count: int = 0
    offsets_missing: int = 0
    high_watermark: int | None = None
    """highest checkpointed high watermark of the copies of which nothing was replaced; None if there is none"""
    copies: list[CopyShare] = field(default_factory=list)

    @property
    def dropped(self) -> dict[str, int]:
        """Number of replaced batches of an older epoch, by path of the copy; copies without any are omitted."""
        return {copy.path: copy.dropped_batches for copy in self.copies if copy.dropped_batches}

    @property
    def ends_below_high_watermark(self) -> bool:
        """Whether committed records are in no copy. False if no high watermark is known."""
        return self.high_watermark is not None and self.log_end_offset < self.high_watermark


class MergedDirectory(Struct, kw_only=True):
    """A log directory merged from several."""

    target: str | None
    """None if nothing was written"""
    partitions: list[MergeResult] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    """partition, and why a broker would not load its merged log"""
    left_out: list[str] = field(default_factory=list)
    """directories that were not merged: the metadata log, and those waiting for deletion, moving or stray"""
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    """path and reason"""
