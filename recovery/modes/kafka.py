"""Mode kafka: leave byte for byte what the broker's own start leaves."""

from __future__ import annotations

from kafkalog.recovery.modes.spec import ExaminedSegments, ModeSpec, WayFacts, WaySpec

__all__ = ["SPEC"]


def _consequence(facts: WayFacts) -> str:
    if facts.start is not None:
        return facts.start
    return "the broker's own start deletes what it does not keep" if facts.bytes_cut else "the broker starts"


SPEC = ModeSpec(
    name="kafka",
    does="leaves, byte for byte, what the broker's own recovery would",
    when="the result must be, byte for byte, what the broker's own recovery would leave",
    way=WaySpec(
        name="kafka", keeps="what the broker's own start leaves", consequence=_consequence, is_start=True
    ),
    examined=ExaminedSegments.FROM_RECOVERY_POINT,
    is_as_broker=True,
)
