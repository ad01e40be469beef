"""Prepare an execution (one journaled, undoable change of a log directory): copy and flush everything that it or its
undo will need, then write the journal.

Nothing in the log directory is changed until the journal has its final name. If preparing is interrupted before that,
no execution has begun.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.codec.names import LOCK_FILE, READ_BY_A_BROKER, FileKind
from kafkalog.log.disk.pointer import POINTER, POINTER_BEFORE
from kafkalog.log.storage.content import Content, ContentSource
from kafkalog.recovery.act.digest import Piece, digest_of_zeros, solid_blocks
from kafkalog.recovery.act.fs import PIECE, Attributes, Owner
from kafkalog.recovery.act.journal import JOURNAL, PREPARING, Bystander, EntryKind, FileState, Journal, Step
from kafkalog.recovery.act.operations import FILES, STAGED, Disks, owner_of_new, tail_of
from kafkalog.recovery.act.states import Place
from kafkalog.recovery.decide.actions import ActionKind, RecoveryAction
from kafkalog.recovery.facts.survey import Survey

__all__ = ["Announcing", "finish_document", "prepare", "write_document"]

Announcing = tuple[Callable[[], None], Callable[[], None]]
"""Functions that name the execution in the log directory, and that undo this."""

_OWN = frozenset({LOCK_FILE, POINTER, POINTER_BEFORE})


def write_document(disks: Disks, journal: Journal, name: str) -> bytes:
    """Write a journal as file `name` in the execution's directory in the quarantine; return its bytes. It is written
    and flushed as `name` + `.new` first and then renamed, so an existing file is replaced atomically. Raises
    `StorageError` if it cannot be written.
    """
    data = journal.encode()
    path, new = f"{disks.run_id}/{name}", f"{disks.run_id}/{name}.new"
    disks.quarantine.remove(new)
    disks.quarantine.write_new(new, _pieces(data), len(data))
    disks.quarantine.rename(new, path)
    disks.quarantine.sync_directory(disks.run_id)
    return data


def finish_document(disks: Disks, old: str, new: str) -> None:
    """Rename the journal's document, whose name says how far the execution is, durably."""
    disks.quarantine.rename(f"{disks.run_id}/{old}", f"{disks.run_id}/{new}")
    disks.quarantine.sync_directory(disks.run_id)


def prepare(
    disks: Disks,
    empty: Journal,
    actions: Sequence[RecoveryAction],
    seen: Survey,
    refuse_changed: Callable[[], None],
    announcing: Announcing,
    on_step: Callable[[], None] = lambda: None,
) -> tuple[Journal, bytes]:
    """Save the bytes that will be removed, stage new ones in the quarantine, and write the journal; return the journal
    and the bytes of its document. Files that will be removed are only copied if the quarantine is on another file
    system; otherwise they are moved there later. The log directory is changed only by `announcing`. After this the
    execution can be completed or undone.

    If anything fails, the announcement is withdrawn, all copies are removed, and the error is raised: `RecoveryRefused`
    if a file has changed or cannot be saved, else `StorageError`.

    * `empty`: the journal without its steps
    * `seen`: the survey that the actions were planned from
    * `refuse_changed`: called when everything is saved; raises if the directory has changed
    * `announcing`: two functions; one names the execution in the pointer file before its journal is there, the other
      undoes that
    * `on_step`: called after each prepared action
    """
    begin, withdraw = announcing
    disks.quarantine.make_directory(disks.run_id)
    with disks.quarantine.locked_directory(disks.run_id):  # so that nobody takes it for one that was stopped
        try:
            write_document(disks, empty, PREPARING)
            with disks.flushed_together():
                journal = _Preparation(disks, empty, seen).journal(actions, on_step)
            refuse_changed()
            document = write_document(disks, journal, PREPARING)
            begin()
            finish_document(disks, PREPARING, JOURNAL)
        except (Exception, KeyboardInterrupt, SystemExit):
            withdraw()
            disks.quarantine.remove_tree(disks.run_id)
            raise
    return journal, document


