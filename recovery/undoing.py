"""The public call `undo`: every byte and time that a run changed, put back."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from kafkalog.codec.arguments import checked
from kafkalog.codec.errors import UsageError
from kafkalog.codec.names import LOCK_FILE
from kafkalog.log.directories.directory import is_log_dir, is_partition_dir
from kafkalog.log.disk.files import exists
from kafkalog.recovery.act.quarantine import Runs
from kafkalog.recovery.act.transaction import Keeping, transaction
from kafkalog.recovery.facts.places import PathLike

__all__ = ["UndoResult", "refuse_without_run", "undo"]


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What an undo restored."""

    root: str
    run_id: str
    files: int
    note: str | None = None
    """where the directory was before, if it was moved: a sentence"""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"path": self.root, "run_id": self.run_id, "restored_files": self.files, "changed": True}


def _undone(path: PathLike) -> tuple[str, str | None]:
    """The log directory of a path, and the name of the partition directory if it is one."""
    given = os.fspath(path)
    if "\0" in given or not os.path.isdir(given):
        raise UsageError(f"{given!r} is not a directory" if exists(given) else f"{given!r} does not exist")
    root = os.path.realpath(given)
    if not is_log_dir(root) and is_partition_dir(root):
        return os.path.dirname(root), os.path.basename(root)
    return root, None


@checked
def refuse_without_run(
    path: PathLike, run_id: str | None = None, *, quarantine: PathLike | None = None, moved: bool = False
) -> None:
    """As `undo` where there is nothing to undo; only looks, so that nobody is asked for nothing."""
    Runs(_undone(path)[0], None if quarantine is None else os.fspath(quarantine), moved=moved).undoable(run_id)


@checked
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
    root, partition = _undone(path)
    keeping = Keeping(None if quarantine is None else os.fspath(quarantine), moved)
    if not os.path.lexists(os.path.join(root, LOCK_FILE)):  # one that a kill has left goes with the lock
        refuse_without_run(path, run_id, quarantine=quarantine, moved=moved)
    with transaction(root, keeping) as at:
        run = at.take_back(run_id, partition)
        return UndoResult(root, run.run_id, len(run.journal.steps), at.note)
