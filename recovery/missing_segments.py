"""The finding that a segment is gone, the same for every command that looks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import DirectoryState, FileKind, segment_file
from kafkalog.log.partition import Partition
from kafkalog.recovery.topic_facts import read_topic_facts

__all__ = ["missing_from", "missing_segments"]


def missing_segments(directory: str, missing: Sequence[tuple[int, int]], log_start: int) -> Iterator[Finding]:
    """Findings of a partition directory; `missing` are offsets as `MissingOffsets` finds them."""
    for first, last in missing:
        if last >= log_start:
            detail = (
                f"offsets {max(first, log_start)} to {last} are missing, and no others in this log are: a "
                "segment before this one is gone, or the end of it"
            )
            path = f"{directory}/{segment_file(last + 1, FileKind.LOG)}"
            yield Finding(FindingCode.SEGMENT_MISSING, Severity.WARNING, None, max(first, log_start), detail, path)


def missing_from(partition: Partition, missing: Sequence[tuple[int, int]]) -> list[Finding]:
    """Findings of a live partition, unless the cluster's memory beside it knows that its topic is compacted."""
    name = partition.name
    if not missing or name is None or partition.state is not DirectoryState.LIVE:
        return []
    found = list(missing_segments(partition.path, missing, partition.log_start_offset))
    if found and read_topic_facts([os.path.dirname(partition.path)]).is_compacted(name.topic):
        return []
    return found
