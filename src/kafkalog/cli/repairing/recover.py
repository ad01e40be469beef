"""`kafkalog recover`: make a plan, ask the user, act. Nothing is destroyed, and everything can be undone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click
from msgspec import structs

from kafkalog.cli.acting import Acting, Declined
from kafkalog.cli.options.common import JSON, YES
from kafkalog.cli.options.paths import PATHS
from kafkalog.cli.options.remote import Remote, remote_options
from kafkalog.cli.options.requests import request_option
from kafkalog.cli.output import print_json
from kafkalog.cli.progress import RecoveryProgress
from kafkalog.cli.repairing import plan as plan_command
from kafkalog.cli.repairing.plan_text import print_plans
from kafkalog.cli.repairing.result_text import print_result
from kafkalog.cli.repairing.unplanned import Unplanned
from kafkalog.cli.settings import EVERY, given_words, planning_options, recovery_asked
from kafkalog.cli.shapes.plan_lines import result_line
from kafkalog.codec.common.errors import KafkaLogError, RecoveryRefused, StorageError, UsageError
from kafkalog.codec.common.options import options_of_fields
from kafkalog.log.directories.directory import is_log_dir
from kafkalog.log.directories.inventory import is_missing, missing_directory
from kafkalog.log.disk.files import PathLike, exists
from kafkalog.recovery import Plan, RecoveryResult
from kafkalog.recovery.act.unfinished_business import UnfinishedRun, standing
from kafkalog.recovery.checks.lost_directories import with_what_was_there
from kafkalog.recovery.decide.plan_json import ResultJson
from kafkalog.recovery.facts.places import by_log_directory, holding, log_directories
from kafkalog.recovery.facts.recovery_request import Recovery
from kafkalog.recovery.modes.table import Mode
from kafkalog.recovery.results import nothing_done, refuse_any_declined, result_json
from kafkalog.recovery.run import in_place, log_directory_of, recover, recover_into
from kafkalog.words.commands import Given, plan_again
from kafkalog.words.escapes import escape_controls
from kafkalog.words.exit_codes import ExitCode, exit_code_of_change

__all__ = ["command"]


def _show(results: list[RecoveryResult], as_json: bool, *, is_new: bool = False) -> int:
    """Print the results of recoveries, as text or as JSON lines, and return the exit code. The first that applies
    counts:

    * 4 if something could not be read
    * 3 if a partition was refused
    * 1 if nothing was changed although a start would fail or lose something, or although there is a problem other than
      records that were lost before
    * 2 if something was changed in place
    * 0 otherwise, also for a new copy (`is_new`)

    Raises `StorageError` if a metadata log that is needed for advice cannot be read.
    """
    said: set[str] = set()
    for result in results:
        if as_json:
            print_json(result_line(result_json(result)))
        else:
            print_result(result, said)
    if any(result.plan.is_unreadable for result in results):
        return ExitCode.IO_ERROR
    if any(result.declined for result in results):
        return ExitCode.REFUSED
    has_problem = any(result.leaves_a_fault or result.leaves_a_problem for result in results)
    if has_problem and not any(result.changed for result in results):
        return ExitCode.FINDINGS
    return exit_code_of_change(any(result.changed for result in results), is_new=is_new)


@click.command(name="recover")
@PATHS
@planning_options
@YES
@request_option(Recovery, "accept_loss")
@click.option("--dry-run", is_flag=True, help="Show the plan as `kafkalog plan` does, with its exit code, and stop.")
@click.option("--into", metavar="DIR", help="Recover a copy in DIR and leave the original unchanged.")
@request_option(Recovery, "mark_clean")
@remote_options
@request_option(Recovery, "quarantine")
@request_option(Recovery, "moved")
@click.option("--keep-remote", is_flag=True,
              help="With --remote: begin lost logs after their remote part, which stays in the remote "
              "storage.")  # fmt: skip
@EVERY
@request_option(Recovery, "complete")
@JSON
def command(
    paths: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    into: str | None,
    remote: Remote,
    every: bool,
    as_json: bool,
    jobs: int,
    **given: Any,
) -> int:
    """Repair log directories after a crash, under the broker's lock and with a journal.

    Prints its plan first.  With --yes or --into it then acts; on a terminal it asks; otherwise it changes nothing (exit
    code 3 if there was something to do).
    If records that can still be read would be dropped, it refuses and names the ways that lose less; --accept-loss
    overrides this.  A run that was cut short is completed, and nothing else is done then in its directory.  Exit code 0
    if there was nothing to do or a copy was recovered, 1 if nothing was changed and a problem remains other than
    records that were lost before, 2 if something was changed in place, 3 if it refused, even for one partition only, 4
    if something could not be read; the other partitions are still recovered.

    Modes: {modes}.

    With --remote, in mode remote, tiered logs that are gone or damaged up to their end begin after their remote part,
    which stays where it is.  With --remote and --into, tiered logs are brought back whole from the remote tier first:
    what is not local, what is damaged, and logs that are gone; with --keep-remote, of these only what a broker needs to
    go on after them.
    """
    if as_json and every:
        raise UsageError("--all is for the tables; --json lists everything")
    tier, keep_remote = remote.tier(), given["keep_remote"]
    if keep_remote and tier is None:
        raise UsageError("--keep-remote is about --remote, which was not given")
    if dry_run:
        _refuse_with_dry_run({
            "--yes": yes, "--accept-loss": given["accept_loss"], "--into": into, "--mark-clean": given["mark_clean"],
            "--quarantine": given["quarantine"], "--complete": given["complete"], "--moved": given["moved"],
        })  # fmt: skip
    request = recovery_asked(given)
    if tier is not None:
        from kafkalog.jobs.restore.remote_logs import RemoteLogs  # most recoveries have no remote tier

        request = structs.replace(request, remote_logs=RemoteLogs(tier, keep_remote=keep_remote))
    if into is None:  # a copy is not a directory of the broker
        request = structs.replace(in_place(request), beside=tuple(log_directories(paths)))
    paths = tuple(holding(paths, request.select))
    of_tier = [] if into is None else [*remote.words(), *(["--keep-remote"] if keep_remote else [])]
    words = given_words(request, given["server_properties"], paths, into, of_tier)
    acted_on = paths if into is None else (into,)
    shown = paths if into is None else ()
    acting = Acting[Plan](
        yes=yes, as_json=as_json,
        reports=lambda error, plans: list(map(result_line, _reports(error, plans, shown))),
    )  # fmt: skip
    to_show = _Together(acting, words, every=every, accepts_loss=request.accept_loss)
    with acting.on(acted_on, given["quarantine"]), to_show.at_the_latest():
        if dry_run:
            return plan_command.show(paths, request, jobs, as_json, words, every=every)
        _refuse_missing(paths)
        if into is not None:
            if request.complete is not None:
                raise UsageError("--into works on a copy of one path, and --complete cannot be used with it")
            with RecoveryProgress("recovering") as progress:
                result = recover_into(
                    request,
                    *paths,
                    target=into,
                    jobs=jobs,
                    on_progress=progress.update,
                    on_plan=progress.paused(to_show.add),
                )
            return _show([result], as_json, is_new=True)
        expected = _agreed(acting, to_show, paths, request, jobs) if acting.asks else None
        to_show.expected = sum(not _unfinished(each[0], request.quarantine) for each in by_log_directory(paths))
        with RecoveryProgress("recovering") as progress:
            results = recover(
                request,
                *paths,
                expected=expected,
                jobs=jobs,
                on_progress=progress.update,
                on_plan=progress.paused(to_show.add) if expected is None else None,
            )
        return _show(results, as_json)


_OPTIONS = {field: option.name for field, option in options_of_fields(Recovery).items()}
_MODES = "; ".join(f"{mode} {mode.spec.does.format(**_OPTIONS)}" for mode in Mode)
command.help = (command.help or "").replace("{modes}", _MODES)


def _refuse_missing(paths: Sequence[str]) -> None:
    """Raise an error if one of the paths is an empty directory (except for `lost+found`). If another path is a log
    directory, it is `RecoveryRefused`, which says which partitions were in the first empty directory, by the metadata
    in the others. If no path is a log directory, it is `UsageError`. Does nothing if a path cannot be listed or read,
    which is reported later.
    """
    with suppress(StorageError):
        empty = next((path for path in paths if exists(path) and is_missing(path)), None)
        if empty is None:
            return
        usable = [path for path in paths if is_log_dir(path)]
        finding = missing_directory(empty)
        if not usable:
            raise UsageError(f"{empty}: {finding.detail}")
        (finding,) = with_what_was_there([finding], usable)
        raise RecoveryRefused(f"{empty}: {finding.detail}", reason="missing")


class _Together:
    """Collects plans and prints them once all of them are made, because the verdict on all of them comes first."""

    def __init__(self, acting: Acting[Plan], words: Given, *, every: bool, accepts_loss: bool) -> None:
        self.expected = 1
        """number of plans that will be made"""
        self._acting = acting
        self._words = words
        self._every = every
        self._accepts_loss = accepts_loss
        self._waiting: list[Plan] = []

    def add(self, plan: Plan) -> None:
        """Add a plan; print all plans if this is the last one."""
        self._acting.planned(plan)
        self._waiting.append(plan)
        if len(self._waiting) >= self.expected:
            self.print()

    def print(self, made_all: Sequence[Plan | Unplanned] = ()) -> None:
        """Print the collected plans and forget them; with --json, only forget them. `made_all` are the plans of all
        directories, with those that have none. Raises `StorageError` if a metadata log that is needed for advice cannot
        be read.
        """
        plans, self._waiting = self._waiting, []
        problems = [made.sentence for made in made_all if isinstance(made, Unplanned)]
        is_agreed = all(plan.refusal is None and (self._accepts_loss or not plan.needs_consent) for plan in plans)
        acts = is_agreed and not (self._acting.asks or problems) and len(plans) >= self.expected
        if plans and not self._acting.as_json:
            again = plan_again([made.root for made in made_all], self._words)
            print_plans(plans, self._words, every=self._every, problems=problems, ask_again=again, acts=acts)

    @contextmanager
    def at_the_latest(self) -> Iterator[None]:
        """Context manager that prints the plans that are still waiting at its end, for example because a directory
        without a plan was refused.
        """
        try:
            yield
        finally:
            self.print()


def _agreed(
    acting: Acting[Plan], to_show: _Together, paths: Sequence[str], request: Recovery, jobs: int
) -> list[Plan | None]:
    """Make the plans and print them; ask the user to agree if a file would be changed or an unfinished execution
    completed. Return one entry per log directory, in the order of `paths`. An entry is the plan, or None if an
    unfinished execution must be completed there first. The plans are added to `acting.plans`. Changes no files.

    Raises `RecoveryRefused` if the user does not agree, a plan is refused, or one loses records without
    `request.accept_loss`. If a directory cannot be planned, raises the error (`StorageError`, `RecoveryRefused` or
    `UsageError`) of the first such directory. Raises the errors of `make_all` too.
    """
    directories = by_log_directory(paths)
    unfinished = [_unfinished(directory[0], request.quarantine) for directory in directories]
    wanted = structs.replace(request, mark_clean=False)
    to_plan = [path for each, runs in zip(directories, unfinished, strict=True) if not runs for path in each]
    made_all = plan_command.make_all(to_plan, wanted, jobs)
    plans = [made for made in made_all if isinstance(made, Plan)]
    to_show.expected = len(plans) + 1  # printed at once below
    for plan in plans:
        to_show.add(plan)
    to_show.print(made_all)
    for each in made_all:
        if isinstance(each, Unplanned) and each.error is not None:
            raise each.error
    refuse_any_declined(acting.plans, accept_loss=request.accept_loss)
    to_complete = [run.run_id for runs in unfinished for run in runs]
    if to_complete:
        acting.agree(f"Complete what was cut short, run {', '.join(to_complete)}?")
    changing = [made.root for made in acting.plans if made.changes or request.mark_clean]
    if changing:
        acting.agree(f"Do this to {', '.join(map(escape_controls, changing))}?")
    waiting = iter(acting.plans)
    return [None if runs else next(waiting) for runs in unfinished]


def _unfinished(path: str, quarantine: PathLike | None) -> tuple[UnfinishedRun, ...]:
    """Return the unfinished executions of a log directory; empty if they cannot be read, which planning then
    reports.
    """
    try:
        return standing(log_directory_of(path), quarantine).unfinished
    except KafkaLogError:
        return ()


def _refuse_with_dry_run(given: Mapping[str, object]) -> None:
    """Raise `UsageError` for an option that only has an effect if the plan is carried out."""
    for name, value in given.items():
        if value:
            raise UsageError(f"--dry-run changes nothing: {name} cannot be used with it")


def _reports(error: Declined, plans: Sequence[Plan], paths: Sequence[str]) -> list[ResultJson]:
    """Return a JSON report for each directory after `error` has ended the command. For a directory with a plan, it is
    the report that the error carries; if there is none, the report says that nothing was done. For one of `paths`
    without a plan, the report has the reason. This is the error if it concerns the directory or there is no other;
    otherwise the reason is that another directory was refused first.
    """
    reports = {plan.root: result_json(nothing_done(plan)) for plan in plans}
    why: dict[str, Declined] = {}
    if isinstance(error, RecoveryRefused):
        given = [*error.reports, *([error.report] if error.report is not None and not error.reports else [])]
        reports |= {report.path: report for report in given}
        why = {root: refused for refused in (*error.each, error) for root in refused.directories}
    roots = [_root(path) for path in paths]
    for root in roots:
        file = os.path.realpath(error.filename) if isinstance(error, StorageError) and error.filename else ""
        is_about = root in error.directories or file == root or file.startswith(os.path.join(root, ""))
        cause = why.get(root, error if is_about or len(roots) == 1 else None)
        reports.setdefault(root, Unplanned(root, cause).as_json())
    return list(reports.values())


def _root(path: str) -> str:
    try:
        return log_directory_of(path)
    except KafkaLogError:
        return os.path.realpath(path)
