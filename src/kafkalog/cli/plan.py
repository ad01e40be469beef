"""`kafkalog plan`: what `recover` would do, and what the broker would; nothing is changed."""

from __future__ import annotations

from typing import Any

import click

from kafkalog.cli.outcome import Outcome
from kafkalog.cli.output import print_json
from kafkalog.cli.plan_text import print_plan
from kafkalog.cli.progress import ByteProgress
from kafkalog.cli.settings import Options, options_of, planning_options, total_bytes
from kafkalog.recovery import Plan, plan

__all__ = ["command", "make", "show"]


def make(path: str, options: Options) -> Plan:
    """Make a plan, with a progress bar."""
    with ByteProgress("planning", total_bytes(path)) as progress:
        return plan(path, **options, on_read=progress.advance)


def show(path: str, options: Options, as_json: bool) -> int:
    """Make a plan and print it; 1 if it would change something or declines, else 0."""
    made = make(path, options)
    if as_json:
        print_json(made.as_dict())
    else:
        print_plan(made)
    return Outcome.FINDINGS if made.changes or made.refusal is not None else Outcome.CLEAN


@click.command(name="plan")
@click.argument("path", metavar="PATH")
@planning_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(path: str, as_json: bool, **given: Any) -> int:
    """Show what `recover` would do and what the broker itself would do, without touching anything.

    Exit code 0 if there is nothing to do, else 1.
    """
    return show(path, options_of(**given), as_json)
