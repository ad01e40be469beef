"""`kafkalog staging`: what Spark jobs left beside a log directory that were killed before their commit."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from kafkalog.cli.outcome import Outcome
from kafkalog.cli.output import LineWriter, escape_controls, print_json
from kafkalog.spark.leftovers import clear_leftovers, leftovers

__all__ = ["command"]

_HOUR = 60 * 60


@click.command(name="staging")
@click.argument("path", metavar="PATH")
@click.option("--clear", is_flag=True, help="Remove it.")
@click.option("--older-than", "hours", type=click.FloatRange(min=0), default=168, show_default=True, metavar="HOURS",
              help="Leave what was written into since: a job may still run.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(path: str, clear: bool, hours: float, as_json: bool) -> int:
    """Show or remove what Spark jobs left beside the log directory PATH that were killed before their commit.

    A commit removes by itself what is older than a week.  What a killed commit needs to be taken back always stays.
    Exit code 2 if something was removed.
    """
    found = clear_leftovers(path, hours * _HOUR) if clear else leftovers(path)
    if as_json:
        print_json({"removed" if clear else "staged": [each.as_dict() for each in found]})
    else:
        with LineWriter() as writer:
            for each in found:
                when = datetime.fromtimestamp(each.modified, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
                what = "removed" if clear else "needed by a commit that was killed" if each.is_pending else "staged"
                writer.write(
                    f"{escape_controls(each.path)}: {each.bytes} bytes in {each.files} files of {when}, {what}"
                )
    return Outcome.CHANGED if clear and found else Outcome.CLEAN
