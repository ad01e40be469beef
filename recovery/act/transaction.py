"""Open a log directory for writing after all checks, in this order: the broker's lock; which directory the earlier
executions belong to; unfinished executions; then, by the command, its plan, whether the plan is still the agreed one,
and whether it is allowed. Every change of a log directory is made this way.

Nothing is changed until `settle`, `complete`, `act` or `take_back` is called, so a refusal before that changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from kafkalog import __version__
from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.log.directories.workers import Workers
from kafkalog.log.disk.pointer import ends_of
from kafkalog.recovery.act.belonging import refuse_copy, refuse_missing
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.journal import LossOfRun
from kafkalog.recovery.act.lock import BrokerLock
from kafkalog.recovery.act.quarantine import KeptRun, Runs
from kafkalog.recovery.act.runner import (
    CompletedRuns,
    Done,
    Earlier,
    act,
    complete,
    look_at_earlier,
    refuse_foreign,
    refuse_place,
    refuse_take_back,
    settle,
    take_back,
    try_quarantine,
)
from kafkalog.recovery.decide.actions import Changes
from kafkalog.recovery.decide.losses import first_names
from kafkalog.recovery.facts.survey import Survey

__all__ = ["Keeping", "Transaction", "refuse_unfinished", "transaction"]


class Keeping(Struct, frozen=True):
    """Place of the bytes that an execution removes, and the identity of its directory's executions."""

    quarantine: str | None = None
    """None: beside the log directory, or where earlier executions are kept"""
    moved: bool = False
    """caller asserts that earlier executions are this directory's, although nothing shows it"""


_BESIDE = Keeping()


class Transaction:
    """One locked log directory; created by `transaction`."""

    def __init__(self, fs: FileSystem, runs: Runs, note: str | None) -> None:
        self.fs = fs
        self.runs = runs
        self.note = note
        """a sentence about the directory's former path, if it was elsewhere; else None"""
        self.ended: list[str] = []
        """ids of executions that this process has carried out, completed or undone here so far"""
        self._earlier: Earlier | None = None

    @property
    def root(self) -> str:
        """The log directory."""
        return self.fs.root

    @property
    def earlier(self) -> Earlier:
        """Interrupted executions, compared with the present files when first needed; nothing is changed. Raises the
        errors of `look_at_earlier`.
        """
        if self._earlier is None:
            self._earlier = look_at_earlier(self.fs, self.runs)
        return self._earlier

    def refuse_foreign(self, allowed: str | None = None) -> None:
        """Raise `RecoveryRefused` if another machine began an unfinished execution other than `allowed`, if `allowed`
        is given and is not unfinished, or if a document is damaged. Raises `StorageError` if a quarantine cannot be
        read.
        """
        refuse_foreign(self.runs, allowed)

    def refuse_unfinished(self) -> None:
        """Raise `RecoveryRefused` if an execution (a journaled change) was interrupted and can still be completed or
        undone. Also raise it if another machine began an unfinished one, or if a document is damaged. The advice about
        an unfinished execution names `recover`, which completes it, and `undo`, which reverses it. Raises
        `StorageError` if a file cannot be read.
        """
        self.refuse_foreign()
        for run, _located in self.earlier.fitting:
            raise RecoveryRefused(
                f"run {run.run_id} was cut short; nothing was changed",
                reason="unfinished",
                advice=ends_of(self.root, run.run_id),
            )

    def refuse_changed(self, expected: Survey, found: Survey) -> None:
        """Raise `RecoveryRefused` if `found`, a new survey, differs from the agreed one, `expected`: a file was
        changed, or the two surveys are of different partitions, as if only one is of the whole directory.
        """
        differing = sorted(expected.partition_directories ^ found.partition_directories)
        if expected.is_partial is not found.is_partial or (found.is_partial and differing):
            which = f": {first_names(differing)} not in both" if differing else ""
            raise RecoveryRefused(f"the plan was made for other partitions{which}; make a new plan", reason="changed")
        changed = expected.first_change(found)
        if changed is not None:
            raise RecoveryRefused(f"{changed} changed since the plan was made; make a new one", reason="changed")

    def refuse_place(self, made: Changes) -> None:
        """Raise `RecoveryRefused` if a plan cannot be carried out: the quarantine's place is impossible, or permissions
        or space are missing. Raises `StorageError` if the place cannot be examined.
        """
        if made.actions:
            refuse_place(self.runs, made)

    def try_quarantine(self, made: Changes) -> None:
        """Try whether the execution's directory in the quarantine can be made, if the plan needs one; it is removed
        again. Raises `RecoveryRefused` or `StorageError` if it cannot.
        """
        if made.actions:
            try_quarantine(self.runs)

    def settle(self) -> CompletedRuns:
        """Supersede interrupted executions that no longer fit the files, and remove the copies of those that had not
        begun. Return the superseded ones with the reasons. Raises `StorageError`, and `RecoveryRefused` if a document
        is damaged.
        """
        done = settle(self.fs, self.runs, self.earlier)
        self._earlier = Earlier(self.earlier.fitting)
        return done

    def complete(self, withhold_marker: Callable[[], str | None]) -> CompletedRuns:
        """Complete interrupted executions that fit the files, after settling the others; return their ids.
        `withhold_marker` as in `act`. Raises `RecoveryRefused` if another process changed a file, `StorageError` if the
        disk fails.
        """
        done = complete(self.fs, self.runs, self.earlier, withhold_marker)
        self.ended += done.completed
        return done

    def act(
        self,
        made: Changes,
        still: Callable[[], Survey],
        *,
        withhold_marker: Callable[[], str | None] = lambda: None,
        workers: Workers | None = None,
        drops: bool = False,
        lost: Sequence[LossOfRun] | None = None,
    ) -> Done:
        """Settle interrupted executions as `settle` does, then carry out a plan as a new execution (one journaled,
        undoable change). Return its id, its quarantine, and why the clean-shutdown marker was withheld, or None. The id
        is appended to `ended`.

        Raises `RecoveryRefused` if the directory differs from the plan's survey, its list of files with sizes and
        times. Raises it also if the quarantine is not usable, or the document of an earlier execution is damaged. The
        files are then unchanged, or changed back. Raises `StorageError` if the disk fails; if files were being changed,
        the execution stays unfinished.

        * `still`: called once everything is saved; makes a new survey
        * `withhold_marker`: called before a clean-shutdown marker is written; returns why it would be untrue, or None
        * `workers`: shows progress
        * `drops`, `lost`: noted in the journal: whether readable records are removed, and the counted losses
        """
        self.settle()
        done = act(
            self.fs,
            self.runs,
            made,
            still=still,
            tool_version=__version__,
            withhold_marker=withhold_marker,
            workers=workers,
            drops=drops,
            lost=lost,
        )
        self.ended.append(done.run_id)
        return done

    def refuse_take_back(self, run_id: str | None, partition: str | None) -> None:
        """Raise what `take_back` would raise before its first change; nothing is changed."""
        refuse_take_back(self.fs, self.runs, run_id, partition)

    def take_back(self, run_id: str | None, partition: str | None) -> KeptRun:
        """Undo an execution and return it: `run_id`, or without it the latest, or the latest that changed `partition`.
        Raises `RecoveryRefused` before anything is changed if it cannot be undone, `StorageError` if the disk fails.
        """
        run = take_back(self.fs, self.runs, run_id, partition)
        self.ended.append(run.run_id)
        self.runs.reload()
        return run


