"""Permanently delete the bytes that executions (journaled changes of a log directory) have kept for undo.

An execution is first marked by renaming its document, and that document is removed last. So an interrupted purge is
recognized, is never mistaken for an execution that can be undone, and can be repeated. Links are not followed, and only
files of the execution are removed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from msgspec import Struct, field

from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.log.disk.files import PathLike
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.history import RunInfo, RunState, list_runs, root_of_runs, runs_of_each
from kafkalog.recovery.act.job import Job, carry_out, keeping_in
from kafkalog.recovery.act.journal import JOURNAL, PREPARING, PURGING, UNDOING
from kafkalog.recovery.act.operations import FILES, STAGED
from kafkalog.recovery.act.quarantine import DOCUMENTS, Runs, document_of
from kafkalog.recovery.act.transaction import Transaction
from kafkalog.recovery.facts.places import log_directories
from kafkalog.recovery.facts.run_requests import Purge

__all__ = ["PurgeResult", "purge", "purgeable"]

_DIRECTORIES = (FILES, STAGED)
_BEING_WRITTEN = ".new"
_Chosen: TypeAlias = tuple[tuple[RunInfo, ...], dict[str, str]]
"""Executions to remove, and the reason for each that is old enough but stays."""


class PurgeResult(Struct, frozen=True):
    """Result of a purge."""

    root: str
    purged: tuple[RunInfo, ...]
    """the executions that were removed, as they were before"""
    left: Mapping[str, str] = field(default_factory=dict)
    """reason for each execution that was old enough but stays, by id"""

    @property
    def freed_bytes(self) -> int:
        """Bytes on disk that the removed executions used."""
        return sum(run.allocated_bytes for run in self.purged)


def purgeable(request: Purge, path: PathLike) -> _Chosen:
    """Return the executions on one log directory that `purge` would remove, and id -> reason for executions that are
    old enough but stay. Reads only. Raises `RecoveryRefused` if a named execution is unknown or must be kept. Raises
    `UsageError` if `path` is not a log directory. Raises `StorageError` if a quarantine cannot be read.
    """
    return _choose(Runs(root_of_runs(path), keeping_in(request.quarantine).quarantine), request.run_ids, request)


def purge(request: Purge, *paths: PathLike) -> list[PurgeResult]:
    """Permanently delete what executions have kept, under the broker's lock. The request selects them by id, by age, or
    both. Return a result for each log directory, in the order of the paths.

    They can then no longer be undone, and the originals that they kept are lost. An interrupted execution is never
    removed, unless it was superseded. Of several directories, each named execution is removed from those that have it.

    Raises `RecoveryRefused`, with nothing removed, if a named execution does not exist or must not be removed;
    executions selected by age that must not be removed are kept and named in the result. Raises `UsageError` if a path
    is not a log directory, `StorageError` if a file cannot be read or removed.

    * `request`: which executions
    * `paths`: log directories, their parents, or partition directories
    """
    return carry_out(_PurgeJob(request, log_directories(paths)))


class _PurgeJob(Job[Purge, "_Chosen", PurgeResult]):
    def __init__(self, request: Purge, paths: Sequence[PathLike]) -> None:
        roots: list[PathLike] = list(dict.fromkeys(map(root_of_runs, paths)))
        named = runs_of_each(roots, request.run_ids, request.quarantine) if len(roots) > 1 else {}
        self._run_ids = {os.fspath(root): request.run_ids if len(roots) == 1 else named.get(root, ()) for root in roots}
        super().__init__([*self._run_ids], keeping_in(request.quarantine, moved=request.moved), request)

    def look(self) -> None:
        for root, run_ids in self._run_ids.items():
            _choose(Runs(root, self.keeping.quarantine, moved=self.keeping.moved), run_ids, self.request)

    def admit(self, opened: Transaction) -> None:
        """Accept interrupted executions: they are kept, and do not prevent purging others."""

    def plan(self, opened: Transaction) -> _Chosen:
        return _choose(opened.runs, self._run_ids[opened.root], self.request)

    def act(self, opened: Transaction, planned: _Chosen) -> PurgeResult:
        chosen, left = planned
        runs = opened.runs
        removed = tuple(run for run in chosen if _remove(run, left))
        runs.reload()
        if removed and not _needs_pointer(runs):
            runs.drop_pointer(opened.fs)
            opened.fs.set_mtime("", opened.fs.mtime_before)
        return PurgeResult(runs.root, removed, left)


def _needs_pointer(kept: Runs) -> bool:
    """Whether an execution remains that only the pointer file leads to, or shows to be this directory's. Raises
    `StorageError` if a quarantine cannot be read.
    """
    return any(
        run.state is RunState.UNREADABLE or run.is_unfinished or os.path.dirname(run.directory) != kept.beside
        for run in list_runs(kept)
    )


def _choose(kept: Runs, run_ids: Sequence[str], request: Purge) -> _Chosen:
    """Return the executions of one log directory to purge: those with one of `run_ids`, and those older than the
    request says. The second value is a dict: id of an old execution that must be kept -> reason. Reads the quarantines.
    Raises `RecoveryRefused` if one of `run_ids` is unknown or must be kept, or if an execution's directory is nested
    too deeply. Raises `StorageError` if a quarantine cannot be read.
    """
    known = list_runs(kept)
    for run_id in run_ids:
        if run_id not in [run.run_id for run in known]:
            raise RecoveryRefused(
                f"no run {run_id} on {kept.root} is kept in {' or '.join(kept.places)}", reason="no_run"
            )
    chosen, left = [], {}
    for run in known:
        named = run.run_id in run_ids
        if not named and not _is_older(run, request.older_than_days):
            continue
        why = _why_not(kept, run)
        if why is None:
            chosen.append(run)
        elif named:
            raise RecoveryRefused(f"run {run.run_id} is not purged: {why}; nothing was removed", reason="purge")
        else:
            left[run.run_id] = why
    return tuple(chosen), left


def _is_older(run: RunInfo, days: float | None) -> bool:
    if days is None or not run.began:
        return False
    return datetime.now(UTC) - datetime.fromisoformat(run.began) >= timedelta(days=min(days, 10**6))


def _why_not(kept: Runs, run: RunInfo) -> str | None:
    """Return why the kept bytes of an execution may not be removed, as a clause; None if they may be removed. Raises
    `StorageError` if its directory cannot be read, `RecoveryRefused` if it is nested too deeply. The reasons:

    * It is unfinished.
    * It is unreadable and may still be needed: it is not kept beside the log directory, or its document is
      `journal.json` or `undoing.json`.
    * It is unreadable because a file or link is in place of its directory.
    * It has the id of another log directory. This does not count if it is undone, half purged, or had
      changed nothing.
    * Its directory has entries that kafkalog did not write there, or a mounted file system.
    """
    place = os.path.dirname(run.directory)
    if run.is_unfinished:
        return f"it is {run.state}, so what it keeps may be needed: complete it, or undo it"
    if run.state is RunState.UNREADABLE:
        if not os.path.isdir(run.directory) or os.path.islink(run.directory):
            return f"{run.directory} is not a kafkalog directory"
        if place != kept.beside or document_of(place, run.run_id) in (JOURNAL, UNDOING):
            return f"{run.why_not}, and it is unknown whether it is needed: remove {run.directory} yourself"
    if run.is_others and run.state not in (RunState.UNDONE, RunState.NOT_BEGUN, RunState.HALF_PURGED):
        return "it carries the id of another log directory"
    with FileSystem(place) as fs:
        return _foreign(fs, run.run_id)


def _foreign(fs: FileSystem, run_id: str) -> str | None:
    """Return a sentence about the first foreign entry in an execution's directory; None if there is none. An entry is
    foreign if kafkalog writes nothing of this name and kind there, or if it is on another, mounted file system. In the
    directories for kept and staged files everything is allowed, also links and special files. Raises `StorageError` if
    a directory cannot be listed, `RecoveryRefused` if directories are nested more than 100 levels deep.
    """
    documents = {*DOCUMENTS, *(name + _BEING_WRITTEN for name in DOCUMENTS)}
    directory = fs.status(run_id)
    for path, status in fs.walk(run_id):
        if directory is not None and status.st_dev != directory.st_dev:
            return f"{os.path.join(fs.root, path)} is on another file system, mounted there: unmount it first"
        name = path[len(run_id) + 1 :]
        if "/" in name or (name in documents and stat.S_ISREG(status.st_mode)):
            continue
        if name not in _DIRECTORIES or not stat.S_ISDIR(status.st_mode):
            return f"{os.path.join(fs.root, path)} is not what kafkalog writes there: move it away first"
    return None


def _remove(run: RunInfo, left: dict[str, str]) -> bool:
    """Delete an execution: rename its document, if it has one, to `purging.json`, remove the kept files, its other
    documents, `purging.json` and its directory; then the quarantine if it is empty. Return True. If another process has
    locked the execution, or has begun it since it was listed, `left` gets the reason under its id; return False with
    nothing removed. Raises `StorageError` if a file cannot be removed.
    """
    place = os.path.dirname(run.directory)
    with FileSystem(place) as fs, fs.locked_directory(run.run_id) as is_stopped:
        name = document_of(place, run.run_id)
        if not is_stopped or (run.state is RunState.NOT_BEGUN and name not in (None, PREPARING)):
            left[run.run_id] = "another process is at work on it"
            return False
        if name is not None and name != PURGING:
            fs.rename(f"{run.run_id}/{name}", f"{run.run_id}/{PURGING}")
            fs.sync_directory(run.run_id)
        for directory in _DIRECTORIES:
            fs.remove_tree(f"{run.run_id}/{directory}")
        for document in fs.names(run.run_id):
            if document != PURGING:
                fs.remove(f"{run.run_id}/{document}")
        fs.sync_directory(run.run_id)
        fs.remove(f"{run.run_id}/{PURGING}")
        fs.remove_directory(run.run_id)
        fs.sync_directory("")
        fs.remove_if_empty([place])
    return True
