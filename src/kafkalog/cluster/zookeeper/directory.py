"""Search for ZooKeeper's files, which are in `version-2` below its dataDir and, if it is another directory,
dataLogDir.
"""

from __future__ import annotations

import os
import re

from msgspec import Struct

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.names import ZOOKEEPER_DIRECTORY
from kafkalog.log.disk.files import PathLike, refuse_no_path, scan_directory

__all__ = ["ZooKeeperDirectory", "open_zookeeper"]

_LOG = re.compile(r"log\.([0-9a-f]{1,16})\Z")
_SNAPSHOT = re.compile(r"snapshot\.([0-9a-f]{1,16})(?:\.gz|\.snappy)?\Z")


class ZooKeeperDirectory(Struct, frozen=True):
    """Logs and snapshots of one server as (zxid, path), ascending by the zxid in the file's name. The zxid is the first
    transaction of a log, or the last one before a snapshot was begun.
    """

    paths: tuple[str, ...]
    logs: tuple[tuple[int, str], ...]
    snapshots: tuple[tuple[int, str], ...]


def open_zookeeper(*paths: PathLike) -> ZooKeeperDirectory:
    """Find the logs and snapshots of a server in its dataDir and dataLogDir; return them sorted by the zxid in their
    names. A path with a subdirectory `version-2` is searched only there. Of two files of a kind with the same zxid, the
    one of the later path is returned.

    Files that are symbolic links are ignored. Raises `UsageError` without a path, if a path is not a directory, or if
    none of them has such a file. Raises `StorageError` if a directory cannot be listed.
    """
    logs: dict[int, str] = {}
    snapshots: dict[int, str] = {}
    refuse_no_path(paths)
    names = tuple(os.fspath(path) for path in paths)
    for path in names:
        if not os.path.isdir(path):
            raise UsageError(f"{path} is not a directory" if os.path.lexists(path) else f"{path} does not exist")
        inner = os.path.join(path, ZOOKEEPER_DIRECTORY)
        for entry in scan_directory(inner if os.path.isdir(inner) else path):
            if not entry.is_file(follow_symlinks=False):
                continue
            for pattern, files in ((_LOG, logs), (_SNAPSHOT, snapshots)):
                if match := pattern.match(entry.name):
                    files[int(match[1], 16)] = entry.path
    if not logs and not snapshots:
        raise UsageError(f"{', '.join(names)}: no ZooKeeper log and no snapshot")
    return ZooKeeperDirectory(names, tuple(sorted(logs.items())), tuple(sorted(snapshots.items())))