def refuse_unfinished(roots: Sequence[str], keeping: Keeping = _BESIDE) -> None:
    """Raise `RecoveryRefused` as `Transaction.refuse_unfinished` does, for the first of these log directories that
    gives a reason. If there are several directories, the error names it. Takes no lock and only reads. `keeping` is as
    in `transaction`. Raises `StorageError` if a directory cannot be read.
    """
    for root in roots:
        with FileSystem(root) as fs:
            try:
                Transaction(fs, Runs(root, keeping.quarantine, moved=keeping.moved), None).refuse_unfinished()
            except RecoveryRefused as refused:
                raise refused if len(roots) == 1 else refused.about(root) from refused


@contextmanager
def transaction(root: str, keeping: Keeping = _BESIDE) -> Iterator[Transaction]:
    """Open a log directory for writing within this context: the broker's lock (`.lock`) is held until it ends.
    `keeping` names the quarantine for removed bytes; by default it is the quarantine of earlier executions, or one
    beside the directory. `keeping` also says whether earlier executions count as this directory's although it was
    moved.

    Raises `RecoveryRefused` if a broker or another process holds the lock, or if the directory belongs to another user
    and this process is not root. Raises it too if the directory is, or may be, a copy of the one that its executions
    were on. Raises it also if an unfinished execution has no document in any quarantine, or if the pointer file is
    unusable. Raises `StorageError` if the directory cannot be opened or locked, or a quarantine cannot be read.
    """
    fs = FileSystem(root)
    try:
        with BrokerLock(fs):
            runs = Runs(root, keeping.quarantine, moved=keeping.moved)
            note = refuse_copy(runs)
            refuse_missing(runs)
            yield Transaction(fs, runs, note)
    finally:
        fs.close()
