"""Describe a plan that was made, or could not be made, in the words of the command line."""

from __future__ import annotations

import os

from kafkalog.inspect.facts import Planned, ReportFacts
from kafkalog.words.commands import Given
from kafkalog.words.exit_codes import sentence_of
from kafkalog.words.next_step import of_all_together

__all__ = ["given_in", "why_no_plan"]


def why_no_plan(planned: Planned) -> str:
    """Sentence of the error that ended the plan."""
    return "" if planned.problem is None else sentence_of(planned.problem)


def given_in(facts: ReportFacts) -> Given:
    """Return the words that the report's commands repeat, and which of its directories are in use."""
    locked = frozenset(os.path.realpath(each.path) for each in facts.directories if each.standing.locked)
    given = Given(words=facts.arguments, locked=locked)
    has_problem = any(planned.problem is not None for planned in facts.planned)
    return given if has_problem else of_all_together(facts.planned, given)
