"""`kafkalog recover`: plan, ask, act; nothing is destroyed and everything can be undone."""

from __future__ import annotations

import sys
from typing import Any

import click

from kafkalog.cli import plan as plan_command
from kafkalog.cli.outcome import Outcome
from kafkalog.cli.output import LineWriter, escape_controls, print_json
from kafkalog.cli.plan_text import print_plan
from kafkalog.cli.progress import ByteProgress
from kafkalog.cli.settings import options_of, planning_options, total_bytes
from kafkalog.codec.errors import RecoveryRefused
from kafkalog.recovery import Plan, RecoveryResult, recover

__all__ = ["command"]


def _is_confirmed(made: Plan) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RecoveryRefused("nothing was changed: this is no terminal to ask on; add --yes to act", reason="confirm")
    return click.confirm(f"Do this to {escape_controls(made.root)}?", default=False)


def _print_result(result: RecoveryResult) -> None:
    with LineWriter() as writer:
        for run in result.completed:
            writer.write(f"run {run}, which had been cut short, was completed first")
        if result.run_id is None:
            writer.write("nothing to do")
            return
        root = escape_controls(result.plan.root)
        writer.write(f"recovered {root}: run {result.run_id}")
        writer.write(f"every byte that was removed is in {escape_controls(result.quarantine or '')}")
        writer.write(f"to take it back: kafkalog undo {root} --run {result.run_id}")


@click.command(name="recover")
@click.argument("path", metavar="PATH")
@planning_options
@click.option("--yes", is_flag=True, help="Act without asking.")
@click.option("--dry-run", is_flag=True, help="Only show the plan, as `kafkalog plan` does.")
@click.option("--quarantine", metavar="DIR", help="Where removed bytes are kept [PATH.recovery].")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(path: str, yes: bool, dry_run: bool, quarantine: str | None, as_json: bool, **given: Any) -> int:
    """Bring a log directory into order after a crash, under the broker's lock and with a journal.

    Prints its plan; with --yes it acts at once, on a terminal it asks, otherwise nothing is changed (exit code 3).
    Exit code 0 if there was nothing to do, 2 if something was changed, 3 if it declined.

    Modes: safe keeps every sound batch and leaves what a broker opens without changing a byte; strict cuts torn and
    zero tails only and declines anything else; kafka leaves, byte for byte, what the broker's own recovery would.
    """
    options = options_of(**given)
    if dry_run:
        return plan_command.show(path, options, as_json)
    expected: Plan | None = None
    if not yes:
        expected = plan_command.make(path, options)
        if not as_json:
            print_plan(expected)
        if expected.refusal is None and expected.changes and not _is_confirmed(expected):
            return Outcome.REFUSED
    with ByteProgress("recovering", total_bytes(path)) as progress:
        result = recover(path, **options, quarantine=quarantine, expected=expected, on_read=progress.advance)
    if as_json:
        print_json(result.as_dict())
    else:
        if expected is None:
            print_plan(result.plan)
        _print_result(result)
    return Outcome.CHANGED if result.changed else Outcome.CLEAN
