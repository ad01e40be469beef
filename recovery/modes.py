"""The ways to recover, each with the sentence that says when to use it."""

from __future__ import annotations

import enum

__all__ = ["Mode"]


class Mode(enum.StrEnum):
    """What recovery aims at."""

    SAFE = "safe"
    SALVAGE = "salvage"
    STRICT = "strict"
    KAFKA = "kafka"

    @property
    def use_when(self) -> str:
        """When to use this mode, in one sentence."""
        return _USE_WHEN[self]


_USE_WHEN = {
    Mode.SAFE: "Use it when the broker is to start again with every sound batch there is and change nothing more.",
    Mode.SALVAGE: "Use it when there is no other copy and what lies behind the damage matters more than a gap.",
    Mode.STRICT: "Use it when anything worse than a torn or zero tail is for a person to decide.",
    Mode.KAFKA: "Use it when the result must be, byte for byte, what the broker's own recovery would leave.",
}
