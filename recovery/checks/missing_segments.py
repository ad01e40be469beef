"""Find missing segments by the offsets that are missing between batches, unless compaction or damage explains the
gap.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from kafkalog.cluster.records.checkpoints import cleaned_until
from kafkalog.codec.common.findings import Finding, StopReason
from kafkalog.codec.names import DirectoryState
from kafkalog.log.directories.missing_segments import missing_segments
from kafkalog.log.directories.partition import Partition
from kafkalog.log.walk.missing import MissingOffsets
from kafkalog.log.walk.summary import SegmentSummary
from kafkalog.recovery.facts.topic_facts import read_topic_facts

__all__ = ["missing_by_summaries", "missing_from", "missing_offsets_of"]


def missing_from(partition: Partition, missing: Sequence[tuple[int, int]]) -> list[Finding]:
    """Return the findings about missing segments of a partition. `missing` are ranges of offsets (both ends included)
    that no batch has although compaction does not explain it (`missing_offsets_of`). Parts below the log start offset
    are left out.

    Empty if nothing is missing or the partition is not live. Also empty if the broker's metadata log shows that the
    topic is compacted, unless the cleaner's checkpoint gives the offset up to which the log was cleaned. Reads the
    metadata log in the partition's log directory, if there is one.
    """
    name = partition.name
    if not missing or name is None or partition.state is not DirectoryState.LIVE:
        return []
    is_compacted = read_topic_facts([os.path.dirname(partition.path)]).is_compacted(name.topic)
    if is_compacted and cleaned_until(partition.path, name) is None:
        return []
    bases = (segment.base_offset for segment in partition.segments)
    start = partition.log_start_offset
    return list(missing_segments(partition.path, missing, start, bases, is_compacted=is_compacted))


def missing_offsets_of(partition: Partition) -> MissingOffsets:
    """Return a new collector of missing offsets for a walk over the partition. It ignores offsets below the end of the
    cleaned part of the log, according to the cleaner's checkpoint.
    """
    name = partition.name
    return MissingOffsets(0 if name is None else cleaned_until(partition.path, name) or 0)


def missing_by_summaries(partition: Partition, segments: Sequence[SegmentSummary]) -> list[Finding]:
    """Return the findings about missing segments of a partition under the same conditions as `missing_from`. `segments`
    are the summaries of all of its segments, in order. Offsets that may have been in damaged bytes do not count as
    missing.
    """
    missing = missing_offsets_of(partition)
    following: list[int | None] = [segment.segment.base_offset for segment in segments[1:]]
    for summary, next_base in zip(segments, [*following, None], strict=False):
        missing.segment(summary.segment.base_offset, next_base, was_emptied=summary.segment.was_emptied())
        if summary.first_offset is not None and summary.last_offset is not None:
            missing.batches(summary.first_offset, summary.last_offset, has_gaps=summary.has_gaps)
        if summary.stop is not StopReason.END:
            missing.damaged()
    return missing_from(partition, missing.found)
