"""`kafkalog verify`: every check there is, and nothing changed."""

from __future__ import annotations

import click

from kafkalog.cli.options.common import JSON
from kafkalog.cli.options.paths import PATHS, SERVER_PROPERTIES, properties_only_for
from kafkalog.cli.options.selection import chosen_of, selection_options
from kafkalog.cli.outcome import outcome_of_findings
from kafkalog.cli.output import behind_text, print_json, print_table, report_findings
from kafkalog.cli.progress import ByteProgress
from kafkalog.cli.settings import total_bytes
from kafkalog.recovery.verify import verify

__all__ = ["command"]

_COLUMNS = (
    "partition directory", "segments", "batches", "records", "bytes", "valid", "after damage", "end", "findings",
)  # fmt: skip


@click.command(name="verify")
@PATHS
@selection_options
@click.option("--shallow", is_flag=True, help="Check batches by their checksum, without decoding records.")
@SERVER_PROPERTIES
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    numbers: tuple[int, ...],
    excluded: tuple[str, ...],
    shallow: bool,
    server_properties: str | None,
    as_json: bool,
) -> int:
    """Check logs, records, indexes, snapshots, epochs and checkpoints; change nothing.

    Where only some partitions are chosen, what concerns a log directory as a whole is not checked: whether a broker
    would start on it, and which partitions are missing.

    Exit code 0 if all is well, 1 if something was found, 4 if something could not be read; all the rest is checked
    then.
    """
    properties_only_for(ctx)
    chosen = chosen_of(topics, numbers, excluded)
    with ByteProgress("verifying", sum(total_bytes(path) for path in paths)) as progress:
        report = verify(*paths, deep=not shallow, select=chosen, on_read=progress.advance)
    if as_json:
        for directory in report.as_dicts():
            print_json(directory)
    else:
        print_table(
            f"{'clean' if report.is_clean else 'not clean'}: {', '.join(report.paths)}",
            [*_COLUMNS],
            [
                [
                    each.path,
                    each.segments,
                    each.batches,
                    "" if shallow else each.records,
                    each.log_bytes,
                    each.valid_bytes,
                    behind_text(each.sound_batches_behind_damage, each.sound_records_behind_damage),
                    each.log_end_offset,
                    ", ".join(sorted({str(found.code) for found in each.findings if found.severity != "info"})),
                ]
                for each in report.partitions
            ],
        )
    report_findings(report.findings)
    return outcome_of_findings(report.findings)
