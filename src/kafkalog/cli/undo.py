"""`kafkalog undo`: put back every byte and time of a recovery."""

from __future__ import annotations

import sys

import click

from kafkalog.cli.interrupt import interruptible
from kafkalog.cli.outcome import Outcome
from kafkalog.cli.output import LineWriter, escape_controls, print_json
from kafkalog.codec.errors import RecoveryRefused
from kafkalog.recovery import undo

__all__ = ["command"]


@click.command(name="undo")
@click.argument("path", metavar="PATH")
@click.option("--run", "run_id", metavar="RUN", help="Which run [the latest on that path].")
@click.option("--quarantine", metavar="DIR", help="Where the run's bytes are kept [PATH.recovery].")
@click.option("--yes", is_flag=True, help="Act without asking.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(path: str, run_id: str | None, quarantine: str | None, yes: bool, as_json: bool) -> int:
    """Give the directory back as it was before a recovery, byte for byte and time for time.

    Declines if a file was changed since.  Exit code 2 when done, 3 if it declined.
    """
    with interruptible([path], quarantine):
        if not yes:
            if not (sys.stdin.isatty() and sys.stdout.isatty()):
                raise RecoveryRefused(
                    "nothing was changed: there is no terminal to ask on; add --yes to act", reason="confirm"
                )
            if not click.confirm(f"Undo {run_id or 'the latest run'} on {escape_controls(path)}?", default=False):
                raise RecoveryRefused("nothing was changed", reason="confirm")
        result = undo(path, run_id, quarantine=quarantine)
        if as_json:
            print_json(result.as_dict())
        else:
            with LineWriter() as writer:
                writer.write(
                    f"run {result.run_id} on {escape_controls(result.root)} is undone: {result.files} files put back"
                )
    return Outcome.CHANGED
