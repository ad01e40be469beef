"""How far two copies of a partition tell the same story: leader epochs, as a follower and a leader compare them.

A follower asks its leader where an epoch ended (OffsetsForLeaderEpoch) and cuts its log there before it fetches.  Two
logs that never met a leader together can be compared with each other in the same way.  Decided by
`LeaderEpochFileCache.endOffsetFor` and `AbstractFetcherThread.getOffsetTruncationState`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

from kafkalog.codec.text import LeaderEpoch

__all__ = ["CommonPast", "Lineage", "common_past"]


class CommonPast(Struct, frozen=True):
    """Up to where a follower keeps its log when it begins to follow a leader."""

    epoch: int | None
    """the largest leader epoch that both know; None if there is none"""
    offset: int
    """everything of the follower from here on goes; its own log end if nothing does"""


class Lineage(Struct, frozen=True):
    """The leader epochs of a log, both numbers strictly increasing, and where it ends."""

    entries: tuple[LeaderEpoch, ...]
    end_offset: int

    @classmethod
    def of(cls, entries: Sequence[LeaderEpoch], end_offset: int) -> Lineage:
        """What a broker keeps of such entries when it loads a log that ends there."""
        kept: list[LeaderEpoch] = []
        for entry in entries:
            if entry.epoch < 0 or entry.start_offset < 0:
                continue
            while kept and not (kept[-1].epoch < entry.epoch and kept[-1].start_offset < entry.start_offset):
                kept.pop()
            kept.append(entry)
        return cls(tuple(entry for entry in kept if entry.start_offset < end_offset), end_offset)

    @property
    def last_epoch(self) -> int | None:
        """The epoch of the log's end."""
        return self.entries[-1].epoch if self.entries else None

    def end_of(self, epoch: int) -> tuple[int, int] | None:
        """The largest known epoch that is not above `epoch`, and the offset after it; None if none is as high.

        An epoch below all that are known ends where the first of them begins.
        """
        if not self.entries or epoch > self.entries[-1].epoch:
            return None
        return self._floor(epoch)

    def answer_to(self, epoch: int) -> tuple[int, int]:
        """What the log's broker would answer as the leader: it has begun an epoch above all others at its log end."""
        return self._floor(epoch)

    def _floor(self, epoch: int) -> tuple[int, int]:
        number = bisect_right([entry.epoch for entry in self.entries], epoch)
        end = self.entries[number].start_offset if number < len(self.entries) else self.end_offset
        return (self.entries[number - 1].epoch if number else epoch), end


def common_past(follower: Lineage, leader: Lineage) -> CommonPast | None:
    """Where the follower would cut its log; None if it knows no epoch, and its high watermark decides.

    It asks again for an older epoch, as a follower does, until both know the same one.
    """
    while (asked := follower.last_epoch) is not None:
        epoch, leader_end = leader.answer_to(asked)
        own = follower.end_of(epoch)
        if own is None:
            return CommonPast(None, min(leader_end, follower.end_offset))
        own_epoch, own_end = own
        cut = min(own_end, follower.end_offset)
        if own_epoch == epoch:
            known = epoch if any(entry.epoch == epoch for entry in (*leader.entries, *follower.entries)) else None
            return CommonPast(known, min(cut, leader_end))
        follower = Lineage.of(follower.entries, cut)
    return None
