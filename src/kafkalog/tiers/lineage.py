"""Select the remote segments that belong to a log, by leader epochs as in a broker (`RemoteLogLeaderEpochState`)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.tiers.segments import RemoteSegment

__all__ = ["RemoteStretch", "epoch_at", "leads_to", "lineage", "reaches"]


class RemoteStretch(Struct, frozen=True):
    """Offsets `first` to `last` (both included) of a log, to be read from one remote segment."""

    first: int
    last: int
    segment: RemoteSegment

    @property
    def until(self) -> int | None:
        """The last offset to read from the segment; None if all of it is read."""
        return self.last if self.last < self.segment.end_offset else None


def reaches(segments: Iterable[RemoteSegment], start: int) -> int:
    """Return the first offset from `start` on that no segment contains, regardless of leader epochs. That is `start`
    itself if no segment contains it.
    """
    reached = start
    for segment in sorted(segments, key=lambda segment: segment.start_offset):
        if segment.start_offset > reached:
            break
        reached = max(reached, segment.end_offset + 1)
    return reached


def epoch_at(epochs: Sequence[LeaderEpoch], offset: int) -> int | None:
    """Return the leader epoch of an offset; None below the first epoch."""
    number = bisect_right(epochs, offset, key=lambda each: each.start_offset) - 1
    return epochs[number].epoch if number >= 0 else None


def leads_to(own: Sequence[LeaderEpoch], epochs: Sequence[LeaderEpoch], *offsets: int) -> bool:
    """Return whether `own` can be an earlier state of `epochs`, up to `offsets`. Epochs removed from the start of the
    log are ignored. True if `own` is empty.
    """
    begins = epochs[0].start_offset if epochs else 0
    asked = {*(leader_epoch.start_offset for leader_epoch in own), *offsets}
    return all(epoch_at(epochs, offset) == epoch_at(own, offset) for offset in asked if own and offset >= begins)


def epoch_ends(segment: RemoteSegment) -> list[tuple[int, int, int]]:
    """Return (leader epoch, first offset, last offset) for each leader epoch in a segment, in order; both offsets are
    included. The segment must have leader epochs (else `ValueError`).
    """
    bounds = [*(leader_epoch.start_offset for leader_epoch in segment.leader_epochs[1:]), segment.end_offset + 1]
    return [
        (epoch, max(first, segment.start_offset), following - 1)
        for (epoch, first), following in zip(segment.leader_epochs, bounds, strict=True)
    ]


def lineage(segments: Iterable[RemoteSegment], epochs: Sequence[LeaderEpoch]) -> list[RemoteStretch]:
    """Return the remote part of the log with these leader `epochs`, in offset order without overlaps. Return an empty
    list if no readable segment belongs to the log. Only segments whose copy is finished are used.

    Offsets in an epoch that the log did not have there belong to a truncated log and are left out. Two segments may
    contain an offset in the same epoch, because a new leader copies again what the old one had not reported. The one
    that was copied later is then used if it reaches further or holds all of the other. If `epochs` is empty, they are
    derived from the segments; if these contradict each other, the larger epoch counts.
    """
    readable = [segment for segment in segments if segment.is_readable]
    known = list(epochs) or _epochs_of(readable)
    remote_stretches: list[RemoteStretch] = []
    for number, (epoch, begins) in enumerate(known):
        until = known[number + 1].start_offset if number + 1 < len(known) else None
        remote_stretches += _of_epoch(readable, epoch, begins, until)
    return _joined(remote_stretches)


def _epochs_of(segments: Sequence[RemoteSegment]) -> list[LeaderEpoch]:
    """Derive the leader epochs of a log from its segments, ascending. Each epoch begins at its first occurrence;
    smaller epochs that begin at the same offset or later are dropped. Empty without segments.
    """
    first: dict[int, int] = {}
    for segment in segments:
        for epoch, offset, _last in epoch_ends(segment):
            first[epoch] = min(offset, first.get(epoch, offset))
    epochs: list[LeaderEpoch] = []
    for epoch in sorted(first):
        while epochs and epochs[-1].start_offset >= first[epoch]:
            epochs.pop()
        epochs.append(LeaderEpoch(epoch, first[epoch]))
    return epochs


def _of_epoch(segments: Sequence[RemoteSegment], epoch: int, begins: int, until: int | None) -> list[RemoteStretch]:
    parts: list[RemoteStretch] = []
    for segment in sorted(segments, key=lambda each: each.events[0].timestamp):
        for own, first, last in epoch_ends(segment):
            if own != epoch or (until is not None and first >= until) or last < begins:
                continue
            first, last = max(first, begins), last if until is None else min(last, until - 1)
            while parts and parts[-1].first >= first and parts[-1].last <= last:
                parts.pop()
            if not parts or last > parts[-1].last:
                parts.append(RemoteStretch(first, last, segment))
    return parts


def _joined(parts: Sequence[RemoteStretch]) -> list[RemoteStretch]:
    """Return stretches sorted by first offset, without overlaps. If two overlap, the earlier one is cut before the
    later one begins; a stretch that lies within the one before it is dropped. Adjacent stretches of the same segment
    are merged.
    """
    stretches: list[RemoteStretch] = []
    for part in sorted(parts, key=lambda each: (each.first, each.last)):
        if stretches and stretches[-1].segment is part.segment and stretches[-1].last + 1 == part.first:
            stretches[-1] = replace(stretches[-1], last=part.last)
            continue
        while stretches and stretches[-1].last >= part.first:
            if stretches[-1].first >= part.first:
                stretches.pop()
            elif stretches[-1].last >= part.last:
                break
            else:
                stretches[-1] = replace(stretches[-1], last=part.first - 1)
        else:
            stretches.append(part)
    return stretches
