"""Effect of a broker's departure on a partition: leader before, leader after, and whether there is one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from kafkalog.codec.common.errors import UnknownName, UsageError

__all__ = ["MIN_ISR", "NO_LEADER", "UNCLEAN", "Departure", "departure_result", "refuse_unregistered"]

UNCLEAN = "unclean.leader.election.enable"
MIN_ISR = "min.insync.replicas"
NO_LEADER = -1

StateT = TypeVar("StateT")
"""state of a partition: `PartitionImage` with KRaft, `PartitionState` with ZooKeeper"""


class Departure(Struct, Generic[StateT], frozen=True, kw_only=True):
    """The effect of a broker's departure on one of the partitions that it led or was in sync for."""

    broker: int
    topic: str
    partition: int
    before: StateT
    after: StateT
    outcome: str
    """`kept`: the leader stays; `clean`; `unclean`: the new leader may lack records; `offline`: there is no leader"""
    unclean_allowed: bool
    chroot: str = ""


def departure_result(before: int, after: int, *, unclean: bool) -> str:
    """Return the outcome of a departure from the leaders before and after it. It is `offline` if there is no leader
    after it. Otherwise it is `unclean` if the flag is set, because the new leader may lack records. Otherwise it is
    `kept` if the leader is the same, and `clean` if not.
    """
    if after == NO_LEADER:
        return "offline"
    if unclean:
        return "unclean"
    return "kept" if after == before else "clean"


def refuse_unregistered(brokers: Sequence[int], known: Collection[int]) -> None:
    """Raise `UsageError` if a broker is listed twice, `UnknownName` if a broker is not in `known`, the ids of
    registered brokers.
    """
    for number, each in enumerate(brokers):
        if each in brokers[:number]:
            raise UsageError(f"broker {each} is given twice")
        if each not in known:
            there = ", ".join(map(str, sorted(known))) or "none"
            raise UnknownName(f"broker {each} is not registered at this moment; registered: {there}")
