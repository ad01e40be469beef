"""`kafkalog plan`: what `recover` would change, and what a broker's start would do; nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import click
from msgspec import structs

from kafkalog.cli.options.common import JSON
from kafkalog.cli.options.paths import PATHS
from kafkalog.cli.output import print_json, remark
from kafkalog.cli.progress import RecoveryProgress
from kafkalog.cli.repairing.plan_text import print_plans
from kafkalog.cli.repairing.unplanned import Unplanned
from kafkalog.cli.sentences import SentenceWriter
from kafkalog.cli.settings import EVERY, given_words, planning_options, recovery_asked
from kafkalog.cli.shapes.plan_lines import plan_line
from kafkalog.codec.common.errors import KafkaLogError, RecoveryRefused, StorageError, UsageError
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.shapes import shaped
from kafkalog.log.directories.inventory import is_missing, lost_directories, missing_directory
from kafkalog.log.directories.zookeeper_directories import without_zookeeper
from kafkalog.log.disk.files import unreadable
from kafkalog.recovery import Plan
from kafkalog.recovery.act.room import has_no_room_to_start, why_no_room
from kafkalog.recovery.act.unfinished_business import Standing, StandingJson, standing
from kafkalog.recovery.checks.lost_directories import with_what_was_there
from kafkalog.recovery.decide.aftermath import KNOWN_BY_COORDINATORS
from kafkalog.recovery.decide.plan import plan_json
from kafkalog.recovery.decide.refusals import KEPT_BY_A_RUN
from kafkalog.recovery.facts.places import by_log_directory, holding, log_directories
from kafkalog.recovery.facts.recovery_request import Recovery
from kafkalog.recovery.run import log_directory_of, plan_one, together
from kafkalog.recovery.settled_rules import rules_for_each
from kafkalog.words.advice import in_options
from kafkalog.words.commands import NOTHING_GIVEN, Given, plan_again
from kafkalog.words.escapes import escape_controls
from kafkalog.words.exit_codes import ExitCode, sentence_of

__all__ = ["command", "make_all", "show"]


def make_all(paths: Sequence[str], request: Recovery, jobs: int) -> list[Plan | Unplanned]:
    """Make a recovery plan for each log directory, with a progress bar. Return one entry per log directory, in the
    order of `paths`. The entry is an `Unplanned` with the error if a directory cannot be read or is refused, or if one
    of several paths is not a log directory. The other directories are still planned. Changes no files.

    Raises `UsageError` for a request that makes no sense, or if the only path is not a log directory. Raises
    `RecoveryRefused` if lost `meta.properties` cannot be reconstructed. Raises `StorageError` if a file that concerns
    several directories, such as a metadata log, cannot be read.
    """
    failed: dict[str, StorageError | RecoveryRefused | UsageError] = {}
    for path in paths:
        try:
            log_directory_of(path)
        except (StorageError, RecoveryRefused, UsageError) as error:
            if isinstance(error, UsageError) and len(paths) == 1:
                raise
            failed[path] = error
    usable = [log_directory_of(path) for path in paths if path not in failed]
    lost = _lost(failed, usable)
    rules = rules_for_each(request, usable, lost_directories(lost.values()))
    plans: list[Plan | Unplanned] = []
    with RecoveryProgress("planning") as progress:
        for path, *also in by_log_directory(paths):
            try:
                if path in failed:
                    raise failed[path]
                wanted = rules[log_directory_of(path)]
                plans.append(
                    plan_one(path, wanted, also=also, jobs=jobs, on_progress=progress.update, is_one_of_several=True)
                )
            except (StorageError, RecoveryRefused, UsageError) as error:
                root = os.path.realpath(path)
                error.concerning(root if path in failed else log_directory_of(path))
                if isinstance(error, UsageError) and path not in failed:
                    raise
                plans.append(Unplanned(root, error, lost.get(path)))
    whole = [plan for plan in plans if isinstance(plan, Plan)]
    told = iter(together(whole, request, rules))
    return [next(told) if isinstance(plan, Plan) else plan for plan in plans]


def _lost(failed: Mapping[str, KafkaLogError], usable: Sequence[str]) -> dict[str, Finding]:
    """Return a finding, by path, for each directory in `failed` that is missing or cannot be read. It says which
    partitions were there according to the metadata in the directories `usable`. Directories that failed for other
    reasons are omitted, and missing directories too if `usable` is empty.
    """
    found = {}
    for path, error in failed.items():
        if isinstance(error, StorageError):
            found[path] = unreadable(error, path)
        elif usable and is_missing(path):
            found[path] = missing_directory(path)
    return dict(zip(found, with_what_was_there(found.values(), usable), strict=True))


def show(
    paths: Sequence[str],
    request: Recovery,
    jobs: int,
    as_json: bool,
    words: Given = NOTHING_GIVEN,
    *,
    every: bool = False,
) -> int:
    """Make plans and print them: first sentences about locks and unfinished executions, then a verdict on all plans,
    then each plan. With `as_json` print one JSON line per directory. Return the exit code, the first that applies:
    USAGE if one of several paths is not a log directory, and not missing or empty; 4 if something cannot be read; 3 if
    a directory is refused as a whole; 1 if there are findings, changes, executions to complete, groups beyond a log's
    end, transactions without a marker or an offered merge; else 0. The reason why a directory has no plan also goes to
    standard error.

    `words` are options that recommended commands repeat. With `every` the tables have all partitions that change.
    Changes no files. Raises the errors of `make_all`, and `StorageError` if a metadata log that is needed for advice
    cannot be read.
    """
    outcome = ExitCode.CLEAN
    made_all = make_all(paths, request, jobs)
    stands_of = {made.root: standing(made.root) for made in made_all}
    if not as_json:
        with SentenceWriter() as writer:
            for root, stands in stands_of.items():
                for sentence in stands.sentences(in_options):
                    writer.write(escape_controls(f"{root}: {sentence}"))
        whole = [made for made in made_all if isinstance(made, Plan)]
        words = structs.replace(
            words,
            locked=frozenset(root for root, stands in stands_of.items() if stands.locked),
            without_room={plan.root: sentence_of(why) for plan in whole if (why := why_no_room(plan)) is not None},
            full=frozenset(plan.root for plan in whole if has_no_room_to_start(plan)),
        )
        problems = [made.sentence for made in made_all if isinstance(made, Unplanned)]
        again = plan_again([made.root for made in made_all], words)
        print_plans(whole, words, every=every, problems=problems, ask_again=again)
    for made in made_all:
        stands = stands_of[made.root]
        if as_json:
            planned = plan_json(made) if isinstance(made, Plan) else made.as_json()
            print_json(plan_line(planned, shaped(stands, StandingJson)))
        if isinstance(made, Unplanned):
            remark(made.sentence)
        outcome = max(outcome, _outcome(made, stands))
    return outcome


def _outcome(plan: Plan | Unplanned, stands: Standing) -> ExitCode:
    if plan.is_unreadable:
        return ExitCode.IO_ERROR
    if isinstance(plan, Unplanned):
        if not isinstance(plan.error, UsageError):
            return ExitCode.REFUSED
        return ExitCode.USAGE if plan.finding is None else ExitCode.FINDINGS
    if plan.refusal is not None and plan.refused_by != KEPT_BY_A_RUN:
        return ExitCode.REFUSED
    is_told = any(each.kind in {*KNOWN_BY_COORDINATORS, "transaction_stays_open"} for each in plan.consequences)
    is_told |= bool(plan.choice.mergeable)
    return ExitCode.FINDINGS if plan.is_worth_a_look or stands.unfinished or is_told else ExitCode.CLEAN


@click.command(name="plan")
@PATHS
@planning_options
@EVERY
@JSON
def command(paths: tuple[str, ...], as_json: bool, every: bool, jobs: int, **given: Any) -> int:
    """Show what `recover` would do and what the broker itself would do, without touching anything.

    Says first whether the broker starts, what is lost and since when, and what to type; then lists what is wrong.
    If anything is lost, lists every way to recover with what it keeps, loses and needs, and recommends one. Names
    what cannot be read and leaves it out.  A PATH may be ZooKeeper's data directory, which decides what a broker
    serves.  Exit code 0 if nothing is found and there is nothing to do, 64 if a PATH is not a log directory, unless
    it is missing or empty beside others, 4 if something could not be read, 3 if a directory is refused as a whole,
    else 1.
    """
    if as_json and every:
        raise UsageError("--all is for the tables; --json lists everything")
    logs, zookeepers = without_zookeeper(paths)
    request = structs.replace(recovery_asked(given), beside=(*log_directories(logs), *zookeepers))
    words = given_words(request, given["server_properties"])
    return show(holding(logs, request.select), request, jobs, as_json, words, every=every)
