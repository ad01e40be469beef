"""Rows for a tiered log in both tiers: its remote segments, and its parts in log directories."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.names import FileKind
from kafkalog.log.directories.partition import Partition
from kafkalog.tiers.lineage import RemoteStretch
from kafkalog.tiers.remote_tier import ListedSegment
from kafkalog.tiers.segments import RemoteSegment

__all__ = ["LocalPart", "RemotePartition", "RemoteRow"]


class LocalPart(Struct, frozen=True):
    """Local part of a tiered log in one log directory."""

    partition: Partition
    log_start: int | None
    """offset in log-start-offset-checkpoint; None if it has none"""
    end: int

    @property
    def begins(self) -> int:
        """Base offset of the first local segment; the log's end if there is none."""
        return self.partition.segments[0].base_offset if self.partition.segments else self.end

    def holds(self, first: int, last: int) -> bool:
        """Whether all offsets from `first` to `last` are local."""
        return self.begins <= first and last < self.end


class RemoteRow(Struct, frozen=True, kw_only=True):
    """One remote segment, known by events, by the listing, or by both."""

    topic: str
    topic_id: str
    partition: int
    id: str
    base_offset: int
    segment: RemoteSegment | None
    """None if no event names it"""
    listed: ListedSegment | None
    """None if it was not listed, or there is no listing"""
    is_listed: bool | None
    """None without a listing"""
    is_local: bool
    """whether all its offsets are in a log directory too"""
    belongs: bool | None
    """whether a broker reads some of it for this log, by its leader epochs; never None"""
    sizes: Mapping[FileKind, int] = {}
    """size in bytes of each file in its objects, if it exists and agrees with the listing"""
    doubts: tuple[StorageError, ...] = ()
    """objects whose size is unreadable or contradicts the listing"""

    @property
    def log_bytes(self) -> int | None:
        """Size of its log in bytes; None if unknown."""
        return _size(self.segment, self.listed)


class RemotePartition(Struct, kw_only=True):
    """One tiered log in both tiers."""

    topic: str
    topic_id: str
    partition: int
    rows: list[RemoteRow]
    stretches: list[RemoteStretch]
    """remote offsets that a broker reads, in order"""
    local: Mapping[str, LocalPart]
    """local part by log directory"""
    settings: Mapping[str, str] | None
    """settings of the topic about tiers; None if the cluster's metadata does not have the topic"""
    has_events: bool
    findings: list[Finding] = []

    @property
    def log_start(self) -> int | None:
        """First offset that a consumer may read; None if unknown."""
        known = [part.log_start for part in self.local.values() if part.log_start is not None]
        return max(known, default=None)

    @property
    def copied_to(self) -> int | None:
        """Offset after the last remote one; None if there is none."""
        return self.stretches[-1].last + 1 if self.stretches else None


def _size(segment: RemoteSegment | None, listed: ListedSegment | None) -> int | None:
    if segment is not None:
        return segment.size
    item = None if listed is None else listed.objects.get(FileKind.LOG)
    return None if item is None else item.size
