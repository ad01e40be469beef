"""Compare how far two copies of a partition have a common history: by leader epochs, as a follower and a leader do.

A follower asks its leader where an epoch ended (OffsetsForLeaderEpoch) and truncates its log there before it fetches
(`LeaderEpochFileCache.endOffsetFor`, `AbstractFetcherThread.getOffsetTruncationState`). Two logs that never had a
leader in common can be compared in this way too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

from kafkalog.codec.files.text import LeaderEpoch

__all__ = ["CommonPast", "Lineage", "common_past"]


class CommonPast(Struct, frozen=True):
    """Point up to which a follower keeps its log when it begins to follow a leader."""

    epoch: int | None
    """leader epoch at which the answers of both logs agree, although one log may not have it; None if unknown"""
    offset: int
    """the follower's offsets from here on are lost; its own log end if none are"""


class Lineage(Struct, frozen=True):
    """Leader epochs of a log, strictly increasing in epoch and offset, and its end offset."""

    entries: tuple[LeaderEpoch, ...]
    end_offset: int

    @classmethod
    def of(cls, entries: Sequence[LeaderEpoch], end_offset: int) -> Lineage:
        """Return the lineage that a broker keeps of these entries when it loads a log that ends at `end_offset`.
        Negative entries are dropped. An entry removes the entries before it whose epoch or offset is not lower. Entries
        that begin at or above the end are dropped.
        """
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
        """Epoch of the log's end; None if no epoch is known."""
        return self.entries[-1].epoch if self.entries else None

    def end_of(self, epoch: int) -> tuple[int, int] | None:
        """Return the highest known epoch that is not above `epoch`, and the offset after it (its log end offset for the
        last epoch). None if `epoch` is above all known epochs. If `epoch` is below all of them, return `epoch` and the
        offset at which the first known epoch begins.
        """
        if not self.entries or epoch > self.entries[-1].epoch:
            return None
        return self._floor(epoch)

    def answer_to(self, epoch: int) -> tuple[int, int]:
        """Answer of this log's broker, as leader, to a follower that asks where `epoch` ended: epoch and end offset as
        in `end_of`. An epoch above all known ones ends at the log end offset, because a leader begins a new epoch
        there.
        """
        return self._floor(epoch)

    def _floor(self, epoch: int) -> tuple[int, int]:
        number = bisect_right([entry.epoch for entry in self.entries], epoch)
        end = self.entries[number].start_offset if number < len(self.entries) else self.end_offset
        return (self.entries[number - 1].epoch if number else epoch), end


def common_past(follower: Lineage, leader: Lineage) -> CommonPast | None:
    """Return the offset from which a follower would truncate its log to follow the leader, and the epoch of this
    decision. The offset is the follower's log end if nothing would be truncated. Return None if the follower knows no
    leader epoch, or has no older epoch left to compare. A broker then truncates to the high watermark.

    As in a broker, the leader is asked where the follower's last epoch ended. Older epochs follow, until both logs give
    the same epoch. Only one of the logs may have this epoch; it is None if neither has it.
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
