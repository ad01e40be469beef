"""Where removed bytes are kept: `<log directory>.recovery/<run>/`, or where the operator says.

Never inside a log directory: a broker refuses to start beside a directory it does not know.  A quarantine elsewhere is
found again through a small file in the log directory that a broker ignores.
"""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime

from kafkalog.codec.errors import RecoveryRefused, StorageError
from kafkalog.log.files import read_small
from kafkalog.recovery.fs import FileSystem
from kafkalog.recovery.journal import JOURNAL, MANIFEST, UNDOING, Journal

__all__ = ["POINTER", "Runs", "new_run_id"]

POINTER = ".kafkalog-quarantine"
_JOURNAL_LIMIT = 1 << 30


def new_run_id() -> str:
    """A name that sorts by time, to the microsecond."""
    now = datetime.now(UTC)
    return now.strftime("%Y%m%dT%H%M%S.%fZ") + "-" + secrets.token_hex(4)


def _is_inside(path: str, directory: str) -> bool:
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(directory), ""))


class Runs:
    """The runs on one log directory; `place` is the quarantine's directory, which may not exist yet."""

    def __init__(self, root: str, place: str | None = None) -> None:
        self.root = os.path.realpath(root)
        self.default = self.root + ".recovery"
        self.place = os.path.realpath(place) if place is not None else self._remembered() or self.default
        if _is_inside(self.place, self.root):
            raise RecoveryRefused(
                f"the quarantine {self.place} lies inside the log directory, where it would stop a broker; "
                "name one outside with --quarantine",
                reason="quarantine",
            )

    def _remembered(self) -> str | None:
        try:
            return read_small(os.path.join(self.root, POINTER), 1 << 16).decode("utf-8", "surrogateescape").strip()
        except (FileNotFoundError, StorageError):
            return None

    def create(self) -> FileSystem:
        """The quarantine's directory, made if need be."""
        try:
            return FileSystem.create(self.place)
        except StorageError as error:
            raise RecoveryRefused(
                f"the quarantine {self.place} cannot be made ({error.strerror}); name another place with --quarantine",
                reason="quarantine",
            ) from error

    def remember(self, root: FileSystem) -> None:
        """Leave the pointer in the log directory if the quarantine is not where it is looked for."""
        if self.place != self.default and self._remembered() != self.place:
            root.remove(POINTER)
            root.write_new(POINTER, [self.place.encode("utf-8", "surrogateescape") + b"\n"])
            root.sync_directory("")

    def _read(self, run_id: str, name: str) -> Journal:
        path = os.path.join(self.place, run_id, name)
        return Journal.decode(read_small(path, _JOURNAL_LIMIT), path)

    def _with(self, *names: str) -> list[tuple[str, str]]:
        try:
            runs = sorted(os.listdir(self.place))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageError.wrap(error, "cannot list the quarantine") from error
        found = [(run, name) for run in runs for name in names if os.path.isfile(os.path.join(self.place, run, name))]
        return [(run, name) for run, name in found if self._read(run, name).root == self.root]

    def unfinished(self) -> list[tuple[Journal, str]]:
        """Runs, and undos of runs, that began and did not end, with their journal's file name."""
        return [(self._read(run, name), name) for run, name in self._with(JOURNAL, UNDOING)]

    def has_runs(self) -> bool:
        """There is a run that could be undone."""
        return bool(self._with(JOURNAL, MANIFEST, UNDOING))

    def undoable(self, run_id: str | None = None) -> tuple[Journal, str]:
        """The run of this name, or the latest, and its journal's file name; `RecoveryRefused` if there is none."""
        found = [(run, name) for run, name in self._with(JOURNAL, MANIFEST, UNDOING) if run_id is None or run == run_id]
        if not found:
            wanted = "no run" if run_id is None else f"no run {run_id}"
            raise RecoveryRefused(f"{wanted} on {self.root} is kept in {self.place}", reason="no_run")
        run, name = found[-1]
        return self._read(run, name), name
