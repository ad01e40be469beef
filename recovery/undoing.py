"""Undo executions of recoveries and other jobs: restore every byte and time that they changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from msgspec import Struct

from kafkalog.codec.common.advice import Advice, Ask
from kafkalog.codec.common.errors import RecoveryRefused, UsageError
from kafkalog.codec.names import LOCK_FILE
from kafkalog.log.directories.directory import is_log_dir, is_partition_dir
from kafkalog.log.disk.files import PathLike, exists
from kafkalog.recovery.act.history import runs_of_each
from kafkalog.recovery.act.job import Job, carry_out, keeping_in
from kafkalog.recovery.act.quarantine import Runs
from kafkalog.recovery.act.transaction import Keeping, Transaction

__all__ = ["UndoResult", "refuse_without_run", "runs_to_undo", "undo", "undo_all"]


class UndoResult(Struct, frozen=True, kw_only=True):
    """Result of an undo."""

    root: str
    run_id: str
    files: int
    note: str | None = None
    """the directory's former path if it was moved, as a sentence; None otherwise"""


def _undone(path: PathLike) -> tuple[str, str | None]:
    """Return the log directory that a path means, as a real path, and the name of a partition directory in it. For a
    partition directory that is its parent and its own name; for any other directory the directory itself, and None.
    Raises `UsageError` if the path is not a directory.
    """
    given = os.fspath(path)
    if "\0" in given or not os.path.isdir(given):
        raise UsageError(f"{given!r} is not a directory" if exists(given) else f"{given!r} does not exist")
    root = os.path.realpath(given)
    if not is_log_dir(root) and is_partition_dir(root):
        return os.path.dirname(root), os.path.basename(root)
    return root, None


def refuse_without_run(
    path: PathLike, run_id: str | None = None, *, quarantine: PathLike | None = None, moved: bool = False
) -> None:
    """Raise `RecoveryRefused`, as `undo` would, if there is nothing to undo. Called before asking for consent; changes
    nothing.
    """
    Runs(_undone(path)[0], None if quarantine is None else os.fspath(quarantine), moved=moved).undoable(run_id)


def runs_to_undo(
    paths: Sequence[str], run_ids: Sequence[str] = (), *, quarantine: PathLike | None = None, moved: bool = False
) -> list[tuple[str, str | None]]:
    """Return pairs of a log directory and the id of the execution to undo there, in the order in which to undo them;
    None means the latest execution. With one path, all `run_ids` are returned for it in the given order. With several
    paths, each id is returned for the paths that have it (for the first path if none has), the latest first. Without
    `run_ids`, the only directory with an execution that can be undone is returned, or the first path if there is none.

    Raises `RecoveryRefused` if several directories have executions that can be undone and none is named: executions on
    different directories may be unrelated. `quarantine` is where executions keep what they removed, None for the usual
    place; with `moved` executions count although nothing shows that they are this directory's.
    """
    if len(paths) == 1:
        return [(paths[0], run_id) for run_id in run_ids or (None,)]
    if run_ids:
        runs_by_path = runs_of_each(paths, run_ids, quarantine)
        each = sorted(
            ((run_id, os.fspath(path)) for path, named in runs_by_path.items() for run_id in named), reverse=True
        )
        return [(path, run_id) for run_id, path in each]
    latest = [(path, run_id) for path in paths if (run_id := _latest(path, quarantine, moved=moved)) is not None]
    if len(latest) > 1:
        named = "; ".join(f"{run_id} on {path}" for path, run_id in latest)
        raise RecoveryRefused(
            f"the latest runs on these directories are {named}: say which one to undo",
            reason="several_runs",
            advice=[Advice("{} undoes it", Ask.UNDO, {"run": run_id}) for _path, run_id in latest],
        )
    return [(path, run_id) for path, run_id in latest] or [(paths[0], None)]


def _latest(path: str, quarantine: PathLike | None, *, moved: bool) -> str | None:
    try:
        kept = Runs(_undone(path)[0], None if quarantine is None else os.fspath(quarantine), moved=moved)
        return kept.undoable(None).run_id
    except RecoveryRefused:
        return None


def undo(
    path: PathLike, run_id: str | None = None, *, quarantine: PathLike | None = None, moved: bool = False
) -> UndoResult:
    """Restore every byte and time that an execution changed (default: the latest), even if it was interrupted; return
    how many steps were reversed. Acquires the lock of the directory.

    Everything is compared first. Raises `RecoveryRefused`, with nothing changed, if the execution does not exist, if
    anything that it relies on has changed since, or if what it saved is not complete; `UsageError` if the path is not a
    directory.

    * `path`: the log directory
    * `run_id`: the execution; None: the latest
    * `quarantine`: where executions keep what they removed, if it is not the usual place
    * `moved`: the execution is this directory's, although nothing shows it
    """
    return undo_all([(path, run_id)], quarantine=quarantine, moved=moved)[0]


def undo_all(
    runs: Sequence[tuple[PathLike, str | None]],
    *,
    quarantine: PathLike | None = None,
    moved: bool = False,
    on_undone: Callable[[UndoResult], None] | None = None,
) -> list[UndoResult]:
    """Undo executions on several log directories, in the given order; arguments and errors are those of `undo`.

    All locks are acquired first, and the first execution of each directory is compared before any is undone, so a
    refusal then changes none. Later executions on one directory can only be compared once it was restored.

    * `runs`: log directory and execution, None for the latest
    * `quarantine`: where executions keep what they removed, if it is not the usual place
    * `moved`: the executions are this directory's, although nothing shows it
    * `on_undone`: called with each result as soon as it is there
    """
    return carry_out(_UndoJob(runs, keeping_in(quarantine, moved=moved), on_undone))


class _UndoJob(Job["_TakenBack", UndoResult]):
    """Undo executions one after another; a directory may have several."""

    def __init__(
        self,
        wanted: Sequence[tuple[PathLike, str | None]],
        keeping: Keeping,
        on_undone: Callable[[UndoResult], None] | None,
    ) -> None:
        self._runs = [_TakenBack(*_undone(path), run_id) for path, run_id in wanted]
        super().__init__([run.root for run in self._runs], keeping)
        self._left = list(self._runs)
        self._on_undone = on_undone

    def look(self) -> None:
        for run in self._runs:
            if not os.path.lexists(os.path.join(run.root, LOCK_FILE)):  # one that a kill has left goes with the lock
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
