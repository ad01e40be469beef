"""Mode merge: replace a damaged partition by the records that this and other copies of it hold together."""

from __future__ import annotations

from kafkalog.recovery.modes.spec import Help, ModeSpec, WaySpec

__all__ = ["SPEC"]

SPEC = ModeSpec(
    name="merge",
    does="puts in a damaged partition's place what it and the copies given with {copies} hold together",
    when="another copy of a damaged partition is at hand: what both hold together takes its place",
    way=WaySpec(
        name="merge",
        keeps="what this and other copies hold together takes this one's place",
        consequence=lambda _found: (
            "each range of offsets comes from a copy in which it is sound, in place of what is here now"
        ),
        help=Help.COPIES,
        is_for_each_partition=True,
    ),
    carry_out=lambda carrier, tree: carrier.merge(tree),
)
