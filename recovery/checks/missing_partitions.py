"""Check which partition directories are missing from a log directory (`missing_directories`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from kafkalog.codec.common.errors import FormatError, LimitExceeded
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.files.text import decode_partition_metadata
from kafkalog.codec.names import (
    LOG_START_OFFSET_CHECKPOINT,
    LOST_AND_FOUND,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    FileKind,
    parse_partition_directory,
)
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.missing_partitions import missing_directories
from kafkalog.log.disk.files import Entry, is_directory, read_small, real, scan_directory
from kafkalog.recovery.facts.topic_facts import TopicFacts, directory_id_of

__all__ = [
    "copied_directories", "lost_places", "missing_partitions", "missing_partitions_of", "renamed_directories",
    "topic_id_in",
]  # fmt: skip

_MOST = 1000
"""Most findings; a checkpoint that names more missing directories is of another place."""

Offsets = Mapping[tuple[str, int], int]


def missing_partitions_of(log_dir: LogDir, facts: TopicFacts) -> list[Finding]:
    """Return a PARTITION_MISSING finding for each partition that the checkpoints of `log_dir` or the metadata name, but
    whose directory is missing: the first 1000 (`missing_partitions`). The path of a finding begins with that of
    `log_dir`. `facts` come from the metadata log of its broker. Raises `StorageError` if a directory or a
    `partition.metadata` cannot be read.
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
    in the log directory `root` but is not. There are at most 1000, sorted by topic and number.

    `names` are all entries of `root`, with True for a directory or a link to one; `checkpoints` are the offsets by
    checkpoint file name. A partition is not missing if it has a `-delete`, `-future` or `-stray` directory. It is not
    missing either if the metadata places it in another log directory, or if it is in another one of `facts.roots`. A
    broker reports the latter to the controller when it starts (`ReplicaManager.maybeUpdateTopicAssignment`). Raises
    `StorageError` if one of these directories, or a `partition.metadata`, cannot be read.

    The detail names the directory that looks like the missing one under another name, if there is one.
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
    missing = list(islice(missing_directories(there, names.keys(), checkpoints, placed, elsewhere), _MOST))
    renamed = renamed_directories(root, missing, facts)
    return [_with_renamed(finding, renamed.get(finding.file or "")) for finding in missing]


def _with_renamed(finding: Finding, other: str | None) -> Finding:
    return finding if other is None else replace(finding, detail=f"{finding.detail}; {other} looks like it, renamed")


def renamed_directories(root: str, findings: Iterable[Finding], facts: TopicFacts) -> dict[str, str]:
    """Return the directories that look like missing partition directories under another name: their paths relative to
    `root`, by the missing name. They are searched in `root`, and in a `lost+found` in it or beside it. Partitions
    without such a directory are omitted. `findings` that are not PARTITION_MISSING are ignored.

    Such a directory contains log files that are not empty, and has no name of a partition. Its name is the missing one
    with a suffix, or its `partition.metadata` has the id of a topic of which only one partition is missing. It is
    ignored if it is a symbolic link or has the id of another topic. Of several directories, the one with the largest
    logs is returned. A log that cannot be examined, such as a dangling link, counts as empty. Raises `StorageError` if
    a directory or its `partition.metadata` cannot be read.
    """
    missing = _names_missing(findings)
    of_topic: dict[str, list[str]] = {}
    for name in sorted(missing):
        of_topic.setdefault(name.rpartition("-")[0], []).append(name)
    largest: dict[str, tuple[int, str]] = {}
    for entry in (each for place in (root, *lost_places(root)) for each in scan_directory(place) if missing):
        if parse_partition_directory(entry.name) is not None or not entry.is_dir(follow_symlinks=False):
            continue
        size, topic_id = _held(entry.path)
        names = [name for name in missing if _is_suffixed(entry.name, name)]
        if not names and topic_id is not None:
            names = [named[0] for topic, named in of_topic.items()
                     if facts.topic_ids.get(topic) == topic_id and len(named) == 1]  # fmt: skip
        name = max(names, key=len, default="")
        is_of_topic = topic_id is None or facts.topic_ids.get(name.rpartition("-")[0], topic_id) == topic_id
        if name and size and is_of_topic:
            largest[name] = max(largest.get(name, (0, "")), (size, os.path.relpath(entry.path, root)))
    return {name: directory for name, (_size, directory) in largest.items()}


def copied_directories(
    findings: Iterable[Finding], facts: TopicFacts, copies: Sequence[str]
) -> dict[str, tuple[str, bool]]:
    """Return (path, flag) by the name of each missing partition directory. The path is that of the directory with this
    name in `copies` (log directories, or partition directories). The flag says whether its `partition.metadata` has the
    topic id that the metadata log has; it is False if one of them is unknown. Partitions of which no copy has a log
    file that is not empty are omitted. Of several directories, those of the topic come first, then the one with the
    largest logs. `findings` that are not PARTITION_MISSING are ignored. Raises `StorageError` if a directory or its
    `partition.metadata` cannot be read.
    """
    best: dict[str, tuple[bool, int, str]] = {}
    for name in _names_missing(findings):
        wanted = facts.topic_ids.get(name.rpartition("-")[0])
        for copy in map(real, copies):
            path = copy if os.path.basename(copy) == name else os.path.join(copy, name)
            size, topic_id = _held(path) if os.path.isdir(path) else (0, None)
            if size:
                held = (topic_id is not None and topic_id == wanted, size, path)
                best[name] = max(best.get(name, held), held)
    return {name: (path, is_of_topic) for name, (is_of_topic, _size, path) in best.items()}


def _names_missing(findings: Iterable[Finding]) -> set[str]:
    return {os.path.basename(each.file or "") for each in findings if each.code is FindingCode.PARTITION_MISSING}


def _held(directory: str) -> tuple[int, str | None]:
    """Bytes of a directory's log files, and the topic id in its `partition.metadata`, None if it has no valid one.
    Raises `StorageError` if the directory or its `partition.metadata` cannot be read.
    """
    files = {file.name: file for file in scan_directory(directory)}
    size = sum(_size(file) for name, file in files.items() if name.endswith(FileKind.LOG.value))
    return size, topic_id_in(directory) if PARTITION_METADATA in files else None


def _size(file: Entry) -> int:
    """Size in bytes of a file or of the target of a link; 0 if it cannot be examined, such as a dangling link."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _is_suffixed(name: str, partition: str) -> bool:
    return name.startswith(partition) and not name[len(partition) : len(partition) + 1].isdigit()


def lost_places(root: str) -> list[str]:
    """Return the paths of the `lost+found` directories in a log directory and in its parent directory that exist.
    Raises `StorageError` if a path cannot be examined.
    """
    around = (root, os.path.dirname(os.path.abspath(root)))
    return [place for each in around if is_directory(place := os.path.join(each, LOST_AND_FOUND))]


def topic_id_in(directory: str) -> str | None:
    """Topic id in a directory's `partition.metadata`; None if there is no such file or it is not valid. Raises
    `StorageError` if it cannot be read.
    """
    path = os.path.join(directory, PARTITION_METADATA)
    try:
        data = read_small(path, DEFAULT_LIMITS.checkpoint_bytes) if os.path.isfile(path) else b""
        return decode_partition_metadata(data).topic_id
    except (FormatError, LimitExceeded):
        return None
