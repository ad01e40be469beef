"""Check which partition directories are missing from a log directory (`missing_directories`)."""

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
from kafkalog.log.disk.files import Entry, scan_directory
from kafkalog.recovery.facts.topic_facts import TopicFacts, directory_id_of

__all__ = ["missing_partitions", "missing_partitions_of"]

_MOST = 1000
"""Most findings; a checkpoint that names more missing directories is of another place."""

Offsets = Mapping[tuple[str, int], int]


def missing_partitions_of(log_dir: LogDir, facts: TopicFacts) -> list[Finding]:
    """Return a PARTITION_MISSING finding, with an absolute path, for each partition directory that is missing in
    `log_dir` although its checkpoints or the metadata name the partition; see `missing_partitions`. `facts` come from
    the metadata log of its broker. Raises `StorageError` if a directory cannot be listed.
    """
    checkpoints = {
        RECOVERY_POINT_CHECKPOINT: log_dir.recovery_points,
        LOG_START_OFFSET_CHECKPOINT: log_dir.log_start_offsets,
        REPLICATION_OFFSET_CHECKPOINT: log_dir.high_watermarks,
    }
    names = {entry.name: _is_directory(entry) for entry in scan_directory(log_dir.path)}
    return [
        finding.in_file(os.path.join(log_dir.path, finding.file or ""))
        for finding in missing_partitions(log_dir.path, names, checkpoints, facts)
    ]


def _is_directory(entry: Entry) -> bool:
    """Whether an entry is a directory or a link to one. False if the link leads to itself or its target cannot be
    examined.
    """
    try:
        return entry.is_dir()
    except OSError:
        return False


def missing_partitions(
    root: str, names: Mapping[str, bool], checkpoints: Mapping[str, Offsets], facts: TopicFacts
) -> list[Finding]:
    """Return a PARTITION_MISSING finding, with a path relative to `root`, for each partition directory that should be
    in the log directory `root` but is not: at most 1000, sorted by topic and number.

    `names` are all entries of `root`, with True for a directory or a link to one; `checkpoints` are the offsets by
    checkpoint file name. A partition is not missing if it has a `-delete`, `-future` or `-stray` directory. It is not
    missing either if the metadata places it in another log directory, or if it is in another one of `facts.roots`: a
    broker reports this to the controller when it starts (`ReplicaManager.maybeUpdateTopicAssignment`). Raises
    `StorageError` if one of these directories cannot be listed.
    """
    others = (entry for other in facts.roots if other != root for entry in scan_directory(other))
    beside = (entry.name for entry in others if _is_directory(entry))
    own_names = (name for name, is_directory in names.items() if is_directory)
    there = {
        (name.topic, name.partition)
        for directory in (*own_names, *beside)
        if (name := parse_partition_directory(directory)) is not None
    }
    own = directory_id_of(root)
    there |= {key for key, directory in facts.assigned.items() if own is not None and directory != own}
    elsewhere = "" if facts.registered else ", or it is in a log directory that was not given"
    placed = facts.placed_in(root)
    return list(islice(missing_directories(there, names.keys(), checkpoints, placed, elsewhere), _MOST))
