"""`kafkalog verify`: run all checks, without changing anything."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import click

from kafkalog.cli.looking.tiering_text import tiering_text
from kafkalog.cli.looking.verify_screen import screen_of
from kafkalog.cli.options.common import JOBS, JSON, RELEASE
from kafkalog.cli.options.paths import PATHS, SERVER_PROPERTIES, settings_in
from kafkalog.cli.options.remote import Remote, remote_options
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.output import behind_text, print_json, remark, report_findings
from kafkalog.cli.progress import ByteProgress, total_bytes
from kafkalog.cli.sentences import SentenceWriter, print_screen
from kafkalog.cli.tables import Column, Kind, print_table, size_text
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Severity
from kafkalog.codec.common.shell import shell_option
from kafkalog.codec.common.wording import counted
from kafkalog.log.directories.commits import unfinished_commit
from kafkalog.log.directories.selection import Selection
from kafkalog.recovery.broker.start_question import StartQuestion
from kafkalog.recovery.checks.report import DirectoryJson, PartitionReport, VerifyReport
from kafkalog.recovery.checks.verify import verify
from kafkalog.words.exit_codes import ExitCode, exit_code_of_findings
from kafkalog.words.order import natural_order

__all__ = ["command"]

_COLUMNS: list[str | Column] = [
    "partition directory",
    Column("segments", drop=4),
    Column("batches", drop=3),
    Column("records", drop=2),
    Column("bytes", Kind.BYTES, drop=1),
    Column("valid", Kind.BYTES, drop=5),
    Column("after damage", wraps=True, if_any=True, alarms=True),
    "end",
    Column("findings", wraps=True, alarms=True),
]


def _hurt(partition: PartitionReport) -> list[str]:
    return sorted({str(finding.code) for finding in partition.findings if finding.severity != Severity.INFO})


def _row(partition: PartitionReport, *, shallow: bool, below: str) -> list[object]:
    return [
        partition.path.removeprefix(below),
        partition.segments,
        partition.batches,
        "" if shallow else partition.records,
        partition.log_bytes,
        partition.valid_bytes,
        behind_text(partition.sound_batches_behind_damage, partition.sound_records_behind_damage),
        partition.log_end_offset if partition.is_log_read else "unknown",
        ", ".join(_hurt(partition)) or "ok",
    ]


def _in_order(reports: Iterable[PartitionReport]) -> list[PartitionReport]:
    return sorted(reports, key=lambda each: natural_order(each.path))


def _print(report: VerifyReport, *, shallow: bool, every: bool, words: Sequence[str]) -> None:
    """Print the first screen (verdict and next command), the totals of all partitions, sentences about tiered logs, and
    a table. Without `every`, the table has the partitions with warnings or errors, those with the most unreadable bytes
    first, and is omitted if there are none. With `every`, it has all partitions, sorted by path, and a row of totals if
    there are several.

    `shallow` says that records were not counted. `words` are options that the recommended command repeats. Reads
    damaged places again.
    """
    reports = report.partitions
    segments, batches = sum(each.segments for each in reports), sum(each.batches for each in reports)
    records, size = sum(each.records for each in reports), sum(each.log_bytes for each in reports)
    sums = [segments, batches, "" if shallow else records, size, sum(each.valid_bytes for each in reports)]
    hurt = _in_order(partition_report for partition_report in reports if _hurt(partition_report))
    print_screen(screen_of(report, hurt, words))
    places = {os.path.dirname(partition_report.path) for partition_report in reports}
    below = os.path.join(*places, "") if len(places) == 1 else ""
    of_records = "" if shallow else f", {counted(records, 'record')}"
    with SentenceWriter() as writer:
        writer.write("")
        writer.write(f"{counted(len(reports), 'partition')}: {counted(segments, 'segment')}, "
                     f"{counted(batches, 'batch')}{of_records}, "
                     f"{size_text(size)}")  # fmt: skip
        if not every:
            other = [directory_finding for one in report.directories for directory_finding in one.directory_findings]
            beside = sum(finding.severity is not Severity.INFO for finding in other)
            more = f", and {counted(beside, 'finding')} beside the partitions" if beside else ""
            writer.write(f"{counted(len(hurt), 'partition')} with findings{more}; --all lists each partition")
        for line in tiering_text([(each.path.removeprefix(below), each.local_start) for each in reports]):
            writer.write(line)
    if every:
        totals = [f"total: {len(reports)}", *sums, "", "", f"in {len(hurt)}" if hurt else "ok"]
        rows = [_row(partition_report, shallow=shallow, below=below) for partition_report in _in_order(reports)]
        click.echo()
        print_table("all partitions", _COLUMNS, rows, totals, fits=True)
        return
    hurt.sort(key=lambda each: each.valid_bytes - each.log_bytes)  # the most that is not sound first
    if hurt:
        click.echo()
        rows = [_row(partition_report, shallow=shallow, below=below) for partition_report in hurt]
        print_table("with findings", _COLUMNS, rows, fits=True)


def _repeated(server_properties: str | None, release: str | None) -> list[str]:
    """Return the options, with their values, that affect whether a broker starts; empty if none was used."""
    given = {"--server-properties": server_properties, "--release": release}
    return [word for option, value in given.items() if value is not None for word in shell_option(option, value)]


@click.command(name="verify")
@PATHS
@selection_options
@click.option("--shallow", is_flag=True, help="Check only the checksums of batches; do not decode records.")
@click.option("--problems-only/--all", default=None,
              help="List partitions with findings, the most damaged first, or every one [problems only].")  # fmt: skip
@remote_options
@JOBS
@RELEASE
@SERVER_PROPERTIES
@JSON
def command(
    paths: tuple[str, ...],
    remote: Remote,
    chosen: Selection,
    shallow: bool,
    problems_only: bool | None,
    jobs: int,
    release: str | None,
    server_properties: str | None,
    as_json: bool,
) -> int:
    """Check logs, records, indexes, snapshots, epochs and checkpoints; change nothing.

    It does not compare logs with the offsets that groups have committed: `kafkalog plan` does.

    If only some partitions are chosen, it does not check a log directory as a whole: whether a broker would start on
    it, and which partitions are missing.  With --remote the remote segments of tiered logs are checked too, those that
    the events in PATH name, or all that are listed.

    Exit code 0 if all is well, 1 if something was found, 4 if something could not be read; the rest is still checked.
    """
    if as_json and problems_only is not None:
        flag = "--problems-only" if problems_only else "--all"
        raise UsageError(f"{flag} is for the table; --json lists everything")
    tier = remote.tier()
    report = VerifyReport((), [])
    if paths:
        with ByteProgress("verifying", lambda: total_bytes(paths)) as progress:
            report = verify(*paths, deep=not shallow, select=chosen, jobs=jobs, on_read=progress.advance,
                            asked=StartQuestion(release, settings_in(server_properties)))  # fmt: skip
    if tier is not None:
        from kafkalog.recovery.checks.remote import verify_remote

        roots = [each.path for each in report.directories if each.broker is not None or os.path.isdir(each.path)]
        other = verify_remote(tier, *roots, deep=not shallow, select=chosen, jobs=jobs)
        report = VerifyReport((*report.paths, tier.place), [*report.directories, other])
    if as_json:
        for directory in report.directories:
            print_json(directory, DirectoryJson)
    else:
        _print(report, shallow=shallow, every=problems_only is False, words=_repeated(server_properties, release))
    report_findings(report.findings)
    commits = [said for each in report.directories if (said := unfinished_commit(each.path)) is not None]
    for said in commits:
        remark(said)
    return max(exit_code_of_findings(report.findings), ExitCode.FINDINGS if commits else ExitCode.CLEAN)
