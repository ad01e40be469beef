"""Open several brokers' volumes together, and find the directories that are copies of one topic-partition and the
brokers that own them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from kafkalog.codec.common.errors import KafkaLogError, StorageError, UsageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.names import (
    CLUSTER_METADATA_TOPIC,
    DirectoryState,
    PartitionName,
    parse_partition_directory,
    parse_segment_file,
)
from kafkalog.log.directories.directory import LogDir, is_log_dir, is_partition_dir, log_dirs_inside, open_log_dir
from kafkalog.log.directories.identities import are_copies_of_one
from kafkalog.log.directories.partition import Partition, open_partition
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.directories.zookeeper_directories import is_zookeeper_directory
from kafkalog.log.disk.files import PathLike, absolute, exists, is_directory, real, refuse_no_path, scan_directory
from kafkalog.log.disk.pointer import findings_of_half_done

__all__ = ["Copy", "Shelf", "gather", "reason"]


class Copy(Struct, frozen=True, kw_only=True):
    """One directory of a topic-partition."""

    name: PartitionName
    path: str
    log_dir: LogDir | None
    """None if the directory is not in a log directory"""
    partition: Partition | None
    """None if the directory cannot be read"""
    error: str | None = None
    """why it cannot be read; None if it can"""

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.name.topic, self.name.partition

    def is_in(self, place: str) -> bool:
        """Whether the copy's directory is at or below the resolved path `place`."""
        return os.path.join(os.path.realpath(self.path), "").startswith(os.path.join(place, ""))

    def start_in_checkpoint(self, end_offset: int) -> int | None:
        """Log start offset in the checkpoint. None if the checkpoint has none for this log or does not describe it: the
        offset is above `end_offset`, the log's end, or the leader epochs and records begin below it.
        """
        if self.partition is None or self.partition.epochs_below_start is not None:
            return None
        offset = self.partition.checkpointed_log_start_offset
        return None if offset is None or offset > end_offset else offset

    def hides_records(self, end_offset: int) -> bool:
        """Whether the log start offset is wrong and above the first segment, so that a broker would not serve records
        that the log has. `end_offset` is the log's end.
        """
        partition = self.partition
        if partition is None or not partition.segments or self.start_in_checkpoint(end_offset) is not None:
            return False
        return partition.log_start_offset > partition.segments[0].base_offset

    def deleted_until(self, end_offset: int) -> int:
        """Offset below which records were deleted according to the checkpoint; 0 if it has none."""
        return self.start_in_checkpoint(end_offset) or 0

    @property
    def node_id(self) -> int | None:
        """Id of the copy's broker; None if unknown."""
        meta = self.log_dir.meta_properties if self.log_dir is not None else None
        return None if meta is None else meta.node_id

    @property
    def cluster_id(self) -> str | None:
        """Id of the copy's cluster; None if unknown."""
        meta = self.log_dir.meta_properties if self.log_dir is not None else None
        return None if meta is None else meta.cluster_id

    @property
    def topic_id(self) -> str | None:
        """Topic id in partition.metadata; None if there is none."""
        metadata = self.partition.metadata if self.partition is not None else None
        return None if metadata is None else metadata.topic_id

    @property
    def unread(self) -> tuple[Finding, ...]:
        """Findings about entries in place of files that cannot be read, such as links; the rest is read
        without them.
        """
        findings = () if self.partition is None else self.partition.findings
        return tuple(finding for finding in findings if finding.code is FindingCode.UNREADABLE)

    @property
    def unread_log(self) -> tuple[int, Finding] | None:
        """Base offset of the first segment whose log file was not read, and the finding about it. Such a file is a
        special file or a link to an existing file. The finding has this offset and position 0. None if there is no such
        segment.
        """
        named = [(parse_segment_file(os.path.basename(finding.file or "")), finding) for finding in self.unread]
        logs = [(name.base_offset, finding) for name, finding in named if name is not None and name.is_live_log]
        if not logs:
            return None
        base, finding = min(logs, key=lambda pair: pair[0])
        return base, replace(finding, position=0, offset=base)

    @property
    def unread_places(self) -> list[tuple[str, str]]:
        """Path and reason of everything in the directory that cannot be read."""
        return [(finding.file or self.path, finding.detail) for finding in self.unread]


class Shelf(Struct, kw_only=True):
    """Everything that the given paths contain, by topic-partition."""

    paths: tuple[str, ...]
    log_dirs: list[LogDir] = field(default_factory=list)
    copies: dict[tuple[str, int], list[Copy]] = field(default_factory=dict)
    """copies sorted by topic and partition; those of one partition in the order of the paths"""
    left_out: list[str] = field(default_factory=list)
    """directories that no broker serves: waiting for deletion, moving or stray"""
    metadata: list[Partition] = field(default_factory=list)
    """copies of KRaft's metadata log, selected or not"""
    zookeeper: list[str] = field(default_factory=list)
    """ZooKeeper's data directories"""
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    """path and reason"""
    findings: list[Finding] = field(default_factory=list)
    """about log directories, and copies that do not belong together"""
    several_clusters: str | None = None
    """sentence that names the cluster of each volume, if there are several clusters; else None"""
    several_topics: dict[tuple[str, int], str] = field(default_factory=dict)
    """sentence with the topic ids of the copies, if there are several topics of one name, by topic-partition"""

    def add(self, copy: Copy) -> None:
        """Add a copy to `copies`, after those of its topic-partition. Does nothing if its directory was already added.
        If the copy cannot be read, its path and error are also added to `unreadable`.
        """
        others = self.copies.setdefault(copy.key, [])
        if any(real(other.path) == real(copy.path) for other in others):
            return
        others.append(copy)
        if copy.error is not None:
            self.unreadable.append((copy.path, copy.error))


