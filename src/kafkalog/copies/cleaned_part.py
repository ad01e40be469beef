"""Find how far compaction may have removed records from one copy of a partition, so that a merge does not put them back
from another copy.
"""

from __future__ import annotations

from kafkalog.cluster.records.checkpoints import cleaned_until
from kafkalog.copies.stretches import Stretch
from kafkalog.copies.volumes import Copy

__all__ = ["CleanedPart"]


class CleanedPart:
    """Offset below which compaction may have removed records from one copy, as `until`; 0 if there is none.

    It comes from the cleaner's checkpoint beside the copy and from the batches. A batch with fewer records than offsets
    was compacted; if the topic is compacted, so was each gap inside a segment, which a replica also copies from a
    leader that was cleaned. Without a checkpoint all but the last segment of a compacted topic may have been cleaned. A
    stretch is a sequence of sound batches of one file.
    """

    def __init__(self, copy: Copy, *, is_compacted: bool) -> None:
        known = cleaned_until(copy.path, copy.name)
        segments = () if copy.partition is None else copy.partition.segments
        self.until = known or 0
        if known is None and is_compacted and segments:
            self.until = segments[-1].base_offset
        self._is_compacted = is_compacted
        self._path, self._end = "", 0

    def note(self, stretch: Stretch) -> None:
        """Raise `until` if the next stretch of the copy's log shows compaction. A batch with fewer records than offsets
        raises it to the offset after the batch. If the topic is compacted, a gap inside a segment raises it to the end
        of the gap, unless damage made the gap. Stretches must be passed in order.
        """
        self.until = max(self.until, stretch.cleaned_until())
        if self._is_compacted:
            first = stretch.row(0).first
            if stretch.path == self._path and first > self._end and not stretch.behind_damage:
                self.until = max(self.until, first)
            self.until = max([self.until, *(last + 1 for _first, last in stretch.gaps(0, len(stretch)))])
            self._path, self._end = stretch.path, stretch.next_offset()
