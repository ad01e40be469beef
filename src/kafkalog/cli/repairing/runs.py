"""`kafkalog runs`: list what executions keep, and delete it permanently."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click
from msgspec import structs

from kafkalog.cli.acting import Acting
from kafkalog.cli.options.common import JSON, YES
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.requests import request_option
from kafkalog.cli.options.times import Age
from kafkalog.cli.output import LineWriter, print_json
from kafkalog.cli.shapes.runs_lines import PurgeLine, RunsLine, run_line
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.wording import counted
from kafkalog.log.disk.pointer import cut_short
from kafkalog.recovery.act.history import RunInfo, RunState, root_of_runs, runs, runs_of_each
from kafkalog.recovery.act.purging import PurgeResult, purge, purgeable
from kafkalog.recovery.facts.places import log_directories
from kafkalog.recovery.facts.run_requests import Purge
from kafkalog.words.advice import told
from kafkalog.words.escapes import escape_controls
from kafkalog.words.exit_codes import ExitCode

__all__ = ["command"]

_SHOWN_ORIGINALS = 20


def _show(paths: Sequence[str], quarantine: str | None, as_json: bool) -> int:
    """List the executions that are kept for each log directory, as a table or with `as_json` as JSON lines. Return
    `ExitCode.FINDINGS` if one is unfinished or unreadable, else `ExitCode.CLEAN`. `quarantine` is another directory in
    which executions are kept. Raises `StorageError`, `UsageError` and `RecoveryRefused` as `runs` does.
    """
    worst = ExitCode.CLEAN
    for path in paths:
        root, run_infos = root_of_runs(path), runs(path, quarantine=quarantine)
        if any(run_info.is_unfinished or run_info.state is RunState.UNREADABLE for run_info in run_infos):
            worst = ExitCode.FINDINGS
        if as_json:
            print_json(RunsLine(path=root, runs=list(map(run_line, run_infos))))
        elif run_infos:
            _print_runs(root, run_infos)
        else:
            _print(f"{escape_controls(root)}: no recovery has left anything")
    return worst


def _print(*lines: str) -> None:
    with LineWriter() as writer:
        for line in lines:
            writer.write(line)


def _print_runs(root: str, run_infos: Sequence[RunInfo]) -> None:
    print_table(
        escape_controls(root),
        [
            "run",
            "began",
            Column("machine", drop=4),
            Column("mode", drop=3),
            "state",
            Column("files", drop=2),
            Column("on disk", Kind.BYTES, drop=1),
            "undo",
        ],
        [
            [
                run_info.run_id,
                run_info.began.partition(".")[0].replace("T", " "),
                _machine(run_info),
                run_info.mode,
                str(run_info.state),
                run_info.files,
                run_info.allocated_bytes,
                "possible" if run_info.undoable else "no",
            ]
            for run_info in run_infos
        ],
    )
    for place in dict.fromkeys(os.path.dirname(run_info.directory) for run_info in run_infos):
        _print(f"kept in {escape_controls(place)}")
    for info in run_infos:
        if info.why_not is not None:
            what = info.state if info.state is RunState.UNREADABLE else "cannot be undone"
            _print(f"{info.run_id} {what}: {escape_controls(info.why_not)}")
        if info.is_unfinished:
            of_undo = info.state is RunState.UNDO_CUT_SHORT
            _print(escape_controls(told(cut_short(root, info.run_id, is_foreign=info.is_foreign, is_undo=of_undo))))


def _machine(run: RunInfo) -> str:
    if run.mode is None:
        return ""
    if run.machine is None:
        return "not known"
    return f"another ({run.machine[:8]})" if run.is_foreign else "this one"


def _print_loss(root: str, run: RunInfo) -> None:
    """Print what would be lost permanently if an execution was purged: the number of its files and bytes on disk, and
    the first `_SHOWN_ORIGINALS` originals, or that it is unknown. Deletes nothing.
    """
    with LineWriter() as writer:
        writer.write(
            f"run {run.run_id} on {escape_controls(root)} ({run.state}): {run.files} files, {run.allocated_bytes} "
            "bytes on disk"
        )
        if run.state is RunState.FINISHED or run.state is RunState.SUPERSEDED:
            writer.write("  it can then never be undone, and these originals, which exist nowhere else, are lost:")
        for original in run.originals[:_SHOWN_ORIGINALS]:
            where = "" if original.start is None else f" from byte {original.start} on"
            writer.write(f"    {escape_controls(original.path)}{where}, {original.bytes} bytes")
        if len(run.originals) > _SHOWN_ORIGINALS:
            writer.write(f"    and {len(run.originals) - _SHOWN_ORIGINALS} more")
        if run.state is RunState.UNREADABLE:
            writer.write("  what it keeps is unknown")


def _purge(request: Purge, paths: Sequence[str], acting: Acting[RunInfo]) -> int:
    as_json = acting.as_json
    named = runs_of_each(paths, request.run_ids, request.quarantine) if request.run_ids else {}
    meant = {path: named.get(path, ()) for path in paths if request.older_than_days is not None or path in named}
    chosen = [
        (path, root_of_runs(path), *purgeable(structs.replace(request, run_ids=wanted), path))
        for path, wanted in meant.items()
    ]
    if not as_json:
        for _path, root, run_infos, _left in chosen:
            for run in run_infos:
                _print_loss(root, run)
    if any(infos for _path, _root, infos, _left in chosen):
        acting.agree("Permanently delete all of this?")
    results = [
        purge(structs.replace(request, run_ids=[run.run_id for run in infos], older_than_days=None), path)[0]
        if infos
        else PurgeResult(root, ())
        for path, root, infos, _left in chosen
    ]
    for (_path, root, _found, left), result in zip(chosen, results, strict=True):
        if as_json:
            purged = [run.run_id for run in result.purged]
            freed, changed = result.freed_bytes, bool(purged)
            print_json(PurgeLine(path=root, purged=purged, freed_bytes=freed, left=left, changed=changed))
            continue
        if result.purged:
            runs_purged = counted(len(result.purged), "run")
            _print(f"{escape_controls(root)}: {runs_purged} purged, {counted(result.freed_bytes, 'byte')} freed")
        else:
            _print(f"{escape_controls(root)}: nothing to purge")
        _print(*(f"run {run_id} is kept: {escape_controls(why)}" for run_id, why in left.items()))
    return ExitCode.CHANGED if any(result.purged for result in results) else ExitCode.CLEAN


@click.command(name="runs")
@PATHS
@request_option(Purge, "quarantine")
@request_option(Purge, "run_ids")
@request_option(Purge, "older_than_days", type=Age())
@request_option(Purge, "moved")
@YES
@paths_in_properties
@JSON
def command(
    paths: tuple[str, ...],
    quarantine: str | None,
    run_ids: tuple[str, ...],
    older_than_days: float | None,
    moved: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """List what recoveries have kept: when, by which machine, how much it is, and whether undo is possible.

    A purged run can no longer be undone, and the originals that it kept are lost.  Interrupted runs are never
    purged: complete or undo them.

    Exit code 0 if all is well, 1 if a listed run was interrupted or cannot be read, 2 if something was purged, 3 if it
    refused.
    """
    paths = tuple(log_directories(paths))
    if run_ids or older_than_days is not None:
        acting = Acting[RunInfo](yes=yes, as_json=as_json)
        with acting.on(paths, quarantine):
            request = Purge(run_ids=run_ids, older_than_days=older_than_days, quarantine=quarantine, moved=moved)
            return _purge(request, paths, acting)
    if yes or moved:
        raise UsageError(f"{'--yes' if yes else '--moved'} needs --purge or --purge-older-than")
    return _show(paths, quarantine, as_json)
