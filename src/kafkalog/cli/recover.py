"""`kafkalog recover`: plan, ask, act; nothing is destroyed and everything can be undone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from kafkalog.cli import plan as plan_command
from kafkalog.cli.arguments import PATHS
from kafkalog.cli.outcome import Outcome
from kafkalog.cli.output import LineWriter, escape_controls, print_json
from kafkalog.cli.plan_text import print_plan
from kafkalog.cli.progress import RecoveryProgress
from kafkalog.cli.settings import job_count, options_of, planning_options
from kafkalog.codec.errors import RecoveryRefused, UsageError
from kafkalog.recovery import Plan, RecoveryResult
from kafkalog.recovery.run import RecoveryOptions, recover_all, recover_into

__all__ = ["command"]


def _is_confirmed(plans: list[Plan]) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RecoveryRefused("nothing was changed: this is no terminal to ask on; add --yes to act", reason="confirm")
    return click.confirm(f"Do this to {', '.join(escape_controls(made.root) for made in plans)}?", default=False)


def _print_result(result: RecoveryResult) -> None:
    with LineWriter() as writer:
        for run in result.completed:
            writer.write(f"run {run}, which had been cut short, was completed first")
        for run, why in result.earlier.superseded.items():
            writer.write(f"run {run}, which had been cut short, was put aside: {escape_controls(why)}")
        withheld = result.marker_withheld or result.earlier.marker_withheld
        if withheld is not None:
            writer.write(f"no clean-shutdown marker was written: {escape_controls(withheld)}")
        if result.run_id is None:
            writer.write("nothing to do")
            return
        root = escape_controls(result.plan.root)
        writer.write(f"recovered {root}: run {result.run_id}")
        writer.write(f"every byte that was removed is in {escape_controls(result.quarantine or '')}")
        writer.write(f"to take it back: kafkalog undo {root} --run {result.run_id}")


def _show(results: list[RecoveryResult], as_json: bool, with_plan: bool) -> int:
    """Print what was done; the exit code."""
    if as_json:
        objects = [result.as_dict() for result in results]
        print_json(objects[0] if len(objects) == 1 else {"directories": objects})
    for result in results if not as_json else []:
        if with_plan:
            print_plan(result.plan)
        _print_result(result)
    return Outcome.CHANGED if any(result.changed for result in results) else Outcome.CLEAN


@click.command(name="recover")
@PATHS
@planning_options
@click.option("--yes", is_flag=True, help="Act without asking.")
@click.option("--dry-run", is_flag=True, help="Only show the plan, as `kafkalog plan` does.")
@click.option("--into", metavar="DIR", help="Recover a copy in DIR; the original is not touched.")
@click.option("--mark-clean", is_flag=True, help="Verify again from disk, then write a clean-shutdown marker.")
@click.option("--quarantine", metavar="DIR", help="Where removed bytes are kept [PATH.recovery].")
@click.option("--complete", metavar="RUN", help="Complete this run, although another machine began it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    paths: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    into: str | None,
    mark_clean: bool,
    quarantine: str | None,
    complete: str | None,
    as_json: bool,
    jobs: int | None,
    **given: Any,
) -> int:
    """Bring log directories into order after a crash, under the broker's lock and with a journal.

    Prints its plan; with --yes it acts at once, on a terminal it asks, otherwise nothing is changed (exit code 3).
    Exit code 0 if there was nothing to do, 2 if something was changed, 3 if it declined.

    Modes: safe keeps every sound batch and leaves what a broker opens without changing a byte; salvage goes on behind
    the damage; strict cuts torn and zero tails only and declines anything else; kafka leaves, byte for byte, what the
    broker's own recovery would.
    """
    options, threads = options_of(**given), job_count(jobs)
    with _refusal_printed(as_json):
        if dry_run:
            return plan_command.show(paths, options, threads, as_json)
        rules = RecoveryOptions(**options, mark_clean=mark_clean, complete=complete)
        if into is not None:
            if len(paths) != 1:
                raise UsageError("--into takes one path")
            with RecoveryProgress("recovering") as progress:
                result = recover_into(
                    paths[0], into, rules, quarantine=quarantine, jobs=threads, on_progress=progress.update
                )
            return _show([result], as_json, with_plan=True)
        expected: list[Plan] | None = None
        if not yes:
            expected = plan_command.make_all(paths, options, threads)
            for made in expected if not as_json else []:
                print_plan(made)
            acting = [made for made in expected if made.refusal is None and (made.changes or mark_clean)]
            if acting and not _is_confirmed(acting):
                return Outcome.REFUSED
        with RecoveryProgress("recovering") as progress:
            results = recover_all(
                paths, rules, quarantine=quarantine, expected=expected, jobs=threads, on_progress=progress.update
            )
        return _show(results, as_json, with_plan=expected is None)


@contextmanager
def _refusal_printed(as_json: bool) -> Iterator[None]:
    """With --json the report of a refusal is printed before the refusal goes its way."""
    try:
        yield
    except RecoveryRefused as refused:
        if as_json and refused.report is not None:
            print_json(refused.report)
        raise
