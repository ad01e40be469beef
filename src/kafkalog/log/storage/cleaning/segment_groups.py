"""Group the segments that the cleaner merges into one (`Cleaner.groupSegmentsBySize`)."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.codec.rules.batches import MAX_RELATIVE_OFFSET
from kafkalog.log.storage.segment import LogSegment

__all__ = ["segment_groups"]


def segment_groups(
    segments: Sequence[LogSegment], segment_bytes: int, index_bytes: int, upper_bound: int
) -> list[list[LogSegment]]:
    """Divide consecutive segments into groups that are each merged into one segment; the order is kept. Return an empty
    list if there are no segments. A segment joins the group before it on three conditions. The logs together have at
    most `segment_bytes`. The offset indexes together, and the time indexes together, have at most `index_bytes`. The
    segment's last possible offset is at most 2^31 - 1 above the group's base offset; as in Kafka, this does not apply
    to an empty segment. The last possible offset is the one before the next segment's base offset, or before
    `upper_bound` for the last segment. Otherwise the segment begins a new group, whatever its size.
    """
    groups: list[list[LogSegment]] = []
    sizes = (0, 0, 0)
    limits = (segment_bytes, index_bytes, index_bytes)
    for number, segment in enumerate(segments):
        own = segment.log.size, segment.offset_index.used_bytes, segment.time_index.used_bytes
        following = segments[number + 1].base_offset if number + 1 < len(segments) else upper_bound
        together = tuple(a + b for a, b in zip(sizes, own, strict=True))
        if (
            groups
            and all(size <= limit for size, limit in zip(together, limits, strict=True))
            and (own[0] == 0 or following - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        ):
            groups[-1].append(segment)
            sizes = (together[0], together[1], together[2])
        else:
            groups.append([segment])
            sizes = own
    return groups
