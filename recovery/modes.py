"""The ways to recover, each with the sentence that says when to use it."""

from __future__ import annotations

import enum

__all__ = ["Mode"]


class Mode(enum.StrEnum):
    """What recovery aims at."""

    KAFKA = "kafka"

    @property
    def use_when(self) -> str:
        """When to use this mode, in one sentence."""
        return _USE_WHEN[self]


_USE_WHEN = {
    Mode.KAFKA: "Use it when the result must be, byte for byte, what the broker's own recovery would leave.",
}
