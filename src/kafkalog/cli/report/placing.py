"""Where a report goes: standard output, or a file that is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from kafkalog.cli.output import LineWriter
from kafkalog.codec.errors import StorageError, UsageError
from kafkalog.log.directory import is_log_dir, is_partition_dir
from kafkalog.log.fs import remove, rename, sync_directory, write_new

__all__ = ["STANDARD_OUTPUT", "check_place", "place"]

STANDARD_OUTPUT = "-"


def check_place(target: str, examined: Sequence[str], *, overwrite: bool) -> None:
    """Before anything is read: `UsageError` for a place that a report must not go to."""
    if target == STANDARD_OUTPUT:
        return
    if "\0" in target:
        raise UsageError("a path cannot hold a NUL")
    if os.path.isdir(target):
        raise UsageError(f"{target} is a directory: name a file in it")
    if os.path.lexists(target) and not overwrite:
        raise UsageError(f"{target} exists: name another file, or add --overwrite")
    directory = os.path.dirname(os.path.realpath(target))
    if not os.path.isdir(directory):
        raise UsageError(f"{os.path.dirname(target) or '.'} is not a directory")
    inside = [os.path.realpath(path) for path in examined if os.path.isdir(path)]
    place = directory
    while True:
        if place in inside or _is_kafkas(place):
            raise UsageError(f"{target} would be inside of {place}, which is under examination: name a place elsewhere")
        parent = os.path.dirname(place)
        if parent == place:
            return
        place = parent


def _is_kafkas(directory: str) -> bool:
    """A log directory or a partition directory, as far as that can be seen."""
    try:
        return is_log_dir(directory) or is_partition_dir(directory)
    except StorageError:
        return False


def place(target: str, text: str, *, overwrite: bool) -> None:
    """Write a report; a file is replaced in one step, and never if it came to be since and `overwrite` is not given."""
    if target == STANDARD_OUTPUT:
        with LineWriter() as writer:
            writer.write(text.removesuffix("\n"))
        return
    path = os.path.realpath(target) if overwrite else os.path.abspath(target)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        write_new(temporary, text.encode("utf-8", "backslashreplace"))
        if os.path.lexists(path) and not overwrite:
            raise UsageError(f"{target} exists: name another file, or add --overwrite")
        rename(temporary, path)
    except BaseException:
        with contextlib.suppress(StorageError):
            remove(temporary)
        raise
    sync_directory(os.path.dirname(path))
