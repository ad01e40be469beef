"""`kafkalog compare`: several brokers' volumes side by side."""

from __future__ import annotations

import click

from kafkalog.cli.compare_text import print_comparison
from kafkalog.cli.lines import print_lines
from kafkalog.cli.options.common import JOBS, JSON, job_count
from kafkalog.cli.options.paths import PATHS, SERVER_PROPERTIES, properties_only_for
from kafkalog.cli.options.selection import chosen_of, selection_options
from kafkalog.cli.output import report_findings
from kafkalog.cli.progress import ByteProgress
from kafkalog.cli.settings import total_bytes
from kafkalog.recovery.copies.compare import compare
from kafkalog.words.outcome import Outcome

__all__ = ["command"]


@click.command(name="compare")
@PATHS
@selection_options
@JOBS
@SERVER_PROPERTIES
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    numbers: tuple[int, ...],
    excluded: tuple[str, ...],
    jobs: int | None,
    server_properties: str | None,
    as_json: bool,
) -> int:
    """Compare the volumes of several brokers: which copy of each partition is the best, and why.

    Paths are log directories, directories of several, or partition directories. Without KRaft metadata, a ZooKeeper
    data directory supplies the ISRs. Shows where copies diverge, by leader epoch and by content, and what is damaged.
    Reads everything and changes nothing.

    Exit code 0 if all copies are equal and complete, 1 if not, 4 if something could not be read.
    """
    properties_only_for(ctx)
    with ByteProgress("comparing", sum(total_bytes(path) for path in paths)) as progress:
        found = compare(
            *paths, select=chosen_of(topics, numbers, excluded), jobs=job_count(jobs), on_read=progress.advance
        )
    if as_json:
        print_lines([*(each.as_dict() for each in found.partitions), found.as_dict()])
    else:
        print_comparison(found)
    report_findings([*found.findings, *(each for partition in found.partitions for each in partition.findings)])
    if found.unreadable:
        return Outcome.IO_ERROR
    return Outcome.CLEAN if found.is_clean else Outcome.FINDINGS
