"""`kafkalog undo`: restore every byte and file time from before a recovery."""

from __future__ import annotations

import os
from functools import partial

import click
from msgspec import Struct, field, structs

from kafkalog.cli.acting import Acting
from kafkalog.cli.options.common import JSON, YES
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.requests import request_option
from kafkalog.cli.options.strict import StrictCommand
from kafkalog.codec.common.shapes import shaped
from kafkalog.recovery.facts.places import log_directories
from kafkalog.recovery.facts.run_requests import Undo
from kafkalog.recovery.undoing import UndoResult, refuse_without_run, runs_to_undo, undo
from kafkalog.words.escapes import escape_controls
from kafkalog.words.exit_codes import ExitCode

__all__ = ["command"]


class UndoLine(Struct, frozen=True, kw_only=True):
    """One line."""

    root: str = field(name="path")
    """the log directory"""
    run_id: str
    """the run that was undone"""
    files: int = field(name="restored_files")
    """files that were restored"""
    changed: bool = True
    """always true"""


@click.command(name="undo", cls=StrictCommand)
@PATHS
@paths_in_properties
@request_option(Undo, "run_ids")
@request_option(Undo, "quarantine")
@request_option(Undo, "moved")
@YES
@JSON
def command(
    paths: tuple[str, ...],
    run_ids: tuple[str, ...],
    quarantine: str | None,
    moved: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Restore a directory to its state before a recovery, every byte and every file time.

    If runs were on several log directories, say which with --run: one recovery of several directories left a run on
    each.  Refuses, and changes none of them, if a file has changed since then.  Exit code 2 when done, 3 if it refused.
    """
    acting = Acting[UndoResult](yes=yes, as_json=as_json)
    paths = tuple(log_directories(paths))
    with acting.on(paths, quarantine):
        request = Undo(run_ids=run_ids, quarantine=quarantine, moved=moved)
        chosen = runs_to_undo(request, paths)
        if not yes or len(chosen) > 1:
            for path, run_id in chosen:
                refuse_without_run(request, path, run_id)
        named = [f"{run_id or 'the latest run'} on {escape_controls(os.fspath(path))}" for path, run_id in chosen]
        acting.agree(f"Undo {', '.join(named)}?")
        if not run_ids:  # what was agreed to, whatever is the latest run by now
            ((path, run_id),) = chosen
            paths = (os.fspath(path),)
            request = structs.replace(request, run_ids=() if run_id is None else (run_id,))
        undo(
            request,
            *paths,
            on_undone=lambda result: acting.tell(shaped(result, UndoLine), partial(_tell, result, acting)),
        )
    return ExitCode.CHANGED


def _tell(result: UndoResult, acting: Acting[UndoResult]) -> None:
    undone = f"run {result.run_id} on {result.root} is undone: {result.files} files restored"
    acting.write(*filter(None, [result.note]), undone)
