"""Find and manage the quarantine: the directory in which executions (journaled, undoable changes of a log directory)
keep removed bytes, `<log directory>.recovery/<run>/` or one that the user names.

It is never inside a log directory, because a broker does not start beside a directory that it does not know. A
quarantine elsewhere is found through a pointer file in the log directory (`log.disk.pointer`), which also names the
executions in progress. An interrupted execution belongs to this directory only if that file names it, wherever its
quarantine is.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from kafkalog.codec.common.advice import Advice, Ask
from kafkalog.codec.common.errors import FormatError, LimitExceeded, RecoveryRefused, StorageError
from kafkalog.log.directories.directory import log_directory_around
from kafkalog.log.disk.files import NotRegularFileError, read_small
from kafkalog.log.disk.pointer import POINTER, POINTER_BEFORE, Pointer, is_run_id, new_owner, read_pointer
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
    Journal,
)
from kafkalog.recovery.act.machine_id import machine_id

__all__ = [
    "DOCUMENTS",
    "KeptRun",
    "Runs",
    "document_of",
    "new_run_id",
    "read_run",
    "run_ids_in",
]

_JOURNAL_LIMIT = 1 << 28
DOCUMENTS = (PURGING, UNDONE, SUPERSEDED, CLOSING, UNDOING, MANIFEST, JOURNAL, PREPARING)
"""names of an execution's document; if a power failure left two, the earlier one in this order counts"""
_ENDED = (PURGING, UNDONE, SUPERSEDED)
_AT_WORK = (JOURNAL, UNDOING)
_OTHER_PLACE = (Advice("name another place with {}", Ask.QUARANTINE),)
_UNFINISHED = (*_AT_WORK, CLOSING)


def new_run_id() -> str:
    """Return a new id of an execution: UTC time to the microsecond, so that ids sort by time, and a random suffix."""
    now = datetime.now(UTC)
    return now.strftime("%Y%m%dT%H%M%S.%fZ") + "-" + secrets.token_hex(4)


def _is_inside(path: str, directory: str) -> bool:
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(directory), ""))


class KeptRun(Struct, frozen=True):
    """One execution in a quarantine: its journal, and the name of the document that the journal was read from."""

    place: str
    journal: Journal
    name: str

    @property
    def run_id(self) -> str:
        """Id of the execution."""
        return self.journal.run_id

    @property
    def directory(self) -> str:
        """Directory with the bytes that it keeps."""
        return os.path.join(self.place, self.run_id)

    @property
    def is_foreign(self) -> bool:
        """Whether another machine began it."""
        return self.journal.machine != machine_id()


def run_ids_in(place: str) -> list[str]:
    """Return the sorted ids of the executions in the quarantine `place`: the names in it that are valid ids. Empty if
    it is missing or not a directory. Raises `StorageError` if it cannot be listed.
    """
    try:
        return sorted(filter(is_run_id, os.listdir(place)))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StorageError.wrap(error, "cannot list the quarantine") from error


def document_of(place: str, run_id: str) -> str | None:
    """Name of the document of an execution that counts; None if it has none."""
    return next((name for name in DOCUMENTS if os.path.lexists(os.path.join(place, run_id, name))), None)


_Journals = dict[bytes, Journal]
"""digest of a document -> its journal: every execution reads the documents of all executions before it,
several times
"""


def read_run(place: str, run_id: str, name: str, known: _Journals | None = None) -> KeptRun:
    """Read the execution `run_id` in the quarantine `place` from its document `name`. `known` caches journals by the
    digest of their documents: a document in it is not decoded again, a new one is added.

    Raises `StorageError` if the document cannot be read. Raises `LimitExceeded` if it is larger than 256 MiB. Raises
    `FormatError` if it is damaged or names another execution.
    """
    path = os.path.join(place, run_id, name)
    data = read_small(path, _JOURNAL_LIMIT)
    digest, known = hashlib.blake2b(data).digest(), {} if known is None else known
    journal = known.get(digest) or Journal.decode(data, path)
    if journal.run_id != run_id:
        raise FormatError("it belongs to another run", source=path)
    known[digest] = journal
    return KeptRun(place, journal, name)


def _in_order(runs: Iterable[KeptRun]) -> list[KeptRun]:
    return sorted(runs, key=lambda run: (run.journal.sequence, run.run_id))


