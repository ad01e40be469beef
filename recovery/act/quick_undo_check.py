"""Check quickly whether an execution (a journaled change) could be undone: kinds, sizes and times are compared, and no
file is read.

`undo` compares every byte that it relies on, and may then still refuse.
"""

from __future__ import annotations

import os
import stat

from kafkalog.codec.common.errors import FormatError, RecoveryRefused, StorageError
from kafkalog.recovery.act.apply import Located, refuse_newcomers
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.journal import MANIFEST, EntryKind
from kafkalog.recovery.act.operations import STAGED, Disks
from kafkalog.recovery.act.quarantine import KeptRun, Runs
from kafkalog.recovery.act.runner import refuse_others_files, refuse_out_of_order
from kafkalog.recovery.act.script import describe
from kafkalog.recovery.act.states import (
    A_DIRECTORY,
    ABSENT,
    Cut,
    Place,
    State,
    Tree,
    Uncut,
    Unexpected,
    Untouched,
    Whole,
)

__all__ = ["why_not_undoable"]


def why_not_undoable(runs: Runs, run: KeptRun) -> str | None:
    """Return why `undo` would decline an execution that has ended or was interrupted, as a sentence; None if no reason
    is found. A directory or quarantine that cannot be examined is a reason too, so this raises no `StorageError`. Only
    ended executions are compared with the present files.
    """
    try:
        refuse_others_files(run)
        refuse_out_of_order(runs, run)
        if run.name == MANIFEST:
            with FileSystem(runs.root) as root, FileSystem(run.place) as quarantine:
                _compare(Disks(root, quarantine, run.run_id), run)
    except (RecoveryRefused, StorageError, FormatError) as error:
        return str(error).removesuffix("; nothing was changed")
    except Unexpected as found:
        base = run.directory if found.place.in_run else runs.root
        return f"{os.path.join(base, found.place.path)} {found.what} since"
    return None


def _compare(disks: Disks, run: KeptRun) -> None:
    """Compare the present files with the state that an ended execution left, by kind and size. Files that the execution
    relied on without changing them are also compared by modification time, and a truncated file must have no other hard
    link. Staged files are not compared. Raises `Unexpected` for the first place that differs, and for a new entry in a
    directory that the execution touched. Raises `FormatError` if the journal contradicts itself, `StorageError` if a
    place cannot be examined.
    """
    script = describe(run.journal, os.path.join(run.directory, run.name))
    ended = Located(journal=run.journal, script=script, position=len(script.operations))
    for place in script.timeline.places():
        if place.in_run and place.path.startswith(STAGED + "/"):
            continue  # not needed any more
        status = disks.at(place)[0].status(disks.at(place)[1])
        if not _seems(place, status, ended.state(place)):
            raise Unexpected(place, "is not there" if status is None else "was changed")
    refuse_newcomers(disks, ended)


def _seems(place: Place, status: os.stat_result | None, state: State) -> bool:
    if status is None or state == ABSENT:
        return status is None and state == ABSENT
    kind = _kind(status)
    match state:
        case Untouched(kind=wanted, size=size, mtime_ns=mtime):
            return kind == wanted and (kind != EntryKind.FILE or (status.st_size, status.st_mtime_ns) == (size, mtime))
        case Whole(size=size) | Uncut(size=size):
            return kind == EntryKind.FILE and status.st_size == size
        case Cut(kept=kept):
            return kind == EntryKind.FILE and status.st_size == kept and status.st_nlink == 1
        case Tree():
            return kind == EntryKind.DIRECTORY
        case _:
            return kind == EntryKind.DIRECTORY and state == A_DIRECTORY


def _kind(status: os.stat_result) -> str:
    if stat.S_ISREG(status.st_mode):
        return EntryKind.FILE
    return EntryKind.DIRECTORY if stat.S_ISDIR(status.st_mode) else EntryKind.OTHER
