"""Find log directories, partition directories and single segments at the caller's paths. A path may be an entry of
`log.dirs`, a directory of several of them (brokers, volumes), one partition directory or one segment file. The content
of a directory decides which kind it is, not its name: a log directory may be called `broker-1`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.arguments import checked
from kafkalog.codec.common.errors import ReplicaError, StorageError, UsageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.names import LOST_AND_FOUND, DirectoryState, PartitionName, parse_partition_directory
from kafkalog.log.directories.directory import LogDir, Wants, every, is_partition_dir, log_dirs_at, open_log_dir
from kafkalog.log.directories.identities import are_copies_of_one, identity_findings
from kafkalog.log.directories.left_out import leaves_out_records, partition_of
from kafkalog.log.directories.partition import Partition, open_partition, open_segment
from kafkalog.log.directories.selection import ALL, Selection, unreadable_names
from kafkalog.log.disk.files import (
    PathLike,
    absolute,
    exists,
    is_directory,
    real,
    refuse_no_path,
    scan_directory,
    unreadable,
)
from kafkalog.log.disk.looked_at import looking_once

__all__ = ["LONGEST", "Inventory", "chosen_replica", "is_missing", "lost_directories", "missing_directory", "open_all"]

LONGEST = "longest"
"""Value of `replica` that chooses the directory whose log ends last."""


@checked()
class Inventory(Struct, frozen=True, kw_only=True):
    """All log directories, partition directories and segment files at the caller's paths, in the order of the paths."""

    paths: tuple[str, ...]
    log_dirs: tuple[LogDir, ...]
    standalone: tuple[Partition, ...]
    """partition directories and segment files that were named, except live data inside another named path"""
    unreadable: tuple[Finding, ...] = ()
    """findings about paths that cannot be read at all"""

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """All partitions: live, deleted, future and stray."""
        return (*(partition for log_dir in self.log_dirs for partition in log_dir.partitions), *self.standalone)

    @property
    def all_unreadable(self) -> list[Finding]:
        """Findings about paths, directories and files that could not be read during the listing, and about entries that
        have the name of a log and are not one. For each of them, records may be left out.
        """
        findings = [*self.unreadable, *(finding for log_dir in self.log_dirs for finding in log_dir.findings)]
        of_partitions = (finding for partition in self.partitions for finding in partition.unreadable)
        return [*(finding for finding in findings if finding.code is FindingCode.UNREADABLE), *of_partitions]

    def directories_left_out(self, select: Selection = ALL, wants: Wants = every) -> list[Finding]:
        """Return the findings about live partition directories that are not read because they are links or special
        files. Findings about partitions that `select` or `wants` rejects, or that another directory of the inventory
        has, are omitted.
        """
        there = {partition.name for partition in self.partitions}
        findings = (each for each in self.findings if each.code is FindingCode.FOREIGN_DIRECTORY)
        named = [(partition_of(each), each) for each in findings if leaves_out_records(each)]
        return [
            finding for name, finding in named
            if name is not None and name.state is DirectoryState.LIVE and name not in there and wants(name)
            and select.takes(name.topic, name.partition)
        ]  # fmt: skip

    @property
    def half_done(self) -> list[Finding]:
        """Findings about log directories in which a recovery was interrupted, each once. Such a directory is partly
        changed.
        """
        return list(dict.fromkeys(finding for finding in self.findings if finding.code is FindingCode.RUN_UNFINISHED))

    @property
    def names(self) -> list[tuple[str, int]]:
        """(topic, number) of each partition, live or not, that has a name, followed by those of partitions that cannot
        be read or are left out. A partition may occur several times.
        """
        named = [
            (partition.topic, partition.partition)
            for partition in self.partitions
            if partition.topic and partition.partition is not None
        ]
        return [*named, *unreadable_names([*self.all_unreadable, *self.directories_left_out()])]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings from the listing: about paths that cannot be read, then about log directories, then about
        partitions.
        """
        return (
            *self.unreadable,
            *(finding for log_dir in self.log_dirs for finding in log_dir.findings),
            *(finding for partition in self.partitions for finding in partition.findings),
        )

    def duplicates(self) -> dict[PartitionName, tuple[Partition, ...]]:
        """Return the topic-partitions that are live in several directories, each with all these partitions in the order
        of the inventory; empty if there are none. Single segment files do not count. Raises `StorageError` if a request
        to an object store fails.
        """
        by_name: dict[PartitionName, list[Partition]] = {}
        for partition in self.partitions:
            if partition.name is not None and partition.state is DirectoryState.LIVE:
                by_name.setdefault(partition.name, []).append(partition)
        several = {name: [partition for partition in partitions if is_directory(partition.path)]
                   for name, partitions in by_name.items() if len(partitions) > 1}  # fmt: skip
        return {name: tuple(partitions) for name, partitions in several.items() if len(partitions) > 1}

    def duplicate_findings(self) -> list[Finding]:
        """Return DUPLICATE_PARTITION findings, one for each copy of a topic-partition that is live in several log
        directories. It is a WARNING for directories with the same cluster id and node id: a broker with both does not
        start (`LogManager`). It is INFO for replicas on different brokers, for copies of one log directory, and if the
        brokers are unknown. Raises `StorageError` if a request to an object store fails.

        Two directories of one partition in a single log directory are not reported here, but among the findings of the
        log directory.
        """
        findings = []
        for name, several in self.duplicates().items():
            copies = {os.path.dirname(absolute(partition.path)): partition for partition in reversed(several)}
            if len(copies) == 1:
                continue  # two names for one partition, which the log directory's findings report
            by_broker: dict[tuple[str | None, int], list[str]] = {}
            for directory in copies:
                broker = self._broker(directory)
                if broker is not None:
                    by_broker.setdefault(broker, []).append(directory)
            doubled = [group for group in by_broker.values() if len(group) > 1]
            found: dict[str, tuple[Severity, str]] = {}
            for group in (list(copies), *doubled):
                is_copied = are_copies_of_one([each for each in self.log_dirs if absolute(each.path) in group])
                is_own = group in doubled and not is_copied
                own = ", volumes of one broker, which would not start" if is_own else ""
                own = ", copies of one log directory" if is_copied else own
                detail = f"{name} is in {' and '.join(sorted(copies[each].path for each in group))}{own}"
                found |= dict.fromkeys(group, (Severity.WARNING if is_own else Severity.INFO, detail))
            for directory, copy in reversed(copies.items()):
                severity, detail = found[directory]
                findings.append(Finding(FindingCode.DUPLICATE_PARTITION, severity, None, None, detail, copy.path))
        return findings

    def findings_together(self) -> list[Finding]:
        """Return the findings that can only be made from all directories together: partitions that are in several, and
        ids that do not match. Raises `StorageError` if a request to an object store fails.
        """
        return self.duplicate_findings() + identity_findings(self.log_dirs)

    def _broker(self, directory: str) -> tuple[str | None, int] | None:
        """Return cluster id (None if missing) and node id of the log directory with this absolute path; None if it is
        not in the inventory or has no node id.
        """
        for log_dir in self.log_dirs:
            meta = log_dir.meta_properties
            if absolute(log_dir.path) == directory and meta is not None and meta.node_id is not None:
                return meta.cluster_id, meta.node_id
        return None

    def readable(
        self, replica: PathLike | None = None, select: Selection = ALL, wants: Wants = every
    ) -> tuple[Partition, ...]:
        """Return the partitions that a consumer would read, as far as `select` and `wants` accept them. First come the
        live topic-partitions of the log directories, each once. Then come the partition directories and segment files
        that the caller named, except those inside another named path. A segment file in no partition directory is
        returned only if `select` is `ALL`.

        If several directories have one topic-partition, `replica` chooses among them: `"longest"`, or the path of one
        of them or of its log directory. Without a choice, or if it does not match exactly one, raises `ReplicaError` (a
        `UsageError`) with the paths. Raises `UsageError` if `replica` is a path that does not exist. Raises
        `StorageError` if `"longest"` cannot read a log or a request to an object store fails.
        """
        return tuple(
            partition
            for partition in self.all_readable(replica, select, wants)
            if select.takes(partition.topic, partition.partition) and (partition.name is None or wants(partition.name))
        )

    def all_readable(
        self, replica: PathLike | None = None, select: Selection = ALL, wants: Wants = every
    ) -> tuple[Partition, ...]:
        """Return the partitions of `readable`, and also those that `select` or `wants` rejects. A rejected
        topic-partition in several directories is returned from each of them. Raises `ReplicaError` if a chosen
        topic-partition is in several directories and `replica` does not match exactly one. Raises `UsageError` if
        `replica` does not exist. Raises `StorageError` if the end of a log cannot be read or a request to an object
        store fails.
        """
        several = self.duplicates()
        chosen = {
            name: chosen_replica(name, partitions, replica)
            for name, partitions in several.items()
            if select.takes(name.topic, name.partition) and wants(name)
        }
        if replica is not None and replica != LONGEST and not exists(real(replica)):
            detail = f" is {LONGEST} or a directory: {os.fspath(replica)} does not exist"
            raise UsageError(Sentence(Ask.REPLICA, detail))
        wanted = [
            partition
            for log_dir in self.log_dirs
            for partition in log_dir.partitions
            if partition.state is DirectoryState.LIVE
        ]
        return tuple(
            partition
            for partition in (*wanted, *self.standalone)
            if partition.name is None
            or chosen.get(partition.name, partition) is partition
            or not is_directory(partition.path)
        )

    def find(self, topic: str, partition: int, replica: PathLike | None = None) -> Partition:
        """Return the live partition with this topic and number; a segment file in a directory of that name counts too.
        If there are several, `replica` chooses one, as in `readable`. Raises `UsageError` if there is none. Raises
        `ReplicaError` if there are several and the choice is missing or does not match exactly one. Raises
        `StorageError` if `"longest"` cannot read a log.
        """
        name = PartitionName(topic, partition)
        partitions = [candidate for candidate in self.partitions if candidate.name == name]
        if not partitions:
            raise UsageError(f"{name} is not in {', '.join(self.paths)}")
        return partitions[0] if len(partitions) == 1 else chosen_replica(name, partitions, replica)

    def __getitem__(self, key: tuple[str, int]) -> Partition:
        return self.find(*key)


def chosen_replica(name: PartitionName, partitions: Sequence[Partition], replica: PathLike | None) -> Partition:
    """Return one of `partitions`, the directories of the topic-partition `name`, as `replica` chooses: with `"longest"`
    the one with the highest log end offset (the first if several have it), otherwise the one at or below that path.
    Raises `ReplicaError` if `replica` is None or does not match exactly one directory. Raises `StorageError` if the end
    of a log cannot be read.
    """
    paths = " and ".join(partition.path for partition in partitions)
    if replica is None:
        count = "two" if len(partitions) == 2 else str(len(partitions))
        where = f"{name} was found in {count} directories: {paths}"
        raise ReplicaError(f"{where}; choose one with", LONGEST, "or its path")
    if replica == LONGEST:
        return max(partitions, key=lambda partition: partition.log_end_offset())
    wanted = real(replica)
    matching = [partition for partition in partitions if _is_or_lies_in(partition.path, wanted)]
    if len(matching) != 1:
        raise ReplicaError(f"{name} is in {paths};", os.fspath(replica), f"chooses {len(matching)} of them")
    return matching[0]


def _is_or_lies_in(path: str, directory: str) -> bool:
    place = real(path)
    return place == directory or place.startswith(os.path.join(directory, ""))


def _distinct(paths: Iterable[PathLike]) -> list[str]:
    seen: dict[str, str] = {}
    for path in paths:
        seen.setdefault(real(path), os.fspath(path))
    return list(seen.values())


class _Opened:
    """Collector of the log directories, partitions and segment files at the caller's paths."""

    def __init__(self, limits: Limits, tolerant: bool, wants: Wants) -> None:
        self._limits, self._wants = limits, wants
        self._tolerant = tolerant
        self.log_dirs: dict[str, LogDir] = {}
        self.standalone: list[Partition] = []
        self.unreadable: list[Finding] = []
        self._nothing: list[tuple[str, UsageError]] = []

    def take(self, paths: Sequence[str], *, missing_too: bool) -> None:
        """Open all paths and collect their content. Raises `UsageError` for a path without Kafka data. With
        `missing_too`, a path that does not exist or is empty makes a finding in `unreadable` instead, provided that
        another path has a log directory. A path that cannot be read raises `StorageError`, or makes a finding in
        `unreadable` if `tolerant`.
        """
        for path in paths:
            try:
                self.add(path)
            except UsageError as error:
                if not missing_too or not is_missing(path):
                    raise
                self._nothing.append((path, error))
        for path, refused in self._nothing:
            if not self.log_dirs:
                raise refused
            self.unreadable.append(missing_directory(path))

    def add(self, path: str) -> None:
        """Open one path and collect its content: log directories in `log_dirs`, a single partition directory or segment
        file in `standalone`. Raises `UsageError` if it does not exist or has no Kafka data. If it cannot be read,
        raises `StorageError`, or adds a finding to `unreadable` if `tolerant`.
        """
        try:
            if not exists(path):
                raise UsageError(f"{path} does not exist")
            if not is_directory(path):
                self.standalone.append(open_segment(path, limits=self._limits))
            elif is_partition_dir(path):
                self.standalone.append(open_partition(path, limits=self._limits))
            else:
                self._log_dirs(path)
        except StorageError as error:
            if not self._tolerant:
                raise
            self.unreadable.append(unreadable(error, path))

    def apart(self) -> Iterator[Partition]:
        """Yield the partition directories and segment files that the caller named, except those that are also part of
        another named path: live partitions of a named log directory, and segment files in these or in a named partition
        directory. A `-delete` directory is always yielded, because a consumer of its log directory would not read it.
        Raises `StorageError` while iterating if a request to an object store fails.
        """
        if not self.standalone:
            return
        shown = {real(partition.path) for log_dir in self.log_dirs.values() for partition in log_dir.partitions
                 if partition.state is DirectoryState.LIVE}  # fmt: skip
        directories = {real(partition.path) for partition in self.standalone if is_directory(partition.path)}
        for partition in self.standalone:
            place = real(partition.path)
            inside = is_directory(partition.path) or os.path.dirname(place) not in shown | directories
            if place not in shown and inside:
                yield partition

    def _without(self, error: StorageError, path: str) -> None:
        """Record a directory that cannot be listed and may be a log directory, if the collector is tolerant; otherwise
        ignore it.
        """
        if self._tolerant:
            self.unreadable.append(unreadable(error, path))

    def _log_dirs(self, path: str) -> None:
        before = len(self.unreadable)
        directories = log_dirs_at(path, self._without)
        if not directories and len(self.unreadable) == before:
            raise UsageError(_nothing_here(path))
        for directory in directories:
            key = real(directory)
            if key not in self.log_dirs:
                self.log_dirs[key] = open_log_dir(
                    directory, tolerant=self._tolerant, limits=self._limits, wants=self._wants
                )


