"""Mode salvage: keep every sound batch on both sides of the damage, with a gap in the offsets."""

from __future__ import annotations

from kafkalog.recovery.modes.spec import ExaminedSegments, ModeSpec, WayFacts, WaySpec

__all__ = ["SPEC"]


def _consequence(facts: WayFacts) -> str:
    if not facts.bytes_cut:
        return "no log is cut"
    gap = ", on both sides of the damage, with a gap in the offsets" if facts.has_gaps else ""
    return f"{'what is sound and in place' if facts.drops_sound else 'everything sound'} is kept{gap}"


SPEC = ModeSpec(
    name="salvage",
    does="also keeps sound batches after the damage",
    when="there is no other copy, and what lies after the damage matters more than a gap in the offsets",
    way=WaySpec(
        name="salvage", keeps="everything that is sound, on both sides of the damage", consequence=_consequence
    ),
    is_compared=True,
    examined=ExaminedSegments.ALL,
    resumes=True,
)
