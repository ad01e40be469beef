"""Where removed bytes are kept: `<log directory>.recovery/<run>/`, or where the operator says.

Never inside a log directory, this one or another: a broker does not start beside a directory that it does not know.  A
quarantine elsewhere is found again through a small file in the log directory (`log.disk.pointer`), which also names the
runs that are at work: without that a run that was cut short is not taken for this directory's, wherever it lies.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from kafkalog.classes import dataclass
from kafkalog.codec.common.advice import Advice, Ask
from kafkalog.codec.errors import FormatError, LimitExceeded, RecoveryRefused, StorageError
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
"""names of a run's document; where a power cut has left two, the one that counts comes first"""
_ENDED = (PURGING, UNDONE, SUPERSEDED)
_AT_WORK = (JOURNAL, UNDOING)
_OTHER_PLACE = (Advice("name another place with {}", Ask.QUARANTINE),)
_UNFINISHED = (*_AT_WORK, CLOSING)


def new_run_id() -> str:
    """A name that sorts by time where the clock does not step back, to the microsecond."""
    now = datetime.now(UTC)
    return now.strftime("%Y%m%dT%H%M%S.%fZ") + "-" + secrets.token_hex(4)


def _is_inside(path: str, directory: str) -> bool:
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(directory), ""))


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run that a quarantine holds: its journal, and the name of the document it was read from."""

    place: str
    journal: Journal
    name: str

    @property
    def run_id(self) -> str:
        """The run's name."""
        return self.journal.run_id

    @property
    def directory(self) -> str:
        """Where its bytes are."""
        return os.path.join(self.place, self.run_id)

    @property
    def is_foreign(self) -> bool:
        """Whether it was begun on another machine."""
        return self.journal.machine != machine_id()


def run_ids_in(place: str) -> list[str]:
    """Names of runs in a quarantine, in order; none if it is not there."""
    try:
        return sorted(filter(is_run_id, os.listdir(place)))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StorageError.wrap(error, "cannot list the quarantine") from error


def document_of(place: str, run_id: str) -> str | None:
    """The name of a run's document; None if it has none."""
    return next((each for each in DOCUMENTS if os.path.lexists(os.path.join(place, run_id, each))), None)


_Journals = dict[bytes, Journal]
"""digest of a document -> what it says: every run reads those of all runs before it, several times"""


