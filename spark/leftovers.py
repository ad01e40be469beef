"""Find and remove the files of jobs that were killed before their commit, beside a log directory. Needs no Spark.

Whether a job still runs cannot be seen from outside. Its directory counts as left over if nothing was written to it for
a long time.
"""

from __future__ import annotations

import errno
import os
import time

from msgspec import Struct

from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.log.directories.commits import work_directory
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import PathLike, scan_directory, status_of
from kafkalog.spark.journal import JOB, load_journal

__all__ = ["OLD_SECONDS", "Leftover", "clear_leftovers", "leftovers", "work_directory"]

OLD_SECONDS = 7 * 24 * 60 * 60
"""A commit removes what is older than a week, since no job runs that long without a new file."""


class Leftover(Struct, frozen=True, kw_only=True):
    """The staged files of one job, beside a log directory."""

    job: str
    path: str
    bytes: int
    files: int
    modified: float
    """modification time of the newest of them, in seconds since 1970"""
    is_pending: bool
    """whether they are needed for rolling back a killed commit"""


def leftovers(path: PathLike) -> list[Leftover]:
    """Return the staged files for the log directory `path`, one entry per Spark job, ordered by modification time with
    the oldest first. Running jobs are included. Empty if there is no work directory, or if it is a link. `is_pending`
    marks the job of an unfinished commit. Files and jobs that vanish meanwhile are left out. Raises `StorageError` if a
    directory cannot be listed, and the errors of `load_journal`: `FormatError`, `RecoveryRefused` and `StorageError`.
    """
    work = work_directory(os.path.abspath(os.fspath(path)))
    if not os.path.isdir(work) or os.path.islink(work):  # files that a link leads to may belong to somebody else
        return []
    journal = load_journal(work)
    leftovers = []
    for entry in scan_directory(work):
        if not entry.is_dir(follow_symlinks=False) or JOB.fullmatch(entry.name) is None:
            continue
        own, status = status_of(entry.path), _status_in(entry.path)
        if own is None or status is None:
            continue
        newest = max(stat.st_mtime for stat in (*status, own))
        size = sum(stat.st_size for stat in status)
        pending = journal is not None and journal.job == entry.name
        leftovers.append(
            Leftover(
                job=entry.name, path=entry.path, bytes=size, files=len(status), modified=newest, is_pending=pending
            )
        )
    return sorted(leftovers, key=lambda leftover: (leftover.modified, leftover.job))


def _status_in(directory: str) -> list[os.stat_result] | None:
    """Return the status of each file in a directory, without files that vanish meanwhile; None if the directory has
    vanished. Raises `StorageError` if it cannot be listed.
    """
    try:
        files = scan_directory(directory)
    except StorageError as error:
        if error.errno != errno.ENOENT:
            raise
        return None
    return [status for file in files if (status := status_of(file.path)) is not None]


def clear_leftovers(path: PathLike, older_than_seconds: float = OLD_SECONDS) -> list[Leftover]:
    """Remove the staged files of jobs that were last changed `older_than_seconds` ago or earlier, even if the jobs
    still run. Files needed for rolling back a commit are kept. Return the removed entries, oldest first. If something
    was removed and the work directory is then empty, it is removed too. Raises `UsageError` for a negative age. Raises
    `StorageError` if files cannot be listed or removed, and the errors of `load_journal`: `FormatError`,
    `RecoveryRefused` and `StorageError`.
    """
    if older_than_seconds < 0:
        raise UsageError("an age cannot be negative")
    before = time.time() - older_than_seconds
    gone = [leftover for leftover in leftovers(path) if leftover.modified <= before and not leftover.is_pending]
    for leftover in gone:
        fs.remove_tree(leftover.path)
    if gone:
        fs.remove_if_empty(os.path.dirname(gone[0].path))
    return gone
