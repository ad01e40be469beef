"""Begin, complete, supersede and undo executions on one log directory (journaled changes that keep removed bytes in a
quarantine directory for undo).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from msgspec import Struct, field

from kafkalog.codec.common.errors import FormatError, RecoveryRefused, StorageError
from kafkalog.log.directories.workers import Workers
from kafkalog.log.disk.pointer import cut_short, ends_of
from kafkalog.recovery.act.apply import Located, locate, roll_back, roll_forward
from kafkalog.recovery.act.belonging import mount_of
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.journal import (
    CLOSING,
    JOURNAL,
    MANIFEST,
    PREPARING,
    SUPERSEDED,
    UNDOING,
    FileState,
    Journal,
    LossOfRun,
)
from kafkalog.recovery.act.machine_id import machine_id
from kafkalog.recovery.act.operations import Disks
from kafkalog.recovery.act.permissions import refuse_without_permission
from kafkalog.recovery.act.preparing import finish_document, prepare
from kafkalog.recovery.act.quarantine import KeptRun, Runs, document_of, new_run_id
from kafkalog.recovery.act.script import describe
from kafkalog.recovery.act.space import refuse_without_room
from kafkalog.recovery.act.states import Unexpected
from kafkalog.recovery.decide.actions import ActionKind, Changes, RecoveryAction, marker_first
from kafkalog.recovery.facts.survey import Survey

__all__ = [
    "CompletedRuns",
    "Done",
    "Earlier",
    "act",
    "complete",
    "look_at_earlier",
    "refuse_foreign",
    "refuse_others_files",
    "refuse_out_of_order",
    "refuse_place",
    "settle",
    "take_back",
    "try_quarantine",
]


class CompletedRuns(Struct, frozen=True, kw_only=True):
    """Results of completing earlier executions that had been interrupted."""

    completed: tuple[str, ...] = ()
    """ids of executions that were completed, or whose interrupted undo was completed"""
    superseded: Mapping[str, str] = field(default_factory=dict)
    """id of each superseded execution -> why: the directory was changed since, for example by a broker"""
    marker_withheld: str | None = None
    steps: Mapping[str, int] = field(default_factory=dict)
    """id of each completed execution -> number of operations that were left to do or undo"""


class Earlier(Struct, frozen=True):
    """Interrupted executions, compared with the present files."""

    fitting: tuple[tuple[KeptRun, Located], ...] = ()
    """those that can be completed, with how far they came"""
    stale: tuple[tuple[KeptRun, str], ...] = ()
    """those that cannot because the directory was changed since, with the reason as a sentence"""
    abandoned: tuple[tuple[KeptRun, Located | None], ...] = ()
    """those interrupted before they began; None: something has changed since"""


class Done(Struct, frozen=True):
    """A completed execution."""

    run_id: str
    place: str
    marker_withheld: str | None


@contextmanager
def _quarantine_of(run: KeptRun) -> Iterator[FileSystem]:
    fs = FileSystem(run.place)
    try:
        yield fs
    finally:
        fs.close()


def refuse_foreign(runs: Runs, allowed: str | None) -> None:
    """Raise `RecoveryRefused` if another machine began an unfinished execution whose id is not `allowed`, or if a
    document is damaged. Also raise it if `allowed` is given and no unfinished execution has this id. Raises
    `StorageError` if a quarantine cannot be read.
    """
    unfinished = runs.unfinished()
    if allowed is not None and allowed not in [run.run_id for run in unfinished]:
        raise RecoveryRefused(f"there is no unfinished run {allowed} on {runs.root}", reason="no_run")
    for run in unfinished:
        if run.is_foreign and run.run_id != allowed:
            raise RecoveryRefused(
                f"run {run.run_id} in {run.place} was begun on another machine and is not finished; if you do not know "
                f"where it is from, move {run.directory} away",
                reason="foreign",
                advice=ends_of(runs.root, run.run_id, is_foreign=True),
            )


def look_at_earlier(root: FileSystem, runs: Runs) -> Earlier:
    """Compare interrupted executions and undos with the present files. Return which can be completed, which no longer
    fit, and which were interrupted before their first change. An execution counts as one of the last in three cases:
    the pointer file names it; its journal has steps and a half-written pointer file exists; or its journal has no steps
    and this machine began it. Only reads. Raises `RecoveryRefused` if a journal is damaged, `StorageError` if a file
    cannot be read.
    """
    fitting: list[tuple[KeptRun, Located]] = []
    stale: list[tuple[KeptRun, str]] = []
    for run in runs.unfinished():
        with _quarantine_of(run) as quarantine:
            disks = Disks(root, quarantine, run.run_id)
            try:
                fitting.append((run, _locate(disks, run, to_undo=run.name != JOURNAL)))
            except Unexpected as unexpected:
                stale.append((run, _superseded(disks, run, unexpected)))
    abandoned = [run for run in runs.abandoned() if runs.is_announced(run) or _is_nobodys(run)]
    return Earlier(tuple(fitting), tuple(stale), tuple((run, _as_before(root, run)) for run in abandoned))


def _is_nobodys(run: KeptRun) -> bool:
    """Whether this machine began an execution and it stopped before its copies were complete, so that no pointer file
    names it.
    """
    return not run.journal.steps and not run.is_foreign


def _as_before(root: FileSystem, run: KeptRun) -> Located | None:
    """Compare the present files with the journal of an execution that was interrupted while it was prepared. Return its
    state if no operation is done and no file has changed; else None. In a journal without steps, any file that a broker
    reads at its start counts as changed. Raises `RecoveryRefused` if the journal contradicts itself, `StorageError` if
    a file cannot be read.
    """
    with _quarantine_of(run) as quarantine:
        try:
            located = _locate(Disks(root, quarantine, run.run_id), run, to_undo=True)
        except Unexpected:
            return None
        return None if located.done else located


def settle(root: FileSystem, runs: Runs, earlier: Earlier) -> CompletedRuns:
    """Mark interrupted executions that no longer fit the files as superseded. Remove the copies of executions that had
    changed nothing, unless another process holds their lock. Superseded, removed and ended executions are also removed
    from the pointer file. Executions that can be completed are left unchanged. Return a `CompletedRuns` whose
    `superseded` has the ids of the superseded ones with the reasons. Raises `StorageError` if a file cannot be read or
    written, `RecoveryRefused` if a document is damaged.
    """
    for run, _why in earlier.stale:
        with _quarantine_of(run) as quarantine:
            finish_document(Disks(root, quarantine, run.run_id), run.name, SUPERSEDED)
        runs.reload()
        runs.end(root, run.run_id, stands=True)
    for run, located in earlier.abandoned:
        _discard(root, runs, run, located)
    if earlier.stale or earlier.abandoned:  # else the lock keeps them as they were read
        runs.reload()
    runs.tidy(root)
    return CompletedRuns(superseded={run.run_id: why for run, why in earlier.stale})


def _discard(root: FileSystem, runs: Runs, run: KeptRun, located: Located | None) -> None:
    """Remove the quarantine directory of an execution that was interrupted before its first change, and its entry in
    the pointer file. Does nothing if another process holds the execution's lock, or has begun the execution since. If
    the execution was announced (`Runs.is_announced`) and `located` is given, the log directory gets back its
    modification time from before it. `root.mtime_before` is set to this time. Raises `StorageError` if the quarantine
    directory is missing, or a file cannot be read or changed, and `RecoveryRefused` if a document is damaged.
    """
    with _quarantine_of(run) as quarantine, quarantine.locked_directory(run.run_id) as is_stopped:
        if not is_stopped or document_of(run.place, run.run_id) != PREPARING:
            return
        if runs.is_announced(run) and located is not None:
            roll_back(Disks(root, quarantine, run.run_id), located, run.name, _forgetting(root, runs, run.run_id))
            root.mtime_before = root.mtime("")
        runs.end(root, run.run_id, stands=False)
        quarantine.remove_tree(run.run_id)


def complete(
    root: FileSystem, runs: Runs, earlier: Earlier, withhold_marker: Callable[[], str | None]
) -> CompletedRuns:
    """Settle interrupted executions as `settle` does, then complete the executions and undos in `earlier` that fit the
    present files. `withhold_marker` is called before a clean-shutdown marker is written, and returns why it would be
    untrue, or None. The result has the completed ids with the number of operations that were carried out or undone
    here, and the superseded ids with the reasons. It also says why a marker was withheld: None if none was, the last
    reason if several were.

    Raises `RecoveryRefused` if another process has changed a file: an execution is then rolled back, an undo stays
    unfinished. Raises it too if a document is damaged, and `StorageError` if the disk fails. Executions completed
    before the error stay completed.
    """
    superseded = settle(root, runs, earlier).superseded
    completed: dict[str, int] = {}
    withheld = None
    for run, located in earlier.fitting:
        with _quarantine_of(run) as quarantine:
            disks = Disks(root, quarantine, run.run_id)
            runs.begin(root, run.run_id, run.place)
            if run.name == JOURNAL:
                left = len(located.script.operations) - len(located.done)
                _, why = roll_forward(disks, located, withhold_marker, _forgetting(root, runs, run.run_id))
                runs.end(root, run.run_id, stands=True)
                withheld = why or withheld
            else:
                left = len(located.done)
                roll_back(disks, located, run.name, _forgetting(root, runs, run.run_id))
            completed[run.run_id] = left
    if completed:
        root.mtime_before = root.mtime("")
        runs.reload()
    return CompletedRuns(completed=tuple(completed), superseded=superseded, marker_withheld=withheld, steps=completed)


def _forgetting(root: FileSystem, runs: Runs, run_id: str) -> Callable[[], None]:
    """Return a function that removes an undone execution from the pointer file."""
    return partial(runs.end, root, run_id, stands=False)


def _superseded(disks: Disks, run: KeptRun, unexpected: Unexpected) -> str:
    return (
        f"{disks.full(unexpected.place)} {unexpected.what} since the run was cut short, so it can neither be completed "
        f"nor undone; what it had saved stays in {run.directory}"
    )


def _locate(disks: Disks, run: KeptRun, *, to_undo: bool) -> Located:
    try:
        return locate(disks, run.journal, run.name, to_undo=to_undo)
    except FormatError as error:
        raise RecoveryRefused(
            f"{error}; nothing is done while it is there: move {run.directory} away to continue without that run",
            reason="journal",
        ) from error


def act(
    root: FileSystem,
    runs: Runs,
    made: Changes,
    *,
    still: Callable[[], Survey],
    tool_version: str,
    withhold_marker: Callable[[], str | None],
    workers: Workers | None = None,
    drops: bool = False,
    lost: Sequence[LossOfRun] | None = None,
) -> Done:
    """Carry out a plan as a new execution: save the bytes that it removes in the quarantine, write the journal, then
    change the files. The pointer file names the execution until it ends. Return its id, its quarantine, and why the
    clean-shutdown marker was withheld, or None.

    Raises `RecoveryRefused` if the log directory differs from the plan's survey (its list of files with sizes and
    times) or the quarantine is not usable. The directory is then unchanged, or changed back. Raises `StorageError` if
    the disk fails; if files were being changed, the execution stays unfinished and can be completed or undone.

    * `still`: called once everything is saved; makes a new survey
    * `withhold_marker`: called before a clean-shutdown marker is written; returns why it would be untrue, or None
    * `workers`: shows progress
    * `tool_version`: kafkalog's version, noted in the journal
    * `drops`, `lost`: noted in the journal: whether readable records are removed, and the counted losses
    """
    with _new_quarantine(runs) as quarantine:
        run_id = new_run_id()
        disks = Disks(root, quarantine, run_id, made.survey.files)
        place = runs.place
        empty = Journal(
            run_id=run_id,
            tool_version=tool_version,
            root=root.root,
            mount=mount_of(root.root),
            owner=runs.owner_of_new,
            is_beside=place == runs.beside,
            machine=machine_id(),
            sequence=runs.next_sequence(),
            mode=str(made.mode),
            drops=drops,
            same_mount=root.shares_mount(quarantine),
            directories={"": root.mtime_before},
            lost=lost,
        )
        progress = workers or Workers()
        progress.begin_steps("saving what will be removed", [_bytes_of(made, action) for action in made.actions])
        forgetting = _forgetting(root, runs, run_id)
        journal, document = prepare(
            disks,
            empty,
            marker_first(made.survey, made.actions),
            made.survey,
            lambda: _refuse_changed(made, still()),
            (partial(runs.begin, root, run_id, place), forgetting),
            progress.step_done,
        )
        located = Located(journal=journal, script=describe(journal, run_id), position=0)
        runs.reload()
        runs.knows(document, journal)
        progress.begin_steps("putting the result in place", [1] * len(located.script.operations))
        try:
            _, withheld = roll_forward(disks, located, withhold_marker, forgetting, progress.step_done)
        except StorageError as error:
            error.add_note(str(cut_short(root.root, run_id)))
            raise
        runs.reload()
        runs.end(root, run_id, stands=True)
        return Done(run_id, place, withheld)


def _bytes_of(changes: Changes, action: RecoveryAction) -> int:
    """Return the approximate number of bytes that preparing an action reads and writes, as its weight in the progress.
    For a truncation these are the removed bytes. For a write they are the old and the new bytes. For any other action
    they are the bytes of the present file. A missing file and a directory have 0 bytes.
    """
    facts = changes.survey.files.get(action.path)
    before = 0 if facts is None else facts.size
    match action.kind:
        case ActionKind.TRUNCATE:
            return before - (action.size or 0)
        case ActionKind.WRITE:
            return before + (action.size or 0)
        case _:
            return before


def refuse_place(runs: Runs, made: Changes) -> None:
    """Raise `RecoveryRefused` if a plan cannot be carried out: the quarantine's path is not allowed, or permissions or
    space are missing. Reads only; the quarantine need not exist. Raises `StorageError` if a file system cannot be
    examined.
    """
    runs.refuse_place()
    refuse_without_permission(made)
    refuse_full_place(runs, made)


def refuse_full_place(runs: Runs, made: Changes) -> None:
    """Raise `RecoveryRefused` if there is no space for what a plan keeps and writes. Reads only. Raises `StorageError`
    if a file system cannot be examined.
    """
    with FileSystem.nearest(runs.place) as existing, FileSystem.nearest(made.root) as root:
        refuse_without_room(made, runs.place, same_mount=root.shares_mount(existing))


@contextmanager
def _new_quarantine(runs: Runs) -> Iterator[FileSystem]:
    """Open the quarantine within this context; create it if it is missing. After an exception or `KeyboardInterrupt`,
    the directories that were created are removed again if they are empty. Raises `RecoveryRefused` if it cannot be
    created or a document in a quarantine is damaged, `StorageError` if a quarantine cannot be read.
    """
    missing = FileSystem.missing(runs.place)
    fs = runs.create()
    try:
        yield fs
    except (Exception, KeyboardInterrupt, SystemExit):
        fs.remove_if_empty(missing)
        raise
    finally:
        fs.close()


def try_quarantine(runs: Runs) -> None:
    """Try to make the directory of an execution in the quarantine. It is removed again, like directories above it that
    were created for it; an existing quarantine keeps its modification time. Raises `RecoveryRefused` if the quarantine
    cannot be created, `StorageError` if nothing can be made in it.
    """
    missing, trial = FileSystem.missing(runs.place), new_run_id()
    with runs.create() as quarantine:
        try:
            modified_ns = quarantine.mtime("")
            quarantine.make_directory(trial)
            quarantine.remove_directory(trial)
            quarantine.set_mtime("", modified_ns)
        finally:
            quarantine.remove_if_empty(missing)


def _refuse_changed(changes: Changes, now: Survey) -> None:
    changed = changes.survey.first_change(now)
    if changed is not None:
        raise RecoveryRefused(
            f"{changes.root}/{changed} changed since the plan was made: something else is writing there; stop it, and "
            "plan again",
            reason="changed",
        )


def take_back(root: FileSystem, runs: Runs, run_id: str | None, partition: str | None = None) -> KeptRun:
    """Undo an execution after comparing everything that the undo relies on; return the execution. It is `run_id`; if
    that is None the latest, or the latest that changed `partition`. Raises `RecoveryRefused` before anything is changed
    if there is none or it cannot be undone. Raises `StorageError` if the disk fails; the undo then stays unfinished.
    """
    with _compared(root, runs, run_id, partition) as (run, disks, located):
        runs.begin(root, run.run_id, run.place)
        roll_back(disks, located, run.name, _forgetting(root, runs, run.run_id))
    return run


def refuse_take_back(root: FileSystem, runs: Runs, run_id: str | None, partition: str | None = None) -> None:
    """Raise what `take_back` would raise before its first change; nothing is changed."""
    with _compared(root, runs, run_id, partition):
        pass


@contextmanager
def _compared(
    root: FileSystem, runs: Runs, run_id: str | None, partition: str | None
) -> Iterator[tuple[KeptRun, Disks, Located]]:
    """Open the execution to undo within this context, after comparing everything that undoing relies on. The context's
    value is the execution, its disks (log directory and quarantine), and how far it came. It is the execution `run_id`.
    If `run_id` is None, it is the latest, or with `partition` the latest that changed this partition. Only reads.

    Raises `RecoveryRefused` if there is no such execution. Raises it too if the execution cannot be undone: a file has
    changed, a later execution relies on it, or files would need another owner. If `run_id` is None and the latest is an
    unfinished execution of another machine, that is refused too. Raises `StorageError` if a file cannot be read.
    """
    run = runs.undoable(run_id, None if partition is None else lambda kept_run: _concerns(kept_run, partition))
    refuse_others_files(run)
    if run.is_foreign and run.name != MANIFEST and run_id is None:
        refuse_foreign(runs, None)
    refuse_out_of_order(runs, run)
    with _quarantine_of(run) as quarantine:
        disks = Disks(root, quarantine, run.run_id)
        try:
            located = _locate(disks, run, to_undo=True)
        except Unexpected as unexpected:
            raise RecoveryRefused(_why_not(disks, run, unexpected), reason="changed") from None
        yield run, disks, located


def _concerns(run: KeptRun, partition: str) -> bool:
    return any(partition == path or path.startswith(partition + "/") for path in _touched(run))


def refuse_out_of_order(runs: Runs, run: KeptRun) -> None:
    """Raise `RecoveryRefused` if a later execution touched or relied on a path that this execution touched: the later
    one must be undone first. If the later one found another size or content than this one had left, the directory was
    replaced in between, and the message says so. Reads the documents of later executions, but no other files. Raises
    `RecoveryRefused` too if a document is damaged. Raises `StorageError` if a quarantine or a document cannot be read.
    """
    later = next((later_run for later_run in runs.after(run) if _relied_on(later_run) & _touched(run)), None)
    other = None if later is None else _found_otherwise(run, later)
    if later is not None and other is not None:
        raise RecoveryRefused(
            f"run {run.run_id} cannot be undone: run {later.run_id}, which came after it, did not find {other} as it "
            "had left it, so that the directory was replaced in between, as by a backup; nothing was changed",
            reason="changed",
        )
    if later is not None:
        raise RecoveryRefused(
            f"run {run.run_id} cannot be undone before run {later.run_id}, which came after it and relies on what "
            "it left: undo that one first; nothing was changed",
            reason="changed",
        )


def _found_otherwise(run: KeptRun, later: KeptRun) -> str | None:
    """Return the first file, in the order of the steps of `later`, that `later` found otherwise than `run` had left it:
    with another size or content, or there although `run` had removed or renamed it. Return None if there is none. Files
    that `later` did not find or that `run` only renamed to their place are not compared, nor are directories that `run`
    created. If either step is a truncation, only sizes are compared.
    """
    left: dict[str, FileState | int | None] = {}
    for step in run.journal.steps:
        if step.kind is ActionKind.MAKE_DIRECTORY:
            continue
        left[step.path] = step.kept_bytes if step.kind is ActionKind.TRUNCATE else step.after
    for step in later.journal.steps:
        if step.path not in left or step.before is None:
            continue
        state = left[step.path]
        if state is None or (state if isinstance(state, int) else state.size) != step.before.size:
            return step.path
        is_whole = isinstance(state, FileState) and step.kind is not ActionKind.TRUNCATE
        if is_whole and state != step.before and isinstance(state, FileState) and state.digest != step.before.digest:
            return step.path
    return None


def refuse_others_files(run: KeptRun) -> None:
    """Raise `RecoveryRefused` if only root can undo the execution, and this process is not root. This is so if the
    quarantine is on another file system, and the execution removed, replaced or truncated another user's file or
    directory. From there, only root can give files back to another user. Renamed files stay where they are and are only
    renamed back.
    """
    user = os.geteuid()
    for step in run.journal.steps if user and not run.journal.same_mount else ():
        if step.kind in (ActionKind.RENAME, ActionKind.RENAME_DIRECTORY):
            continue
        inside = {f"{step.path}/{name}": state for name, (_kind, state) in (step.entries or {}).items()}
        for path, state in {step.path: step.before, **inside}.items():
            if state is not None and state.attributes.uid != user:
                raise RecoveryRefused(
                    f"run {run.run_id} cannot be undone by this user: {path} belonged to user "
                    f"{state.attributes.uid}, to whom only root can give it back; nothing was changed",
                    reason="owner",
                )


def _touched(run: KeptRun) -> set[str]:
    steps = run.journal.steps
    return {path for step in steps for path in (step.path, step.target) if path} | (set(run.journal.directories) - {""})


def _relied_on(run: KeptRun) -> set[str]:
    return _touched(run) | set(run.journal.bystanders)


def _why_not(disks: Disks, run: KeptRun, unexpected: Unexpected) -> str:
    where = f"{disks.full(unexpected.place)} {unexpected.what}"
    saved = f"nothing was changed; what the run saved is in {run.directory}"
    if unexpected.place.in_run:
        return f"run {run.run_id} cannot be undone: {where}, which it had saved; {saved}"
    if run.name in (JOURNAL, UNDOING, CLOSING):
        return (
            f"run {run.run_id} was cut short and can no longer be undone: {where} since, perhaps by a broker; "
            f"{saved}; `recover` sets the run aside and examines the directory as it is"
        )
    return f"run {run.run_id} cannot be undone: {where} since; {saved}"
