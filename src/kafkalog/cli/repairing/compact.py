"""`kafkalog compact`: run one pass of the log cleaner without a broker."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from kafkalog.cli.acting import Acting, Declined
from kafkalog.cli.options.common import JOBS, JSON, YES
from kafkalog.cli.options.paths import PATHS, SERVER_PROPERTIES, settings_in
from kafkalog.cli.options.requests import request_option
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.options.times import AT
from kafkalog.cli.output import print_json
from kafkalog.cli.progress import RecoveryProgress
from kafkalog.cli.sentences import SentenceWriter
from kafkalog.cli.settings import parse_settings
from kafkalog.cli.shapes.compact_lines import CompactLine, compact_line
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.codec.common.errors import RecoveryRefused, UsageError
from kafkalog.codec.common.shapes import shaped
from kafkalog.codec.common.shell import shell_word
from kafkalog.codec.common.wording import counted
from kafkalog.codec.names import CLEANED, DELETED, SWAP
from kafkalog.jobs.compact.cleaning import CompactedPartition, CompactionPlan
from kafkalog.jobs.compact.request import Compaction
from kafkalog.jobs.compact.run import CompactionResult, compact, compact_into, plan_compaction
from kafkalog.log.directories.selection import Selection
from kafkalog.recovery.decide.actions import ActionKind
from kafkalog.recovery.facts.cleaner_settings import known_settings
from kafkalog.recovery.facts.places import holding
from kafkalog.words.advice import told
from kafkalog.words.escapes import escape_controls
from kafkalog.words.exit_codes import ExitCode, exit_code_of_change
from kafkalog.words.quarantine import quarantine_sentence

__all__ = ["command"]


def _print_plan(plan: CompactionPlan) -> None:
    """Print the plan of a compaction. The table of `plan.partitions` comes first, also with partitions that the pass
    does not clean; it is omitted if there are none. Sentences follow: why the topics' settings are unknown, and which
    partitions are left unchanged and why. Others are about partitions that a broker could not clean, records without a
    key, and other files that change. If there are neither partitions in the table nor partitions left unchanged, the
    last sentence says that no topic is known to be compacted.
    """
    root = escape_controls(plan.root)
    rows = [_row(each) for each in plan.partitions]
    if rows:
        print_table(
            f"compaction of {root}",
            [
                "partition directory",
                Column("dirty from", drop=2),
                Column("ratio", drop=3),
                Column("cleaned to", drop=1),
                Column("bytes", Kind.BYTES),
                Column("after", Kind.BYTES),
                "records dropped",
                Column("deleted", drop=4),
            ],
            rows,
        )
    with SentenceWriter() as writer:
        if plan.topics.problem is not None:
            writer.write(escape_controls(plan.topics.problem))
        for name, why in plan.declined.items():
            writer.write(f"{escape_controls(name)} is left as it is: {escape_controls(told(why))}")
        for partition in plan.partitions:
            if partition.problem is not None:
                writer.write(f"{escape_controls(partition.name)}: {escape_controls(partition.problem)}")
            if partition.records_without_key:
                writer.write(f"{escape_controls(partition.name)}: {_without_key(partition.records_without_key)}")
        others = _other_changes(plan)
        if others:
            writer.write(f"also, {others}")
        if not rows and not plan.declined:
            writer.write(
                f"{root}: no topic in it is known to be compacted; --config cleanup.policy=compact applies to every "
                "topic without a policy of its own"
            )


def _without_key(count: int) -> str:
    has, is_ = ("has", "is") if count == 1 else ("have", "are")
    return f"{counted(count, 'record')} {has} no key and {is_} removed"


def _other_changes(plan: CompactionPlan) -> str:
    """Return text about files other than the cleaned segments that change, because the compaction does what a broker's
    start and stop do: `69 files that a start deletes are removed, 2 files are created`. Empty if there are none.
    """
    gone = made_anew = changed = 0
    for action in plan.actions:
        gone += action.kind is ActionKind.REMOVE and action.path.endswith((DELETED, CLEANED, SWAP))
        if action.kind is ActionKind.WRITE and not action.path.endswith(CLEANED):
            made_anew += action.path not in plan.survey.files
            changed += action.path in plan.survey.files
        changed += action.kind is ActionKind.TRUNCATE
    said = [
        (gone, "that a start deletes is removed", "that a start deletes are removed"),
        (made_anew, "is created", "are created"),
        (changed, "is changed", "are changed"),
    ]
    return ", ".join(f"{counted(count, 'file')} {one if count == 1 else many}" for count, one, many in said if count)


def _row(partition: CompactedPartition) -> list[object]:
    return [
        partition.name,
        partition.first_dirty_offset,
        f"{partition.dirty_ratio:.2f}",
        "not cleaned" if partition.cleaned_to is None else partition.cleaned_to,
        partition.bytes_before,
        partition.bytes_after,
        partition.records_dropped,
        counted(len(partition.deleted_segments), "segment"),
    ]


def _print_result(result: CompactionResult) -> None:
    root = escape_controls(result.done.root)
    with SentenceWriter() as writer:
        for run, why in result.earlier.superseded.items():
            writer.write(f"run {run}, which had been cut short, was set aside: {escape_controls(why)}")
        if result.run_id is None:
            writer.write(f"{root}: nothing to do")
            return
        writer.write(f"compacted {root}: run {result.run_id}")
        writer.write(quarantine_sentence(result.done.root, result.quarantine))
        writer.write(f"to undo this: kafkalog undo {shell_word(result.done.root)} --run {result.run_id}")


def _outcome(result: CompactionResult, *, is_new: bool) -> ExitCode:
    if result.done.is_unreadable:
        return ExitCode.IO_ERROR
    if result.done.has_findings and not (result.changed and not is_new):
        return ExitCode.FINDINGS
    return exit_code_of_change(result.changed, is_new=is_new)


def _outcome_of_plan(plan: CompactionPlan) -> ExitCode:
    if plan.is_unreadable:
        return ExitCode.IO_ERROR
    return ExitCode.FINDINGS if plan.has_findings else ExitCode.CLEAN


def _question(planned: Sequence[CompactionPlan]) -> str:
    without_key = sum(partition.records_without_key for plan in planned for partition in plan.partitions)
    warning = f"{_without_key(without_key)}. " if without_key else ""
    return f"{warning}Do this to {', '.join(escape_controls(compaction_plan.root) for compaction_plan in planned)}?"


def _reports(error: Declined, plans: Sequence[CompactionPlan]) -> list[CompactLine]:
    """Return the reports of the plans after a refusal; empty for other errors."""
    return shaped(plans, list[CompactLine]) if isinstance(error, RecoveryRefused) else []


@click.command(name="compact")
@PATHS
@YES
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
@click.option("--into", metavar="DIR", help="Compact a copy in DIR and leave the original unchanged.")
@request_option(Compaction, "config")
@SERVER_PROPERTIES
@AT
@selection_options
@JOBS
@request_option(Compaction, "quarantine")
@JSON
def command(
    paths: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    into: str | None,
    chosen: Selection,
    jobs: int,
    quarantine: str | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Compact log directories as one pass of the log cleaner would, under the broker's lock.

    Topic settings from the metadata log in one of a broker's directories, or else --config and --server-properties,
    decide which topics are compacted and how. The result is what a broker leaves once its delayed deletions are done. A
    damaged log is reported and left as it is: cleaning would hide the damage.

    Prints the plan first. With --yes or --into it then acts; on a terminal it asks; otherwise it changes nothing (exit
    code 3 if there was something to do). `undo` reverses it. Exit code 3 if it refused, 4 if something could not be
    read, 2 if something was changed in place; otherwise 1 if a partition could not be cleaned, else 0.
    """
    settings = {**known_settings(settings_in(given["server_properties"])), **parse_settings(given["config"])}
    paths = tuple(holding(paths, chosen))
    request = Compaction(config=settings, at=given["at"], select=chosen, quarantine=quarantine)
    acting = Acting(yes=yes, as_json=as_json, show=_print_plan, reports=_reports)
    if dry_run and (into is not None or yes or quarantine is not None):
        raise UsageError("--dry-run changes nothing: --into, --yes and --quarantine cannot be used with it")
    if into is not None and len(paths) != 1:
        raise UsageError(f"--into works on a copy of one log directory, and {len(paths)} are meant: {', '.join(paths)}")
    with acting.on(paths if into is None else (into,), quarantine), RecoveryProgress("compacting") as progress:
        if into is not None:
            result = compact_into(
                request,
                *paths,
                target=into,
                jobs=jobs,
                on_progress=progress.update,
                on_plan=progress.paused(acting.planned),
            )
            return _show([result], acting, progress, is_new=True)
        planned: list[CompactionPlan] | None = None
        if dry_run or not yes:
            planned = plan_compaction(request, *paths, jobs=jobs, on_progress=progress.update)
            progress.pause()
            for compaction_plan in planned:
                acting.planned(compaction_plan)
            if dry_run:
                for compaction_plan in planned if as_json else ():
                    print_json(compaction_plan, CompactLine)
                return max(map(_outcome_of_plan, planned))
            if any(plan.changes for plan in planned):
                acting.agree(_question([plan for plan in planned if plan.changes]))
        results = compact(
            request,
            *paths,
            expected=planned,
            jobs=jobs,
            on_progress=progress.update,
            on_plan=progress.paused(acting.planned) if planned is None else None,
        )
        return _show(results, acting, progress, is_new=False)


def _show(
    results: Sequence[CompactionResult], acting: Acting[CompactionPlan], progress: RecoveryProgress, *, is_new: bool
) -> ExitCode:
    """Print the results, and return the worst exit code. `is_new` says that they were written to a new place."""
    progress.pause()
    for result in results:
        acting.tell(compact_line(result), partial(_print_result, result))
    return max(_outcome(result, is_new=is_new) for result in results)
