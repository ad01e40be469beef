"""What log directories, and which of their partition directories, the paths mean that somebody gives."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from kafkalog.codec.errors import KafkaLogError, RecoveryRefused, UsageError
from kafkalog.codec.names import parse_partition_directory
from kafkalog.log.directories.directory import is_log_dir, is_partition_dir, log_dirs_at
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import PathLike, exists, scan_directory

__all__ = ["by_log_directory", "chosen_directories", "holding", "log_directories", "root_of"]

Path = TypeVar("Path", bound=PathLike)


def root_of(path: PathLike) -> tuple[str, frozenset[str] | None]:
    """The log directory a path means, and the partition directory if it is one."""
    given = os.fspath(path)
    if "\0" in given:
        raise UsageError("a path cannot hold a NUL")
    if not exists(given):
        raise UsageError(f"{given} does not exist")
    if not os.path.isdir(given):
        raise UsageError(f"{given} is not a directory; give a log directory or a partition directory")
    real = os.path.realpath(given)
    _refuse_linked_partition(given, real)
    name = os.path.basename(real)
    if is_partition_dir(real):
        if parse_partition_directory(name) is None:
            raise UsageError(f"{given} holds segments, but is not named like a partition (topic-number)")
        return os.path.dirname(real), frozenset({name})
    if not is_log_dir(real):
        raise UsageError(f"{given} is not a Kafka log directory: it holds no checkpoint, no marker and no partition")
    return real, None


def _refuse_linked_partition(given: str, real: str) -> None:
    """A broker that follows a link sees the partition under the link's name, and locks the directory the link is in."""
    name = given.rstrip("/")
    if (
        os.path.islink(name)
        and parse_partition_directory(os.path.basename(name)) is not None
        and is_partition_dir(real)
    ):
        raise RecoveryRefused(
            f"{name} is a symbolic link to {real}: give recovery that directory itself, when no broker follows it",
            reason="special",
        )


def log_directories(paths: Sequence[PathLike]) -> list[str]:
    """The paths, and in place of a directory around several log directories (volumes, brokers) those inside it.

    One inside that cannot be listed is among them, and so is a path that means nothing: who acts on it says why.
    """
    found: dict[str, str] = {}
    for path in [os.fspath(each) for each in paths]:
        for each in _inside(path) or [path]:
            found.setdefault(os.path.realpath(each) if "\0" not in each else each, each)
    return list(found.values())


def _inside(path: str) -> list[str]:
    unlisted: list[str] = []
    try:
        if "\0" in path or not os.path.isdir(path) or is_partition_dir(path):
            return []
        return [*log_dirs_at(path, lambda _error, place: unlisted.append(place)), *unlisted]
    except KafkaLogError:
        return []


def _partitions_at(path: PathLike) -> list[tuple[str, int]] | None:
    """The topic-partitions that a path means; None if unknown: who acts on it will say so."""
    try:
        root, only = root_of(path)
        names = only or [entry.name for entry in scan_directory(root) if entry.is_dir(follow_symlinks=False)]
    except (KafkaLogError, OSError):
        return None
    parsed = map(parse_partition_directory, names)
    return [(name.topic, name.partition) for name in parsed if name is not None]


def holding(given: Sequence[PathLike], select: Selection) -> list[str]:
    """The log directories, of all that several paths mean, that hold some of what is chosen.

    Those of which that cannot be told are among them.  `UnknownName` for a topic or partition that is in none of them.
    """
    paths = log_directories(given)
    if select == ALL:
        return paths
    found = [_partitions_at(path) for path in paths]
    if all(keys is not None for keys in found):
        select.check(key for keys in found for key in keys or ())
    return [
        path for path, keys in zip(paths, found, strict=True) if keys is None or any(select.takes(*key) for key in keys)
    ]


def by_log_directory(paths: Sequence[Path]) -> list[list[Path]]:
    """The paths of each log directory together, in the order of its first; one that means none is by itself."""
    found: dict[str, list[Path]] = {}
    for path in paths:
        try:
            root = root_of(path)[0]
        except (KafkaLogError, OSError):
            root = str(path)  # who acts on it will say so
        found.setdefault(root, []).append(path)
    return list(found.values())


def chosen_directories(paths: Sequence[PathLike], select: Selection) -> tuple[str, frozenset[str] | None]:
    """The log directory, as `root_of` has it, with the partition directories that are meant.

    All of the paths are of one log directory.
    """
    places = [root_of(path) for path in paths]
    root = places[0][0]
    named = [only for _root, only in places if only is not None]
    only = frozenset().union(*named) if len(named) == len(places) else None
    if select == ALL:
        return root, only
    names = only or [entry.name for entry in scan_directory(root) if entry.is_dir(follow_symlinks=False)]
    return root, select.directories(root, names)
