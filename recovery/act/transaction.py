"""The one way in which anything in a log directory is changed: opened as its writer, with every rule in its order.

The broker's lock; whose the runs are that were here before; what one of them left half done; then, by the command, its
plan; whether that is still what was agreed to; what it may not do; and only then a journal and the change.  Until
`settle`, `complete`, `act` or `take_back` is called nothing is changed, so that a refusal on the way changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from kafkalog import __version__
from kafkalog.classes import dataclass
from kafkalog.codec.errors import RecoveryRefused
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
)
from kafkalog.recovery.decide.actions import Changes
from kafkalog.recovery.facts.survey import Survey

__all__ = ["Keeping", "Transaction", "transaction"]


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where a run keeps what it removes, and how the runs of a directory are known."""

    quarantine: str | None = None
    """None: beside the log directory, or where it was before"""
    moved: bool = False
    """the directory is the one that its runs were on, although that cannot be seen"""


_BESIDE = Keeping()


class Transaction:
    """One log directory, locked; made by `transaction`."""

    def __init__(self, fs: FileSystem, runs: Runs, note: str | None) -> None:
        self.fs = fs
        self.runs = runs
        self.note = note
        """a sentence about where the directory was before, if that was elsewhere"""
        self._earlier: Earlier | None = None

    @property
    def root(self) -> str:
        """The log directory."""
        return self.fs.root

    @property
    def earlier(self) -> Earlier:
        """What runs have left that were cut short; compared with what is there, and nothing is changed."""
        if self._earlier is None:
            self._earlier = look_at_earlier(self.fs, self.runs)
        return self._earlier

    def refuse_foreign(self, allowed: str | None = None) -> None:
        """Raise `RecoveryRefused` for a run that another machine has not ended, but the one that is allowed."""
        refuse_foreign(self.runs, allowed)

    def refuse_unfinished(self) -> None:
        """Raise `RecoveryRefused` where a run was cut short: only `recover` completes one, only `undo` reverses it."""
        self.refuse_foreign()
        for run, _located in self.earlier.fitting:
            raise RecoveryRefused(
                f"run {run.run_id} was cut short; nothing was changed",
                reason="unfinished",
                advice=ends_of(run.run_id),
            )

    def refuse_changed(self, expected: Survey | None, found: Survey) -> None:
        """Raise `RecoveryRefused` where the directory is not what was agreed to."""
        changed = None if expected is None else expected.first_change(found)
        if changed is not None:
            raise RecoveryRefused(f"{changed} changed since the plan was made; make a new one", reason="changed")

    def refuse_place(self, made: Changes) -> None:
        """Raise `RecoveryRefused` if a plan cannot be done, or what it removes not be kept where it would go."""
        if made.actions:
            refuse_place(self.runs, made)

    def settle(self) -> CompletedRuns:
        """Set aside what no longer fits, and remove what a run had copied that was stopped before it began."""
        done = settle(self.fs, self.runs, self.earlier)
        self._earlier = Earlier(self.earlier.fitting)
        return done

    def complete(self, withhold_marker: Callable[[], str | None]) -> CompletedRuns:
        """Bring runs to their end that were cut short; `withhold_marker` as of `act`."""
        return complete(self.fs, self.runs, self.earlier, withhold_marker)

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
        """Do what a plan says, as a run of its own; `still` surveys the directory again.

        `withhold_marker` says before a clean-shutdown marker is written why it would not be true; `drops`: records go
        that could still be read; `lost`: what the plan has counted.  Raises `RecoveryRefused`, with everything as it
        was, if the directory has changed.
        """
        self.settle()
        return act(
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

    def refuse_take_back(self, run_id: str | None, partition: str | None) -> None:
        """Raise what `take_back` would raise; nothing is changed."""
        refuse_take_back(self.fs, self.runs, run_id, partition)

    def take_back(self, run_id: str | None, partition: str | None) -> KeptRun:
        """Undo a run, by default the latest, or the latest that has changed a partition directory."""
        run = take_back(self.fs, self.runs, run_id, partition)
        self.runs.reload()
        return run


@contextmanager
def transaction(root: str, keeping: Keeping = _BESIDE) -> Iterator[Transaction]:
    """Open a log directory as its writer; `RecoveryRefused` if it is in use, or not the one that its runs were on."""
    fs = FileSystem(root)
    try:
        with BrokerLock(fs):
            runs = Runs(root, keeping.quarantine, moved=keeping.moved)
            note = refuse_copy(runs)
            refuse_missing(runs)
            yield Transaction(fs, runs, note)
    finally:
        fs.close()

