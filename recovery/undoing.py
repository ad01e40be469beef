"""Undo executions of recoveries and other jobs: restore every byte and time that they changed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from kafkalog.codec.common.advice import Advice, Ask
from kafkalog.codec.common.errors import RecoveryRefused, UsageError
from kafkalog.codec.names import LOCK_FILE, parse_partition_directory
from kafkalog.log.directories.directory import is_log_dir, is_partition_dir
from kafkalog.log.disk.files import PathLike, exists
from kafkalog.recovery.act.history import runs_of_each
from kafkalog.recovery.act.job import Job, carry_out, keeping_in
from kafkalog.recovery.act.quarantine import Runs
from kafkalog.recovery.act.transaction import Transaction
from kafkalog.recovery.facts.places import log_directories
from kafkalog.recovery.facts.run_requests import Undo

__all__ = ["UndoResult", "refuse_without_run", "runs_to_undo", "undo"]


class UndoResult(Struct, frozen=True, kw_only=True):
    """Result of an undo."""

    root: str
    run_id: str
    files: int
    note: str | None = None
    """the directory's former path if it was moved, as a sentence; None otherwise"""


def _undone(path: PathLike) -> tuple[str, str | None]:
    """Return the real path of a log directory, and the name of a partition directory in it, or None if the whole log
    directory is meant. `path` may be a partition directory. This may be missing, because an execution may have removed
    it, if it is named like a partition and its parent is a log directory. Any other directory is returned as the log
    directory, whatever it contains. Raises `UsageError` if `path` is anything else, `StorageError` if a directory
    cannot be examined or listed.
    """
    given = os.fspath(path)
    parent, name = os.path.split(os.path.abspath(given.replace("\0", "")))
    is_missing = parse_partition_directory(name) is not None and not exists(os.path.join(parent, name))
    if is_missing and os.path.isdir(parent) and is_log_dir(parent):
        return os.path.realpath(parent), name  # a run has set it aside
    if "\0" in given or not os.path.isdir(given):
        raise UsageError(f"{given!r} is not a directory" if exists(given) else f"{given!r} does not exist")
    root = os.path.realpath(given)
    if not is_log_dir(root) and is_partition_dir(root):
        return os.path.dirname(root), os.path.basename(root)
    return root, None


def _runs(request: Undo, path: PathLike) -> Runs:
    keeping = keeping_in(request.quarantine)
    return Runs(_undone(path)[0], keeping.quarantine, moved=request.moved)


def refuse_without_run(request: Undo, path: PathLike, run_id: str | None) -> None:
    """Raise `RecoveryRefused`, as `undo` would, if a log directory has no execution `run_id` to undo, or no execution
    at all if `run_id` is None. To be called before asking for consent; changes nothing.
    """
    _runs(request, path).undoable(run_id)


def runs_to_undo(request: Undo, paths: Sequence[PathLike]) -> list[tuple[PathLike, str | None]]:
    """Return pairs of a path and the id of the execution to undo there, in the order in which to undo them. An id of
    None means the latest execution.

    With one path, all `run_ids` are returned for it in the given order; None without `run_ids`. With several paths,
    each id is returned once for each path that has it, the latest id first. An id that no path has is returned for the
    first path. Without `run_ids`, the only path with an execution that can be undone is returned, or the first path
    with None if there is no such path.

    With several paths, reads their quarantines. Raises `RecoveryRefused` if several have executions that can be undone
    and no id is given, because these may be unrelated. It is raised too for an invalid pointer file if ids are given.
    Raises `UsageError` if a path is not a directory of Kafka, `StorageError` if a quarantine cannot be listed.
    """
    if len(paths) == 1:
        return [(paths[0], run_id) for run_id in request.run_ids or (None,)]
    if request.run_ids:
        runs_by_path = runs_of_each(paths, request.run_ids, request.quarantine)
        latest_first = sorted(
            ((run_id, os.fspath(path)) for path, named in runs_by_path.items() for run_id in named), reverse=True
        )
        return [(path, run_id) for run_id, path in latest_first]
    latest = [(path, run_id) for path in paths if (run_id := _latest(request, path)) is not None]
    if len(latest) > 1:
        named = "; ".join(f"{run_id} on {os.fspath(path)}" for path, run_id in latest)
        raise RecoveryRefused(
            f"the latest runs on these directories are {named}: say which one to undo",
            reason="several_runs",
            advice=[
                Advice("{} undoes it", Ask.UNDO, {"root": os.fspath(path), "run": run_id}) for path, run_id in latest
            ],
        )
    return [(path, run_id) for path, run_id in latest] or [(paths[0], None)]


