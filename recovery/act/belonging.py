"""Check whether a log directory is the one that its executions (journaled changes) changed, or a copy of that one with
its id.

A quarantine that is not beside the directory belongs to one directory. Device and inode do not identify it: they change
when a volume is remounted, on NFS, or moved. A copy is recognized by this: at the path that the latest execution
recorded, there still is a directory with the id, and it is another one.
"""

from __future__ import annotations

import enum
import os

from kafkalog.codec.common.advice import Advice, Ask
from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.log.disk.pointer import POINTER, read_pointer
from kafkalog.recovery.act.quarantine import KeptRun, Runs

__all__ = ["mount_of", "refuse_copy", "refuse_missing"]


class _Original(enum.Enum):
    HERE = "this directory"
    ALIVE = "there, and not this one"
    GONE = "there no more"
    UNSEEN = "cannot be looked at from here"


def mount_of(root: str) -> str:
    """Return the mount point of the file system that contains a directory."""
    path = os.path.realpath(root)
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def refuse_copy(runs: Runs) -> str | None:
    """Raise `RecoveryRefused` if this log directory is, or may be, a copy of the one in which its executions ran. One
    execution decides: the latest that has the directory's id and is kept in a quarantine elsewhere, not beside it. Its
    journal names the path of its log directory:

    * There is no such execution (undone and superseded ones do not count), or the path is this directory: return None.
    * Another directory with the same id is at the path: raise.
    * The path cannot be examined, or is missing on another machine or an unmounted file system: raise. With
      `runs.moved`, return a sentence as below instead.
    * Otherwise the directory was moved: return a sentence for the operator about that.

    Damaged documents are ignored. Raises `StorageError` if a quarantine or a document cannot be read.
    """
    elsewhere = [run for run in runs.legible() if run.place != runs.beside and run.journal.owner == runs.owner]
    if not elsewhere:
        return None
    latest = elsewhere[-1]
    recorded = latest.journal.root
    match _original(runs, latest):
        case _Original.HERE:
            return None
        case _Original.ALIVE:
            why = (
                f"{runs.root} is a copy of {recorded}, to which run {latest.run_id} in {latest.place} belongs: what "
                f"it keeps is for {recorded}; nothing was changed"
            )
            if runs.at_work:
                way = f"the run was half done when this was copied: complete or undo it in {recorded}, and copy again"
                raise RecoveryRefused(f"{why}; {way}", reason="copy")
            own = f"remove {os.path.join(runs.root, POINTER)}, which makes this a directory of its own"
            into = f"use {{}}, which works on a copy of its own, or {own}"
            advice = Advice(into, Ask.RECOVER_INTO, {"root": runs.root})
            raise RecoveryRefused(why, reason="copy", advice=[advice])
        case _Original.UNSEEN if not runs.moved:
            raise RecoveryRefused(
                f"run {latest.run_id} in {latest.place} was on {recorded}, which cannot be looked at from here (it is "
                f"not mounted, or was on another machine), so {runs.root} may be a copy of it; nothing was changed",
                reason="moved",
                advice=[Advice("if it is that directory, say so with {}", Ask.MOVED)],
            )
        case _:
            return f"run {latest.run_id} found this directory at {recorded}, which is there no more: it was moved"


def _original(runs: Runs, run: KeptRun) -> _Original:
    recorded = run.journal.root
    if recorded == runs.root:
        return _Original.HERE
    try:
        there = os.stat(recorded)
        if os.path.samestat(there, os.stat(runs.root)):
            return _Original.HERE
        pointer = read_pointer(recorded)
    except (FileNotFoundError, NotADirectoryError):
        is_seen = not run.is_foreign and os.path.ismount(run.journal.mount)
        return _Original.GONE if is_seen else _Original.UNSEEN
    except (OSError, RecoveryRefused):
        return _Original.UNSEEN
    is_same = pointer is not None and pointer.owner == run.journal.owner
    return _Original.ALIVE if is_same else _Original.GONE


def refuse_missing(runs: Runs) -> None:
    """Raise `RecoveryRefused` if the pointer file names an execution in progress that has no document in any of the
    directory's quarantines. A quarantine that cannot be read counts as one without the document.
    """
    for run_id in runs.missing():
        raise RecoveryRefused(
            f"run {run_id} has begun on {runs.root} and not ended, and is not in {' or '.join(runs.places)}, where "
            "what it removed would be; nothing was changed",
            reason="run_missing",
            advice=[
                Advice(
                    "say where it is with {}; if this is a copy, or that is lost, remove "
                    f"{os.path.join(runs.root, POINTER)} to go on with what is here",
                    Ask.QUARANTINE,
                )
            ],
        )
