"""Recognize ZooKeeper's data directories among the paths of log directories."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.names import META_PROPERTIES, ZOOKEEPER_DIRECTORY
from kafkalog.log.disk.files import PathLike, absolute, is_directory, scan_directory

__all__ = ["is_zookeeper_directory", "without_zookeeper"]


def is_zookeeper_directory(path: str) -> bool:
    """Whether a directory is ZooKeeper's dataDir (it contains `version-2` and no `meta.properties`), or the `version-2`
    directory itself with a log or snapshot file in it. Raises `StorageError` if a directory `version-2` cannot be
    listed.
    """
    if os.path.basename(absolute(path)) == ZOOKEEPER_DIRECTORY:
        return any(entry.name.startswith(("log.", "snapshot.")) for entry in scan_directory(path))
    return is_directory(os.path.join(path, ZOOKEEPER_DIRECTORY)) and not os.path.lexists(
        os.path.join(path, META_PROPERTIES)
    )


def without_zookeeper(paths: Sequence[PathLike]) -> tuple[list[PathLike], list[str]]:
    """Return the paths that are not ZooKeeper's data directories, and those that are. Both keep their order. If there
    are only ZooKeeper's, the first list has all of them and the second is empty. A path that cannot be listed is not
    ZooKeeper's.
    """
    zookeepers = [os.fspath(path) for path in paths if _is_zookeepers(os.fspath(path))]
    others = [path for path in paths if os.fspath(path) not in zookeepers]
    return (others, zookeepers) if others else (list(paths), [])


def _is_zookeepers(path: str) -> bool:
    try:
        return "\0" not in path and is_zookeeper_directory(path)
    except StorageError:
        return False
