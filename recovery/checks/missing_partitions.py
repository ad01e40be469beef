"""Check which partitions a log directory should hold but does not (`missing_directories`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import islice

from kafkalog.codec.common.findings import Finding
from kafkalog.codec.names import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    parse_partition_directory,
)
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.missing_partitions import missing_directories
from kafkalog.log.disk.files import scan_directory
from kafkalog.recovery.facts.topic_facts import TopicFacts

__all__ = ["missing_partitions", "missing_partitions_of"]

_MOST = 1000
"""Most findings; a checkpoint that names more missing directories is of another place."""

Offsets = Mapping[tuple[str, int], int]


def missing_partitions_of(log_dir: LogDir, facts: TopicFacts) -> list[Finding]:
    """Findings of a log directory, with absolute paths; `facts` are from its broker's metadata."""
    checkpoints = {
        RECOVERY_POINT_CHECKPOINT: log_dir.recovery_points,
        LOG_START_OFFSET_CHECKPOINT: log_dir.log_start_offsets,
        REPLICATION_OFFSET_CHECKPOINT: log_dir.high_watermarks,
    }
    names = {entry.name: entry.is_dir() for entry in scan_directory(log_dir.path)}
    return [
        finding.in_file(os.path.join(log_dir.path, finding.file or ""))
        for finding in missing_partitions(log_dir.path, names, checkpoints, facts)
    ]


def missing_partitions(
    root: str, names: Mapping[str, bool], checkpoints: Mapping[str, Offsets], facts: TopicFacts
) -> list[Finding]:
    """Findings of the log directory `root`, with paths relative to it.

    `names` are all its entries, and whether each is a directory or a link to one; `checkpoints` are the offsets by file
    name. A `-delete`, `-future` or `-stray` directory explains a missing one; so does a partition in another log
    directory of the broker, which reports it to the controller when it starts
    (`ReplicaManager.maybeUpdateTopicAssignment`).
    """
    beside = (entry for other in facts.roots if other != root for entry in scan_directory(other) if entry.is_dir())
    own_names = (name for name, is_directory in names.items() if is_directory)
    there = {
        (name.topic, name.partition)
        for directory in (*own_names, *(each.name for each in beside))
        if (name := parse_partition_directory(directory)) is not None
    }
    elsewhere = "" if facts.registered else ", or it is in a log directory that was not given"
    placed = facts.placed_in(root)
    return list(islice(missing_directories(there, names.keys(), checkpoints, placed, elsewhere), _MOST))
