"""Mode safe: keep everything up to the first damage; a broker opens the result without changing a byte."""

from __future__ import annotations

from kafkalog.recovery.modes.spec import ModeSpec, WayFacts, WaySpec

__all__ = ["SPEC"]


def _consequence(facts: WayFacts) -> str:
    if not facts.bytes_cut:
        return "no log is cut"
    if not (facts.has_gaps or facts.may_lose_records or facts.drops_sound):
        return "no record is lost; what is cut goes to quarantine"
    rest = "what comes after it goes" if facts.drops_sound else "the rest goes"
    return f"everything up to the damage is kept, {rest} to quarantine"


SPEC = ModeSpec(
    name="safe",
    does="keeps every sound batch up to the damage, and a broker opens the result without changing a byte",
    when="the broker is to start again with every sound batch up to the damage, and to change nothing more",
    way=WaySpec(name="safe", keeps="everything up to the damage", consequence=_consequence),
    is_compared=True,
    is_safe=True,
)
