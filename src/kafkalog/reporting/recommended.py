"""What the report says about plans in the terms of the command line: the reason why there is none, and the options that
commands repeat.
"""

from __future__ import annotations

import os

from kafkalog.inspect.facts import Planned, ReportFacts
from kafkalog.words.commands import Given
from kafkalog.words.exit_codes import sentence_of
from kafkalog.words.next_step import of_all_together

__all__ = ["given_in", "why_no_plan"]


def why_no_plan(planned: Planned) -> str:
    """Return the sentence of the error that prevented a plan; empty if there was no error."""
    return "" if planned.problem is None else sentence_of(planned.problem)


def given_in(facts: ReportFacts) -> Given:
    """Return the options that the report's commands repeat, and the directories that are in use or have too little
    space. If all directories have plans and one command fits them all, it has these directories too. May read metadata
    logs; raises `StorageError` if that fails.
    """
    locked = frozenset(os.path.realpath(each.path) for each in facts.directories if each.standing.locked)
    given = Given(
        words=facts.arguments,
        locked=locked,
        without_room={each.root: sentence_of(each.no_room) for each in facts.planned if each.no_room is not None},
    )
    has_problem = any(planned.problem is not None for planned in facts.planned)
    return given if has_problem else of_all_together(facts.planned, given)
