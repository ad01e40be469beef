"""The public call `undo`: every byte and time that a run changed, put back."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from kafkalog.classes import dataclass
from kafkalog.codec.common.advice import Advice, Ask
from kafkalog.codec.errors import RecoveryRefused, UsageError
from kafkalog.codec.names import LOCK_FILE
from kafkalog.log.directories.directory import is_log_dir, is_partition_dir
from kafkalog.log.disk.files import PathLike, exists
from kafkalog.recovery.act.history import runs_of_each
from kafkalog.recovery.act.job import Job, carry_out, keeping_in
from kafkalog.recovery.act.quarantine import Runs
from kafkalog.recovery.act.transaction import Keeping, Transaction

__all__ = ["UndoResult", "refuse_without_run", "runs_to_undo", "undo", "undo_all"]


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What an undo restored."""

    root: str
    run_id: str
    files: int
    note: str | None = None
    """where the directory was before, if it was moved: a sentence"""


def _undone(path: PathLike) -> tuple[str, str | None]:
    """The log directory of a path, and the name of the partition directory if it is one."""
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
    """Refuse, as `undo` would, where there is nothing to undo; only looks, so that nobody is asked for nothing."""
    Runs(_undone(path)[0], None if quarantine is None else os.fspath(quarantine), moved=moved).undoable(run_id)


def runs_to_undo(
    paths: Sequence[str], run_ids: Sequence[str] = (), *, quarantine: PathLike | None = None, moved: bool = False
) -> list[tuple[str, str | None]]:
    """Each log directory and the run to undo on it, the latest first; None: the latest, where only one has any.

    `RecoveryRefused` where several directories have runs that can be undone, and none is named: a run on one has
    nothing to do with what was done to another some other day.
    """
    if len(paths) == 1:
        return [(paths[0], run_id) for run_id in run_ids or (None,)]
    if run_ids:
        found = runs_of_each(paths, run_ids, quarantine)
        each = sorted(((run_id, os.fspath(path)) for path, named in found.items() for run_id in named), reverse=True)
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
    """Restore every byte and time that a run changed (default: the latest run), even if it was interrupted.

    Everything is compared first; `moved` is as for `recover`.  Raises `RecoveryRefused`, with nothing changed, if the
    run does not exist, if anything that it relies on has changed since, or if what it saved is not complete.

    * `path`: the log directory
    * `run_id`: the run; None: the latest
    * `quarantine`: where runs keep what they removed, if it is not the usual place
    """
    return undo_all([(path, run_id)], quarantine=quarantine, moved=moved)[0]


def undo_all(
    runs: Sequence[tuple[PathLike, str | None]],
    *,
    quarantine: PathLike | None = None,
    moved: bool = False,
    on_undone: Callable[[UndoResult], None] | None = None,
) -> list[UndoResult]:
    """Undo runs on several log directories, in the order given; arguments and errors are those of `undo`.

    All locks are taken first, and of each directory the first run is compared before any is undone: a refusal then
    changes none.  Later runs on the same directory can only be compared when it has been put back.

    * `runs`: log directory and run, None for the latest
    * `quarantine`: where runs keep what they removed, if it is not the usual place
    * `moved`: the directory is the one that its runs were on, although that cannot be seen
    * `on_undone`: called with each result as soon as it is there
    """
    return carry_out(_UndoJob(runs, keeping_in(quarantine, moved=moved), on_undone))


class _UndoJob(Job["_TakenBack", UndoResult]):
    """Take back executions, one after the other; a directory may have several."""

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
        """Undo takes back whatever was cut short."""

    def plan(self, opened: Transaction) -> _TakenBack:
        run = self._left.pop(0)
        is_first = run is next(each for each in self._runs if each.root == run.root)
        if is_first and len(set(self.roots)) > 1:  # a single one is compared by what takes it back
            opened.refuse_take_back(run.run_id, run.partition)
        return run

    def act(self, opened: Transaction, planned: _TakenBack) -> UndoResult:
        run = opened.take_back(planned.run_id, planned.partition)
        result = UndoResult(opened.root, run.run_id, len(run.journal.steps), opened.note)
        if self._on_undone is not None:
            self._on_undone(result)
        return result


@dataclass(frozen=True, slots=True)
class _TakenBack:
    root: str
    partition: str | None
    """the partition directory that was named; None: the whole log directory"""
    run_id: str | None
    """None: the latest"""
