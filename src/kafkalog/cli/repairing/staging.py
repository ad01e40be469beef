"""`kafkalog staging`: files that Spark jobs left beside a log directory because they were killed before their
commit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime

import click
from msgspec import Struct

from kafkalog.cli.options.common import JSON
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.times import Age
from kafkalog.cli.output import print_json
from kafkalog.cli.sentences import SentenceWriter
from kafkalog.codec.common.errors import UsageError
from kafkalog.log.directories.directory import log_dirs_at
from kafkalog.log.disk.files import exists
from kafkalog.spark.leftovers import Leftover, clear_leftovers, leftovers
from kafkalog.words.escapes import escape_controls
from kafkalog.words.exit_codes import ExitCode

__all__ = ["command"]

_HOUR = 60 * 60
_WEEK_HOURS = 168.0


class StagedLine(Struct, frozen=True, kw_only=True):
    """What one job left."""

    job: str
    """the job that left it"""
    path: str
    """the directory"""
    bytes: int
    """of its files"""
    files: int
    """number of them"""
    modified: int
    """when it was last written to, in ms since 1970"""
    pending: bool
    """needed to roll back a commit that was killed"""


class StagingLine(Struct, frozen=True, kw_only=True):
    """One line for each log directory."""

    path: str
    """the log directory"""
    changed: bool
    """it was removed"""
    staged: list[StagedLine]
    """oldest first"""


@click.command(name="staging")
@PATHS
@click.option("--clear", is_flag=True, help="Delete them.")
@click.option("--older-than", "hours", type=Age("h"), metavar="AGE",
              help="With --clear: keep files written more recently, since their job may still run: hours or a span "
              "such as 2d [168].")  # fmt: skip
@paths_in_properties
@JSON
def command(
    paths: tuple[str, ...], clear: bool, hours: float | None,
    as_json: bool,
) -> int:
    """List or delete what Spark jobs killed before their commit left beside log directories.

    PATH is a log directory or the parent of several. Each commit also deletes files older than a week.  Files needed
    to roll back a killed commit are always kept. Exit code 0 if nothing was deleted, 2 if something was.
    """
    if hours is not None and not clear:
        raise UsageError("--older-than needs --clear")
    for path in paths:
        if not exists(path):
            raise UsageError(f"{path} does not exist")
    meant = list(dict.fromkeys(log_directory for path in paths for log_directory in _log_directories(path)))
    changed = False
    for path in meant:  # not one before all of them are known to exist
        found = clear_leftovers(path, (_WEEK_HOURS if hours is None else hours) * _HOUR) if clear else leftovers(path)
        changed = changed or (clear and bool(found))
        if as_json:
            print_json(StagingLine(path=path, changed=clear and bool(found), staged=list(map(_staged, found))))
        else:
            _show(found, clear=clear)
    return ExitCode.CHANGED if changed else ExitCode.CLEAN


def _log_directories(path: str) -> list[str]:
    """Return the log directories at a path; the path itself if there is none yet, as before a first commit."""
    return (log_dirs_at(path) if os.path.isdir(path) else []) or [path]


def _staged(left: Leftover) -> StagedLine:
    modified = round(left.modified * 1000)
    return StagedLine(
        job=left.job, path=left.path, bytes=left.bytes, files=left.files, modified=modified, pending=left.is_pending
    )


def _show(found: Iterable[Leftover], *, clear: bool) -> None:
    with SentenceWriter() as writer:
        for each in found:
            when = datetime.fromtimestamp(each.modified, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            what = "removed" if clear else "needed by a commit that was killed" if each.is_pending else "staged"
            writer.write(f"{escape_controls(each.path)}: {each.bytes} bytes in {each.files} files of {when}, {what}")
