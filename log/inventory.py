"""What the paths that somebody points at hold: log directories, partition directories, single segments.

A path may be an entry of `log.dirs`, a directory of several of them (brokers, volumes), one partition directory or one
segment file.  What it is follows from its content: `broker-1` is a fine name for a partition, and is none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from kafkalog.codec.arguments import checked
from kafkalog.codec.errors import UsageError
from kafkalog.codec.findings import Finding
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.names import DirectoryState, PartitionName, parse_partition_directory
from kafkalog.log.directory import LogDir, is_log_dir, is_partition_dir, log_dirs_inside, open_log_dir
from kafkalog.log.files import PathLike, absolute, exists, is_directory, real, scan_directory
from kafkalog.log.partition import Partition, open_partition, open_segment

__all__ = ["LONGEST", "Inventory", "open_all"]

LONGEST = "longest"
"""A choice of replica: the one whose log ends last."""


@dataclass(frozen=True)
class Inventory:
    """Everything that was found, in the order of the paths."""

    paths: tuple[str, ...]
    log_dirs: tuple[LogDir, ...]
    standalone: tuple[Partition, ...]
    """partition directories and segment files that were pointed at themselves"""

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """All of them: live, deleted, future and stray."""
        return (*(found for log_dir in self.log_dirs for found in log_dir.partitions), *self.standalone)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What listing found, of log directories and partitions."""
        return (
            *(finding for log_dir in self.log_dirs for finding in log_dir.findings),
            *(finding for partition in self.partitions for finding in partition.findings),
        )

    def duplicates(self) -> dict[PartitionName, tuple[Partition, ...]]:
        """Topic-partitions that stand, live, in more than one directory."""
        found: dict[PartitionName, list[Partition]] = {}
        for partition in self.partitions:
            if partition.name is not None and partition.state is DirectoryState.LIVE and is_directory(partition.path):
                found.setdefault(partition.name, []).append(partition)
        return {name: tuple(several) for name, several in found.items() if len(several) > 1}

    @checked
    def readable(self, replica: PathLike | None = None) -> tuple[Partition, ...]:
        """What a consumer would read: live partitions once each, and whatever was pointed at itself.

        `replica` chooses among directories of the same topic-partition: `"longest"`, or the path of one of them or of
        its log directory.  Without a choice a duplicate is a `UsageError` that names the paths.
        """
        several = self.duplicates()
        chosen = {name: self._choose(name, found, replica) for name, found in several.items()}
        wanted = [
            found for log_dir in self.log_dirs for found in log_dir.partitions if found.state is DirectoryState.LIVE
        ]
        return tuple(
            found
            for found in (*wanted, *self.standalone)
            if found.name is None or chosen.get(found.name, found) is found or not is_directory(found.path)
        )

    @checked
    def find(self, topic: str, partition: int, replica: PathLike | None = None) -> Partition:
        """The live directory of a topic-partition; `UsageError` if there is none, or several without a choice."""
        name = PartitionName(topic, partition)
        found = [each for each in self.partitions if each.name == name]
        if not found:
            raise UsageError(f"{name} is not in {', '.join(self.paths)}")
        return found[0] if len(found) == 1 else self._choose(name, tuple(found), replica)

    @checked
    def __getitem__(self, key: tuple[str, int]) -> Partition:
        return self.find(*key)

    @staticmethod
    def _choose(name: PartitionName, found: tuple[Partition, ...], replica: PathLike | None) -> Partition:
        paths = " and ".join(each.path for each in found)
        if replica is None:
            raise UsageError(f"{name} stands in two directories: {paths}; choose one with replica=longest or its path")
        if replica == LONGEST:
            return max(found, key=lambda each: each.log_end_offset())
        wanted = real(replica)
        matching = [each for each in found if _is_or_lies_in(each.path, wanted)]
        if len(matching) != 1:
            raise UsageError(f"{name} stands in {paths}; replica={os.fspath(replica)} chooses {len(matching)} of them")
        return matching[0]


def _is_or_lies_in(path: str, directory: str) -> bool:
    place = real(path)
    return place == directory or place.startswith(os.path.join(directory, ""))


def _distinct(paths: Iterable[PathLike]) -> list[str]:
    seen: dict[str, str] = {}
    for path in paths:
        seen.setdefault(real(path), os.fspath(path))
    return list(seen.values())


@checked
def open_all(*paths: PathLike, limits: Limits = DEFAULT_LIMITS) -> Inventory:
    """Everything at `paths`; a path that holds nothing of Kafka's is a `UsageError` that says what it is instead."""
    if not paths:
        raise UsageError("no path was given")
    log_dirs: dict[str, LogDir] = {}
    standalone: list[Partition] = []
    for path in _distinct(paths):
        if not exists(path):
            raise UsageError(f"{path} does not exist")
        if not is_directory(path):
            standalone.append(open_segment(path))
        elif is_partition_dir(path):
            standalone.append(open_partition(path, limits=limits))
        else:
            for directory in [path] if is_log_dir(path) else log_dirs_inside(path):
                key = real(directory)
                if key not in log_dirs:
                    log_dirs[key] = open_log_dir(directory, limits=limits)
                path = ""
            if path:
                raise UsageError(_nothing_here(path))
    return Inventory(tuple(os.fspath(path) for path in paths), tuple(log_dirs.values()), tuple(standalone))


def _nothing_here(path: str) -> str:
    if not scan_directory(path):
        if parse_partition_directory(os.path.basename(absolute(path))) is not None:
            return f"{path} holds no segment: the directory is empty"
        return f"{path} is an empty directory"
    return f"{path} holds no Kafka log directory, no partition and no segment"
