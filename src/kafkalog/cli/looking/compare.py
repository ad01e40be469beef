"""`kafkalog compare`: several brokers' volumes side by side."""

from __future__ import annotations

import click

from kafkalog.cli.lines import half_done_in, print_lines
from kafkalog.cli.looking.compare_text import print_comparison, print_losses
from kafkalog.cli.options.common import JOBS, JSON
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.output import report_findings
from kafkalog.cli.progress import ByteProgress, total_bytes
from kafkalog.cli.shapes.compare_lines import group_line, partition_line, summary_line
from kafkalog.codec.common.errors import UnknownName
from kafkalog.codec.common.findings import Finding, Severity
from kafkalog.codec.names import CONSUMER_OFFSETS_TOPIC
from kafkalog.copies.compare import compare
from kafkalog.copies.comparison import Comparison
from kafkalog.inspect.group_losses import GroupLoss, commits_of, group_losses
from kafkalog.log.directories.selection import Selection
from kafkalog.words.exit_codes import ExitCode

__all__ = ["command"]


@click.command(name="compare")
@PATHS
@selection_options
@click.option("--groups", is_flag=True, help="Also show what each consumer group lost where copies diverge.")
@JOBS
@paths_in_properties
@JSON
def command(
    paths: tuple[str, ...],
    chosen: Selection,
    groups: bool,
    jobs: int,
    as_json: bool,
) -> int:
    """Compare the volumes of several brokers: which copy of each partition is the best, and why.

    Paths are log directories, directories of several, or partition directories. Without KRaft metadata, a ZooKeeper
    data directory supplies the ISRs. Shows where copies diverge, by leader epoch and by content, and what is damaged.
    Reads everything and changes nothing.

    --groups compares what groups committed in `__consumer_offsets` with the best copy of each partition: the offsets
    that a group read and that are gone, and those of the best copy that it passes over.

    Exit code 0 if all copies are equal and complete and nothing else was found, 1 if not, such as after an interrupted
    recovery or if a group lost something, 4 if something could not be read.
    """
    with ByteProgress("comparing", lambda: total_bytes(paths)) as progress:
        found = compare(
            *paths, select=chosen, jobs=jobs, on_read=progress.advance
        )
    losses, unknown = _losses(found, paths) if groups else ([], [])
    if as_json:
        lines = [*map(partition_line, found.partitions), *map(group_line, losses), summary_line(found)]
        print_lines(lines)
    else:
        print_comparison(found)
        if groups:
            print_losses(losses)
    half_done = half_done_in(paths)
    own = [*half_done, *found.findings, *(finding for partition in found.partitions for finding in partition.findings)]
    report_findings([*own, *unknown])
    if found.unreadable:
        return ExitCode.IO_ERROR
    is_clean = found.is_clean and not half_done and not losses and not unknown
    return ExitCode.CLEAN if is_clean else ExitCode.FINDINGS


def _losses(found: Comparison, paths: tuple[str, ...]) -> tuple[list[GroupLoss], list[Finding]]:
    """Compare the offsets that groups have committed with the copies in `found`. Return the groups' losses, and the
    warnings and errors that may make this result incomplete.

    If `found` has no `__consumer_offsets`, the copies of that topic at `paths` are compared first, which reads them.
    Raises `UnknownName` if no path has that topic, `StorageError` if a file cannot be read.
    """
    beside = found
    if not any(partition.topic == CONSUMER_OFFSETS_TOPIC for partition in found.partitions):
        try:
            beside = compare(*paths, select=Selection.of([CONSUMER_OFFSETS_TOPIC]))
        except UnknownName:
            raise UnknownName(
                f"none of these has {CONSUMER_OFFSETS_TOPIC}, so what groups have read is not known: give --groups the "
                "volumes of the brokers that have it, too"
            ) from None
    commits, findings = commits_of(beside)
    return group_losses(found, commits), [finding for finding in findings if finding.severity is not Severity.INFO]
