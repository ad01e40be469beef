"""What would allow what was declined, as a value: whoever called says it in the words of his own, Python or a command.

A sentence of the library never names an option of the command line; the command has a table of its own.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Advice", "Ask", "in_python"]


class Ask(enum.StrEnum):
    """What can be asked for; its value is how that is written in Python."""

    ACCEPT_LOSS = "accept_loss=True"
    QUARANTINE = "quarantine"
    MOVED = "moved=True"
    RECOVER = "recover()"
    RECOVER_INTO = "recover_into()"
    COMPLETE = "recover(complete='{run}')"
    UNDO = "undo(run_id='{run}')"
    WAY = "{way}"
    """the recovery that takes a way; `how` and `needs_consent` are those of `Way.as_dict`"""


@dataclass(frozen=True, slots=True)
class Advice:
    """A part of a sentence around something to be asked for, which stands where the text has `{}`."""

    text: str
    ask: Ask
    values: Mapping[str, Any] = field(default_factory=dict)


def in_python(advice: Advice) -> str:
    """The advice for those who call the library."""
    if advice.ask is not Ask.WAY:
        return advice.text.replace("{}", str(advice.ask).format(**advice.values), 1)
    given = {name: value for name, value in advice.values["how"].items() if value}
    if advice.values["needs_consent"]:
        given["accept_loss"] = True
    return advice.text.replace("{}", ", ".join(f"{name}={value!r}" for name, value in given.items()), 1)
