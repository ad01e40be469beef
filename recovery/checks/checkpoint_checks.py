"""Compare a partition with the checkpoints and the tiering evidence in its log directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Self

from msgspec import Struct

from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.headers.header_tables import HeaderTables
from kafkalog.codec.names import DirectoryState
from kafkalog.log.directories.checkpoint_findings import checkpoint_findings, epoch_findings, too_high_end
from kafkalog.log.directories.directory import LogDir, Offsets
from kafkalog.log.directories.missing_segments import missing_segments
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import scan_directory
from kafkalog.log.walk.segment import logs_of
from kafkalog.recovery.checks.partition import verify_partition
from kafkalog.recovery.checks.report import PartitionReport
from kafkalog.tiers.tiering import NO_TIERING, LocalStart, Tiering, tier_gap

__all__ = ["Beside", "Told", "verify_beside"]


class Told(Struct, frozen=True, kw_only=True):
    """Offsets that a log directory's checkpoints and tiering evidence have for one of its live partitions."""

    log_start: int
    """log start offset in log-start-offset-checkpoint; 0 without an entry"""
    high_watermark: int | None
    """high watermark in replication-offset-checkpoint; None without an entry"""
    closed_at: int | None
    """end of the log when its broker stopped in order; None if that is unknown"""
    local_start: LocalStart | None
    """where the log begins; also None if not computed because nothing of its start is lost"""
    was_closed: bool = False
    """whether the log directory has a clean-shutdown marker"""
    leader_epoch: int | None = None
    """leader epoch in the metadata; None if unknown"""

    def findings(self, partition: Partition, report: PartitionReport) -> Iterator[Finding]:
        """Yield findings about contradictions between these offsets and `report`, the report of the same partition.
        They are about a log end that is too low (`checkpoint_findings`) or too high (`too_high_end`), and leader epochs
        beyond it (`epoch_findings`). Others are about lost offsets below the first segment, and blanks in the directory
        name. Yields nothing for a partition without a name, or if one of its logs could not be read. Raises
        `StorageError` if a file cannot be read.
        """
        if partition.name is None or not report.is_log_read:
            return
        if partition.name.has_blanks:
            detail = "blanks in its name: a broker renames it, and the start after that fails"
            yield Finding.of(FindingCode.FOREIGN_DIRECTORY, None, None, detail, partition.path)
        end, behind = report.log_end_offset, report.end_behind_damage
        yield from checkpoint_findings(partition, end, self.log_start, self.high_watermark, end_behind=behind)
        yield from too_high_end(logs_of(partition.segments), partition.snapshots, max(end, behind), self.closed_at)
        yield from epoch_findings(partition.leader_epochs, max(end, behind), self.leader_epoch, partition.path)
        local_start = self.local_start
        if local_start is None or local_start.lost is None:
            return
        if local_start.is_tiered:
            yield tier_gap(partition.path, local_start)
        else:
            bases = (segment.base_offset for segment in partition.segments)
            yield from missing_segments(partition.path, [local_start.lost], self.log_start, bases)


class Beside(Struct, frozen=True, kw_only=True):
    """Facts of a log directory with which its partitions are compared, by topic and partition number: log start
    offsets, high watermarks and, if the directory has a clean-shutdown marker, recovery points; also the evidence of
    tiering.
    """

    log_starts: Offsets = {}
    high_watermarks: Offsets = {}
    closed_at: Offsets = {}
    was_closed: bool = False
    """whether the log directory has a clean-shutdown marker"""
    tiering: Tiering = NO_TIERING
    """with the names and the checkpoint of the log directory"""
    leader_epochs: Offsets = {}
    """leader epochs in the metadata; empty if it is not known"""

    @classmethod
    def of(cls, log_dir: LogDir, tiering: Tiering = NO_TIERING, leader_epochs: Offsets | None = None) -> Self:
        """Return the facts of a log directory. `tiering` and `leader_epochs` (those in the metadata) are stored with
        them; None, for unknown metadata, becomes an empty mapping.
        """
        return cls(
            log_starts=log_dir.log_start_offsets,
            high_watermarks=log_dir.high_watermarks,
            closed_at=log_dir.closed_at,
            was_closed=log_dir.clean_shutdown is not None,
            tiering=tiering,
            leader_epochs=leader_epochs or {},
        )

    def local_start(self, partition: Partition, end: int) -> LocalStart | None:
        """Return the offsets at which a live partition's log and its local part begin, and the lost offsets below its
        first segment. `end` is the log end offset, 0 if unknown. Return None if the partition has no name or no
        segment. Lists the partition directory if the first segment does not begin at 0; raises `StorageError` if this
        fails.
        """
        name = partition.name
        if name is None or not partition.segments:
            return None
        begins = partition.segments[0].base_offset
        names = [entry.name for entry in scan_directory(partition.path)] if begins else []  # nothing comes before 0
        epochs = [leader_epoch.start_offset for leader_epoch in partition.leader_epochs]
        return self.tiering.of((name.topic, name.partition), names, begins, epochs, end)

    def told_of(self, partition: Partition, found: LocalStart | None) -> Told | None:
        """Return the checkpointed offsets of a partition, together with `found`, the start of its local part. Without
        an entry, the log start offset is 0 and the high watermark is None. The recovery point is None without an entry
        or without a clean-shutdown marker. Return None if the partition has no name or is not live (`-delete`,
        `-future`, `-stray`).
        """
        name = partition.name
        if name is None or partition.state is not DirectoryState.LIVE:
            return None
        key = (name.topic, name.partition)
        return Told(
            log_start=self.log_starts.get(key, 0),
            high_watermark=self.high_watermarks.get(key),
            closed_at=self.closed_at.get(key),
            local_start=found,
            was_closed=self.was_closed,
            leader_epoch=self.leader_epochs.get(key),
        )


def verify_beside(
    partition: Partition,
    beside: Beside | None,
    *,
    deep: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    on_read: Callable[[int], None] | None = None,
    tables: HeaderTables | None = None,
) -> PartitionReport:
    """Check one partition (`verify_partition`), and compare it with its log directory's checkpoints and tiering; return
    the report with the findings of both.

    Pass `beside=None` to skip the comparison. It is also skipped if the partition is not live, and if it has an
    UNREADABLE finding that is not about an index or a snapshot. The report's `local_start` is set only if the log is
    tiered. `deep` also decodes every record; `on_read` is called with the number of log bytes read; `tables` are header
    tables to fill or to use. Raises `StorageError` if a log or the directory cannot be read.
    """
    was_closed = beside is not None and beside.was_closed
    report = verify_partition(
        partition, deep=deep, limits=limits, on_read=on_read, tables=tables, was_closed=was_closed
    )
    if beside is not None and report.is_log_read:
        local_start = None if partition.state.value else beside.local_start(partition, report.log_end_offset)
        report.local_start = local_start if local_start is not None and local_start.is_tiered else None
        told = beside.told_of(partition, local_start)
        report.findings += () if told is None else told.findings(partition, report)
    return report