def reason(error: KafkaLogError, path: str) -> str:
    """Return the reason for which the directory `path` cannot be read, with the name of the file in it that caused the
    error.
    """
    if not isinstance(error, StorageError) or not error.strerror:
        return str(error)
    file = error.filename
    return error.strerror if file is None or file == path else f"{error.strerror}: {os.path.basename(file)}"


def gather(
    paths: Iterable[PathLike],
    *,
    chosen: Selection = ALL,
    limits: Limits = DEFAULT_LIMITS,
    at_least: int = 2,
    notes_empty: bool = False,
) -> Shelf:
    """Open log directories, their parents, partition directories and ZooKeeper's data directories, and return their
    content by topic-partition. `chosen` selects the topic-partitions. A path given twice is opened once. Directories
    that cannot be read are listed in `unreadable`. Copies that do not belong together add findings to the result.

    Raises `UsageError` if there are no paths, or if a path does not exist or is not a directory. Raises it also for a
    directory without data of Kafka, and for a partition directory that is not named like one. With `notes_empty`,
    directories without data are listed in `unreadable` instead, such as the mount point of an unmounted disk. So are
    paths that do not exist, if another path does.

    Raises `UsageError` also if everything selected is excluded. If all directories can be read, it is raised too for
    fewer than `at_least` different ones (ZooKeeper's do not count). Raises its subclass `UnknownName` if a selection
    matches nothing.
    """
    given = [os.fspath(path) for path in paths]
    refuse_no_path(given)
    distinct = list({real(path): path for path in reversed(given)}.values())[::-1]
    shelf = Shelf(paths=tuple(given))
    seen: set[str] = set()
    goes_on = notes_empty and any(map(_may_exist, distinct))
    for path in distinct:
        if goes_on and not _may_exist(path):
            shelf.unreadable.append((path, "there is no such directory: is the disk mounted?"))
        else:
            _place(shelf, path, seen, limits, notes_empty)
    if len(seen) < at_least and not shelf.unreadable:
        twice = f"{distinct[0]} was given {len(given)} times: " if len(given) > len(distinct) else ""
        raise UsageError(f"{twice}give two or more log directories or partition directories")
    shelf.metadata = [
        copy.partition for copy in shelf.copies.get((CLUSTER_METADATA_TOPIC, 0), ()) if copy.partition is not None
    ]
    chosen.check(shelf.copies)
    shelf.copies = {key: copies for key, copies in sorted(shelf.copies.items()) if chosen.takes(*key)}
    _do_not_belong_together(shelf)
    every = [copy for copies in shelf.copies.values() for copy in copies]
    shelf.unreadable += [place for copy in every if copy.error is None for place in copy.unread_places]
    return shelf


def _may_exist(path: str) -> bool:
    try:
        return exists(path)
    except StorageError:  # `_place` reports it
        return True


def _place(shelf: Shelf, path: str, seen: set[str], limits: Limits, notes_empty: bool) -> None:
    try:
        if not exists(path):
            raise UsageError(f"{path} does not exist")
        if not is_directory(path):
            raise UsageError(f"{path} is not a directory: give log directories or partition directories")
        if is_zookeeper_directory(path):
            shelf.zookeeper.append(path)
        elif is_partition_dir(path):
            seen.add(real(path))
            _partition_directory(shelf, path, limits)
        elif is_log_dir(path):
            _log_directory(shelf, path, seen, limits)
        else:
            inside = log_dirs_inside(path)
            servers = [directory for directory in _directories(path) if is_zookeeper_directory(directory)]
            if not inside and not (servers and notes_empty):
                _without_partitions(shelf, path, notes_empty)
            for directory in sorted(inside):
                _log_directory(shelf, directory, seen, limits)
            shelf.zookeeper += servers
    except StorageError as error:
        seen.add(real(path))
        shelf.unreadable.append((path, reason(error, path)))


def _without_partitions(shelf: Shelf, path: str, notes_empty: bool) -> None:
    if not notes_empty:
        raise UsageError(f"{path} is not a Kafka log directory: it holds no partition")
    shelf.unreadable.append((path, "it holds nothing of Kafka: is the disk mounted, and is this the log directory?"))


def _directories(path: str) -> list[str]:
    return sorted(entry.path for entry in scan_directory(path) if entry.is_dir(follow_symlinks=False))