def _latest(request: Undo, path: PathLike) -> str | None:
    try:
        return _runs(request, path).undoable(None).run_id
    except RecoveryRefused:
        return None


def undo(
    request: Undo | PathLike, *paths: PathLike, on_undone: Callable[[UndoResult], None] | None = None
) -> list[UndoResult]:
    """Restore every byte and time that executions changed, even if they were interrupted; return a result for each
    execution, in the order in which they were undone. Acquires the locks of the directories.

    On one directory the named executions are undone in the given order, by default the latest. On several directories
    each named execution is undone on those that have it, the latest first; without names, on the only directory with an
    execution that can be undone.

    The first execution of each directory is compared before any is undone; later ones on a directory can only be
    compared once the earlier ones were undone, which then stay undone. Raises `RecoveryRefused` if an execution does
    not exist, if anything that it relies on has changed since, if what it saved is not complete, or if several
    directories have executions and none is named. Raises `UsageError` if a path is not a directory or an
    execution is named twice. Raises `StorageError` if the disk fails; the undo of that execution is then unfinished and
    can be completed.

    * `request`: which executions; may be left out for the latest
    * `paths`: log directories, their parents, or partition directories
    * `on_undone`: called with each result as soon as it is there
    """
    if not isinstance(request, Undo):
        paths, request = (request, *paths), Undo()
    return carry_out(_UndoJob(request, runs_to_undo(request, log_directories(paths)), on_undone))


class _UndoJob(Job[Undo, "_TakenBack", UndoResult]):
    """Undo executions one after another; a directory may have several."""

    def __init__(
        self,
        request: Undo,
        wanted: Sequence[tuple[PathLike, str | None]],
        on_undone: Callable[[UndoResult], None] | None,
    ) -> None:
        self._runs = [_TakenBack(*_undone(path), run_id) for path, run_id in wanted]
        keeping = keeping_in(request.quarantine, moved=request.moved)
        super().__init__([run.root for run in self._runs], keeping, request)
        self._left = list(self._runs)
        self._on_undone = on_undone

    def look(self) -> None:
        if len(set(self._runs)) < len(self._runs):
            raise UsageError("a run is named twice: each can be undone once")
        runs_on = Counter(self.roots)
        for run in self._runs:
            # a lock file that a kill has left goes with the lock
            if runs_on[run.root] > 1 or not os.path.lexists(os.path.join(run.root, LOCK_FILE)):
                Runs(run.root, self.keeping.quarantine, moved=self.keeping.moved).undoable(run.run_id)

    def admit(self, opened: Transaction) -> None:
        """Accept interrupted executions: undo reverses them."""

    def plan(self, opened: Transaction) -> _TakenBack:
        run = self._left.pop(0)
        is_first = run is next(other for other in self._runs if other.root == run.root)
        if is_first and len(set(self.roots)) > 1:  # a single one is compared by what takes it back
            opened.refuse_take_back(run.run_id, run.partition)
        return run

    def act(self, opened: Transaction, planned: _TakenBack) -> UndoResult:
        run = opened.take_back(planned.run_id, planned.partition)
        result = UndoResult(root=opened.root, run_id=run.run_id, files=len(run.journal.steps), note=opened.note)
        if self._on_undone is not None:
            self._on_undone(result)
        return result


class _TakenBack(Struct, frozen=True):
    root: str
    partition: str | None
    """the named partition directory; None: the whole log directory"""
    run_id: str | None
    """None: the latest"""
