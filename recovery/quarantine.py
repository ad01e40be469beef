"""Where removed bytes are kept: `<log directory>.recovery/<run>/`, or where the operator says.

Never inside a log directory, this one or another: a broker does not start beside a directory that it does not know.  A
quarantine elsewhere is found again through a small file in the log directory (`recovery.pointer`).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kafkalog.codec.errors import FormatError, LimitExceeded, RecoveryRefused, StorageError
from kafkalog.log.directory import log_directory_around
from kafkalog.log.files import NotRegularFileError, read_small
from kafkalog.recovery.fs import FileSystem
from kafkalog.recovery.journal import (
    JOURNAL,
    MANIFEST,
    PREPARING,
    PURGING,
    SUPERSEDED,
    UNDOING,
    UNDONE,
    Journal,
    is_run_id,
)
from kafkalog.recovery.machine import machine_id
from kafkalog.recovery.pointer import POINTER, POINTER_BEFORE, Pointer, new_owner, read_pointer

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
DOCUMENTS = (PURGING, UNDONE, SUPERSEDED, UNDOING, MANIFEST, JOURNAL, PREPARING)
"""names of a run's document; where a power cut has left two, the one that counts comes first"""
_ENDED = (PURGING, UNDONE, SUPERSEDED)
_UNFINISHED = (JOURNAL, UNDOING)


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
        """Its name."""
        return self.journal.run_id

    @property
    def directory(self) -> str:
        """Where its bytes are."""
        return os.path.join(self.place, self.run_id)

    @property
    def is_foreign(self) -> bool:
        """It was begun on another machine."""
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


def read_run(place: str, run_id: str, name: str) -> KeptRun:
    """A run by its document; raises `FormatError`, `LimitExceeded` or `StorageError` if that cannot be read."""
    path = os.path.join(place, run_id, name)
    journal = Journal.decode(read_small(path, _JOURNAL_LIMIT), path)
    if journal.run_id != run_id:
        raise FormatError("it belongs to another run", source=path)
    return KeptRun(place, journal, name)


