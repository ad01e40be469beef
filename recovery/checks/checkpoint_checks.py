"""Compare a partition with the files beside it in its log directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.headers.header_tables import HeaderTables
from kafkalog.codec.names import DirectoryState
from kafkalog.log.directories.checkpoint_findings import checkpoint_findings
from kafkalog.log.directories.directory import Offsets
from kafkalog.log.directories.missing_segments import missing_segments
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import scan_directory
from kafkalog.recovery.checks.partition import verify_partition
from kafkalog.recovery.checks.report import PartitionReport
from kafkalog.tiers.tiering import NO_TIERING, LocalStart, Tiering, tier_gap

__all__ = ["Beside", "Told", "verify_beside"]


class Told(Struct, frozen=True):
    """Facts of a log directory about one of its live partitions, as little as another process needs to check it."""

    log_start: int
    """log start offset in log-start-offset-checkpoint; 0 without an entry"""
    high_watermark: int | None
    """high watermark in replication-offset-checkpoint; None without an entry"""
    local_start: LocalStart | None
    """where the log begins; also None if not computed because nothing of its start is lost"""

    def findings(self, partition: Partition, report: PartitionReport) -> Iterator[Finding]:
        """Yield contradictions with the partition that `report` is about; nothing if its log could not be read."""
        if partition.name is None or not report.is_log_read:
            return
        if partition.name.has_blanks:
            detail = "blanks in its name: a broker renames it, and the start after that fails"
            yield Finding.of(FindingCode.FOREIGN_DIRECTORY, None, None, detail, partition.path)
        end, behind = report.log_end_offset, report.end_behind_damage
        yield from checkpoint_findings(partition, end, self.log_start, self.high_watermark, end_behind=behind)
        local_start = self.local_start
        if local_start is None or local_start.lost is None:
            return
        if local_start.is_tiered:
            yield tier_gap(partition.path, local_start)
        else:
            bases = (segment.base_offset for segment in partition.segments)
            yield from missing_segments(partition.path, [local_start.lost], self.log_start, bases)


class Beside(Struct, frozen=True):
    """Files beside the partitions in a log directory."""

    log_starts: Offsets = {}
    high_watermarks: Offsets = {}
    tiering: Tiering = NO_TIERING
    """with the names and the checkpoint of the log directory"""

    def local_start(self, partition: Partition, end: int) -> LocalStart | None:
        """Start of the local part of a live partition's log; `end` is the log end offset. None without a segment."""
        name = partition.name
        if name is None or not partition.segments:
            return None
        begins = partition.segments[0].base_offset
        names = [entry.name for entry in scan_directory(partition.path)] if begins else []  # nothing comes before 0
        epochs = [leader_epoch.start_offset for leader_epoch in partition.leader_epochs]
        return self.tiering.of((name.topic, name.partition), names, begins, epochs, end)

    def told_of(self, partition: Partition, found: LocalStart | None) -> Told | None:
        """Facts for a partition whose log begins as `found`; None if it is not live."""
        name = partition.name
        if name is None or partition.state is not DirectoryState.LIVE:
            return None
        key = (name.topic, name.partition)
        return Told(self.log_starts.get(key, 0), self.high_watermarks.get(key), found)


def verify_beside(
    partition: Partition,
    beside: Beside | None,
    *,
    deep: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    on_read: Callable[[int], None] | None = None,
    tables: HeaderTables | None = None,
) -> PartitionReport:
    """Check one partition, and compare it with its log directory. Pass `beside=None` to ignore the rest of the log
    directory.
    """
    report = verify_partition(partition, deep=deep, limits=limits, on_read=on_read, tables=tables)
    if beside is not None and report.is_log_read:
        local_start = None if partition.state.value else beside.local_start(partition, report.log_end_offset)
        report.local_start = local_start if local_start is not None and local_start.is_tiered else None
        told = beside.told_of(partition, local_start)
        report.findings += () if told is None else told.findings(partition, report)
    return report