class _Preparation:
    """Copies the bytes that an execution will need into the quarantine, and describes its steps for the journal."""

    def __init__(self, disks: Disks, empty: Journal, seen: Survey) -> None:
        self.disks = disks
        self.root = disks.root
        self.quarantine = disks.quarantine
        self.empty = empty
        self.seen = seen
        self.given: set[str] = set()
        """paths that an earlier step creates or removes"""
        self.written: dict[Place, Place] = {}
        """directories of the execution -> a place written in it: each is flushed once, at the end"""

    def journal(self, actions: Sequence[RecoveryAction], on_step: Callable[[], None]) -> Journal:
        steps = []
        for number, action in enumerate(actions):
            steps.append(self.step(number, action))
            self.given.update(path for path in (action.path, action.target) if path is not None)
            on_step()
        self.disks.sync(*self.written.values())
        directories = {path: self.root.mtime(path) for path in self.touched(steps)}
        directories[""] = self.root.mtime_before
        return replace(self.empty, steps=steps, directories=directories, bystanders=self.bystanders(steps, directories))

    def step(self, number: int, action: RecoveryAction) -> Step:
        path = action.path
        match action.kind:
            case ActionKind.RENAME_DIRECTORY:
                if action.target not in self.given:  # else what has the name now goes first
                    self.refuse_target(action.target)
                return Step(kind=action.kind, path=path, target=action.target)
            case ActionKind.REMOVE_DIRECTORY:
                return self.directory(path)
            case ActionKind.MAKE_DIRECTORY:
                self.refuse_target(path)
                return Step(kind=action.kind, path=path)
            case ActionKind.TRUNCATE:
                return self.truncation(path, action.size or 0)
            case ActionKind.RENAME:
                if action.target not in self.given:
                    self.refuse_target(action.target)
                before = None if path in self.given else self.existing(path)
                return Step(kind=action.kind, path=path, target=action.target, before=before)
            case ActionKind.REMOVE:
                before = self.existing(path)
                if not self.empty.same_mount:
                    self.save(path, Place(True, f"{FILES}/{path}"), before)
                return Step(kind=action.kind, path=path, before=before)
            case ActionKind.WRITE:
                return self.writing(number, path, action.content or Content(), action.modified_ms)
        raise AssertionError(action.kind)

    def refuse_target(self, target: str | None) -> None:
        if target is not None and self.root.status(target) is not None:
            raise RecoveryRefused(
                f"{self.root.root}/{target} is in the way of a file that needs this name; move it away",
                reason="changed",
            )

    def existing(self, path: str) -> FileState:
        """Content and attributes of a file of the log directory. Raises `RecoveryRefused` if it has changed."""
        with self.root.open_expected(path, self.disks.facts(Place(False, path))) as file:
            return FileState(file.status.st_size, file.digest(), file.attributes())

    def save(self, path: str, saved: Place, state: FileState) -> None:
        """Copy a file of the log directory to the place `saved` in a quarantine on another file system, with its owner
        if permitted. The copy is written under a temporary name, read back, and renamed. Its directory is added to
        `written` and is flushed later. Raises `RecoveryRefused` if size or digest differ from `state`, or if the file
        belongs to another user and this process is not root. Raises `StorageError` if the file cannot be read or
        written.
        """
        if os.geteuid() not in (0, state.attributes.uid):
            raise RecoveryRefused(
                f"{self.root.root}/{path} belongs to another user, and could not be given back to it from a quarantine "
                "on another file system: recover as root, or name a quarantine on the same file system",
                reason="quarantine",
            )
        self.disks.make_parents(saved)
        _, target = self.disks.at(saved)
        temporary = target + ".new"
        copied = self.quarantine.copy_file(self.root, path, temporary)
        self.quarantine.give(temporary, state.attributes.uid, state.attributes.gid)
        if copied != (state.size, state.digest):
            raise RecoveryRefused(f"{self.root.root}/{path} changed while it was copied", reason="changed")
        self.quarantine.rename(temporary, target)
        self.written[saved.parent] = saved

    def truncation(self, path: str, kept: int) -> Step:
        with self.root.open_expected(path, self.disks.facts(Place(False, path))) as file:
            size = file.status.st_size
            if size < kept:
                raise RecoveryRefused(f"{self.root.root}/{path} changed since the plan was made", reason="changed")
            pieces = (piece for piece in file.read(kept) if any(solid_blocks(*piece)))
            first = next(pieces, None)
            if first is None:  # as the rest of an index is that a broker had reserved: nothing to keep but its length
                digest = digest_of_zeros(size - kept)
            else:
                digest = self.stage(Place(True, tail_of(path, kept)), chain([first], pieces), size - kept, None)
            before = FileState(size, digest, file.attributes())
            crc = file.crc32c(kept)
        return Step(kind=ActionKind.TRUNCATE, path=path, before=before, kept_bytes=kept, kept_crc32c=crc)

    def writing(self, number: int, path: str, content: Content, modified_ms: int | None) -> Step:
        status = self.root.status(path)
        if status is not None and stat.S_ISDIR(status.st_mode) and path not in self.given:
            self.refuse_target(path)
        there = status is not None and path not in self.given
        before = self.existing(path) if there else None
        staged = Place(True, f"{STAGED}/{number}")
        source = ContentSource(content, self.seen.source)
        digest = self.stage(staged, _content(source), source.size, owner_of_new(self.root, path, before))
        modified = None if modified_ms is None else modified_ms * _NS_IN_MS
        if modified is None and before is not None and path.endswith(FileKind.LOG.value):
            modified = before.attributes.mtime_ns  # retention goes by it where timestamps are in the future
        attributes = _NEW if modified is None else replace(_NEW, mtime_ns=modified)
        if modified is not None:
            self.quarantine.set_mtime(self.disks.at(staged)[1], attributes.mtime_ns)
        if not self.empty.same_mount and before is not None:
            self.save(path, Place(True, f"{FILES}/{path}"), before)
        return Step(kind=ActionKind.WRITE, path=path, before=before, after=FileState(source.size, digest, attributes))

    def stage(self, place: Place, pieces: Iterable[Piece], size: int, owner: Owner | None) -> str:
        """Write a file into the execution's directory, flush it and read it back; return its digest."""
        self.disks.make_parents(place)
        self.written[place.parent] = place
        return self.quarantine.save(self.disks.at(place)[1], pieces, size, owner)

    def directory(self, path: str) -> Step:
        """Return the step that removes the directory `path` with everything in it, and describe each entry in it. If
        the quarantine is on another file system, also copy every file there. Raises `RecoveryRefused` if that would
        have to copy something other than a regular file, if `save` refuses a file, or below more than 100 levels.
        Raises `StorageError` if a file cannot be read or copied.
        """
        entries: dict[str, tuple[str, FileState | None]] = {}
        for inside, status in self.root.walk(path):
            name = inside[len(path) + 1 :]
            if stat.S_ISDIR(status.st_mode):
                entries[name] = (EntryKind.DIRECTORY, FileState(0, _NO_DIGEST, self.root.attributes(inside)))
            elif not stat.S_ISREG(status.st_mode):
                if not self.empty.same_mount:
                    raise RecoveryRefused(
                        f"{self.root.root}/{inside} is not a regular file, and the quarantine is on another file "
                        "system: move it away yourself, or name a quarantine on the same file system",
                        reason="quarantine",
                    )
                entries[name] = (EntryKind.OTHER, None)
            elif self.empty.same_mount:
                entries[name] = (EntryKind.FILE, FileState(status.st_size, _NO_DIGEST, self.root.attributes(inside)))
            else:
                state = FileState(status.st_size, self.root.digest(inside), self.root.attributes(inside))
                self.save(inside, Place(True, f"{FILES}/{inside}"), state)
                entries[name] = (EntryKind.FILE, state)
        before = FileState(0, _NO_DIGEST, self.root.attributes(path))
        return Step(kind=ActionKind.REMOVE_DIRECTORY, path=path, before=before, entries=entries)

    # -- what the run relies on and does not touch -------------------------------------------------------------------

    def touched(self, steps: Sequence[Step]) -> list[str]:
        paths = [step.path for step in steps] + [step.target for step in steps if step.target is not None]
        directories = {path.rpartition("/")[0] for path in paths}
        directories |= {step.path for step in steps if step.kind is ActionKind.RENAME_DIRECTORY}
        return sorted(path for path in directories if path and self.root.status(path) is not None)

    def bystanders(self, steps: Sequence[Step], directories: Collection[str]) -> dict[str, Bystander]:
        """Return path -> kind, size and modification time of the entries that the execution relies on but does not
        change. These are the other entries of the touched `directories`, except the log directory (""), as surveyed.
        They are also the files of the log directory that a broker reads, as they are now. Lock and pointer files are
        left out. Raises `StorageError` if a file cannot be examined.
        """
        seen, known = self.seen, {step.path for step in steps} | {step.target for step in steps}

        def is_one(path: str) -> bool:
            directory, _, name = path.rpartition("/")
            return bool(directory) and directory in directories and path not in known and name not in _OWN

        present = {path: Bystander(EntryKind.FILE, facts.size, facts.mtime_ns)
                   for path, facts in seen.files.items() if is_one(path)}  # fmt: skip
        present |= {path: Bystander(EntryKind.DIRECTORY) for path in seen.directories if is_one(path)}
        present |= {path: Bystander(EntryKind.OTHER) for path in (*seen.special, *seen.dangling) if is_one(path)}
        for name in READ_BY_A_BROKER:  # which may not have been readable, and then is not among what was seen
            status = self.root.status(name)
            if status is None or name in known:
                continue
            if stat.S_ISREG(status.st_mode):
                present[name] = Bystander(EntryKind.FILE, status.st_size, status.st_mtime_ns)
            else:
                is_directory = stat.S_ISDIR(status.st_mode)
                present[name] = Bystander(EntryKind.DIRECTORY if is_directory else EntryKind.OTHER)
        return present


_NO_DIGEST = "0" * 64
_NEW = Attributes(mtime_ns=0, mode=0, uid=0, gid=0)
"""attributes of a new file: only a time other than 0 counts"""
_NS_IN_MS = 1_000_000


def _pieces(data: bytes) -> Iterator[Piece]:
    for position in range(0, len(data), PIECE):
        yield position, data[position : position + PIECE]


def _content(source: ContentSource) -> Iterator[Piece]:
    for position in range(0, source.size, PIECE):
        yield position, bytes(source.read(position, PIECE))
