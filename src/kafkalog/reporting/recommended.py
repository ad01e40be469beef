"""Describe a plan that was made, or could not be made, in the words of the command line."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.codec.common.shell import shell_line
from kafkalog.inspect.facts import Planned
from kafkalog.words.commands import Given, commands_for, identity_command, paths_of
from kafkalog.words.exit_codes import sentence_of

__all__ = ["recommended_command", "why_no_plan"]


def why_no_plan(planned: Planned) -> str:
    """Sentence of the error that ended the plan."""
    return "" if planned.problem is None else sentence_of(planned.problem)


def recommended_command(planned: Planned, arguments: Sequence[str]) -> str | None:
    """Return the command lines of the recommended way to recover, joined by newlines, or of the plan itself if
    nothing has to be chosen; None if there is nothing to do, recovery is refused, no plan could be made, or an
    unfinished run comes first. `arguments` are options that the commands repeat.
    """
    if planned.refusal is not None or planned.problem is not None or planned.choice.loses_metadata:
        return None
    if planned.waits_for_a_run:
        return None
    best = planned.choice.recommended
    if best is not None and (planned.files or best.measured.bytes_cut or best.measured.damage_left):
        return "\n".join(commands_for(best, planned, Given(arguments))) or None
    if planned.files:
        return shell_line(["kafkalog", "recover", *paths_of(planned, Given(arguments)), *arguments, "--yes"])
    return identity_command(planned, arguments)
