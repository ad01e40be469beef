"""`kafkalog index`: check the indexes of a log directory, or make them anew."""

from __future__ import annotations

import click

from kafkalog.cli.arguments import PATHS
from kafkalog.cli.interrupt import interruptible
from kafkalog.cli.outcome import Outcome
from kafkalog.cli.output import LineWriter, escape_controls, print_json, report_findings
from kafkalog.cli.plan_text import print_plan
from kafkalog.cli.progress import ByteProgress, RecoveryProgress
from kafkalog.cli.settings import job_count, parse_settings, total_bytes
from kafkalog.codec.errors import RecoveryRefused
from kafkalog.codec.findings import FindingCode
from kafkalog.recovery.run import rebuild_indexes
from kafkalog.recovery.verify import verify

__all__ = ["command"]

_ABOUT_INDEXES = frozenset(
    {
        FindingCode.INDEX_MISSING,
        FindingCode.INDEX_SIZE_INVALID,
        FindingCode.INDEX_NOT_INCREASING,
        FindingCode.INDEX_ENTRY_MISMATCH,
        FindingCode.TXN_INDEX_MISMATCH,
        FindingCode.SNAPSHOT_INVALID,
    }
)


@click.group(name="index")
def command() -> None:
    """Check the indexes of log directories, or make them anew from sound logs."""


@command.command(name="verify")
@PATHS
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def verify_command(paths: tuple[str, ...], as_json: bool) -> int:
    """Say whether every index, transaction index and producer snapshot describes the log beside it.

    Exit code 0 if they do, 1 if not.  Nothing is changed.
    """
    with ByteProgress("verifying", sum(total_bytes(path) for path in paths)) as progress:
        report = verify(*paths, deep=False, on_read=progress.advance)
    findings = [finding for finding in report.findings if finding.code in _ABOUT_INDEXES]
    if as_json:
        print_json({"paths": list(paths), "findings": [finding.as_dict() for finding in findings]})
    return Outcome.FINDINGS if report_findings(findings) else Outcome.CLEAN


@command.command(name="rebuild")
@click.argument("path", metavar="PATH")
@click.option("--config", "config", metavar="NAME=VALUE", multiple=True, help="A setting under Kafka's name.")
@click.option("--at", metavar="EPOCH_MS", type=int, help="The time that counts as now, in ms.")
@click.option("--yes", is_flag=True, help="Act without asking.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def rebuild_command(path: str, config: tuple[str, ...], at: int | None, yes: bool, as_json: bool) -> int:
    """Make every index, producer snapshot and leader epoch anew, as a broker would that scans all segments.

    Declines if a log is damaged.  What was there is kept, and `kafkalog undo` puts it back.  Exit code 2 if something
    was changed, 4 if something could not be read.
    """
    if not yes:
        raise RecoveryRefused("nothing was changed: add --yes to act", reason="confirm")
    with interruptible([path], None), RecoveryProgress("rebuilding") as progress:
        result = rebuild_indexes(
            path, config=parse_settings(config), at=at, jobs=job_count(None), on_progress=progress.update
        )
    if as_json:
        print_json(result.as_dict())
    else:
        print_plan(result.plan)
        with LineWriter() as writer:
            if result.run_id is not None:
                writer.write(f"what was there is in {escape_controls(result.quarantine or '')}")
    if result.plan.is_unreadable:
        return Outcome.IO_ERROR
    return Outcome.CHANGED if result.changed else Outcome.CLEAN