def open_all(
    *paths: PathLike, tolerant: bool = False, missing_too: bool = False, limits: Limits = DEFAULT_LIMITS,
    wants: Wants = every,
) -> Inventory:  # fmt: skip
    """Return everything at `paths`; a path given twice is opened once. A call without paths raises `UsageError`, and so
    does a path without Kafka data; the message says what the path is instead. With `missing_too`, a path that does not
    exist or is empty makes a finding in `unreadable` instead, if another path has a log directory. A file or directory
    that cannot be read raises `StorageError`; with `tolerant` it is left out, with a finding. A sub-directory that
    cannot be listed, and may be a log directory, is left out in both cases; only `tolerant` adds a finding.

    * `limits`: upper bounds for a batch or file (`Limits`)
    * `wants`: function called with the name of each partition in a log directory; if it returns False, the partition is
      left out and not read
    """
    refuse_no_path(paths)
    opened = _Opened(limits, tolerant, wants)
    with looking_once():
        opened.take(_distinct(paths), missing_too=missing_too)
        return Inventory(
            paths=tuple(os.fspath(path) for path in paths),
            log_dirs=tuple(opened.log_dirs.values()),
            standalone=tuple(opened.apart()),
            unreadable=tuple(opened.unreadable),
        )


def is_missing(path: str) -> bool:
    """Whether a log directory may be missing here: the path does not exist, or is a directory without entries other
    than `lost+found`, as after a lost mount. Raises `StorageError` if the path cannot be examined.
    """
    if not exists(path):
        return True
    return is_directory(path) and not {entry.name for entry in scan_directory(path)} - {LOST_AND_FOUND}


def lost_directories(findings: Iterable[Finding]) -> list[str]:
    """Return the paths in the findings about missing log directories (`missing_directory`), in order."""
    lost = (finding.file for finding in findings if finding.code is FindingCode.LOG_DIRECTORY_MISSING)
    return [path for path in lost if path is not None]


def missing_directory(path: str) -> Finding:
    """Return the finding about a missing log directory."""
    detail = "the directory is empty: perhaps its disk is not mounted" if exists(path) else "there is no such directory"
    return Finding.of(FindingCode.LOG_DIRECTORY_MISSING, None, None, detail, path)


def _nothing_here(path: str) -> str:
    if not scan_directory(path):
        if parse_partition_directory(os.path.basename(absolute(path))) is not None:
            return f"{path} holds no segment: the directory is empty"
        return f"{path} is an empty directory"
    return f"{path} is not a Kafka log directory: it holds no partition and no segment"
