"""`kafkalog recover`: plan, ask, act; nothing is destroyed and everything can be undone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import click

from kafkalog.cli import plan as plan_command
from kafkalog.cli.confirm import confirm
from kafkalog.cli.interrupt import interruptible
from kafkalog.cli.options.common import JSON, MOVED, QUARANTINE, YES, job_count
from kafkalog.cli.options.paths import PATHS
from kafkalog.cli.outcome import Outcome, outcome_of_change
from kafkalog.cli.output import escape_controls, print_json
from kafkalog.cli.plan_text import print_plan
from kafkalog.cli.progress import RecoveryProgress
from kafkalog.cli.result_text import print_result
from kafkalog.cli.settings import command_words, options_of, planning_options
from kafkalog.cli.unplanned import Unplanned
from kafkalog.cli.way_words import with_needs
from kafkalog.codec.errors import KafkaLogError, RecoveryRefused, StorageError, UsageError
from kafkalog.recovery import Plan, RecoveryResult
from kafkalog.recovery.places import holding
from kafkalog.recovery.run import (
    log_directory_of,
    nothing_done,
    recover_all,
    recover_into,
    refuse_any_declined,
)
from kafkalog.recovery.standing import UnfinishedRun, standing

__all__ = ["command"]


def _show(results: list[RecoveryResult], as_json: bool, *, is_new: bool = False) -> int:
    """Print what was done; the exit code."""
    for result in results:
        if as_json:
            print_json(with_needs(result.as_dict()))
        else:
            print_result(result)
    if any(result.plan.is_unreadable for result in results):
        return Outcome.IO_ERROR
    if any(result.declined for result in results):
        return Outcome.REFUSED
    return outcome_of_change(any(result.changed for result in results), is_new=is_new)


@click.command(name="recover")
@PATHS
@planning_options
@YES
@click.option("--accept-loss", is_flag=True, help="Proceed even if records that can still be read would be dropped.")
@click.option("--dry-run", is_flag=True, help="Show the plan, as `kafkalog plan` does, and stop.")
@click.option("--into", metavar="DIR", help="Recover a copy in DIR; the original is not touched.")
@click.option("--mark-clean", is_flag=True, help="Verify the result from disk, then write a clean-shutdown marker.")
@QUARANTINE
@MOVED
@click.option("--complete", metavar="RUN", help="Complete this run even though another machine began it.")
@JSON
def command(
    paths: tuple[str, ...],
    yes: bool,
    accept_loss: bool,
    dry_run: bool,
    into: str | None,
    mark_clean: bool,
    quarantine: str | None,
    moved: bool,
    complete: str | None,
    as_json: bool,
    jobs: int | None,
    **given: Any,
) -> int:
    """Repair log directories after a crash, under the broker's lock and with a journal.

    Prints its plan first.  With --yes it then acts; on a terminal it asks; otherwise it changes nothing (exit code 3).
    If records that can still be read would be dropped, it refuses and names the ways that lose less; --accept-loss
    overrides this.  A run that was cut short is completed, and nothing else is done then.  Exit code 0 if there was
    nothing to do or a copy was recovered, 2 if something was changed in place, 3 if it refused, even for one partition
    only, 4 if something could not be read; the other partitions are still recovered.

    Modes: safe keeps every sound batch up to the damage, and a broker opens the result without changing a byte;
    salvage also keeps sound batches after the damage; strict only removes torn and zero-filled tails and refuses
    anything else; kafka leaves, byte for byte, what the broker's own recovery would; set-aside moves the chosen
    partitions to quarantine, so that the broker fetches all of them again.
    """
    if dry_run:
        _refuse_with_dry_run({
            "--yes": yes, "--accept-loss": accept_loss, "--into": into, "--mark-clean": mark_clean,
            "--quarantine": quarantine, "--complete": complete, "--moved": moved,
        })  # fmt: skip
    options, threads = options_of(given), job_count(jobs)
    paths = tuple(holding(paths, options.select))
    words = command_words(given)
    plans: list[Plan] = []
    acted_on = paths if into is None else (into,)
    with _refusal_printed(plans, paths if into is None else (), as_json), interruptible(acted_on, quarantine):
        if dry_run:
            return plan_command.show(paths, options, threads, as_json, words)
        wanted = replace(options, mark_clean=mark_clean, complete=complete, accept_loss=accept_loss, moved=moved)

        def show_plan(made: Plan) -> None:
            plans.append(made)
            if not as_json:
                print_plan(made, words)

        if into is not None:
            if len(paths) != 1 or complete is not None:
                raise UsageError("--into works on a copy of one path, and --complete cannot be used with it")
            with RecoveryProgress("recovering") as progress:
                result = recover_into(
                    paths[0],
                    into,
                    wanted,
                    quarantine=quarantine,
                    jobs=threads,
                    on_progress=progress.update,
                    on_plan=progress.paused(show_plan),
                )
            return _show([result], as_json, is_new=True)
        expected: list[Plan | None] | None = None
        if not yes:
            unfinished = {path: _unfinished(path, quarantine) for path in paths}
            made_all = plan_command.make_all([path for path in paths if not unfinished[path]], options, threads)
            agreed = [made for made in made_all if isinstance(made, Plan)]
            for made in agreed:
                show_plan(made)
            for unplanned in made_all:
                if isinstance(unplanned, Unplanned) and unplanned.error is not None:
                    raise unplanned.error
            refuse_any_declined(agreed, accept_loss=accept_loss)
            to_complete = [run.run_id for runs in unfinished.values() for run in runs]
            if to_complete:
                confirm(f"Complete what was cut short, run {', '.join(to_complete)}?")
            acting = [made for made in agreed if made.changes or mark_clean]
            if acting:
                confirm(f"Do this to {', '.join(escape_controls(made.root) for made in acting)}?")
            waiting = iter(agreed)
            expected = [None if unfinished[path] else next(waiting) for path in paths]
        with RecoveryProgress("recovering") as progress:
            results = recover_all(
                paths,
                wanted,
                quarantine=quarantine,
                expected=expected,
                jobs=threads,
                on_progress=progress.update,
                on_plan=progress.paused(show_plan) if expected is None else None,
            )
        return _show(results, as_json)


def _unfinished(path: str, quarantine: str | None) -> tuple[UnfinishedRun, ...]:
    """Runs that were cut short; none if unknown: whoever plans says why."""
    try:
        return standing(log_directory_of(path), quarantine).unfinished
    except KafkaLogError:
        return ()


def _refuse_with_dry_run(given: Mapping[str, object]) -> None:
    """`UsageError` for an option about acting, where nothing is to be done."""
    for name, value in given.items():
        if value:
            raise UsageError(f"--dry-run changes nothing: {name} cannot be used with it")


@contextmanager
def _refusal_printed(plans: list[Plan], paths: Sequence[str], as_json: bool) -> Iterator[None]:
    """With --json there is an object for each directory before a refusal or an I/O error goes its way.

    A refusal knows then whether all could be read.
    """
    try:
        yield
    except (RecoveryRefused, StorageError, UsageError) as error:
        for report in _reports(error, plans, paths) if as_json else ():
            print_json(with_needs(report))
        if isinstance(error, RecoveryRefused):
            error.is_unreadable = error.is_unreadable or any(made.is_unreadable for made in plans)
        raise


def _reports(
    error: RecoveryRefused | StorageError | UsageError, plans: list[Plan], paths: Sequence[str]
) -> list[dict[str, Any]]:
    """Of each directory what was planned, or why it could not be."""
    reports = {made.root: nothing_done(made).as_dict() for made in plans}
    why: dict[str, RecoveryRefused | StorageError | UsageError] = {}
    if isinstance(error, RecoveryRefused):
        given = [*error.reports, *([error.report] if error.report is not None and not error.reports else [])]
        reports |= {report["path"]: report for report in given}
        why = {each.directory: each for each in (*error.each, error) if each.directory is not None}
    roots = [_root(path) for path in paths]
    for root, path in zip(roots, paths, strict=True):
        file = str(getattr(error, "filename", None) or "")
        named = root in str(error) or path in str(error)
        is_about = file == root or file.startswith(os.path.join(root, "")) or named or len(roots) == 1
        cause = why.get(root, error if is_about else None)
        reports.setdefault(root, {**Unplanned(root, cause).as_dict(), **_NO_RUN})
    return list(reports.values())


_NO_RUN: Mapping[str, Any] = {"quarantine": None, "completed_runs": [], "superseded_runs": {}, "marker_withheld": None}


def _root(path: str) -> str:
    try:
        return log_directory_of(path)
    except KafkaLogError:
        return os.path.realpath(path)
