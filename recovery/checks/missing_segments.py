"""The finding that a segment is gone, the same for every command that looks for it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import DirectoryState, FileKind, segment_file
from kafkalog.log.directories.partition import Partition
from kafkalog.recovery.facts.topic_facts import read_topic_facts

__all__ = ["missing_from", "missing_segments"]


def missing_segments(
    directory: str, missing: Sequence[tuple[int, int]], log_start: int, bases: Iterable[int]
) -> Iterator[Finding]:
    """Findings of a partition directory; `missing` are offsets as `MissingOffsets` finds them.

    `bases` are the base offsets of the segments that are there: one at which missing offsets begin holds nothing, and
    the finding names it.  Elsewhere it names the segment that follows.
    """
    there = frozenset(bases)
    for first, last in missing:
        if last >= log_start:
            is_emptied = first in there
            why = "this segment is empty" if is_emptied else "a segment before this one is gone, or the end of it"
            detail = f"offsets {max(first, log_start)} to {last} are missing, and no others in this log are: {why}"
            path = f"{directory}/{segment_file(first if is_emptied else last + 1, FileKind.LOG)}"
            yield Finding(FindingCode.SEGMENT_MISSING, Severity.WARNING, None, max(first, log_start), detail, path)


def missing_from(partition: Partition, missing: Sequence[tuple[int, int]]) -> list[Finding]:
    """Findings of a live partition, unless the cluster's memory beside it knows that its topic is compacted."""
    name = partition.name
    if not missing or name is None or partition.state is not DirectoryState.LIVE:
        return []
    bases = (segment.base_offset for segment in partition.segments)
    found = list(missing_segments(partition.path, missing, partition.log_start_offset, bases))
    if found and read_topic_facts([os.path.dirname(partition.path)]).is_compacted(name.topic):
        return []
    return found
