"""Mode set-aside: move whole partitions to quarantine, so that the broker fetches all of them again."""

from __future__ import annotations

from kafkalog.recovery.modes.spec import ExaminedSegments, Help, ModeSpec, WaySpec

__all__ = ["SPEC"]

SPEC = ModeSpec(
    name="set-aside",
    does="moves the chosen partitions to quarantine, so that the broker fetches all of them again",
    when="another broker has all of a partition, and this one is to fetch it again from its beginning",
    way=WaySpec(
        name="set_aside",
        keeps="another broker's copy, all of it fetched again by this one",
        consequence=lambda found: (
            f"the partition goes to quarantine, and all of it is fetched again from {found.leaders}, alive and leading "
            "before this one starts"
        ),
        help=Help.LEADER,
        is_for_each_partition=True,
    ),
    carry_out=lambda carrier, tree: carrier.set_aside(tree),
    examined=ExaminedSegments.FROM_RECOVERY_POINT,
    takes_whole_partitions=True,
)
