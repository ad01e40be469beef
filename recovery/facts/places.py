"""Resolve paths that a user gives to log directories and selected partition directories."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from kafkalog.codec.common.errors import KafkaLogError, RecoveryRefused, UsageError
from kafkalog.codec.names import parse_partition_directory
from kafkalog.log.directories.directory import is_log_dir, is_partition_dir, log_dirs_at
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.directories.zookeeper_directories import is_zookeeper_directory
from kafkalog.log.disk.files import PathLike, exists, refuse_no_path, scan_directory

__all__ = ["by_log_directory", "chosen_directories", "holding", "log_directories", "root_of"]

Path = TypeVar("Path", bound=PathLike)


def root_of(path: PathLike) -> tuple[str, frozenset[str] | None]:
    """Return the log directory of `path` as a real path, and the partitions that are meant. If `path` is a partition
    directory, they are a set with its name. If it is a log directory, they are None (all).

    Raises `UsageError` if `path` contains a NUL, does not exist or is neither of these. Raises `RecoveryRefused` if it
    is a symbolic link, named like a partition, to a partition directory. Raises `StorageError` if a directory cannot be
    listed.
    """
    given = os.fspath(path)
    if "\0" in given:
        raise UsageError("a path cannot hold a NUL")
    try:
        return _root_of(given)
    except KafkaLogError as error:
        error.concerning(os.path.realpath(given))
        raise


def _root_of(path: str) -> tuple[str, frozenset[str] | None]:
    if not exists(path):
        raise UsageError(f"{path} does not exist")
    if not os.path.isdir(path):
        raise UsageError(f"{path} is not a directory; give a log directory or a partition directory")
    real = os.path.realpath(path)
    _refuse_linked_partition(path, real)
    name = os.path.basename(real)
    if is_partition_dir(real):
        if parse_partition_directory(name) is None:
            raise UsageError(f"{path} holds segments, but is not named like a partition (topic-number)")
        return os.path.dirname(real), frozenset({name})
    if not is_log_dir(real):
        if is_zookeeper_directory(real):
            raise UsageError(
                f"{path} is ZooKeeper's data directory, which is read by verify, plan, report, compare and triage, and "
                "by no command that changes a log directory"
            )
        raise UsageError(f"{path} is not a Kafka log directory: it holds no checkpoint, no marker and no partition")
    return real, None


def _refuse_linked_partition(path: str, real: str) -> None:
    """Raise `RecoveryRefused` if `path` is a symbolic link, named like a partition, to a partition directory (`real`).
    A broker that follows it sees the partition under the link's name, and locks the directory of the link. Raises
    `StorageError` if the directory cannot be listed.
    """
    name = path.rstrip("/")
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
    """Return the paths of log directories, in order. A directory that contains log directories (volumes, brokers) is
    replaced by these; every other path is returned unchanged. If several have the same real path, only the first is
    kept. Unreadable subdirectories, and invalid or missing paths, are included, and the caller reports why. Raises
    `UsageError` if there are no paths.
    """
    refuse_no_path(paths)
    directories: dict[str, str] = {}
    for path in [os.fspath(named) for named in paths]:
        for directory in _inside(path) or [path]:
            directories.setdefault(os.path.realpath(directory) if "\0" not in directory else directory, directory)
    return list(directories.values())


def _inside(path: str) -> list[str]:
    unlisted: list[str] = []
    try:
        if "\0" in path or not os.path.isdir(path) or is_partition_dir(path):
            return []
        return [*log_dirs_at(path, lambda _error, place: unlisted.append(place)), *unlisted]
    except KafkaLogError:
        return []


def _partitions_at(path: PathLike) -> list[tuple[str, int]] | None:
    """Return (topic, partition) of the partition directories that a path selects: the directory itself, or all in the
    log directory. None if they cannot be determined, because the path is invalid or unreadable.
    """
    try:
        root, only = root_of(path)
        names = only or [entry.name for entry in scan_directory(root) if entry.is_dir(follow_symlinks=False)]
    except (KafkaLogError, OSError):
        return None
    parsed = map(parse_partition_directory, names)
    return [(name.topic, name.partition) for name in parsed if name is not None]


def holding(given: Sequence[PathLike], select: Selection) -> list[str]:
    """Return the log and partition directories (`log_directories(given)`) that have a selected partition, in order; all
    of them if `select` selects everything. Paths that cannot be read are included. Raises `UsageError` if there are no
    paths. Two more errors are raised only if all paths can be read. `UnknownName` is for a selected or excluded name
    that is in none of them. `UsageError` is for a selection that is excluded completely.
    """
    paths = log_directories(given)
    if select == ALL:
        return paths
    keys_of_paths = [_partitions_at(path) for path in paths]
    if all(keys is not None for keys in keys_of_paths):
        select.check(key for keys in keys_of_paths for key in keys or ())
    return [
        path
        for path, keys in zip(paths, keys_of_paths, strict=True)
        if keys is None or any(select.takes(*key) for key in keys)
    ]


def by_log_directory(paths: Sequence[Path]) -> list[list[Path]]:
    """Group paths by log directory. A path is either the log directory itself or a partition directory in it. Groups
    are in the order of their first paths; a path that occurs twice is listed twice. A path for which `root_of` fails is
    grouped only with paths of the same text.
    """
    groups: dict[str, list[Path]] = {}
    for path in paths:
        try:
            root = root_of(path)[0]
        except (KafkaLogError, OSError):
            root = str(path)  # who acts on it will say so
        groups.setdefault(root, []).append(path)
    return list(groups.values())


def chosen_directories(paths: Sequence[PathLike], select: Selection) -> tuple[str, frozenset[str] | None]:
    """Return the log directory of `paths`, and the names of the selected partition directories in it (None for all).
    There must be at least one path, and all must lead to one log directory; neither is checked. If every path is a
    partition directory, only these can be selected.

    Raises the errors of `root_of`. Raises `UsageError` also if everything that was selected is excluded, and
    `UnknownName` if no directory is selected.
    """
    places = [root_of(path) for path in paths]
    root = places[0][0]
    named = [only for _root, only in places if only is not None]
    only = frozenset().union(*named) if len(named) == len(places) else None
    if select == ALL:
        return root, only
    names = only or [entry.name for entry in scan_directory(root) if entry.is_dir(follow_symlinks=False)]
    return root, select.directories(root, names)
