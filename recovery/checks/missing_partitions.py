"""The finding that a whole partition directory is gone, the same for every command that examines a log directory.

A broker names its partitions in the checkpoints of the log directory, which it writes every few seconds or minutes and
when it stops (`LogManager.checkpointLogRecoveryOffsets`, `ReplicaManager.checkpointHighWatermarks`), and the metadata
log says in which directory a replica stands.  Deleting a topic leaves a `-delete` directory until its files go, and
takes it out of the checkpoints; one that was written before may still name it.  So what is missing is a warning.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Set
from itertools import islice

from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import (
    CLUSTER_METADATA_TOPIC,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    parse_partition_directory,
)
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.disk.files import scan_directory
from kafkalog.recovery.facts.topic_facts import TopicFacts, directory_id_of, read_topic_facts

__all__ = ["missing_partitions", "missing_partitions_of"]

_MOST = 1000
"""Findings; a checkpoint that names more than so many directories is one of another place."""

Offsets = Mapping[tuple[str, int], int]


def missing_partitions_of(log_dir: LogDir) -> list[Finding]:
    """Findings of a log directory, their files whole paths."""
    checkpoints = {
        RECOVERY_POINT_CHECKPOINT: log_dir.recovery_points,
        LOG_START_OFFSET_CHECKPOINT: log_dir.log_start_offsets,
        REPLICATION_OFFSET_CHECKPOINT: log_dir.high_watermarks,
    }
    names = {entry.name: entry.is_dir() for entry in scan_directory(log_dir.path)}
    facts = read_topic_facts([log_dir.path])
    return [
        finding.in_file(os.path.join(log_dir.path, finding.file or ""))
        for finding in missing_partitions(log_dir.path, names, checkpoints, facts)
    ]


def missing_partitions(
    root: str, names: Mapping[str, bool], checkpoints: Mapping[str, Offsets], facts: TopicFacts
) -> list[Finding]:
    """Findings of the log directory `root`; their files are relative to it.

    `names` are all that are in it, and whether each is a directory or a link to one; `checkpoints` are the offsets by
    the name of their file.  A `-delete`, `-future` or `-stray` directory explains why there is no other.
    """
    there = {
        (name.topic, name.partition)
        for directory, is_directory in names.items()
        if is_directory and (name := parse_partition_directory(directory)) is not None
    }
    return list(islice(_missing(root, there, names.keys(), checkpoints, facts), _MOST))


def _missing(
    root: str, there: Set[tuple[str, int]], others: Set[str], checkpoints: Mapping[str, Offsets], facts: TopicFacts
) -> Iterator[Finding]:
    named = {key for offsets in checkpoints.values() for key in offsets} - there
    own = directory_id_of(root)
    assigned = {key for key, each in facts.assigned.items() if own is not None and each == own} - there
    for topic, number in sorted(named | assigned):
        if topic == CLUSTER_METADATA_TOPIC or number < 0:
            continue
        directory = f"{topic}-{number}"
        who = [
            f"{file} (offset {offsets[topic, number]})"
            for file, offsets in checkpoints.items()
            if (topic, number) in offsets
        ]
        later = "deleted or moved after that was written"
        if (topic, number) in assigned:
            who.append("the cluster metadata")
            later = "not created yet, or deleted or moved after that was written"
        verb = "names" if len(who) == 1 else "name"
        place = "what is there is not a directory" if directory in others else "there is no such directory"
        detail = f"{' and '.join(who)} {verb} {directory}, and {place}: it is lost, or it was {later}"
        yield Finding(FindingCode.PARTITION_MISSING, Severity.WARNING, None, None, detail, directory)
