"""`kafkalog plan`: what `recover` would do, and what the broker would; nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from kafkalog.cli.arguments import PATHS
from kafkalog.cli.outcome import Outcome
from kafkalog.cli.output import print_json
from kafkalog.cli.plan_text import print_plan
from kafkalog.cli.progress import RecoveryProgress
from kafkalog.cli.settings import Options, job_count, options_of, planning_options
from kafkalog.recovery import Plan, plan
from kafkalog.recovery.run import known_topics

__all__ = ["command", "make_all", "show"]


def make_all(paths: Sequence[str], options: Options, jobs: int) -> list[Plan]:
    """Make plans, with a progress bar."""
    topics = known_topics(paths)
    with RecoveryProgress("planning") as progress:
        return [plan(path, **options, topics=topics, jobs=jobs, on_progress=progress.update) for path in paths]


def show(paths: Sequence[str], options: Options, jobs: int, as_json: bool) -> int:
    """Make plans and print them; 1 if one would change something or declines, else 0."""
    plans = make_all(paths, options, jobs)
    if as_json:
        objects = [made.as_dict() for made in plans]
        print_json(objects[0] if len(objects) == 1 else {"directories": objects})
    for made in plans if not as_json else []:
        print_plan(made)
    return Outcome.FINDINGS if any(made.changes or made.refusal is not None for made in plans) else Outcome.CLEAN


@click.command(name="plan")
@PATHS
@planning_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(paths: tuple[str, ...], as_json: bool, jobs: int | None, **given: Any) -> int:
    """Show what `recover` would do and what the broker itself would do, without touching anything.

    Exit code 0 if there is nothing to do, else 1.
    """
    return show(paths, options_of(**given), job_count(jobs), as_json)
