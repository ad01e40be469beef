"""Table of the modes of `recover`, and of the ways that a plan compares.

A new mode is a file beside this one, a name in `Mode` and a row in `MODES`; its way has a place in `WAYS`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from kafkalog.recovery.modes import kafka, merge, remote, safe, salvage, set_aside, strict
from kafkalog.recovery.modes.spec import Help, ModeSpec, WaySpec

__all__ = ["MODES", "REPAIR_BITS", "REPLICA", "WAYS", "Mode"]


class Mode(enum.StrEnum):
    """What a recovery is asked to keep and to remove."""

    SAFE = "safe"
    SALVAGE = "salvage"
    MERGE = "merge"
    REMOTE = "remote"
    STRICT = "strict"
    KAFKA = "kafka"
    SET_ASIDE = "set-aside"

    @property
    def spec(self) -> ModeSpec:
        """Row of the mode in the table."""
        return MODES[self]


MODES: Mapping[Mode, ModeSpec] = {
    Mode(row.SPEC.name): row.SPEC for row in (safe, salvage, merge, remote, strict, kafka, set_aside)
}

REPAIR_BITS = WaySpec(
    name="repair_bits",
    keeps="flipped bits are corrected where that is proven",
    consequence=lambda _found: "flipped bits are corrected where checksum and content prove which they are",
)
"""Way of modes safe and salvage with the option `repair_bits`."""
REPLICA = WaySpec(
    name="replica",
    keeps="another broker's copy, fetched again by this one",
    consequence=lambda _found: (
        "this broker's start cuts its log at the damage; it fetches the rest again from the other broker, if that copy "
        "is whole (`kafkalog triage` compares them)"
    ),
    help=Help.LEADER,
)
"""Way without a recovery: the start of a broker that follows."""
WAYS: Mapping[str, WaySpec] = {
    way.name: way
    for way in (
        safe.SPEC.way, remote.SPEC.way, REPAIR_BITS, salvage.SPEC.way, merge.SPEC.way, REPLICA, set_aside.SPEC.way,
        kafka.SPEC.way,
    )
    if way is not None
}  # fmt: skip
"""Ways by name; of two with equal losses the earlier one is recommended."""
