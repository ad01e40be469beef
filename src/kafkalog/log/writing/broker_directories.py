"""The log directories of one broker to whoever writes partitions: where each lies, and where a new one shall.

A broker looks a partition up in all of its directories, does not start if one is in two of them, and makes a new one
where it has the fewest (`LogManager.loadLogs`, `LogManager.nextLogDirs`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from kafkalog.codec.errors import FormatError, UsageError
from kafkalog.codec.limits import DEFAULT_LIMITS
from kafkalog.codec.names import (
    CLUSTER_METADATA_TOPIC,
    PARTITION_METADATA,
    DirectoryState,
    PartitionName,
    parse_partition_directory,
)
from kafkalog.codec.text import decode_partition_metadata
from kafkalog.log.directories.directory import (
    existing_log_directory,
    is_log_dir,
    is_partition_dir,
    log_dirs_inside,
    refuse_inside,
)
from kafkalog.log.directories.identities import read_meta_properties
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import PathLike, read_small, scan_directory
from kafkalog.log.disk.remote_file import MissingFileError
from kafkalog.log.writing.topics import check_topic

__all__ = ["BrokerDirectories", "counts_in", "directories_of_one_broker", "made_log_directory"]


def made_log_directory(path: PathLike) -> str:
    """The absolute path of a log directory, which is made if it is missing and its parent is there."""
    root = os.path.abspath(os.fspath(path))
    if not os.path.isdir(root):
        refuse_inside(os.path.dirname(root), path)
        fs.make_directory(root)
    return existing_log_directory(root)


def directories_of_one_broker(path: PathLike | Sequence[PathLike], *, may_make: bool = True) -> tuple[str, ...]:
    """The absolute paths of the log directories to write into: those named, or those inside of the one that is named.

    A single one is made if it is missing, its parent is there, and `may_make`.  Of several each must be there: what is
    not mounted may hold the partition that would be made a second time elsewhere.  Raises `UsageError` for none, for
    those of several brokers or clusters, and for what is not a log directory.
    """
    given = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not given:
        raise UsageError("no log directory was given")
    found = [each for place in given for each in _inside(place)]
    if len(found) == 1:
        return (made_log_directory(found[0]) if may_make else existing_log_directory(found[0]),)
    by_real_path = {os.path.realpath(each): existing_log_directory(each) for each in reversed(found)}
    roots = tuple(reversed(by_real_path.values()))
    _refuse_several_brokers(roots)
    return roots


def counts_in(path: PathLike) -> dict[str, int]:
    """How many partitions each topic has in one log directory, be it there or not.

    Raises `UsageError` for a directory in which log directories are.
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
    """Which partitions are in which of the log directories of a broker, and will be."""

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
        """The partitions that are there, but for the metadata log of KRaft, which is nobody's to produce to."""
        for topic, partition in sorted(self._places):
            if topic != CLUSTER_METADATA_TOPIC:
                path = self.path_of(topic, partition)
                if os.path.isdir(path) and is_partition_dir(path):
                    yield topic, partition

    def root_of(self, topic: str, partition: int) -> str:
        """The directory that a partition is in, or that it gets and from now on has."""
        check_topic(topic)
        root = self._places.get((topic, partition))
        if root is None:
            root = min(self.roots, key=self._held.__getitem__)  # of equals the one that was named first
            self._take((topic, partition), root)
        return root

    def path_of(self, topic: str, partition: int) -> str:
        """The directory of a partition, be it there or not."""
        return os.path.join(self.root_of(topic, partition), str(PartitionName(topic, partition)))

    def counts(self) -> dict[str, int]:
        """How many partitions each topic has, by the highest number that is there."""
        found: dict[str, int] = {}
        for topic, partition in self._places:
            found[topic] = max(found.get(topic, 0), partition + 1)
        return found

    def known_topic_id(self, topic: str) -> str | None:
        """The id that the partitions of a topic have so far; None where none of them says it."""
        for key in sorted(key for key in self._places if key[0] == topic):
            path = os.path.join(self.path_of(*key), PARTITION_METADATA)
            try:
                data = read_small(path, DEFAULT_LIMITS.checkpoint_bytes)
                return decode_partition_metadata(data, source=path).topic_id
            except (MissingFileError, FormatError):  # who opens that partition is told of what its file holds
                continue
        return None


def _partitions(root: str) -> Iterator[PartitionName]:
    for entry in scan_directory(root):
        name = parse_partition_directory(entry.name)
        if name is not None and name.state is DirectoryState.LIVE and entry.is_dir(follow_symlinks=False):
            yield name
