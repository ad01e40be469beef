"""Check the remote part of tiered logs in the same way as local logs: checksums, records, indexes, epochs,
snapshots.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from kafkalog.codec.common.arguments import Count
from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.headers.header_tables import HeaderTables
from kafkalog.log.directories.directory import open_log_dir
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.directories.workers import OnRead, in_order
from kafkalog.log.disk.files import PathLike, unreadable
from kafkalog.recovery.checks.partition import verify_partition
from kafkalog.recovery.checks.report import DirectoryReport, PartitionReport
from kafkalog.tiers.both_tiers import BothTiers
from kafkalog.tiers.local_tiering import remote_metadata_in
from kafkalog.tiers.remote_tier import RemoteTier

__all__ = ["verify_remote"]


def verify_remote(
    tier: RemoteTier,
    *paths: PathLike,
    deep: bool = True,
    select: Selection = ALL,
    limits: Limits = DEFAULT_LIMITS,
    jobs: Count = 1,
    on_read: Callable[[int], None] | None = None,
) -> DirectoryReport:
    """Check the remote logs that brokers would read from a tier, as `verify` checks local logs. Return a report with
    one entry for each partition; findings and entries name objects of the tier in place of local files. The report is
    empty if the tier has no segments. A partition that cannot be read gets an UNREADABLE finding, and its counts are 0.
    Nothing is written. Raises `StorageError` if the tier cannot be listed, or a log of `__remote_log_metadata` cannot
    be read.

    * `tier`: see `open_tier`
    * `paths`: log directories whose `__remote_log_metadata` says which segments are read; if it has no events of a
      partition, all segments that the tier lists are read. A path that is missing or cannot be listed has no events.
    * `deep`: also decode every record
    * `select`: which partitions; names that do not exist are ignored
    * `limits`: what a batch or file may hold at most (`Limits`)
    * `jobs`: number of partitions read at a time
    * `on_read`: called with the number of log bytes read since the last call
    """
    both = BothTiers(None, tier, remote_metadata_in([os.fspath(path) for path in paths]))
    if not both.listed:
        return DirectoryReport(path=tier.place)
    log_dir = open_log_dir(both.path, tolerant=True, limits=limits)
    chosen = [partition for partition in log_dir.partitions if select.takes(partition.topic, partition.partition)]
    tables = HeaderTables()

    def named(found: Sequence[Finding]) -> list[Finding]:
        return [each if each.file is None else replace(each, file=both.origin(each.file)) for each in found]

    def check(partition: Partition, told: OnRead | None) -> PartitionReport:
        try:
            report = verify_partition(partition, deep=deep, limits=limits, on_read=told, tables=tables)
            report.findings = [*report.findings, *_others(both, partition)]
        except StorageError as error:
            report = PartitionReport(path=partition.path, segments=len(partition.segments))
            report.findings = [*partition.findings, unreadable(error, partition.path)]
        report.findings = named(report.findings)
        report.path = f"{tier.place}: {partition.topic}-{partition.partition}"
        return report

    reports = list(in_order(chosen, check, size=lambda each: each.size, jobs=jobs, on_read=on_read))
    return DirectoryReport(path=tier.place, partitions=reports, directory_findings=named(log_dir.findings))


def _others(both: BothTiers, partition: Partition) -> Iterator[Finding]:
    """Yield a REMOTE_OBJECT_DAMAGED error for each log object of the partition that contains the log of another
    segment: its size is right, but its timestamps contradict the events or its time index. Raises `StorageError` if an
    object cannot be read.
    """
    for item, segment in both.others_in_place((partition.topic or "", partition.partition or 0)):
        detail = (
            f"this is the log of another segment: its timestamps are not those of segment {segment.id}, "
            f"offsets {segment.start_offset} to {segment.end_offset}"
        )
        code = FindingCode.REMOTE_OBJECT_DAMAGED
        yield Finding(code, Severity.ERROR, None, segment.start_offset, detail, item.path)