def read_run(place: str, run_id: str, name: str, known: _Journals | None = None) -> KeptRun:
    """A run by its document; raises `FormatError`, `LimitExceeded` or `StorageError` if that cannot be read.

    A document that is `known` is not taken apart again.
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
    """The runs on one log directory, wherever they are kept; `place` is where a new one goes.

    With `moved` somebody vouches that runs in `place` are of this directory, although nothing in it says so.
    """

    def __init__(self, root: str, place: str | None = None, *, moved: bool = False) -> None:
        self.root = os.path.realpath(root)
        beside = self.root + ".recovery"
        self.default = os.path.realpath(beside)
        """where a run goes if nobody says otherwise"""
        self.beside = beside if self.default == beside else None
        """the same, unless a link leads away from there: what is kept elsewhere has to be proven this directory's"""
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
        """Every quarantine in which a run on this directory may be."""
        return self._places

    @property
    def owner(self) -> str | None:
        """The id of the log directory, if it has one yet."""
        return None if self._pointer is None else self._pointer.owner

    @property
    def owner_of_new(self) -> str:
        """The id that a new run gives the directory, or finds there."""
        return self.owner or self._new_owner

    @property
    def at_work(self) -> tuple[str, ...]:
        """The runs that the directory says have begun on it and not ended."""
        return () if self._pointer is None else self._pointer.at_work

    @property
    def place(self) -> str:
        """Where a new run goes: where the caller says, where this machine has kept one before, or beside it."""
        if self._given is not None:
            return self._given
        trusted = [run.place for run in self.all() if not run.is_foreign and run.journal.machine is not None]
        return trusted[-1] if trusted else self.default

    def refuse_place(self) -> None:
        """Raise `RecoveryRefused` if the place for a new run would keep a broker from starting."""
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
        """The quarantine's directory, made if need be."""
        try:
            return FileSystem.create(self.place)
        except StorageError as error:
            raise RecoveryRefused(
                f"the quarantine {self.place} cannot be made ({error.strerror})",
                reason="quarantine",
                advice=_OTHER_PLACE,
            ) from error

    def begin(self, root: FileSystem, run_id: str, place: str) -> None:
        """Leave in the log directory that a run, or its undo, is at work on it: before its journal says so."""
        known = self._pointer or Pointer(self.owner_of_new)
        places = known.places if place in (self.beside, *known.places) else (*known.places, place)
        unfinished = {run.run_id for run in self.unfinished()}
        at_work = (*(each for each in known.at_work if each in unfinished and each != run_id), run_id)
        self._leave(root, Pointer(known.owner, places, at_work))

    def end(self, root: FileSystem, run_id: str, *, stands: bool) -> None:
        """The directory names the run no more; the pointer goes if nothing is left to which it leads."""
        self._clear(root)
        if self._pointer is None:
            return
        at_work = tuple(each for each in self._pointer.at_work if each != run_id)
        left = [run for run in self.all() if stands or run.run_id != run_id]
        is_needed = at_work or any(run.journal.owner == self.owner and not run.journal.is_beside for run in left)
        self._leave(root, Pointer(self._pointer.owner, self._pointer.places, at_work) if is_needed else None)

    def tidy(self, root: FileSystem) -> None:
        """Take from the pointer what a run that has ended left there, because it was stopped at its very end."""
        unfinished = {run.run_id for run in self.all() if run.name in (PREPARING, *_UNFINISHED)}
        for run_id in self.at_work:
            if run_id not in unfinished:
                self.end(root, run_id, stands=True)
        self._clear(root)

    def drop_pointer(self, root: FileSystem) -> None:
        """The directory's runs are gone: it carries no id any more."""
        self._leave(root, None)

    def _leave(self, root: FileSystem, pointer: Pointer | None) -> None:
        """Have this pointer in the log directory, whose own time stays."""
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
        """Remove a pointer that was being written when a run was stopped."""
        if root.status(POINTER_BEFORE) is not None:
            root.remove(POINTER_BEFORE)
            root.sync_directory("")

    def reload(self) -> None:
        """Look at the quarantines again."""
        self._runs = self._found = None

    def knows(self, document: bytes, journal: Journal) -> None:
        """What a document says that this process wrote."""
        self._journals[hashlib.blake2b(document).digest()] = journal

    # -- what is kept ------------------------------------------------------------------------------------------------

    def all(self) -> list[KeptRun]:
        """Every run on this directory that was not undone or set aside, in the order in which they began."""
        if self._runs is None:
            self._runs = _in_order(run for run in self._readable() if self.is_ours(run))
        return self._runs

    def legible(self) -> list[KeptRun]:
        """The runs without those whose document cannot be read."""
        return _in_order(run for run in self._kept() if isinstance(run, KeptRun) and self.is_ours(run))

    def _kept(self) -> list[KeptRun | RecoveryRefused]:
        """Every run in the quarantines that has not ended, or why its document cannot be read."""
        if self._found is None:
            found = [self._read(place, run_id) for place in self._places for run_id in run_ids_in(place)]
            self._found = [each for each in found if each is not None]
        return self._found

    def _readable(self) -> Iterator[KeptRun]:
        """The runs of `_kept`; raises `RecoveryRefused` at one that cannot be read."""
        for each in self._kept():
            if isinstance(each, RecoveryRefused):
                raise each
            yield each

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
        """What has ended: by its place beside the directory, else by the id that both carry.  What has not: only if
        the directory names it, for a backup put in its place does not.
        """
        if run.name in _AT_WORK and run.run_id not in self.at_work:
            return self.moved and self.may_be_ours(run)
        if run.place == self.beside:
            return run.journal.is_beside or run.journal.owner == self.owner
        return run.journal.owner == self.owner or (
            self.may_be_ours(run) and (self.moved or run.name in (CLOSING, PREPARING))
        )

    def may_be_ours(self, run: KeptRun) -> bool:
        """Nothing speaks against it but that nothing speaks for it."""
        return run.journal.owner == self.owner or run.journal.root == self.root

    def strangers(self) -> list[KeptRun]:
        """What began beside this directory or on this path, has not ended, and is not named by what is there now."""
        near = (each for each in self._readable() if each.place == self.beside or each.journal.root == self.root)
        return [run for run in near if run.name in _AT_WORK and not self.is_ours(run)]

    def missing(self) -> list[str]:
        """Runs that the directory names and that are in none of its quarantines."""
        return [run for run in self.at_work if all(document_of(place, run) is None for place in self._places)]

    def unfinished(self) -> list[KeptRun]:
        """Runs, and undos of runs, that began and did not end."""
        return [run for run in self.all() if run.name in _UNFINISHED]

    def is_announced(self, run: KeptRun) -> bool:
        """A run that was stopped before it began had named itself in the log directory, or was about to."""
        is_about_to = bool(run.journal.steps) and os.path.lexists(os.path.join(self.root, POINTER_BEFORE))
        return is_about_to or run.run_id in self.at_work

    def abandoned(self) -> list[KeptRun]:
        """Runs that were stopped while they made copies, before anything but the pointer was changed."""
        return [run for run in self.all() if run.name == PREPARING]

    def next_sequence(self) -> int:
        """The number of a new run: higher than that of every run there is."""
        return 1 + max((run.journal.sequence for run in self.all()), default=0)

    def undoable(self, run_id: str | None = None, concerns: Callable[[KeptRun], bool] | None = None) -> KeptRun:
        """The run of this name, or the latest that `concerns` chooses; `RecoveryRefused` if there is none."""
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
        """Runs that began after this one and stand."""
        return [each for each in self.all() if each.journal.sequence > run.journal.sequence and each.name != PREPARING]

    def _list(self) -> str:
        return " or ".join(self._places)
