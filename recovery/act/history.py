"""List the executions (journaled, undoable changes) of a log directory, finished or not, with the bytes that each keeps
and whether it can be undone.

Reads only: nothing is created, locked or changed, and documents in a quarantine are not trusted.
"""

from __future__ import annotations

import enum
import os
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct, field

from kafkalog.codec.common.errors import FormatError, LimitExceeded, RecoveryRefused, StorageError, UsageError
from kafkalog.log.directories.directory import is_log_dir, is_partition_dir
from kafkalog.log.disk.files import PathLike, exists
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.journal import (
    CLOSING,
    JOURNAL,
    MANIFEST,
    PREPARING,
    PURGING,
    SUPERSEDED,
    UNDOING,
    UNDONE,
    FileState,
    LossOfRun,
    Step,
)
from kafkalog.recovery.act.quarantine import KeptRun, Runs, document_of, read_run, run_ids_in
from kafkalog.recovery.act.quick_undo_check import why_not_undoable
from kafkalog.recovery.decide.actions import ActionKind

__all__ = ["RunInfo", "RunOriginal", "RunState", "list_runs", "root_of_runs", "runs", "runs_of_each"]

_TIME = "%Y%m%dT%H%M%S.%fZ"


class RunState(enum.StrEnum):
    """Progress of an execution."""

    FINISHED = "finished"
    CUT_SHORT = "cut short"
    """it began and did not end; `recover` completes it, `undo` reverses it"""
    UNDO_CUT_SHORT = "undo cut short"
    """undoing it began and did not end; `recover` or `undo` completes that"""
    UNDONE = "undone"
    SUPERSEDED = "superseded"
    """it was interrupted, and the directory was changed before it could be completed"""
    NOT_BEGUN = "not begun"
    """it was interrupted while files were copied, before anything was changed"""
    HALF_PURGED = "half purged"
    """removing what it keeps was interrupted; it cannot be undone, only purged"""
    UNREADABLE = "unreadable"
    """its document cannot be read, or was not written by kafkalog"""


_STATES = {
    MANIFEST: RunState.FINISHED,
    JOURNAL: RunState.CUT_SHORT,
    UNDOING: RunState.UNDO_CUT_SHORT,
    CLOSING: RunState.UNDO_CUT_SHORT,
    UNDONE: RunState.UNDONE,
    SUPERSEDED: RunState.SUPERSEDED,
    PREPARING: RunState.NOT_BEGUN,
    PURGING: RunState.HALF_PURGED,
}


class RunOriginal(Struct, frozen=True):
    """Bytes of the log directory that exist nowhere but in a run."""

    path: str
    """relative to the log directory"""
    bytes: int
    """number of bytes"""
    start: int | None = None
    """byte at which the removed tail began; null for a whole file or directory"""


class RunInfo(Struct, frozen=True, kw_only=True):
    """One execution in a quarantine."""

    run_id: str
    directory: str
    """directory with its document and the bytes it keeps"""
    state: RunState
    began: str
    """start time from its id: UTC, ISO 8601; empty if the id has no valid time"""
    mode: str | None = None
    """mode of `recover`, or name of another job; None if it cannot be read"""
    machine: str | None = None
    """fingerprint of the machine that began it (`recovery.act.machine_id`); None if unknown"""
    is_foreign: bool = False
    """whether another machine began it"""
    owner: str | None = None
    """id of the log directory, as several may share a quarantine"""
    recorded_root: str | None = None
    """path of the log directory at that time"""
    tool_version: str | None = None
    steps: Mapping[str, int] = field(default_factory=dict)
    """number of steps by kind of action"""
    originals: tuple[RunOriginal, ...] = ()
    """files and directories that it removed or replaced, and keeps"""
    files: int = 0
    """number of regular files that it keeps, without its documents"""
    allocated_bytes: int = 0
    """bytes on disk of everything that it keeps, documents included"""
    undoable: bool = False
    """whether nothing is known to prevent undoing it; `undo` compares every byte first"""
    why_not: str | None = None
    """why it cannot be undone, or what is wrong with it"""
    lost: tuple[LossOfRun, ...] | None = None
    """records that it lost by partition; None if they were not counted"""
    is_others: bool = False
    """whether it lies beside the log directory but has the id of another one"""

    @property
    def is_unfinished(self) -> bool:
        """Whether the execution, or its undo, was interrupted."""
        return self.state in (RunState.CUT_SHORT, RunState.UNDO_CUT_SHORT)