class Runs:
    """The runs on one log directory, wherever they are kept; `place` is where a new one goes."""

    def __init__(self, root: str, place: str | None = None) -> None:
        self.root = os.path.realpath(root)
        self.default = self.root + ".recovery"
        self._pointer = read_pointer(self.root)
        remembered = self._pointer.places if self._pointer is not None else ()
        self._given = None if place is None else os.path.realpath(place)
        self._places = list(dict.fromkeys([*([self._given] if self._given else []), *remembered, self.default]))
        self._runs: list[KeptRun] | None = None

    @property
    def places(self) -> Sequence[str]:
        """Every quarantine in which a run on this directory may be."""
        return self._places

    @property
    def owner(self) -> str | None:
        """The id of the log directory, if it has one yet."""
        return None if self._pointer is None else self._pointer.owner

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
                f"the quarantine {self.place} cannot be created (a file is there); name another with --quarantine",
                reason="quarantine",
            )
        if _is_inside(self.place, self.root) or self.place == self.root:
            raise RecoveryRefused(
                f"the quarantine {self.place} is inside the log directory, where it would stop a broker; "
                "name one outside with --quarantine",
                reason="quarantine",
            )
        other = log_directory_around(self.place)
        if other is not None:
            raise RecoveryRefused(
                f"the quarantine {self.place} is inside the log directory {other}, where it would stop a broker; "
                "name another place with --quarantine",
                reason="quarantine",
            )
        if "\n" in self.place or "\r" in self.place:
            raise RecoveryRefused(
                "the quarantine's path contains a line break; choose another one", reason="quarantine"
            )

    def create(self) -> FileSystem:
        """The quarantine's directory, made if need be."""
        try:
            return FileSystem.create(self.place)
        except StorageError as error:
            raise RecoveryRefused(
                f"the quarantine {self.place} cannot be made ({error.strerror}); name another place with --quarantine",
                reason="quarantine",
            ) from error

    def next_pointer(self) -> Pointer | None:
        """The pointer that has to be in the log directory before a run begins; None if none is needed."""
        if self.place == self.default and self._pointer is None:
            return None
        return self._pointer_to(self.place, None)

    def pointer_of(self, run: KeptRun) -> Pointer | None:
        """The pointer that a run which began has left, or should have."""
        if run.place == self.default and self._pointer is None:
            return None
        return self._pointer_to(run.place, run.journal.owner)

    def _pointer_to(self, place: str, owner: str | None) -> Pointer:
        known = self._pointer or Pointer(owner or new_owner(), ())
        return known if place in (self.default, *known.places) else Pointer(known.owner, (*known.places, place))

    def remember(self, root: FileSystem, pointer: Pointer | None) -> None:
        """Leave the pointer in the log directory, if it is not there yet."""
        self._clear(root)
        if pointer is None or pointer == self._pointer:
            return
        data = pointer.encode()
        root.write_new(POINTER_BEFORE, [(0, data)], len(data))
        root.rename(POINTER_BEFORE, POINTER)
        root.sync_directory("")
        self._pointer = pointer

    @staticmethod
    def _clear(root: FileSystem) -> None:
        """Remove a pointer that was being written when a run was stopped."""
        if root.status(POINTER_BEFORE) is not None:
            root.remove(POINTER_BEFORE)
            root.sync_directory("")

    def reload(self) -> None:
        """Look at the quarantines again."""
        self._runs = None

    def forget(self, root: FileSystem, ending: str | None = None) -> None:
        """Remove the pointer if it leads to no run any more, but for the one that is about to end."""
        self._clear(root)
        left = [run for run in self.all() if run.run_id != ending]
        if self._pointer is not None and all(run.place == self.default and run.journal.owner is None for run in left):
            root.remove(POINTER)
            root.sync_directory("")
            self._pointer = None

    # -- what is kept ------------------------------------------------------------------------------------------------

    def all(self) -> list[KeptRun]:
        """Every run on this directory that was not undone or set aside, in the order in which they began."""
        if self._runs is None:
            found = [run for place in self._places for run in self._in(place)]
            self._runs = sorted(found, key=lambda run: (run.journal.sequence, run.run_id))
        return self._runs

    def _in(self, place: str) -> list[KeptRun]:
        runs = [self._read(place, run_id) for run_id in run_ids_in(place)]
        return [run for run in runs if run is not None and self.is_ours(run)]

    def _read(self, place: str, run_id: str) -> KeptRun | None:
        name = document_of(place, run_id)
        if name is None or name in _ENDED:
            return None
        try:
            return read_run(place, run_id, name)
        except (FormatError, LimitExceeded, NotRegularFileError) as error:
            raise RecoveryRefused(
                f"{error}; nothing is done while it is there: move {os.path.join(place, run_id)} away to go on "
                "without that run",
                reason="journal",
            ) from error

    def is_ours(self, run: KeptRun) -> bool:
        """Beside the log directory, whatever it is called by now; elsewhere by the id that both carry, or the path."""
        if run.journal.owner is not None and run.journal.owner == self.owner:
            return True
        if run.place == self.default:
            return run.journal.owner is None
        return run.journal.root == self.root and (self.owner is None or run.journal.owner is None)

    def unfinished(self) -> list[KeptRun]:
        """Runs, and undos of runs, that began and did not end."""
        return [run for run in self.all() if run.name in _UNFINISHED]

    def abandoned(self) -> list[KeptRun]:
        """Runs that were stopped while they made copies, before anything was changed."""
        return [run for run in self.all() if run.name == PREPARING]

    def next_sequence(self) -> int:
        """The number of a new run: higher than that of every run there is."""
        return 1 + max((run.journal.sequence for run in self.all()), default=0)

    def undoable(self, run_id: str | None = None, concerns: Callable[[KeptRun], bool] | None = None) -> KeptRun:
        """The run of this name, or the latest that `concerns` chooses; `RecoveryRefused` if there is none."""
        candidates = [run for run in self.all() if run.name != PREPARING and run_id in (None, run.run_id)]
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
