"""`kafkalog triage`: predict elections after a power failure, before the first broker is started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from kafkalog.cli.lines import print_lines
from kafkalog.cli.looking.triage_text import print_triage
from kafkalog.cli.options.common import JOBS, JSON
from kafkalog.cli.options.order import START_ORDER
from kafkalog.cli.options.paths import PATHS, SERVER_PROPERTIES, settings_in
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.output import report_findings
from kafkalog.cli.shapes.triage_lines import partition_line, refused_line, summary_line
from kafkalog.codec.common.errors import RecoveryRefused, StorageError
from kafkalog.jobs.triage.run import triage
from kafkalog.log.directories.selection import Selection
from kafkalog.words.exit_codes import ExitCode, exit_code_of_findings, sentence_of

__all__ = ["command"]


@contextmanager
def _refusal_printed(as_json: bool) -> Iterator[None]:
    """Context manager: if its block raises `RecoveryRefused` or `StorageError`, print a JSON summary line with the
    reason, and raise the error again. Prints nothing if `as_json` is False.
    """
    try:
        yield
    except (RecoveryRefused, StorageError) as error:
        if as_json:
            print_lines([refused_line(sentence_of(error))])
        raise


@click.command(name="triage")
@PATHS
@START_ORDER
@selection_options
@JOBS
@SERVER_PROPERTIES
@JSON
def command(
    paths: tuple[str, ...],
    start_order: tuple[int, ...] | None,
    chosen: Selection,
    jobs: int,
    server_properties: str | None,
    as_json: bool,
) -> int:
    """Before the first start after a power cut: who will lead each partition, and what the others lose.

    Paths are the log directories of all stopped brokers and controllers, or directories of several of them, or
    ZooKeeper's data directory. Without --start-order all leaders are shown that any order of starts can lead to, as
    old sessions end while brokers register. Reads everything and changes nothing.

    Exit code 0 if nothing is lost, all partitions get a leader and nothing else was found, 1 if not, 3 if a broker is
    running or directories do not belong together, 4 if something cannot be read: the rest is shown.
    """
    with _refusal_printed(as_json):
        found = triage(
            *paths,
            start_order=start_order,
            select=chosen,
            config=settings_in(server_properties),
            jobs=jobs,
        )
    if as_json:
        print_lines([*map(partition_line, found.partitions), summary_line(found)])
    report_findings(found.findings)
    if not as_json:
        print_triage(found)
    is_fine = found.is_clean and not found.cut_by_start and not found.below_high_watermark
    return max(ExitCode.CLEAN if is_fine else ExitCode.FINDINGS, exit_code_of_findings(found.findings))
