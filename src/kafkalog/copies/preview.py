"""Open the copies that are to be merged together, and refuse them if they are unrelated."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kafkalog.codec.common.errors import RecoveryRefused, UsageError
from kafkalog.codec.names import DirectoryState, parse_partition_directory
from kafkalog.copies.volumes import Copy, Shelf, gather
from kafkalog.log.disk.files import PathLike, refuse_no_path

__all__ = ["of_one_partition", "preferred", "refuse_several_clusters", "refuse_several_topics"]

_STRANGERS = "these are not copies of each other"


def preferred(prefer: PathLike | None, paths: Sequence[PathLike]) -> str | None:
    """Return the real path of the preferred copy; None if `prefer` is None. Raises `UsageError` if it is not one of
    `paths`; links are resolved before they are compared.
    """
    if prefer is None:
        return None
    wanted = os.path.realpath(prefer)
    if wanted not in map(os.path.realpath, paths):
        raise UsageError(f"{os.fspath(prefer)} is preferred and is not among the copies: name one of them")
    return wanted


def of_one_partition(copies: Sequence[PathLike]) -> Shelf:
    """Open copies of one topic-partition, and return them with the findings about them. A copy that cannot be read is
    included with its error. Raises `UsageError` if the paths are not two or more different live partition directories
    of the same topic and number. Raises `RecoveryRefused` if they belong to several clusters or have several topic ids.
    """
    refuse_no_path(copies)
    paths = [os.path.realpath(copy) for copy in copies]
    parsed = {parse_partition_directory(os.path.basename(path)) for path in paths}
    name = next(iter(parsed), None)
    if len(paths) < 2 or len(parsed) != 1 or name is None or name.state is not DirectoryState.LIVE:
        raise UsageError("give two or more directories of the same topic-partition")
    shelf = gather(paths)
    opened = {copy.path for several in shelf.copies.values() for copy in several}
    for path, why in shelf.unreadable:
        if path in paths and path not in opened:  # a directory that cannot be listed
            copy = Copy(name=name, path=path, log_dir=None, partition=None, error=why)
            shelf.copies.setdefault(copy.key, []).append(copy)
    if [*shelf.copies] != [(name.topic, name.partition)]:
        raise UsageError("give two or more directories of the same topic-partition")
    refuse_several_clusters(shelf)
    refuse_several_topics(shelf, (name.topic, name.partition))
    return shelf


def refuse_several_clusters(shelf: Shelf) -> None:
    """Raise `RecoveryRefused` if the copies are of several clusters: their logs are unrelated, even if the names are
    equal.
    """
    if shelf.several_clusters is not None:
        raise RecoveryRefused(f"{_STRANGERS}: {shelf.several_clusters}; merge the directories of one cluster")


def refuse_several_topics(shelf: Shelf, key: tuple[str, int]) -> None:
    """Raise `RecoveryRefused` if the copies of the topic-partition `key` have several topic ids, because the topic was
    deleted and created again: then their logs are unrelated.
    """
    if key in shelf.several_topics:
        raise RecoveryRefused(f"{_STRANGERS}: {shelf.several_topics[key]}; merge the directories of one topic id")