def root_of_runs(path: PathLike) -> str:
    """Return the real path of the log directory for `path`: `path` itself, or its parent if it is a partition
    directory. Any other directory is returned only if executions are recorded in one of its quarantines.

    Raises `UsageError` if `path` does not exist or is none of these. Raises `StorageError` if it or a quarantine cannot
    be listed. Raises `RecoveryRefused` if the pointer file, which is read only in the last case, is invalid.
    """
    given = os.fspath(path)
    if not os.path.isdir(given):
        raise UsageError(f"{given} is not a directory" if exists(given) else f"{given} does not exist")
    root = os.path.realpath(given)
    if is_log_dir(root):
        return root
    if is_partition_dir(root):
        return os.path.dirname(root)
    if not any(run_ids_in(place) for place in Runs(root).places):
        raise UsageError(f"{given} is not a Kafka log directory, and no recovery has left anything beside it")
    return root


def runs(path: PathLike, *, quarantine: PathLike | None = None) -> tuple[RunInfo, ...]:
    """Return every execution on a log directory, in the order in which they began; unreadable ones come last. Reads
    only.

    Looks beside the log directory, at the places in its pointer file, and in `quarantine`. A quick check decides
    whether an execution can be undone. Raises `UsageError` for a path that is not a log directory. Raises
    `RecoveryRefused` for a pointer file that kafkalog did not write. Raises `StorageError` if a quarantine cannot be
    listed.

    * `path`: the log directory
    """
    return list_runs(Runs(root_of_runs(path), None if quarantine is None else os.fspath(quarantine)))


def runs_of_each(
    paths: Sequence[PathLike], run_ids: Sequence[str], quarantine: PathLike | None = None
) -> dict[PathLike, tuple[str, ...]]:
    """Assign executions to log directories. Return a dict: path -> those ids of `run_ids` that are kept for it, in
    their order and without duplicates. Paths without an id are left out. An id that is kept for several paths is
    assigned to each of them. An unknown id is assigned to the first path; later work then reports it as missing.

    Reads the quarantines of every path, and `quarantine` as an additional one. Raises `UsageError` if a path is not a
    log directory. Raises `RecoveryRefused` if its pointer file is invalid. Raises `StorageError` if a quarantine cannot
    be listed.
    """
    there = {path: {run.run_id for run in runs(path, quarantine=quarantine)} for path in paths}
    assigned: dict[PathLike, tuple[str, ...]] = {}
    for run_id in dict.fromkeys(run_ids):
        holders = [path for path, known in there.items() if run_id in known] or list(paths[:1])
        for path in holders:
            assigned[path] = (*assigned.get(path, ()), run_id)
    return assigned


def list_runs(kept: Runs) -> tuple[RunInfo, ...]:
    """Return all executions of a log directory, oldest first. Executions without a readable journal come last, sorted
    by id, because it is unknown to which directory they belong. A readable execution in the quarantine beside the
    directory is always listed; in another quarantine it must have the directory's id or path. Reads the quarantines.
    Raises `StorageError` if a quarantine cannot be listed.
    """
    read: list[KeptRun] = []
    unread: list[RunInfo] = []
    for place in kept.places:
        for run_id in run_ids_in(place):
            run_or_info = _read(kept, place, run_id)
            if isinstance(run_or_info, RunInfo):
                unread.append(run_or_info)
            elif kept.is_ours(run_or_info) or kept.may_be_ours(run_or_info) or place == kept.beside:
                read.append(run_or_info)
    read.sort(key=lambda run: (run.journal.sequence, run.run_id))
    return (*(_info(kept, run) for run in read), *sorted(unread, key=lambda info: info.run_id))


def _read(kept: Runs, place: str, run_id: str) -> KeptRun | RunInfo:
    """Read one execution from its document. If this fails, return a `RunInfo` instead, with the reason in `why_not`.
    Its state is NOT_BEGUN if the execution's directory has no document and no file in a subdirectory. In every other
    case it is UNREADABLE: the document is damaged, only kept files are there, or the directory is missing, cannot be
    read, or is not a directory. No exception is raised for these cases.
    """
    directory = os.path.join(place, run_id)
    files, allocated = 0, 0
    try:
        if not stat.S_ISDIR(os.lstat(directory).st_mode):
            why = "it is not a directory"
        else:
            name = document_of(place, run_id)
            if name is not None:
                return read_run(place, run_id, name)
            files, allocated, unread = _held(place, run_id)
            if not files and unread is None:
                state = RunState.NOT_BEGUN
                return RunInfo(
                    run_id=run_id,
                    directory=directory,
                    state=state,
                    began=_began(run_id),
                    allocated_bytes=allocated,
                    why_not="nothing of it is left",
                )
            why = unread or "it has no journal"
    except (FormatError, LimitExceeded, StorageError, RecoveryRefused, OSError) as error:
        why = str(error)
        files, allocated, _unread = _held(place, run_id)
    if place != kept.beside:
        why += "; it is unknown which log directory it belongs to"
    return RunInfo(
        run_id=run_id,
        directory=directory,
        state=RunState.UNREADABLE,
        began=_began(run_id),
        files=files,
        allocated_bytes=allocated,
        why_not=why,
    )