class Runs:
    """Executions on one log directory, in all its quarantines. New ones go to `place`. The pointer file in the log
    directory has its id, the paths of its quarantines, and the ids of executions in progress. With `moved` the caller
    asserts that executions in `place` are this directory's, although the pointer file does not name them. Creating it
    raises `RecoveryRefused` for an unusable pointer file; methods that read quarantines raise `StorageError` if that
    fails.
    """

    def __init__(self, root: str, place: str | None = None, *, moved: bool = False) -> None:
        self.root = os.path.realpath(root)
        beside = self.root + ".recovery"
        self.default = os.path.realpath(beside)
        """quarantine of a new execution by default"""
        self.beside = beside if self.default == beside else None
        """its path too, or None if a symbolic link leads elsewhere: executions there have to be proven
        this directory's
        """
        self.moved = moved
        self._pointer = read_pointer(self.root)
        remembered = self._pointer.places if self._pointer is not None else ()
        self._given = None if place is None else os.path.realpath(place)
        self._places = list(dict.fromkeys([*([self._given] if self._given else []), *remembered, self.default]))
        self._runs: list[KeptRun] | None = None
        self._found: list[KeptRun | RecoveryRefused] | None = None
        self._journals: _Journals = {}
        self._new_owner = new_owner()

    @property
    def places(self) -> Sequence[str]:
        """Quarantines in which executions on this directory may be; the one that was named comes first."""
        return self._places

    @property
    def owner(self) -> str | None:
        """Id of the log directory; None if it has none yet."""
        return None if self._pointer is None else self._pointer.owner

    @property
    def owner_of_new(self) -> str:
        """Id of the log directory for a new execution: the present one, else a new one."""
        return self.owner or self._new_owner

    @property
    def at_work(self) -> tuple[str, ...]:
        """Ids of executions that the directory names as begun and not ended."""
        return () if self._pointer is None else self._pointer.at_work

    @property
    def place(self) -> str:
        """Quarantine of a new execution: the one that the caller named; else the quarantine of the latest execution
        that this machine began; else the directory beside the log directory.
        """
        if self._given is not None:
            return self._given
        trusted = [run.place for run in self.all() if not run.is_foreign and run.journal.machine is not None]
        return trusted[-1] if trusted else self.default

    def refuse_place(self) -> None:
        """Raise `RecoveryRefused` if the path of the quarantine of a new execution has a line break, or exists and is
        not a directory. Also raise it if the path is or lies inside a log directory, because a broker would not start:
        this one, or another that `log_directory_around` finds. The quarantine need not exist yet. Unless the caller
        named it, raises `RecoveryRefused` too if a document in a quarantine is damaged.
        """
        if os.path.lexists(self.place) and not os.path.isdir(self.place):
            raise RecoveryRefused(
                f"the quarantine {self.place} cannot be created (a file is there)",
                reason="quarantine",
                advice=_OTHER_PLACE,
            )
        if _is_inside(self.place, self.root) or self.place == self.root:
            raise RecoveryRefused(
                f"the quarantine {self.place} is inside the log directory, where it would stop a broker",
                reason="quarantine",
                advice=_OTHER_PLACE,
            )
        other = log_directory_around(self.place)
        if other is not None:
            raise RecoveryRefused(
                f"the quarantine {self.place} is inside the log directory {other}, where it would stop a broker",
                reason="quarantine",
                advice=_OTHER_PLACE,
            )
        if "\n" in self.place or "\r" in self.place:
            raise RecoveryRefused(
                "the quarantine's path contains a line break", reason="quarantine", advice=_OTHER_PLACE
            )

    def create(self) -> FileSystem:
        """Open the quarantine of a new execution; it and missing directories above it are created durably. The caller
        closes the result. Raises `RecoveryRefused` if it cannot be created or opened, or, unless the caller named it,
        if a document in a quarantine is damaged.
        """
        try:
            return FileSystem.create(self.place)
        except StorageError as error:
            raise RecoveryRefused(
                f"the quarantine {self.place} cannot be made ({error.strerror})",
                reason="quarantine",
                advice=_OTHER_PLACE,
            ) from error

    def begin(self, root: FileSystem, run_id: str, place: str) -> None:
        """Add an execution, or its undo, to those in progress in the pointer file of the log directory `root`. The file
        then also names its quarantine `place`, unless it is the one beside the directory. Entries of executions that
        have ended, had changed nothing, or have no document are dropped. Call this before the execution's journal says
        that it is in progress. Raises `StorageError` if the file cannot be written, `RecoveryRefused` if a journal in
        the quarantines is damaged.
        """
        known = self._pointer or Pointer(self.owner_of_new)
        places = known.places if place in (self.beside, *known.places) else (*known.places, place)
        unfinished = {run.run_id for run in self.unfinished()}
        at_work = (
            *(
                unfinished_id
                for unfinished_id in known.at_work
                if unfinished_id in unfinished and unfinished_id != run_id
            ),
            run_id,
        )
        self._leave(root, Pointer(known.owner, places, at_work))

    def end(self, root: FileSystem, run_id: str, *, stands: bool) -> None:
        """Remove an execution from the executions in progress in the pointer file. If the file is no longer needed, it
        is deleted. It is needed as long as an execution is in progress. It is needed too if an execution with this
        directory's id that was not superseded keeps its bytes elsewhere than beside the directory. With `stands` False
        this execution was undone or removed, and does not count.

        A half-written pointer file is removed. Without a pointer file, nothing else is done. Raises `StorageError` if a
        file cannot be read or written, `RecoveryRefused` if a document is damaged.
        """
        self._clear(root)
        if self._pointer is None:
            return
        at_work = tuple(other_id for other_id in self._pointer.at_work if other_id != run_id)
        left = [run for run in self.all() if stands or run.run_id != run_id]
        is_needed = at_work or any(run.journal.owner == self.owner and not run.journal.is_beside for run in left)
        self._leave(root, Pointer(self._pointer.owner, self._pointer.places, at_work) if is_needed else None)

    def tidy(self, root: FileSystem) -> None:
        """Clean up after processes that were killed: remove from the pointer file every execution that has ended or has
        no document any more, as `end` does, and remove a half-written pointer file. Raises `StorageError`, and
        `RecoveryRefused` if a document is damaged.
        """
        unfinished = {run.run_id for run in self.all() if run.name in (PREPARING, *_UNFINISHED)}
        for run_id in self.at_work:
            if run_id not in unfinished:
                self.end(root, run_id, stands=True)
        self._clear(root)

    def drop_pointer(self, root: FileSystem) -> None:
        """Remove the pointer file and with it the directory's id, after its last execution was purged."""
        self._leave(root, None)

    def _leave(self, root: FileSystem, pointer: Pointer | None) -> None:
        """Write the pointer file durably (a new file is renamed to it), or remove it if `pointer` is None. An unchanged
        pointer is not written. A half-written pointer file is removed first. Writing keeps the modification time of the
        log directory, also if the attempt ends with `StorageError` or `KeyboardInterrupt`; either is raised again.
        """
        self._clear(root)
        if pointer == self._pointer:
            return
        time = root.mtime("")
        try:
            if pointer is None:
                root.remove(POINTER)
            else:
                data = pointer.encode()
                root.write_new(POINTER_BEFORE, [(0, data)], len(data))
                root.rename(POINTER_BEFORE, POINTER)
            self._pointer = pointer
            root.set_mtime("", time)
            root.sync_directory("")
        except (StorageError, KeyboardInterrupt):
            self._clear(root)
            root.set_mtime("", time)
            raise

    @staticmethod
    def _clear(root: FileSystem) -> None:
        """Remove a pointer file that an interrupted execution was still writing."""
        if root.status(POINTER_BEFORE) is not None:
            root.remove(POINTER_BEFORE)
            root.sync_directory("")

    def reload(self) -> None:
        """Forget all that was read, so that the quarantines are read again."""
        self._runs = self._found = None

    def knows(self, document: bytes, journal: Journal) -> None:
        """Remember the journal of a document that this process wrote."""
        self._journals[hashlib.blake2b(document).digest()] = journal

    # -- what is kept ------------------------------------------------------------------------------------------------

    def all(self) -> list[KeptRun]:
        """Executions on this directory in the order in which they began, without those that are undone, superseded or
        being purged. Cached until `reload`. Raises `RecoveryRefused` if any document in the quarantines is damaged.
        """
        if self._runs is None:
            self._runs = _in_order(run for run in self._readable() if self.is_ours(run))
        return self._runs

    def legible(self) -> list[KeptRun]:
        """Executions as in `all`, without those whose document is damaged."""
        return _in_order(run for run in self._kept() if isinstance(run, KeptRun) and self.is_ours(run))

    def _kept(self) -> list[KeptRun | RecoveryRefused]:
        """Return the executions of any directory in the quarantines, without those that are undone, superseded or being
        purged. A document that is damaged, too large or no regular file is represented by a `RecoveryRefused`, which is
        not raised. The result is cached until `reload`.
        """
        if self._found is None:
            kept = [self._read(place, run_id) for place in self._places for run_id in run_ids_in(place)]
            self._found = [run_or_refusal for run_or_refusal in kept if run_or_refusal is not None]
        return self._found

    def _readable(self) -> Iterator[KeptRun]:
        """Yield the executions of `_kept`. Raises `RecoveryRefused` at one whose document is damaged."""
        for run in self._kept():
            if isinstance(run, RecoveryRefused):
                raise run
            yield run

    def _read(self, place: str, run_id: str) -> KeptRun | RecoveryRefused | None:
        name = document_of(place, run_id)
        if name is None or name in _ENDED:
            return None
        try:
            return read_run(place, run_id, name, self._journals)
        except (FormatError, LimitExceeded, NotRegularFileError) as error:
            return RecoveryRefused(
                f"{error}; nothing is done while it is there: move {os.path.join(place, run_id)} away to go on "
                "without that run",
                reason="journal",
            )

    def is_ours(self, run: KeptRun) -> bool:
        """Whether an execution belongs to this log directory. Reads no file. The first rule that applies decides:

        * It is in progress (`journal.json`, `undoing.json`), but the pointer file does not name it, as in a restored
          backup. It belongs only with `moved`, and if it has the directory's id or path.
        * It is kept beside the directory. It belongs if it was begun beside it, or has the directory's id.
        * It is kept in another quarantine. It belongs if it has the directory's id. With `moved`, or if the execution
          changed nothing yet or is completely undone, the directory's path is enough.
        """
        if run.name in _AT_WORK and run.run_id not in self.at_work:
            return self.moved and self.may_be_ours(run)
        if run.place == self.beside:
            return run.journal.is_beside or run.journal.owner == self.owner
        return run.journal.owner == self.owner or (
            self.may_be_ours(run) and (self.moved or run.name in (CLOSING, PREPARING))
        )

    def may_be_ours(self, run: KeptRun) -> bool:
        """Whether an execution has the directory's id or its path."""
        return run.journal.owner == self.owner or run.journal.root == self.root

    def strangers(self) -> list[KeptRun]:
        """Unfinished executions that are kept beside this directory or were begun at its path, but belong to another
        directory. Raises `RecoveryRefused` if a document is damaged.
        """
        near = (run for run in self._readable() if run.place == self.beside or run.journal.root == self.root)
        return [run for run in near if run.name in _AT_WORK and not self.is_ours(run)]

    def missing(self) -> list[str]:
        """Ids of executions that the pointer file names as in progress and that have no document in any quarantine."""
        return [run for run in self.at_work if all(document_of(place, run) is None for place in self._places)]

    def unfinished(self) -> list[KeptRun]:
        """Executions, and undos of executions, that began and did not end."""
        return [run for run in self.all() if run.name in _UNFINISHED]

    def is_announced(self, run: KeptRun) -> bool:
        """Whether an execution that was interrupted before its first change is named in the pointer file, or was just
        being added to it.
        """
        is_about_to = bool(run.journal.steps) and os.path.lexists(os.path.join(self.root, POINTER_BEFORE))
        return is_about_to or run.run_id in self.at_work

    def abandoned(self) -> list[KeptRun]:
        """Executions that were interrupted while they copied files: nothing but the pointer file was changed."""
        return [run for run in self.all() if run.name == PREPARING]

    def next_sequence(self) -> int:
        """Sequence number of a new execution: one above the highest, at least 1."""
        return 1 + max((run.journal.sequence for run in self.all()), default=0)

    def undoable(self, run_id: str | None = None, concerns: Callable[[KeptRun], bool] | None = None) -> KeptRun:
        """Return the execution with the id `run_id`. Without an id, return the latest one for which `concerns` returns
        True (None: the latest of all). Executions that are undone, superseded or being purged do not count. Neither do
        executions that were interrupted before they were announced. Raises `RecoveryRefused` if there is none, or if a
        document is damaged.
        """
        candidates = [
            run
            for run in self.all()
            if run_id in (None, run.run_id) and (run.name != PREPARING or self.is_announced(run))
        ]
        if run_id is None and concerns is not None:
            candidates = [run for run in candidates if concerns(run)]
        if not candidates:
            wanted = "no run" if run_id is None else f"no run {run_id}"
            raise RecoveryRefused(f"{wanted} on {self.root} is kept in {self._list()}", reason="no_run")
        return candidates[-1]

    def after(self, run: KeptRun) -> Sequence[KeptRun]:
        """Executions that began after `run`, without those that were only prepared."""
        return [
            later for later in self.all() if later.journal.sequence > run.journal.sequence and later.name != PREPARING
        ]

    def _list(self) -> str:
        return " or ".join(self._places)
