"""Report the state of a log directory's executions (journaled changes): interrupted ones, whether the latest can be
undone, and whether the broker's lock is held.

For commands that show the directory: it only reads, needs no permission to write, and reports problems instead of
raising them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from kafkalog.codec.common.advice import Advice, Ask, Sentence, in_python, said
from kafkalog.codec.common.errors import RecoveryRefused, StorageError
from kafkalog.log.directories.commits import unfinished_commit
from kafkalog.log.disk.files import PathLike
from kafkalog.log.disk.holders import held_by_us, told_held_by_others
from kafkalog.log.disk.lock import is_held_here
from kafkalog.log.disk.pointer import cut_short
from kafkalog.recovery.act.journal import JOURNAL, MANIFEST
from kafkalog.recovery.act.quarantine import KeptRun, Runs
from kafkalog.recovery.act.quick_undo_check import why_not_undoable

__all__ = ["Standing", "StandingJson", "UnfinishedRun", "sentence_of_stranger", "standing"]


class UnfinishedRun(Struct, frozen=True, kw_only=True):
    """A run, or the undo of one, that began and did not end."""

    run_id: str
    """its name"""
    is_foreign: bool = msgspec.field(name="foreign")
    """another machine began it: it is completed or undone only by name"""
    is_undo: bool = msgspec.field(name="undo")
    """whether it was the undo of the run that was interrupted"""
    root: str = msgspec.field(name="path")
    """the log directory"""

    @property
    def detail(self) -> Sentence:
        """Sentence that describes the unfinished execution, and says what to do."""
        return cut_short(self.root, self.run_id, is_foreign=self.is_foreign, is_undo=self.is_undo)


@dataclass(frozen=True, slots=True)
class Standing:
    """State of a log directory's executions and lock that an operator should know before changing it."""

    unfinished: tuple[UnfinishedRun, ...] = ()
    undoable: str | None = None
    """id of the latest execution, if it has ended and nothing is known to prevent undoing it; else None"""
    locked: bool | None = False
    """whether a broker or a job holds the broker's lock; None if unknown"""
    problem: str | None = None
    """why the executions are unknown; None if they are known"""
    root: str = field(default="", compare=False)
    """the log directory"""
    notes: tuple[str, ...] = ()
    """sentences about interrupted executions on another directory that was here, and about an unfinished commit"""

    def sentences(self, words: Callable[[Advice], str] = in_python) -> list[str]:
        """Return sentences for an operator; empty if there is nothing to say. Their order: the lock, if it is held or
        its state is unknown; each unfinished execution; each note; the execution that can be undone; why the executions
        are unknown. `words` turns an advice into text, such as a command line; by default into a Python expression.
        """
        sentences = []
        if self.locked:
            sentences.append("the broker's lock is held: a broker is running on it, or a recovery")
        elif self.locked is None:
            sentences.append("it is unknown whether a broker is running on it: its lock file cannot be examined")
        sentences += [str(said(run.detail, words)) for run in self.unfinished]
        sentences += self.notes
        if self.undoable is not None:
            undo = Advice("{}", Ask.UNDO, {"root": self.root, "run": self.undoable})
            sentences.append(f"run {self.undoable} can be undone: {words(undo)}")
        if self.problem is not None:
            sentences.append(f"its recoveries are unknown: {self.problem}")
        return sentences


class StandingJson(Struct, frozen=True, kw_only=True):
    """What to know about a log directory before acting on it."""

    unfinished: tuple[UnfinishedRun, ...] = msgspec.field(name="unfinished_runs")
    """runs that were interrupted"""
    undoable: str | None = msgspec.field(name="undoable_run")
    """the latest run, if nothing was found that prevents undoing it; null if there is none"""
    locked: bool | None
    """somebody holds the broker's lock; null if unknown"""
    problem: str | None
    """why the runs are unknown; null otherwise"""


def sentence_of_stranger(run: KeptRun) -> str:
    """Return a sentence about an interrupted execution that the present directory does not name."""
    return (
        f"run {run.run_id} in {run.place} was cut short on another directory that was here, or after this backup of it "
        "was made: it is left as it is, and what it saved stays there"
    )


def standing(root: PathLike, quarantine: PathLike | None = None) -> Standing:
    """Return the state of the log directory `root`: its unfinished executions, the latest one if it can be undone,
    whether the broker's lock is held (None if unknown), and notes. Notes are about an unfinished commit of Spark's
    writer, and about unfinished executions of other directories. As long as an execution is unfinished, none can be
    undone. Looks for executions beside the directory, at the places in its pointer file, and in `quarantine`. Only
    reads.

    If the executions cannot be read, `problem` says why, and no `RecoveryRefused` or `StorageError` is raised.
    """
    path = os.path.realpath(root)
    locked = _locked(path)
    commit = unfinished_commit(path)
    notes = [] if commit is None else [commit]
    try:
        kept = Runs(path, None if quarantine is None else os.fspath(quarantine))
        unfinished = tuple(
            UnfinishedRun(run_id=run.run_id, is_foreign=run.is_foreign, is_undo=run.name != JOURNAL, root=path)
            for run in kept.unfinished()
        )
        notes += map(sentence_of_stranger, kept.strangers())
        ended: list[KeptRun] = [run for run in kept.all() if run.name == MANIFEST]
    except (RecoveryRefused, StorageError) as error:
        return Standing(locked=locked, problem=str(error), notes=tuple(notes))
    latest = ended[-1] if ended and not unfinished else None
    undoable = latest.run_id if latest is not None and why_not_undoable(kept, latest) is None else None
    return Standing(unfinished, undoable, locked, root=path, notes=tuple(notes))


def _locked(root: str) -> bool | None:
    if is_held_here(root) or held_by_us(root):
        return True
    return told_held_by_others(root)
