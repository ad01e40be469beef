"""Mode remote: remove damaged segments of a tiered log if the remote tier has copies of them."""

from __future__ import annotations

from kafkalog.recovery.modes.spec import Help, ModeSpec, WaySpec

__all__ = ["SPEC"]

SPEC = ModeSpec(
    name="remote",
    does="gives up damaged segments of a tiered log of which the remote tier has copies",
    when="damaged segments of a tiered log were copied before: they go, and a broker serves the remote copies",
    way=WaySpec(
        name="remote",
        keeps="damaged local segments are left to the remote tier, which has them too",
        consequence=lambda found: (
            f"{'' if found.has_gaps else 'nothing is lost: '}{found.left_to_remote}; the damaged local segments go to "
            "quarantine"
        ),
        help=Help.TIER,
    ),
    carry_out=lambda carrier, tree: carrier.leave_to_remote(tree),
)
