"""A tiered log in both tiers: its remote segments as rows, and what log directories have of it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kafkalog.codec.errors import StorageError
from kafkalog.codec.findings import Finding
from kafkalog.codec.names import FileKind
from kafkalog.log.directories.partition import Partition
from kafkalog.tiers.lineage import RemoteStretch
from kafkalog.tiers.remote_tier import ListedSegment
from kafkalog.tiers.segments import RemoteSegment

__all__ = ["LocalPart", "RemotePartition", "RemoteRow"]


class LocalPart(Struct, frozen=True):
    """What one log directory has of a tiered log."""

    partition: Partition
    log_start: int | None
    """by its line in log-start-offset-checkpoint"""
    end: int

    @property
    def begins(self) -> int:
        """Base offset of the first local segment; the log's end without one."""
        return self.partition.segments[0].base_offset if self.partition.segments else self.end

    def holds(self, first: int, last: int) -> bool:
        """All of these offsets."""
        return self.begins <= first and last < self.end


class RemoteRow(Struct, frozen=True):
    """One remote segment, by the events, by the listing, or by both."""

    topic: str
    topic_id: str
    partition: int
    id: str
    base_offset: int
    segment: RemoteSegment | None
    """None if no event names it"""
    listed: ListedSegment | None
    """None if it was not listed, or there was no listing"""
    is_listed: bool | None
    """None without a listing"""
    is_local: bool
    """all of its offsets are in a log directory too"""
    belongs: bool | None
    """a broker reads some of it for this log, as its leader epochs are; None where nothing tells"""
    sizes: Mapping[FileKind, int] = {}
    """bytes of the files that its objects hold, of those that are there and agree with the listing"""
    doubts: tuple[StorageError, ...] = ()
    """objects of which the listing and what says their sizes do not agree, or of which that cannot be read"""

    @property
    def log_bytes(self) -> int | None:
        """Bytes of its log; None if nothing tells."""
        return _size(self.segment, self.listed)


class RemotePartition(Struct):
    """One tiered log in both tiers."""

    topic: str
    topic_id: str
    partition: int
    rows: list[RemoteRow]
    stretches: list[RemoteStretch]
    """what a broker reads of it, in order"""
    local: Mapping[str, LocalPart]
    """by log directory"""
    settings: Mapping[str, str] | None
    """those of the topic that are about tiers; None where the cluster's metadata says nothing of it"""
    has_events: bool
    findings: list[Finding] = []

    @property
    def log_start(self) -> int | None:
        """The first offset a consumer may read; None where nothing tells."""
        known = [each.log_start for each in self.local.values() if each.log_start is not None]
        return max(known, default=None)

    @property
    def copied_to(self) -> int | None:
        """After the last remote offset; None without any."""
        return self.stretches[-1].last + 1 if self.stretches else None


def _size(segment: RemoteSegment | None, listed: ListedSegment | None) -> int | None:
    if segment is not None:
        return segment.size
    item = None if listed is None else listed.objects.get(FileKind.LOG)
    return None if item is None else item.size
