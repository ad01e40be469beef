"""`kafkalog plan`: what `recover` would do, and what the broker would; nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from kafkalog.cli.arguments import PATHS
from kafkalog.cli.outcome import Outcome
from kafkalog.cli.output import LineWriter, escape_controls, print_json
from kafkalog.cli.plan_text import print_plan
from kafkalog.cli.progress import RecoveryProgress
from kafkalog.cli.settings import Options, command_words, job_count, options_of, planning_options
from kafkalog.recovery import Plan, plan
from kafkalog.recovery.run import known_topics
from kafkalog.recovery.standing import standing

__all__ = ["command", "make_all", "show"]


def make_all(paths: Sequence[str], options: Options, jobs: int) -> list[Plan]:
    """Make plans, with a progress bar."""
    topics = known_topics(paths)
    with RecoveryProgress("planning") as progress:
        return [plan(path, **options, topics=topics, jobs=jobs, on_progress=progress.update) for path in paths]


def show(paths: Sequence[str], options: Options, jobs: int, as_json: bool, words: Sequence[str] = ()) -> int:
    """Make plans and print them; 4 if something cannot be read, 1 if one would change something or declines, else 0.

    `words` are the options given, for the commands that are recommended.
    """
    plans = make_all(paths, options, jobs)
    for made in plans:
        if as_json:
            found = standing(made.root).as_dict()
            print_json({**made.as_dict(), "changed": False, "run_id": None, "standing": found})
        else:
            with LineWriter() as writer:
                for sentence in standing(made.root).sentences():
                    writer.write(escape_controls(f"{made.root}: {sentence}"))
            print_plan(made, words)
    if any(made.is_unreadable for made in plans):
        return Outcome.IO_ERROR
    return Outcome.FINDINGS if any(made.is_worth_a_look for made in plans) else Outcome.CLEAN


@click.command(name="plan")
@PATHS
@planning_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object on one line for each directory.")
def command(paths: tuple[str, ...], as_json: bool, jobs: int | None, **given: Any) -> int:
    """Show what `recover` would do and what the broker itself would do, without touching anything.

    Where anything is lost, every way there is stands beside the others, with what it keeps, loses and needs, and one is
    recommended.  What cannot be read is named and left out.  Exit code 0 if there is nothing to do, 4 if something
    could not be read, else 1.
    """
    return show(paths, options_of(**given), job_count(jobs), as_json, command_words(given))
