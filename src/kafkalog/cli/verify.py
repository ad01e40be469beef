"""`kafkalog verify`: every check there is, and nothing changed."""

from __future__ import annotations

import click

from kafkalog.cli.arguments import PATHS
from kafkalog.cli.outcome import Outcome
from kafkalog.cli.output import print_json, print_table, report_findings
from kafkalog.cli.progress import ByteProgress
from kafkalog.cli.settings import total_bytes
from kafkalog.recovery.verify import verify

__all__ = ["command"]


@click.command(name="verify")
@PATHS
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--shallow", is_flag=True, help="Check batches by their checksum, without decoding records.")
def command(paths: tuple[str, ...], as_json: bool, shallow: bool) -> int:
    """Check logs, records, indexes, snapshots, epochs and checkpoints; change nothing.

    Exit code 0 if all is well, 1 if something was found.
    """
    with ByteProgress("verifying", sum(total_bytes(path) for path in paths)) as progress:
        report = verify(*paths, deep=not shallow, on_read=progress.advance)
    if as_json:
        print_json(report.as_dict())
    else:
        print_table(
            f"{'clean' if report.is_clean else 'not clean'}: {', '.join(report.paths)}",
            ["partition directory", "segments", "batches", "records", "bytes", "valid", "end", "findings"],
            [
                [
                    each.path,
                    each.segments,
                    each.batches,
                    "" if shallow else each.records,
                    each.log_bytes,
                    each.valid_bytes,
                    each.log_end_offset,
                    ", ".join(sorted({str(found.code) for found in each.findings if found.severity != "info"})),
                ]
                for each in report.partitions
            ],
        )
    report_findings(report.findings)
    return Outcome.CLEAN if report.is_clean else Outcome.FINDINGS
