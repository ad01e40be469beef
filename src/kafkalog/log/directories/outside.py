"""Check that a new file would not be in a log directory, in a partition, or in a directory that is being read."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.log.directories.directory import is_log_dir, is_partition_dir

__all__ = ["require_outside"]


def require_outside(target: str, examined: Sequence[str]) -> None:
    """Raise `UsageError` if the new file `target` would be inside a log directory, a partition directory or a directory
    in `examined`, at any depth. Links are followed. Names in `examined` that are not local directories are ignored. A
    directory that cannot be read counts as neither log directory nor partition. Raises `UsageError` also if the file's
    directory is not a directory, or the path has a NUL.
    """
    if "\0" in target:
        raise UsageError("a path cannot hold a NUL")
    directory = os.path.dirname(os.path.realpath(target))
    if not os.path.isdir(directory):
        raise UsageError(f"{os.path.dirname(target) or '.'} is not a directory")
    inside = [os.path.realpath(path) for path in examined if os.path.isdir(path)]
    place = directory
    while True:
        if place in inside or _is_kafkas(place):
            raise UsageError(
                f"{target} would be inside {place}, which is a log directory or is being examined: choose another place"
            )
        parent = os.path.dirname(place)
        if parent == place:
            return
        place = parent


def _is_kafkas(directory: str) -> bool:
    """Whether a directory is a log directory or a partition directory; False if it cannot be read."""
    try:
        return is_log_dir(directory) or is_partition_dir(directory)
    except StorageError:
        return False
