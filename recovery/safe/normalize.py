"""Remove, rename or rewrite files that would stop or mislead a broker, before anything else is decided.

These are foreign directories, names that no broker can parse, unreadable checkpoints, and unfinished swaps that would
put damaged data in place of sound data. Everything happens on a tree in memory; each change has a reason for the
report.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from kafkalog.codec.common.findings import FindingCode, Severity, StopReason, severity_of_unfinished
from kafkalog.codec.files.text import (
    OffsetCheckpointEntry,
    PartitionMetadata,
    encode_offset_checkpoint,
    encode_partition_metadata,
)
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANED,
    CLEANER_OFFSET_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    DELETED,
    INDEX_KINDS,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_INDEX_CACHE,
    REPLICATION_OFFSET_CHECKPOINT,
    SWAP,
    TEMPORARY,
    DirectoryState,
    FileKind,
    PartitionName,
    is_seen_by_java,
    parse_java_long,
    parse_offset,
    parse_partition_directory,
    parse_segment_file,
    segment_file,
)
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.directories.directory import of_topics_not_recreated
from kafkalog.log.storage.checkpoint_file import read_offset_checkpoint
from kafkalog.log.storage.java import JavaError, TooLargeError
from kafkalog.log.storage.leader_epochs import LeaderEpochCheckpointFile, LeaderEpochFileCache
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import is_kraft, read_topic_id

__all__ = [
    "Change", "Checkpoints", "clear_places", "normalize_partition", "normalize_root", "partitions_of",
    "read_cleaner_offsets", "read_high_watermarks", "topic_ids",
]  # fmt: skip

_NUMBERED = (*(kind.value for kind in (FileKind.LOG, *INDEX_KINDS, FileKind.PRODUCER_SNAPSHOT)), CLEANED, SWAP)
_WORDS = re.compile(r"\s+", re.ASCII)


class Change(Struct, frozen=True, kw_only=True):
    """A file or directory that was set aside or rewritten, and why. Code and severity are those of `verify`."""

    path: str
    reason: str
    code: FindingCode = FindingCode.FOREIGN_FILE
    severity: Severity = Severity.WARNING


def normalize_root(tree: Tree) -> list[Change]:
    """Clean up the root of a log directory in the tree; return the changes with their reasons, empty if there is none.
    Directories that are not partitions are removed, except the cache of remote indexes. So are directories that have a
    blank in their name, or name a live or `-future` partition again. Invalid checkpoints of high watermarks or of the
    cleaner are removed. Those of recovery points and log start offsets stay, as `Checkpoints.write` replaces them, but
    their `.tmp` files are removed. So is the clean-shutdown marker, which is not trusted; this is not among the
    changes.

    Raises `StorageError` if a checkpoint cannot be read from disk.
    """
    changes: list[Change] = []
    seen: dict[tuple[str, int, DirectoryState], str] = {}
    for name in sorted(tree.subdirectories(), key=lambda name: (len(name), name)):
        if name == REMOTE_INDEX_CACHE:
            continue
        parsed = parse_partition_directory(name)
        if parsed is None or parsed.has_blanks:  # a blank is lost on the way to `-stray`, which stops it too
            tree.remove_directory(name)
            detail = "a directory that is not a partition stops a broker from starting"
            changes.append(Change(path=name, reason=detail, code=FindingCode.FOREIGN_DIRECTORY))
            continue
        key = (parsed.topic, parsed.partition, parsed.state)
        if parsed.state in (DirectoryState.LIVE, DirectoryState.FUTURE) and key in seen:
            tree.remove_directory(name)
            detail = f"the same partition as {seen[key]} stops a broker from starting"
            changes.append(
                Change(path=name, reason=detail, code=FindingCode.DUPLICATE_PARTITION, severity=Severity.ERROR)
            )
        seen.setdefault(key, name)
    for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT):
        if name + TEMPORARY in tree.files:
            tree.delete(name + TEMPORARY)
            detail = "left over from an interrupted write; a broker overwrites it"
            changes.append(
                Change(path=name + TEMPORARY, reason=detail, code=FindingCode.TEMPORARY_FILE, severity=Severity.INFO)
            )
    for name in (REPLICATION_OFFSET_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT):  # ReplicaManager's, LogCleanerManager's
        if name in tree.files and _readable(tree, name) is None:
            tree.delete(name)
            reason = (
                "a checkpoint that cannot be read takes the log directory offline soon after a broker's start; without "
                "it a broker starts a new one"
            )
            changes.append(_checkpoint(name, reason))
    tree.delete(CLEAN_SHUTDOWN_FILE)
    return changes


def _checkpoint(path: str, reason: str) -> Change:
    return Change(path=path, reason=reason, code=FindingCode.CHECKPOINT_INVALID, severity=Severity.ERROR)


class Checkpoints(Struct, frozen=True):
    """Recovery points and log start offsets of a log directory by topic and partition, from its two checkpoints."""

    recovery_points: dict[tuple[str, int], int]
    log_starts: dict[tuple[str, int], int]

    @classmethod
    def read(cls, tree: Tree) -> Checkpoints:
        """Read both checkpoints. If the file of recovery points cannot be parsed completely, none of them counts; of
        the log start offsets all lines that can be parsed count. Missing files have no offsets.
        """
        points: dict[tuple[str, int], int] = {}
        if RECOVERY_POINT_CHECKPOINT in tree.files:
            points = _readable(tree, RECOVERY_POINT_CHECKPOINT) or {}
        return cls(points, _read_offsets(tree, LOG_START_OFFSET_CHECKPOINT))

    @staticmethod
    def are_readable(tree: Tree) -> bool:
        """Whether a broker can read both checkpoints; missing ones count as readable."""
        names = (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT)
        return all(name not in tree.files or _readable(tree, name) is not None for name in names)

    def closed_at(self, tree: Tree) -> dict[tuple[str, int], int]:
        """Return the log end offset of each topic and partition at a clean shutdown: the recovery points if the tree
        has a clean-shutdown marker, else an empty dict.
        """
        return self.recovery_points if CLEAN_SHUTDOWN_FILE in tree.files else {}

    def write(self, tree: Tree) -> None:
        """Write both checkpoints into the tree, each only if the file is malformed or its offsets differ. A missing
        file is created only if there are offsets. Raises `StorageError` if a file cannot be read.
        """
        for name, offsets in (
            (RECOVERY_POINT_CHECKPOINT, self.recovery_points),
            (LOG_START_OFFSET_CHECKPOINT, self.log_starts),
        ):
            if name not in tree.files and not offsets:
                continue
            if name in tree.files and _readable(tree, name) == offsets:
                continue
            entries = [OffsetCheckpointEntry(*key, offset) for key, offset in sorted(offsets.items())]
            tree.write(name, encode_offset_checkpoint(entries))


def read_high_watermarks(tree: Tree) -> dict[tuple[str, int], int]:
    """Return the high watermarks in `replication-offset-checkpoint` by topic and partition, from all lines that can be
    parsed. Those that may be of a deleted topic of the same name are left out. Empty if the file is missing or too
    large. No decision depends on them. Raises `StorageError` if the file cannot be read.
    """
    return dict(of_topics_not_recreated(_read_offsets(tree, REPLICATION_OFFSET_CHECKPOINT), tree.directories))


def read_cleaner_offsets(tree: Tree) -> dict[tuple[str, int], int] | None:
    """Return the cleaner's offsets in `cleaner-offset-checkpoint` by topic and partition; None if the file is missing
    or a broker could not read it.
    """
    return _readable(tree, CLEANER_OFFSET_CHECKPOINT) if CLEANER_OFFSET_CHECKPOINT in tree.files else None


def _readable(tree: Tree, name: str) -> dict[tuple[str, int], int] | None:
    try:
        return read_offset_checkpoint(name, tree.read(name))
    except JavaError:
        return None


def _read_offsets(tree: Tree, name: str) -> dict[tuple[str, int], int]:
    if name not in tree.files:
        return {}
    whole = _readable(tree, name)
    if whole is not None:
        return whole
    offsets: dict[tuple[str, int], int] = {}
    try:
        text = tree.read(name).decode("utf-8", "replace")
    except TooLargeError:
        return offsets
    for line in text.splitlines()[2:]:
        words = _WORDS.split(line.strip())
        if len(words) == 3:
            partition, offset = parse_java_long(words[1], 32), parse_java_long(words[2])
            if partition is not None and offset is not None:
                offsets[words[0], partition] = offset
    return offsets


def clear_places(tree: Tree, directory: str) -> list[Change]:
    """Remove from the tree the directories that lie in place of a segment's file or of the temporary epoch checkpoint
    in a partition directory; return the changes, empty if there is none. A broker may start beside such a directory,
    and stops when it needs the file.
    """
    changes: list[Change] = []
    for path in sorted(tree.directories):
        parent, _, name = path.partition("/")
        parsed = parse_segment_file(name) if parent == directory else None
        if parsed is not None and segment_file(parsed.base_offset, parsed.kind) == name:
            tree.remove_directory(path)
            severity = Severity.ERROR if parsed.is_live_log else Severity.WARNING
            detail = "a directory in place of a file of a segment"
            changes.append(Change(path=path, reason=detail, severity=severity))
        elif path == f"{directory}/{LEADER_EPOCH_CHECKPOINT}{TEMPORARY}":
            tree.remove_directory(path)
            changes.append(Change(path=path, reason="a directory that keeps a broker from writing its leader epochs"))
    return changes


def normalize_partition(
    tree: Tree, directory: str, donor: Callable[[], str | None], *, has_metadata: bool = False
) -> list[Change]:
    """Clean up a partition directory in the tree: remove, rename or rewrite files that would stop or mislead a broker,
    and remove leftovers. Return the changes with their reasons; empty if there was none. Nothing on disk is changed. If
    the topic id is invalid, or missing although a broker needs it, `donor` is called; it returns the topic id to
    write, or None if it is unknown. `has_metadata` is as for `is_kraft`. Raises `StorageError` if a file cannot be
    read.
    """
    partition = _Partition(tree, directory)
    partition.names()
    partition.unfinished()
    partition.swaps()
    partition.orphans()
    partition.epochs()
    partition.metadata(donor, has_metadata=has_metadata)
    return partition.changes


class _Partition:
    """Clean-up of one partition directory in a tree, which collects `changes` with their reasons. Methods raise
    `StorageError` if a file cannot be read.
    """

    def __init__(self, tree: Tree, directory: str) -> None:
        self.tree = tree
        self.directory = directory
        self.changes: list[Change] = []

    def path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def take(self, name: str, reason: str) -> None:
        self.tree.delete(self.path(name))
        self.changes.append(Change(path=self.path(name), reason=reason))

    def take_unfinished(self, name: str, reason: str) -> None:
        """Remove a file of an unfinished operation."""
        self.tree.delete(self.path(name))
        self.changes.append(self._unfinished(name, reason))

    def _unfinished(self, name: str, reason: str) -> Change:
        return Change(
            path=self.path(name), reason=reason, code=FindingCode.TEMPORARY_FILE, severity=severity_of_unfinished(name)
        )

    def names(self) -> None:
        """Remove files whose names a broker would fail to parse, or would parse as another segment's file; add the
        changes to `changes`. `.deleted` files stay.
        """
        snapshot = FileKind.PRODUCER_SNAPSHOT.value
        for name in self.tree.all_names(self.directory):
            if name.endswith(DELETED) or not name.endswith(_NUMBERED):
                continue
            if not is_seen_by_java(name) and not name.endswith(snapshot):
                continue
            parsed = parse_segment_file(name)
            if parsed is None:
                known = parse_offset(name) is not None
                if not known:
                    self.take(name, "not a file of a segment, and a broker does not start beside a name like this")
            elif parsed.base_offset < 0 or segment_file(parsed.base_offset, parsed.kind) + parsed.pending != name:
                self.take(name, "not a file of a segment, and a broker would take it for one of another name")

    def unfinished(self) -> None:
        for name in self.tree.names(self.directory):
            if name.endswith(DELETED) and not name.endswith(FileKind.KRAFT_SNAPSHOT.value + DELETED):
                self.take_unfinished(name, "a file that was waiting to be deleted")

    def swaps(self) -> None:
        """Keep the `.swap` files of a segment if they include a sound log with a batch, and its offset index. Otherwise
        remove them. If a log would be removed and the original log is missing, it is renamed to the original's name
        instead. Adds each change to `changes`. Raises `StorageError` if a log cannot be read.
        """
        parts: dict[str, list[str]] = {}
        for name in self.tree.names(self.directory):
            if name.endswith(SWAP):
                parts.setdefault(name.split(".", 1)[0], []).append(name)
        for base, names in parts.items():
            log = f"{base}{FileKind.LOG.value}{SWAP}"
            index = f"{base}{FileKind.OFFSET_INDEX.value}{SWAP}"
            if log not in names:
                for name in names:
                    self.take_unfinished(name, "part of a replacement whose log is missing")
            elif index not in names or not self._is_sound_log(log):
                for name in names:
                    self._take_or_adopt(name, base)

    def _take_or_adopt(self, part: str, base: str) -> None:
        """Remove the `.swap` file `part`, which is damaged or incomplete. If it is a log and the log that it replaces
        is missing, rename it to that log's name instead. `base` is the base offset as in the file name. Adds the change
        to `changes`.
        """
        if part.endswith(FileKind.LOG.value + SWAP) and not self.tree.exists(self.path(base + FileKind.LOG.value)):
            self.tree.rename(self.path(part), self.path(part.removesuffix(SWAP)))
            self.changes.append(self._unfinished(part, "a replacement whose original is gone; its sound part stays"))
        else:
            self.take_unfinished(part, "a replacement that is damaged or incomplete; the original stays")

    def _is_sound_log(self, name: str) -> bool:
        scanner = Scanner(self.tree.source(self.path(name)))
        count = sum(1 for _ in scanner)
        return scanner.stop is StopReason.END and count > 0

    def orphans(self) -> None:
        """Remove indexes without a log, as a broker does, and add the changes to `changes`. Nothing is removed while
        `.swap` or `.cleaned` files are left.
        """
        if any(name.endswith((SWAP, CLEANED)) for name in self.tree.names(self.directory)):
            return
        for name in self.tree.names(self.directory):
            parsed = parse_segment_file(name)
            if parsed is None or parsed.pending or parsed.kind not in INDEX_KINDS:
                continue
            if not self.tree.exists(self.path(segment_file(parsed.base_offset, FileKind.LOG))):
                self.take(name, "an index without its log")

    def epochs(self) -> None:
        """Remove an epoch checkpoint that a broker cannot read, or a directory in its place, and add the change to
        `changes`. A later step rebuilds the file from the batches. Raises `StorageError` if it cannot be read.
        """
        path = self.path(LEADER_EPOCH_CHECKPOINT)
        if path in self.tree.directories:
            self.tree.remove_directory(path)
            self.changes.append(Change(path=path, reason="a directory in place of the leader epochs"))
            return
        there = self.tree if path in self.tree.files else self.tree.part(self.directory)  # in which it is made
        try:
            LeaderEpochFileCache(LeaderEpochCheckpointFile(there, self.directory))
        except JavaError as error:
            self.tree.delete(path)
            self.changes.append(_checkpoint(path, f"a broker cannot read it: {error}"))

    def metadata(self, donor: Callable[[], str | None], *, has_metadata: bool) -> None:
        """Write the topic id that `donor` returns, if the stored id is invalid or missing, and add the change to
        `changes`. An invalid id is replaced in any partition directory, also if a directory is in place of the file. A
        missing id is written only for a live partition of a KRaft broker, which would otherwise rename the directory to
        `-stray`. It is not written for the metadata log.

        `donor` is called only if an id is needed; if it returns None, nothing is changed. `has_metadata` is as for
        `is_kraft`.
        """
        path = self.path(PARTITION_METADATA)
        try:
            own_id = read_topic_id(self.tree, self.directory)
        except JavaError as error:
            why = f"a broker cannot read it ({error})"
        else:
            name = parse_partition_directory(self.directory)
            is_live = name is not None and name.state is DirectoryState.LIVE and name.topic != CLUSTER_METADATA_TOPIC
            if own_id is not None or not is_live or not is_kraft(self.tree, has_metadata=has_metadata):
                return
            why = "it is missing, and a broker with KRaft would make the partition stray"
        topic_id = donor()
        if topic_id is None:
            return
        if path in self.tree.directories:
            self.tree.remove_directory(path)
        self.tree.write(path, encode_partition_metadata(PartitionMetadata(0, topic_id)))
        detail = f"{why}; the topic id is known from elsewhere"
        self.changes.append(
            Change(path=path, reason=detail, code=FindingCode.PARTITION_METADATA_INVALID, severity=Severity.ERROR)
        )


def partitions_of(tree: Tree, cluster_metadata: bool = False) -> list[tuple[str, PartitionName]]:
    """Return the directories with the name of a partition, sorted, each with its parsed name; also those with the
    suffixes `-delete`, `-future` and `-stray`. The metadata log is included only if `cluster_metadata` is True.
    """
    partitions = []
    for name in tree.subdirectories():
        parsed = parse_partition_directory(name)
        if parsed is not None and (parsed.topic != CLUSTER_METADATA_TOPIC or cluster_metadata):
            partitions.append((name, parsed))
    return partitions


def topic_ids(tree: Tree) -> dict[str, str]:
    """Return the topic id by topic, from all partition directories, also `-delete` and `-stray`, but not the metadata
    log. Topics without an id, or with contradictory ids, are omitted. Files with an invalid id are ignored. Raises
    `StorageError` if a file cannot be read.
    """
    ids_by_topic: dict[str, set[str]] = {}
    for directory, name in partitions_of(tree):
        try:
            topic_id = read_topic_id(tree, directory)
        except JavaError:
            continue
        if topic_id is not None:
            ids_by_topic.setdefault(name.topic, set()).add(topic_id)
    return {topic: next(iter(ids)) for topic, ids in ids_by_topic.items() if len(ids) == 1}
