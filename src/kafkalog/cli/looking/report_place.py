"""Destination of a report: standard output, or a file that is written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kafkalog.cli.output import LineWriter
from kafkalog.codec.common.errors import UsageError
from kafkalog.log.directories.outside import require_outside
from kafkalog.log.disk.new_file import NewFile, require_replaceable

__all__ = ["STANDARD_OUTPUT", "check_place", "place"]

STANDARD_OUTPUT = "-"


def check_place(target: str, examined: Sequence[str], *, overwrite: bool) -> None:
    """Check that a report can be written to `target`; `-` (standard output) always can. Raises `UsageError` if `target`
    is empty, a directory, another file that is not regular, or an existing file and `overwrite` is False. Raises
    `UsageError` also if the directory of `target` does not exist, or if `target` has a NUL. It is raised too if
    `target` is inside an examined directory, a log directory or a partition directory. Creates nothing.
    """
    if target == STANDARD_OUTPUT:
        return
    if not target:
        raise UsageError("the report needs the name of a file")
    if os.path.isdir(target):
        raise UsageError(f"{target} is a directory: name a file in it")
    if os.path.lexists(target) and not overwrite:
        raise UsageError(f"{target} exists: name another file, or add --overwrite")
    require_outside(target, examined)
    require_replaceable(target)


def place(target: str, text: str, *, overwrite: bool) -> None:
    """Write a report to standard output (`target` `-`) or to a file. If this fails, no new file is made, and a file
    that was there is unchanged. Raises `UsageError` if `target` exists, unless `overwrite` is True and it is a regular
    file; `StorageError` if it cannot be written.
    """
    if target == STANDARD_OUTPUT:
        with LineWriter() as writer:
            writer.write(text.removesuffix("\n"))
        return
    with NewFile(target, overwrite=overwrite) as file:
        file.append(text.encode("utf-8", "backslashreplace"))
