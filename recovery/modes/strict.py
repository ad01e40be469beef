"""Mode strict: cut torn and zero tails as mode safe does, and refuse anything worse."""

from __future__ import annotations

from kafkalog.recovery.modes.spec import ModeSpec

__all__ = ["SPEC"]

SPEC = ModeSpec(
    name="strict",
    does="only removes torn and zero-filled tails and refuses anything else",
    when="a person is to decide about anything worse than a torn or zero tail",
    leaves_worse_to_person=True,
)