def _partition_directory(shelf: Shelf, path: str, limits: Limits) -> None:
    name = parse_partition_directory(os.path.basename(absolute(path)))
    if name is None:
        raise UsageError(f"{path} is not named like a topic-partition, so it is not a copy of anything")
    around = os.path.dirname(real(path))
    log_dir = None
    if is_log_dir(around):
        try:
            log_dir = open_log_dir(around, tolerant=True, limits=limits)
        except StorageError as error:
            shelf.unreadable.append((around, reason(error, around)))
    shelf.add(_opened(name, path, log_dir, limits))


def _opened(name: PartitionName, path: str, log_dir: LogDir | None, limits: Limits) -> Copy:
    try:
        return Copy(name=name, path=path, log_dir=log_dir, partition=open_partition(path, limits=limits))
    except KafkaLogError as error:
        return Copy(name=name, path=path, log_dir=log_dir, partition=None, error=reason(error, path))


def _log_directory(shelf: Shelf, path: str, seen: set[str], limits: Limits) -> None:
    key = real(path)
    if key in seen:
        return
    seen.add(key)
    try:
        log_dir = open_log_dir(path, tolerant=True, limits=limits)
    except StorageError as error:
        shelf.unreadable.append((path, reason(error, path)))
        return
    shelf.log_dirs.append(log_dir)
    unreadable = [finding for finding in log_dir.findings if finding.code is FindingCode.UNREADABLE]
    shelf.findings += [finding for finding in log_dir.findings if finding not in unreadable]
    for partition in log_dir.partitions:
        if partition.name is None:
            continue
        if partition.state is DirectoryState.LIVE:
            shelf.add(Copy(name=partition.name, path=partition.path, log_dir=log_dir, partition=partition))
        else:
            shelf.left_out.append(partition.path)
    for failed in unreadable:
        inside = os.path.relpath(failed.file or path, path)
        place = os.path.join(path, inside.split(os.sep, 1)[0])
        why = failed.detail if inside == os.path.basename(place) else f"{failed.detail}: {os.path.basename(inside)}"
        name = parse_partition_directory(os.path.basename(place))
        if name is not None and name.state is DirectoryState.LIVE:
            shelf.add(Copy(name=name, path=place, log_dir=log_dir, partition=None, error=why))
        else:
            shelf.unreadable.append((place, why))


def _do_not_belong_together(shelf: Shelf) -> None:
    """Add findings to the shelf about things that do not belong together, and set its `several_clusters` and
    `several_topics`. Reads the quarantines beside the log directories. The findings are about:

    * volumes of several clusters
    * two copies on one broker
    * copies with different topic ids, because the topic was created again
    * interrupted recoveries
    """
    clusters: dict[str, str] = {}
    standing = [copy.log_dir for copies in shelf.copies.values() for copy in copies if copy.log_dir is not None]
    every = {real(log_dir.path): log_dir for log_dir in (*shelf.log_dirs, *standing)}
    half_done = (finding for log_dir in every.values() for finding in findings_of_half_done(log_dir.path))
    shelf.findings += [finding for finding in half_done if finding not in shelf.findings]
    for log_dir in every.values():
        if log_dir.meta_properties is not None and log_dir.meta_properties.cluster_id is not None:
            clusters.setdefault(log_dir.meta_properties.cluster_id, log_dir.path)
    if len(clusters) > 1:
        description = ", ".join(
            f"{path} is of cluster {cluster or repr(cluster)}" for cluster, path in clusters.items()
        )
        shelf.several_clusters = f"volumes of several clusters: {description}"
        shelf.findings.append(_not_replicas(shelf.several_clusters, next(iter(clusters.values()))))
    for key, copies in shelf.copies.items():
        shelf.findings += _same_broker(copies)
        topics = {copy.topic_id: copy.path for copy in reversed(copies) if copy.topic_id is not None}
        if len(topics) > 1:
            description = ", ".join(f"{path} is of topic id {topic}" for topic, path in reversed(topics.items()))
            detail = f"{copies[0].name} is of several topics of the same name: {description}"
            shelf.several_topics[key] = detail
            shelf.findings.append(_not_replicas(detail, copies[0].path))


def _same_broker(copies: list[Copy]) -> list[Finding]:
    first: dict[tuple[str | None, int], Copy] = {}
    findings = []
    for copy in copies:
        if copy.node_id is None:
            continue
        other = first.setdefault((copy.cluster_id, copy.node_id), copy)
        if other is not copy:
            detail = f"{copy.name} is in {other.path} too, on the same broker {copy.node_id}"
            places = [log_dir for log_dir in (other.log_dir, copy.log_dir) if log_dir is not None]
            severity = Severity.ERROR
            if are_copies_of_one(places):
                severity, detail = Severity.INFO, f"{detail}, in a copy of the same log directory"
            findings.append(Finding(FindingCode.DUPLICATE_PARTITION, severity, None, None, detail, copy.path))
    return findings


def _not_replicas(detail: str, path: str) -> Finding:
    return Finding.of(FindingCode.NOT_REPLICAS, None, None, detail, path)
