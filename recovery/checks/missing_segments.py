"""Find segments that are missing according to the batches alone, except where a gap proves nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kafkalog.codec.findings import Finding
from kafkalog.codec.names import DirectoryState
from kafkalog.log.directories.missing_segments import missing_segments
from kafkalog.log.directories.partition import Partition
from kafkalog.recovery.facts.topic_facts import read_topic_facts

__all__ = ["missing_from"]


def missing_from(partition: Partition, missing: Sequence[tuple[int, int]]) -> list[Finding]:
    """Findings of a live partition; none if the cluster's memory beside it shows that its topic is compacted."""
    name = partition.name
    if not missing or name is None or partition.state is not DirectoryState.LIVE:
        return []
    bases = (segment.base_offset for segment in partition.segments)
    findings = list(missing_segments(partition.path, missing, partition.log_start_offset, bases))
    if findings and read_topic_facts([os.path.dirname(partition.path)]).is_compacted(name.topic):
        return []
    return findings
