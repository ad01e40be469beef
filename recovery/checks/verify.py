"""Run all checks, read-only: logs, records, indexes, snapshots, epochs, checkpoints and directories.

The results are `Finding`s with stable codes; nothing here raises for bad data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kafkalog.codec.common.arguments import Count
from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.headers.header_tables import HeaderTables
from kafkalog.codec.names import META_PROPERTIES, parse_partition_directory
from kafkalog.log.directories.inventory import lost_directories, open_all
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.directories.workers import OnRead, in_order
from kafkalog.log.directories.zookeeper_directories import without_zookeeper
from kafkalog.log.disk.files import PathLike, listed_once, real, unreadable
from kafkalog.recovery.broker.start_question import ANYTHING, StartQuestion
from kafkalog.recovery.checks.beside_running import is_in_use, look_again, read_again, settled_findings
from kafkalog.recovery.checks.checkpoint_checks import Beside, verify_beside
from kafkalog.recovery.checks.log_directory import AsListed, beside_of, in_no_log_directory, listed_findings
from kafkalog.recovery.checks.lost_and_found import known_ends, offered_once
from kafkalog.recovery.checks.lost_directories import with_what_was_there
from kafkalog.recovery.checks.report import IN_USE, BrokerStart, DirectoryReport, PartitionReport, VerifyReport
from kafkalog.recovery.facts.brokers import facts_of_each
from kafkalog.recovery.facts.coordinators import Coordinators
from kafkalog.recovery.facts.topic_facts import TopicFacts

if TYPE_CHECKING:
    from kafkalog.recovery.checks.broker_start import Loading

__all__ = ["hanging_transactions", "verify"]


def verify(
    *paths: PathLike,
    deep: bool = True,
    select: Selection = ALL,
    limits: Limits = DEFAULT_LIMITS,
    jobs: Count = 1,
    on_read: Callable[[int], None] | None = None,
    asked: StartQuestion = ANYTHING,
) -> VerifyReport:
    """Check log directories, partition directories or segments; change nothing. The report has one entry for each log
    directory and each path that cannot be used. A partition directory or segment that was passed by its own path has an
    entry if it is in none of the others.

    A file or directory that cannot be read becomes a finding (`unreadable`), and everything else is still checked. If a
    running broker holds the lock of a log directory, the directory is examined up to four times. Only problems that
    persist are reported then, and the broker's next start is not predicted. Raises `UsageError` for an unknown release
    if a start is predicted, if everything selected is excluded, and for paths without Kafka data. Missing or empty
    paths raise it only if no log directory is given. Raises `UnknownName` for a topic or partition that does not exist,
    and `StorageError` if an object store fails.

    * `paths`: log directories, partition directories or segments; beside these, the data directories of ZooKeeper,
      which decide what a broker with ZooKeeper serves after a start
    * `deep`: also decode every record
    * `select`: which partitions. If not all are selected, checks of a log directory as a whole and the forecast of a
      start are left out. So are log directories that have only other partitions
    * `limits`: what a batch or file may hold at most (`Limits`)
    * `jobs`: number of partitions read at a time
    * `on_read`: called with the number of log bytes read since the last call
    * `asked`: release whose start is predicted, and properties of the node
    """

    def look(only: frozenset[str] | None = None, told: Callable[[int], None] | None = None) -> VerifyReport:
        return _look(paths, deep, select, limits, jobs, told, asked, only)

    report = look(told=on_read)
    for directory in report.directories:
        if directory.is_in_use:
            _settle(directory, look)
    return report


def _settle(directory: DirectoryReport, look: Callable[[frozenset[str]], VerifyReport]) -> None:
    """Examine again, up to three times (`look_again`), what has a warning or error in a directory that a broker has
    open. Remove from its report the warnings and errors that do not persist, and the partitions that no longer exist.
    `look` checks the partition and log directories with the paths passed to it and returns their report; its errors are
    raised.
    """

    def again(paths: frozenset[str]) -> dict[str, Sequence[Finding]]:
        report = look(paths)
        found: dict[str, Sequence[Finding]] = {each.path: each.findings for each in report.partitions}
        return found | {each.path: each.directory_findings for each in report.directories}

    by_path = {each.path: each.findings for each in directory.partitions}
    of_directory = {} if directory.path in by_path else {directory.path: directory.directory_findings}
    left = look_again(by_path | of_directory, again)
    directory.directory_findings = left[directory.path] or [] if of_directory else directory.directory_findings
    for partition in directory.partitions:
        partition.findings = left[partition.path] or []
    directory.partitions = [each for each in directory.partitions if left[each.path] is not None]


def _look(
    paths: Sequence[PathLike],
    deep: bool,
    select: Selection,
    limits: Limits,
    jobs: int,
    on_read: Callable[[int], None] | None,
    asked: StartQuestion,
    only: frozenset[str] | None,
) -> VerifyReport:
    """Check everything once; the parameters are as in `verify`. With `only`, a set of paths, only these partition
    directories are checked. A log directory is checked only if it is in the set, contains one of the paths, or has no
    partition. Findings about directories that a running broker has open are left out if they may be due to its work
    (`settled_findings`). Raises the errors of `verify`.
    """
    with listed_once():  # and no longer: what was listed goes before others are forked
        logs, zookeepers = without_zookeeper(paths)
        inventory = open_all(*logs, tolerant=True, missing_too=True, limits=limits)
        select.check(inventory.names)
        roots = [each.path for each in inventory.log_dirs]
        roots += zookeepers if roots else []
        known = facts_of_each(roots, lost_directories(inventory.unreadable)) if select == ALL else {}
        in_use = {each.path for each in inventory.log_dirs if is_in_use(each.path)}
        listed = {
            each.path: AsListed(each, known[real(each.path)], asked)
            for each in inventory.log_dirs
            if known and each.path not in in_use
        }

    def meant(partitions: Sequence[Partition]) -> list[Partition]:
        chosen = (each for each in partitions if only is None or each.path in only)
        return [each for each in chosen if select.takes(each.topic, each.partition)]

    tables = HeaderTables()

    def check(partition: Partition, told: OnRead | None, beside: Beside | None = None) -> PartitionReport:
        def read(listed: Partition) -> PartitionReport:
            headers = tables if listed is partition else None
            return verify_beside(listed, beside, deep=deep, limits=limits, on_read=told, tables=headers)

        try:
            return read_again(read, partition)
        except StorageError as error:
            findings = [*partition.findings, unreadable(error, partition.path)]
            return PartitionReport(path=partition.path, segments=len(partition.segments), findings=findings)

    def checked_all(partitions: Sequence[Partition], beside: Beside | None = None) -> list[PartitionReport]:
        one = partial(check, beside=beside)
        return list(in_order(partitions, one, size=lambda each: each.size, jobs=jobs, on_read=on_read))

    unusable = with_what_was_there(inventory.unreadable, [each.path for each in inventory.log_dirs])
    directories = [
        DirectoryReport(path=finding.file or "", partitions=[], directory_findings=[finding]) for finding in unusable
    ]
    together = inventory.findings_together()
    loadings: dict[str, Loading] = {}
    unasked: list[tuple[DirectoryReport, int]] = []
    for log_dir in inventory.log_dirs:
        partitions = meant(log_dir.partitions)
        if log_dir.partitions and not partitions and (only is None or log_dir.path not in only):
            continue
        reports = checked_all(partitions, beside_of(log_dir, inventory.log_dirs, known.get(real(log_dir.path))))
        start: BrokerStart | None = None
        if log_dir.path in listed:
            ends = {each.path: each.log_end_offset for each in reports if each.is_log_read}
            reached = {each.path: each.offset_reached for each in reports}
            loadings[log_dir.path], found = listed[log_dir.path].checked(
                known_ends(ends), reached.get, tables, jobs=jobs
            )
        else:
            found = listed_findings(log_dir, known.get(real(log_dir.path)))
        own = len(found)
        found += _among(together, [*(each.path for each in partitions), os.path.join(log_dir.path, META_PROPERTIES)])
        if log_dir.path in in_use:
            found = settled_findings(found)
            by_path = {each.path: each for each in partitions}
            for report in reports:
                report.findings = settled_findings(report.findings, by_path[report.path])
            start = BrokerStart(outcome=None, message=IN_USE, is_in_use=True)
        directories.append(
            DirectoryReport(path=log_dir.path, partitions=reports, directory_findings=found, broker=start)
        )
        if log_dir.path in loadings:
            unasked.append((directories[-1], own))
    _ask(unasked, listed, loadings)
    _offer_once(directories)
    for partition in meant(in_no_log_directory(inventory)):
        found, reports = _among(together, [partition.path]), checked_all([partition])
        start = None
        if is_in_use(os.path.dirname(partition.path)):
            found, start = settled_findings(found), BrokerStart(outcome=None, message=IN_USE, is_in_use=True)
            reports[0].findings = settled_findings(reports[0].findings, partition)
        directories.append(
            DirectoryReport(path=partition.path, partitions=reports, directory_findings=found, broker=start)
        )
    return VerifyReport(tuple(os.fspath(path) for path in paths), directories)


def _offer_once(directories: Sequence[DirectoryReport]) -> None:
    once = offered_once({os.path.abspath(directory.path): directory.directory_findings for directory in directories})
    for directory in directories:
        directory.directory_findings = once[os.path.abspath(directory.path)]


def _ask(
    unasked: Sequence[tuple[DirectoryReport, int]], listed: Mapping[str, AsListed], loadings: Mapping[str, Loading]
) -> None:
    """Add to each report in `unasked` the forecast of the node's start and the findings about it; the logs of all the
    node's directories must have been loaded (`loadings`). An item of `unasked` is (report, number): these findings are
    inserted after the first `number` findings of the directory. Add findings about hanging transactions to the
    partitions; for these the coordinators' topics may be read.
    """
    for directory, own in unasked:
        directory.broker, of_start = listed[directory.path].started(loadings)
        findings = directory.directory_findings
        directory.directory_findings = [*findings[:own], *of_start, *findings[own:]]
        facts = listed[directory.path].facts
        coordinators = Coordinators([directory.path, *facts.roots])
        for report in directory.partitions:
            report.findings += hanging_transactions(report, coordinators, facts)


def hanging_transactions(report: PartitionReport, coordinators: Coordinators, facts: TopicFacts) -> Iterator[Finding]:
    """Yield a TRANSACTION_HANGING finding about each hanging transaction. Such a transaction is open at the end of a
    log, and its coordinator will not end it, or will end it differently than it was decided. The coordinator's log is
    read in the broker's directories. Nothing is yielded if that log is missing, unreadable or too large (256 MiB), or
    about a transaction of which another broker may know more. `facts` come from the broker's metadata log.
    """
    directory = os.path.basename(report.path)
    name = parse_partition_directory(directory)
    if name is None or not report.open_transactions:
        return
    endings = coordinators.endings(directory, report.open_transactions)
    for number, first in report.open_transactions.items():
        hanging, decision = endings.get(number, (None, None))
        if decision is not None and (decision.is_pending or (decision.decided is None and hanging is None)):
            decision = None
        if decision is None and coordinators.id_without_transaction(number, None, name, facts) is None:
            continue
        from kafkalog.cluster.transactions.transactions import sentence_about  # seldom needed

        owner = None if coordinators.transactions is None else coordinators.transactions.by_producer.get(number)
        detail = sentence_about(number, first, hanging, decision, None if owner is None else owner.state)
        yield Finding(FindingCode.TRANSACTION_HANGING, Severity.WARNING, None, first, detail, report.path)


def _among(findings: Sequence[Finding], files: Sequence[str]) -> list[Finding]:
    meant = frozenset(files)
    return [finding for finding in findings if finding.file in meant]
