"""Log directories of one broker for writers: find the directory of each partition, and choose one for a new partition.
As a broker does, look for partitions in all directories, refuse a partition that is in two, and create a new partition
in the directory with the fewest (`LogManager.loadLogs`, `LogManager.nextLogDirs`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.names import (
    CLUSTER_METADATA_TOPIC,
    DirectoryState,
    PartitionName,
    parse_partition_directory,
)
from kafkalog.log.directories.directory import (
    existing_log_directory,
    is_log_dir,
    is_partition_dir,
    log_dirs_inside,
    refuse_inside,
)
from kafkalog.log.directories.identities import read_meta_properties
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import PathLike, scan_directory
from kafkalog.log.writing.topics import check_topic, first_topic_id

__all__ = ["BrokerDirectories", "counts_in", "directories_of_one_broker", "made_log_directory"]


def made_log_directory(path: PathLike) -> str:
    """Return the absolute path of a log directory; create it if it does not exist (its parent must exist). Raises
    `UsageError` if it would be created inside another log directory, is not a directory, or is a partition directory.
    Raises `StorageError` if it cannot be created or listed.
    """
    root = os.path.abspath(os.fspath(path))
    if not os.path.isdir(root):
        refuse_inside(os.path.dirname(root), path)
        fs.make_directory(root)
    return existing_log_directory(root)


def directories_of_one_broker(path: PathLike | Sequence[PathLike], *, may_make: bool = True) -> tuple[str, ...]:
    """Return the absolute paths of the log directories to write to, in the given order, without duplicates (compared by
    real path). `path` names one directory, several, or a directory that contains log directories, which stands for all
    of them. If it is a single one that does not exist, it is created, unless `may_make` is False. Several must all
    exist: a directory that is not mounted may hold a partition, which would then be created elsewhere.

    Raises `UsageError` if no path is given, or a path is missing and not created, is not a directory or is a partition
    directory. Raises it also if a path would be created inside another log directory, or if the `meta.properties` name
    different brokers or clusters. Raises `StorageError` if a directory cannot be created or listed, `FormatError` if
    one of several has a malformed `meta.properties`.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not paths:
        raise UsageError("no log directory was given")
    directories = [directory for place in paths for directory in _inside(place)]
    if len(directories) == 1:
        return (made_log_directory(directories[0]) if may_make else existing_log_directory(directories[0]),)
    by_real_path: dict[str, str] = {}
    for directory in directories:
        by_real_path.setdefault(os.path.realpath(directory), existing_log_directory(directory))
    roots = tuple(by_real_path.values())
    _refuse_several_brokers(roots)
    return roots


def counts_in(path: PathLike) -> dict[str, int]:
    """Return the number of partitions of each topic in one log directory: one more than the highest existing partition
    number. Empty if the directory does not exist. Raises `UsageError` for a directory that contains log directories.
    Raises `StorageError` if the directory cannot be listed.
    """
    name = os.fspath(path)
    if _inside(name) != [name]:
        raise UsageError(f"{name} holds log directories and is none itself: name one of them")
    return BrokerDirectories((name,)).counts() if os.path.isdir(name) else {}


def _inside(path: PathLike) -> list[str]:
    name = os.fspath(path)
    is_parent = os.path.isdir(name) and not is_log_dir(name)
    return (log_dirs_inside(name) if is_parent else []) or [name]


def _refuse_several_brokers(roots: Sequence[str]) -> None:
    first: dict[str, tuple[str, object]] = {}
    for root in roots:
        meta = read_meta_properties(root)
        if meta is None:
            continue
        for what, value in (("cluster", meta.cluster_id), ("broker", meta.node_id)):
            place, known = first.setdefault(what, (root, value)) if value is not None else (root, value)
            if known != value:
                raise UsageError(f"{place} is of {what} {known}, {root} of {what} {value}: name those of one broker")


class BrokerDirectories:
    """Map from partition to the log directory of a broker that holds it. `roots` are all log directories. Creating an
    instance raises `UsageError` if a partition is in two of them, `StorageError` if one cannot be listed.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        self.roots = roots
        self._places: dict[tuple[str, int], str] = {}
        self._held = Counter(dict.fromkeys(roots, 0))
        for root in roots:
            for name in _partitions(root):
                self._take((name.topic, name.partition), root)

    def _take(self, key: tuple[str, int], root: str) -> None:
        other = self._places.setdefault(key, root)
        if other != root:
            raise UsageError(
                f"{PartitionName(*key)} is in {other} and in {root}: a broker does not start with both; put one aside"
            )
        self._held[root] += 1

    def __str__(self) -> str:
        return ", ".join(self.roots)

    def there(self) -> Iterator[tuple[str, int]]:
        """Yield topic and number of the existing partitions, sorted by both. The KRaft metadata log is omitted, because
        clients do not produce to it. Partitions that `root_of` assigned to a directory, but that have no partition
        directory yet, are omitted too. Raises `StorageError` while iterating if a directory cannot be listed, and
        `UsageError` for a partition directory with an invalid topic name.
        """
        for topic, partition in sorted(self._places):
            if topic != CLUSTER_METADATA_TOPIC:
                path = self.path_of(topic, partition)
                if os.path.isdir(path) and is_partition_dir(path):
                    yield topic, partition

    def root_of(self, topic: str, partition: int) -> str:
        """Return the log directory of a partition. If no directory has the partition, it is assigned to the directory
        with the fewest partitions; of several such directories, the first one is used. This object remembers the
        assignment, and nothing is created on disk. Raises `UsageError` for an invalid topic name.
        """
        check_topic(topic)
        root = self._places.get((topic, partition))
        if root is None:
            root = min(self.roots, key=self._held.__getitem__)  # the first of several with the fewest
            self._take((topic, partition), root)
        return root

    def path_of(self, topic: str, partition: int) -> str:
        """Return the path of a partition directory, which may not exist. Like `root_of`, this assigns a new partition
        to a directory.
        """
        return os.path.join(self.root_of(topic, partition), str(PartitionName(topic, partition)))

    def counts(self) -> dict[str, int]:
        """Return the number of partitions by topic: one more than the highest existing partition number."""
        counts: dict[str, int] = {}
        for topic, partition in self._places:
            counts[topic] = max(counts.get(topic, 0), partition + 1)
        return counts

    def known_topic_id(self, topic: str) -> str | None:
        """Return the topic id from a `partition.metadata` file of the topic; None if there is no readable one. The file
        of the lowest partition number counts. Missing, malformed and special files are skipped. Raises `StorageError`
        if a file cannot be read for another reason. Raises `UsageError` if partitions of this topic exist and its name
        is invalid.
        """
        return first_topic_id(self.path_of(*key) for key in sorted(key for key in self._places if key[0] == topic))


def _partitions(root: str) -> Iterator[PartitionName]:
    for entry in scan_directory(root):
        name = parse_partition_directory(entry.name)
        if name is not None and name.state is DirectoryState.LIVE and entry.is_dir(follow_symlinks=False):
            yield name
