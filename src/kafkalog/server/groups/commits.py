"""Committed offsets: from the files, overridden by commits to this server.

The latter are in memory, or also in a file of JSON lines replaced with each commit (`OffsetMetadataManager`).
"""

from __future__ import annotations

import fcntl
import json
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from threading import Lock

from msgspec import Struct
from msgspec.structs import asdict

from kafkalog.cluster.groups.groups import Group, Groups, read_groups
from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC
from kafkalog.cluster.records.replay import Until
from kafkalog.cluster.rules.java import coordinator_partition
from kafkalog.codec.common.errors import FormatError, RecoveryRefused, UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.log.directories.directory import refuse_inside
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import is_directory, read_small

__all__ = ["Commit", "Commits", "CommitsFile", "TooManyCommitsError"]

_MOST = 200_000
"""Maximum number of commits."""
_MOST_BYTES = 64 << 20
"""Maximum length of their names and metadata."""
_FILE_BYTES = 64 << 20

Key = tuple[str, str, int]
"""Group, topic, partition."""


class TooManyCommitsError(Exception):
    """No room for more commits."""


class Commit(Struct, frozen=True):
    """An offset committed by a group."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class CommitsFile:
    """A file with one line of JSON per commit, replaced atomically.

    Raises `UsageError` for a path inside a log directory (`refuse_inside`) or without a parent directory. Raises
    `RecoveryRefused` if another server uses the file.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        folder = os.path.dirname(self.path)
        if not is_directory(folder):
            raise UsageError(f"{folder} is not a directory; {path} cannot be made in it")
        refuse_inside(os.path.realpath(folder), path)
        descriptor, _ = fs.lock_file(self.path + ".lock")  # the file itself is another one with each commit
        self.close = weakref.finalize(self, os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            told = f"another server keeps the offsets of its clients in {path}"
            raise RecoveryRefused(told, reason="locked") from None

    def load(self) -> dict[Key, Commit]:
        """Return the commits in the file by (group, topic, partition); empty if the file does not exist. Raises
        `UsageError` if it contains anything else or is too large, `StorageError` if it cannot be read.
        """
        try:
            lines = read_small(self.path, _FILE_BYTES).decode().splitlines()
            return dict(map(_parsed, lines))
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError, FormatError) as error:
            raise UsageError(f"{self.path} does not hold committed offsets: {error}") from None

    def store(self, commits: Iterable[tuple[Key, Commit]]) -> None:
        """Replace the file atomically by these commits, one JSON object per line, ordered by group, topic and
        partition. Raises `StorageError` if it cannot be written.
        """
        lines = [
            json.dumps({"group": group, "topic": topic, "partition": partition, **asdict(commit)})
            for (group, topic, partition), commit in sorted(commits, key=lambda pair: pair[0])
        ]
        fs.replace(self.path, "".join(f"{line}\n" for line in lines).encode())


def _parsed(line: str) -> tuple[Key, Commit]:
    fields = json.loads(line)
    key = str(fields["group"]), str(fields["topic"]), int(fields["partition"])
    return key, Commit(int(fields["offset"]), int(fields["leader_epoch"]), str(fields["metadata"]))


class Commits:
    """Committed offsets: commits to this server override those in the log directories. Safe for several threads.
    `partitions` is called for the current partitions.
    """

    def __init__(
        self,
        partitions: Callable[[], tuple[Partition, ...]],
        *,
        as_of: int | None = None,
        file: CommitsFile | None = None,
    ) -> None:
        self._partitions = partitions
        self._until = Until(timestamp=as_of)
        self._file = file
        self._lock = Lock()
        self._reading = Lock()
        self._here = _ByGroup({} if file is None else file.load())
        self._recorded: tuple[object, _ByGroup, Groups] | None = None

    def close(self) -> None:
        """Release the file for other servers."""
        if self._file is not None:
            self._file.close()

    def recorded_groups(self) -> tuple[Group, ...]:
        """Return the groups according to the files, which are read if they have changed. That may take a while. Raises
        `StorageError` if a file cannot be read.
        """
        return self._read()[2].groups

    def why_partial(self, group: str) -> str | None:
        """Why the files may not have all commits of a group, or None."""
        groups = self._read()[2]
        return groups.logs.why_partial(coordinator_partition(group, groups.logs.count or groups.partition_count))

    @property
    def is_ready(self) -> bool:
        """Whether an answer needs no reading."""
        return self._recorded is not None and self._recorded[0] == self._stamp()

    def _stamp(self) -> object:
        return tuple((partition.path, partition.segments) for partition in self._own())

    def _own(self) -> list[Partition]:
        return [partition for partition in self._partitions() if partition.topic == CONSUMER_OFFSETS_TOPIC]

    def _read(self) -> tuple[object, _ByGroup, Groups]:
        with self._reading:
            stamp = self._stamp()
            if self._recorded is None or self._recorded[0] != stamp:
                groups = read_groups(self._own(), until=self._until, limits=DEFAULT_LIMITS)
                commits = _ByGroup({
                    (offset.key.group, offset.key.topic, offset.key.partition):
                    Commit(offset.offset, offset.leader_epoch, offset.metadata)
                    for group in groups.groups for offset in group.offsets
                })  # fmt: skip
                self._recorded = stamp, commits, groups
            return self._recorded

    def of_group(self, group: str) -> dict[tuple[str, int], Commit]:
        """Return the commits of a group by topic and partition."""
        recorded = self._read()[1]
        with self._lock:
            return {**recorded.groups.get(group, {}), **self._here.groups.get(group, {})}

    def groups_here(self) -> set[str]:
        """Groups that have committed to this server."""
        with self._lock:
            return set(self._here.groups)

    def commit(self, commits: dict[Key, Commit]) -> None:
        """Keep these commits, replacing earlier ones; all of them or none. If there is a file, it is written first.

        Raises `TooManyCommitsError` if there would be too many commits or too much text, and `StorageError` if the file
        cannot be written.
        """
        with self._lock:
            replaced = {key: before for key in commits if (before := self._here.get(key)) is not None}
            growth = sum(map(_size, commits.items())) - sum(map(_size, replaced.items()))
            if self._here.count + len(commits) - len(replaced) > _MOST or self._here.bytes + growth > _MOST_BYTES:
                raise TooManyCommitsError
            if self._file is not None:
                self._file.store({**dict(self._here.items()), **commits}.items())
            self._here.add(commits)


class _ByGroup:
    """Commits by group, then by (topic, partition), with their number and their approximate size in bytes."""

    def __init__(self, commits: dict[Key, Commit]) -> None:
        self.groups: dict[str, dict[tuple[str, int], Commit]] = {}
        self.count = self.bytes = 0
        self.add(commits)

    def get(self, key: Key) -> Commit | None:
        """Return a single commit, or None."""
        return self.groups.get(key[0], {}).get(key[1:])

    def add(self, commits: dict[Key, Commit]) -> None:
        """Add commits, replacing earlier ones with the same group, topic and partition; update `count` and `bytes`."""
        for key, commit in commits.items():
            before = self.get(key)
            self.count += before is None
            self.bytes += _size((key, commit)) - (0 if before is None else _size((key, before)))
            self.groups.setdefault(key[0], {})[key[1:]] = commit

    def items(self) -> Iterator[tuple[Key, Commit]]:
        """The commits of all groups."""
        for group, commits in self.groups.items():
            for (topic, partition), commit in commits.items():
                yield (group, topic, partition), commit


def _size(pair: tuple[Key, Commit]) -> int:
    key, commit = pair
    return len(key[0]) + len(key[1]) + len(commit.metadata)