def _info(kept: Runs, run: KeptRun) -> RunInfo:
    journal = run.journal
    state = _STATES[run.name]
    files, allocated, _unread = _held(run.place, run.run_id)
    why_not = _why_not(kept, run, state)
    has_none = state in (RunState.UNDONE, RunState.NOT_BEGUN, RunState.HALF_PURGED)
    return RunInfo(
        run_id=run.run_id,
        directory=run.directory,
        state=state,
        began=_began(run.run_id),
        mode=journal.mode,
        machine=journal.machine,
        is_foreign=run.is_foreign,
        owner=journal.owner,
        recorded_root=journal.root,
        tool_version=journal.tool_version,
        steps=dict(Counter(str(step.kind) for step in journal.steps)),
        originals=() if has_none else _originals(journal.steps),
        files=files,
        allocated_bytes=allocated,
        undoable=why_not is None,
        why_not=why_not,
        lost=None if journal.lost is None else tuple(journal.lost),
        is_others=not kept.is_ours(run),
    )


def _why_not(kept: Runs, run: KeptRun, state: RunState) -> str | None:
    match state:
        case RunState.UNDONE:
            return "it is undone"
        case RunState.SUPERSEDED:
            return "it was cut short, and the directory was changed before it could be completed"
        case RunState.NOT_BEGUN:
            return "it had changed nothing"
        case RunState.HALF_PURGED:
            return "what it kept is being removed"
        case _:
            if not kept.is_ours(run):
                return _why_not_ours(kept, run)
            return why_not_undoable(kept, run)


def _why_not_ours(kept: Runs, run: KeptRun) -> str:
    if kept.may_be_ours(run) or (run.place == kept.beside and run.journal.is_beside):
        return "this directory does not name it: it was begun on another one, or this is a backup from before it"
    return "it carries the id of another log directory"


def _originals(steps: Sequence[Step]) -> tuple[RunOriginal, ...]:
    """Return the files and directories whose bytes the steps of an execution remove or replace, in the order of the
    steps. For a truncated file these are the bytes from `start` on; for a directory, the bytes of all files in it.
    Steps that create or rename have none.
    """
    originals: list[RunOriginal] = []
    for step in steps:
        match step:
            case Step(kind=ActionKind.TRUNCATE, before=FileState(size=size), kept_bytes=int(kept)):
                originals.append(RunOriginal(step.path, size - kept, kept))
            case Step(kind=ActionKind.REMOVE_DIRECTORY, entries=Mapping() as entries):
                total = sum(state.size for _kind, state in entries.values() if state is not None)
                originals.append(RunOriginal(step.path, total))
            case Step(kind=ActionKind.REMOVE | ActionKind.WRITE, before=FileState(size=size)):
                originals.append(RunOriginal(step.path, size))
    return tuple(originals)


def _held(place: str, run_id: str) -> tuple[int, int, str | None]:
    """Return two numbers and None. The first is the number of regular files in the subdirectories of an execution's
    directory. The second is the bytes on disk of all regular files in the directory, documents included. Links are not
    followed. If something cannot be read, counting stops there: return the numbers so far, and the error as a sentence
    instead of None.
    """
    files = allocated = 0
    unread = None
    try:
        with FileSystem(place) as fs:
            for path, status in fs.walk(run_id):
                if stat.S_ISREG(status.st_mode):
                    allocated += status.st_blocks * 512
                    files += path.count("/") > 1
    except (StorageError, RecoveryRefused) as error:
        unread = str(error)
    return files, allocated, unread


def _began(run_id: str) -> str:
    try:
        moment = datetime.strptime(run_id.partition("-")[0], _TIME).replace(tzinfo=UTC)
    except ValueError:  # a month 13: no run of ours
        return ""
    return moment.isoformat().replace("+00:00", "Z")
