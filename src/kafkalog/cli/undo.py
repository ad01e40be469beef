"""`kafkalog undo`: put back every byte and time of a recovery."""

from __future__ import annotations

import click

from kafkalog.cli.confirm import confirm
from kafkalog.cli.interrupt import interruptible
from kafkalog.cli.options.common import JSON, MOVED, QUARANTINE, YES
from kafkalog.cli.options.paths import PATH, SERVER_PROPERTIES, properties_only_for
from kafkalog.cli.options.strict import StrictCommand
from kafkalog.cli.outcome import Outcome
from kafkalog.cli.output import LineWriter, escape_controls, print_json
from kafkalog.recovery import undo
from kafkalog.recovery.run import refuse_without_run

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
    with interruptible([path], quarantine):
        if not yes:
            refuse_without_run(path, run_id, quarantine=quarantine, moved=moved)
            confirm(f"Undo {run_id or 'the latest run'} on {escape_controls(path)}?")
        result = undo(path, run_id, quarantine=quarantine, moved=moved)
        if as_json:
            print_json(result.as_dict())
        else:
            with LineWriter() as writer:
                if result.note is not None:
                    writer.write(escape_controls(result.note))
                writer.write(
                    f"run {result.run_id} on {escape_controls(result.root)} is undone: {result.files} files restored"
                )
    return Outcome.CHANGED
