"""Every check there is, read-only: logs, records, indexes, snapshots, epochs, checkpoints, directories.

What is found are `Finding`s with stable codes; nothing here raises for bad data.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from kafkalog.codec.arguments import checked
from kafkalog.codec.errors import StorageError
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.log import Inventory, LogDir, Partition, open_all
from kafkalog.recovery.broker.headers import HeaderTables
from kafkalog.recovery.broker.manager import Outcome, load_log_directory
from kafkalog.recovery.broker.settings import LogSettings
from kafkalog.recovery.survey import survey
from kafkalog.recovery.verify_partition import header_tables, verify_partition
from kafkalog.recovery.verify_report import PartitionReport, VerifyReport

__all__ = ["broker_findings", "checkpoint_findings", "duplicate_findings", "verify"]

PathLike = str | os.PathLike[str]


def checkpoint_findings(
    partition: Partition, report: PartitionReport, log_start: int, high_watermark: int | None
) -> Iterator[Finding]:
    """What the checkpoints of the log directory and a live partition's log together tell."""
    end = report.log_end_offset
    if partition.segments and _last_end(partition, report) < log_start:
        detail = f"the log ends at {end}, its start is {log_start}: a broker would delete all of it"
        yield Finding(FindingCode.LOG_END_BELOW_LOG_START, Severity.ERROR, None, end, detail, partition.path)
    if high_watermark is not None and end < high_watermark:
        detail = f"the log ends at {end}, the high watermark was {high_watermark}"
        yield Finding(FindingCode.LOG_END_BELOW_HIGH_WATERMARK, Severity.WARNING, None, end, detail, partition.path)


def _log_dir_findings(log_dir: LogDir, reports: dict[str, PartitionReport]) -> Iterator[Finding]:
    for partition in log_dir.partitions:
        report = reports.get(partition.path)
        if report is None or partition.name is None or partition.state.value:
            continue
        key = (partition.name.topic, partition.name.partition)
        start = log_dir.log_start_offsets.get(key, 0)
        yield from checkpoint_findings(partition, report, start, log_dir.high_watermarks.get(key))


def _last_end(partition: Partition, report: PartitionReport) -> int:
    return max(report.log_end_offset, partition.segments[-1].base_offset)


def broker_findings(log_dir: LogDir, tables: HeaderTables | None = None) -> Iterator[Finding]:
    """Whether a broker would start on the directory, with default settings; `tables` of logs that were just read."""
    try:
        settings = LogSettings()
        with survey(log_dir.path, tables=tables) as found:
            result = load_log_directory(
                found.tree(), settings=lambda topic: settings, now_ms=time.time_ns() // 1_000_000
            )
    except StorageError as error:
        if error.errno is None:
            raise
        detail = f"the broker's start could not be foreseen: {error.strerror}"
        yield Finding(FindingCode.BROKER_REFUSES, Severity.WARNING, None, None, detail, log_dir.path)
        return
    if result.outcome != Outcome.LOADED:
        end = "not start" if result.outcome == Outcome.START_FAILS else "take the directory offline"
        detail = f"Kafka 4.1 would {end}: {result.exception}: {result.message}"
        yield Finding(FindingCode.BROKER_REFUSES, Severity.ERROR, None, None, detail, log_dir.path)


def duplicate_findings(inventory: Inventory) -> Iterator[Finding]:
    """Topic-partitions that stand in more than one directory."""
    for name, several in inventory.duplicates().items():
        detail = f"{name} stands in {' and '.join(each.path for each in several)}"
        yield Finding(FindingCode.DUPLICATE_PARTITION, Severity.WARNING, None, None, detail, several[0].path)


@checked
def verify(
    *paths: PathLike,
    deep: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    on_read: Callable[[int], None] | None = None,
) -> VerifyReport:
    """Check log directories, partition directories or segments; changes nothing.

    `deep` also decodes every record; `on_read` is told of log bytes as they pass.  Raises `UsageError` for paths that
    hold nothing of Kafka's and `StorageError` for I/O.
    """
    inventory = open_all(*paths, limits=limits)
    tables = header_tables(inventory.partitions)
    reports = {
        partition.path: verify_partition(partition, deep=deep, limits=limits, on_read=on_read, tables=tables)
        for partition in inventory.partitions
    }
    found = [finding for log_dir in inventory.log_dirs for finding in log_dir.findings]
    found.extend(duplicate_findings(inventory))
    for log_dir in inventory.log_dirs:
        found.extend(_log_dir_findings(log_dir, reports))
        found.extend(broker_findings(log_dir, tables))
    return VerifyReport(inventory.paths, list(reports.values()), found)
