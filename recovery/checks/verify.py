"""Every check there is, read-only: logs, records, indexes, snapshots, epochs, checkpoints, directories.

What is found are `Finding`s with stable codes; nothing here raises for bad data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from kafkalog.codec.errors import StorageError
from kafkalog.codec.findings import Finding
from kafkalog.codec.headers.header_tables import HeaderTables
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.names import META_PROPERTIES
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.inventory import Inventory, open_all
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import listed_once, real, scan_directory, unreadable
from kafkalog.log.disk.pointer import findings_of_half_done
from kafkalog.recovery.checks.lost_and_found import batches_outside
from kafkalog.recovery.checks.lost_directories import read_only_finding, with_what_was_there
from kafkalog.recovery.checks.missing_partitions import missing_partitions_of
from kafkalog.recovery.checks.owners import other_owners
from kafkalog.recovery.checks.partition import Beside, header_tables, verify_beside
from kafkalog.recovery.checks.report import BrokerStart, DirectoryReport, PartitionReport, VerifyReport
from kafkalog.recovery.facts.brokers import brothers_of, facts_of_each
from kafkalog.recovery.facts.topic_facts import NO_FACTS, TopicFacts, read_topic_facts
from kafkalog.recovery.facts.workers import OnRead, in_order
from kafkalog.tiers.tiering import NO_TIERING

__all__ = ["beside_of", "verify"]

PathLike = str | os.PathLike[str]


def beside_of(log_dir: LogDir, log_dirs: Sequence[LogDir] = (), facts: TopicFacts | None = None) -> Beside:
    """What is beside the partitions of a log directory; `log_dirs` may be others of the same broker.

    `facts` are what the broker's metadata log says, where somebody has read it.
    """
    names = [entry.name for entry in scan_directory(log_dir.path)]
    begin_late = any(each.segments and each.segments[0].base_offset for each in log_dir.partitions)
    if begin_late and facts is None:
        facts = read_topic_facts(brothers_of(log_dir.path, [each.path for each in log_dirs]))
    tiering = facts.tiering if begin_late and facts is not None else NO_TIERING
    tiering = tiering.with_checkpoint(names, log_dir.log_start_offsets)
    return Beside(log_dir.log_start_offsets, log_dir.high_watermarks, tiering)


def verify(
    *paths: PathLike,
    deep: bool = True,
    select: Selection = ALL,
    limits: Limits = DEFAULT_LIMITS,
    jobs: int = 1,
    on_read: Callable[[int], None] | None = None,
) -> VerifyReport:
    """Check log directories, partition directories or segments; changes nothing.

    `deep` also decodes every record; `select` selects partitions (if not all are selected, checks of a log directory as
    a whole are left out); `jobs` partitions are read at a time; `on_read` is called with the number of log bytes read.
    A file or directory that cannot be read is a finding (`unreadable`), and everything else is still checked.  Raises
    `UsageError` for paths without Kafka data, `UnknownName` for a topic or partition that does not exist.

    * `paths`: log directories, partition directories or segments
    * `limits`: what a batch or file may hold at most (`Limits`)
    """
    with listed_once():  # and no longer: what was listed goes before others are forked
        inventory = open_all(*paths, tolerant=True, missing_too=True, limits=limits)
        select.check(inventory.names)
        known = facts_of_each([each.path for each in inventory.log_dirs]) if select == ALL else {}
        seen = {each.path: _Seen(each.path, known) for each in inventory.log_dirs} if select == ALL else {}

    def meant(partitions: Sequence[Partition]) -> list[Partition]:
        return [each for each in partitions if select.takes(each.topic, each.partition)]

    tables = header_tables(meant(inventory.partitions))

    def check(partition: Partition, told: OnRead | None, beside: Beside | None = None) -> PartitionReport:
        try:
            return verify_beside(partition, beside, deep=deep, limits=limits, on_read=told, tables=tables)
        except StorageError as error:
            findings = [*partition.findings, unreadable(error, partition.path)]
            return PartitionReport(partition.path, segments=len(partition.segments), findings=findings)

    def checked_all(partitions: Sequence[Partition], beside: Beside | None = None) -> list[PartitionReport]:
        one = partial(check, beside=beside)
        return list(in_order(partitions, one, size=lambda each: each.size, jobs=jobs, on_read=on_read))

    unusable = with_what_was_there(inventory.unreadable, [each.path for each in inventory.log_dirs])
    directories = [DirectoryReport(finding.file or "", [], [finding]) for finding in unusable]
    together = inventory.findings_together()
    for log_dir in inventory.log_dirs:
        partitions = meant(log_dir.partitions)
        if log_dir.partitions and not partitions:
            continue
        facts = known.get(real(log_dir.path))
        reports = checked_all(partitions, beside_of(log_dir, inventory.log_dirs, facts))
        found = [*findings_of_half_done(log_dir.path), *log_dir.findings, *_among(together, partitions)]
        if facts is not None:
            found += [*missing_partitions_of(log_dir, facts), *read_only_finding(log_dir.path, facts)]
            found += batches_outside(log_dir, {each.path: each.log_end_offset for each in reports if each.is_log_read})
        found += [each for each in together if each.file == os.path.join(log_dir.path, META_PROPERTIES)]
        start: BrokerStart | None = None
        refused: list[Finding] = []
        if log_dir.path in seen:
            found += seen[log_dir.path].owners
            start, refused = seen[log_dir.path].started(tables, jobs)
        directories.append(DirectoryReport(log_dir.path, reports, [*found, *refused], start))
    for partition in meant(_apart(inventory)):
        found = _among(together, [partition])
        directories.append(DirectoryReport(partition.path, checked_all([partition]), found))
    return VerifyReport(inventory.paths, directories)


class _Seen:
    """What a log directory is asked for as a whole, as it was when it was listed."""

    def __init__(self, path: str, known: Mapping[str, TopicFacts]) -> None:
        from kafkalog.recovery.checks import broker_start  # the whole model of the broker

        self._path = path
        self._facts = known.get(real(path))
        self._start = broker_start
        self._survey = broker_start.surveyed(path)
        self.owners = [] if self._facts is None else other_owners(path, self._facts)

    def started(self, tables: HeaderTables, jobs: int) -> tuple[BrokerStart, list[Finding]]:
        """Whether a broker would start on it; `tables` of logs that were read since."""
        return self._start.broker_start(self._path, self._survey, tables, jobs=jobs, facts=self._facts or NO_FACTS)


def _apart(inventory: Inventory) -> list[Partition]:
    """Partitions that are in no log directory that was checked."""
    if not inventory.standalone:
        return []
    counted = {real(each.path) for log_dir in inventory.log_dirs for each in log_dir.partitions}
    return [each for each in inventory.standalone if real(each.path) not in counted]


def _among(findings: Sequence[Finding], partitions: Sequence[Partition]) -> list[Finding]:
    paths = {partition.path for partition in partitions}
    return [finding for finding in findings if finding.file in paths]
