"""`kafkalog undo`: put back every byte and time of a recovery."""

from __future__ import annotations

import click

from kafkalog.cli.acting import Acting
from kafkalog.cli.options.common import JSON, MOVED, QUARANTINE, YES
from kafkalog.cli.options.paths import PATH, SERVER_PROPERTIES, properties_only_for
from kafkalog.cli.options.strict import StrictCommand
from kafkalog.recovery import undo
from kafkalog.recovery.undoing import UndoResult, refuse_without_run
from kafkalog.words.escapes import escape_controls
from kafkalog.words.outcome import Outcome

__all__ = ["command"]


@click.command(name="undo", cls=StrictCommand)
@PATH
@SERVER_PROPERTIES
@click.option("--run", "run_id", metavar="RUN", help="Which run [the latest on PATH].")
@QUARANTINE
@MOVED
@YES
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    path: str,
    server_properties: str | None,
    run_id: str | None,
    quarantine: str | None,
    moved: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Restore a directory to its state before a recovery, every byte and every file time.

    Refuses if a file has changed since then.  Exit code 2 when done, 3 if it refused.
    """
    properties_only_for(ctx)
    acting = Acting[UndoResult](yes=yes, as_json=as_json)
    with acting.on([path], quarantine):
        if not yes:
            refuse_without_run(path, run_id, quarantine=quarantine, moved=moved)
        acting.agree(f"Undo {run_id or 'the latest run'} on {escape_controls(path)}?")
        result = undo(path, run_id, quarantine=quarantine, moved=moved)
        undone = f"run {result.run_id} on {result.root} is undone: {result.files} files restored"
        acting.tell(result.as_dict(), lambda: acting.write(*filter(None, [result.note]), undone))
    return Outcome.CHANGED
