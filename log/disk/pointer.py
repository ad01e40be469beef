"""The small file in a log directory that says which directory it is, what runs are at work on it, and where they are.

A broker ignores it.  Its first line has an id of the log directory, which the journals of its runs carry too.  Then
come the names of runs that have begun and not ended: each run takes a name of its own, so a backup, or whatever else is
put in the directory's place, does not carry it, and is not taken for what the run had half done.  The other lines are
places of quarantines that are not beside the directory.  Whoever hands us the directory may have written it, so it
only says where to look for runs: nothing new is ever written to a place because this file names it.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace

from kafkalog.classes import dataclass
from kafkalog.codec.advice import Advice, Ask, Sentence
from kafkalog.codec.errors import LimitExceeded, RecoveryRefused, StorageError
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import QUARANTINE_POINTER
from kafkalog.log.disk.files import MissingFileError, read_small

__all__ = [
    "CLOSING",
    "JOURNAL",
    "POINTER",
    "POINTER_BEFORE",
    "UNDOING",
    "Pointer",
    "cut_short",
    "ends_of",
    "findings_of_half_done",
    "half_done",
    "is_run_id",
    "new_owner",
    "read_pointer",
]  # fmt: skip

POINTER = QUARANTINE_POINTER
POINTER_BEFORE = POINTER + ".new"
"""what it is called until it is whole"""
JOURNAL = "journal.json"
UNDOING = "undoing.json"
CLOSING = "closing.json"
_BEGUN = (UNDOING, CLOSING, JOURNAL)
"""documents of a run, one at a time, while it or its undo has begun and not ended"""
_MOST_BYTES = 1 << 16
_FIRST = re.compile(r"kafkalog-quarantine ([0-9a-f]{32})", re.ASCII)
_AT_WORK = "run "
_RUN_ID = re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{8}", re.ASCII)


def is_run_id(text: str) -> bool:
    """Whether a name is one that a run has."""
    return _RUN_ID.fullmatch(text) is not None


def new_owner() -> str:
    """An id for a log directory."""
    return os.urandom(16).hex()


def ends_of(run_id: str, *, is_foreign: bool = False) -> tuple[Advice, Advice]:
    """How a run that was cut short is brought to an end; by its name where another machine began it."""
    complete = Ask.COMPLETE if is_foreign else Ask.RECOVER
    run = {"run": run_id}
    return Advice("{} completes it", complete, run), Advice("{} reverses it", Ask.UNDO, run)


def cut_short(run_id: str, *, is_foreign: bool = False, is_undo: bool = False) -> Sentence:
    """What is said of a run, or the undo of one, that began and did not end."""
    where = ", begun on another machine," if is_foreign else ""
    complete, reverse = ends_of(run_id, is_foreign=is_foreign)
    if is_undo:
        told = f"the undo of run {run_id}{where} was cut short: "
        return Sentence(told, replace(complete, text="{}"), " or ", replace(reverse, text="{} completes it"))
    return Sentence(f"run {run_id}{where} was cut short: ", complete, ", ", reverse)


@dataclass(frozen=True, slots=True)
class Pointer:
    """The id of a log directory, its runs that have not ended, and its quarantines elsewhere."""

    owner: str
    places: tuple[str, ...] = ()
    at_work: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """The file's content."""
        lines = [f"kafkalog-quarantine {self.owner}", *(_AT_WORK + run for run in self.at_work), *self.places]
        return "".join(line + "\n" for line in lines).encode("utf-8", "surrogateescape")


def read_pointer(root: str) -> Pointer | None:
    """The pointer of a log directory, or None; `RecoveryRefused` if it is none that kafkalog wrote."""
    path = os.path.join(root, POINTER)
    try:
        text = read_small(path, _MOST_BYTES).decode("utf-8", "surrogateescape")
    except MissingFileError:
        return None
    except (StorageError, LimitExceeded) as error:
        raise _refused(path, str(error)) from error
    first, *lines = (text.splitlines() if "\0" not in text else []) or [""]
    match = _FIRST.fullmatch(first)
    at_work = [line.removeprefix(_AT_WORK) for line in lines if line.startswith(_AT_WORK)]
    places = [line for line in lines if not line.startswith(_AT_WORK)]
    is_odd = any(not os.path.isabs(place) or os.path.normpath(place) != place for place in places)
    if match is None or is_odd or not all(map(is_run_id, at_work)):
        raise _refused(path, "it does not hold what kafkalog writes there")
    return Pointer(match.group(1), tuple(dict.fromkeys(places)), tuple(dict.fromkeys(at_work)))


def half_done(root: str) -> list[Sentence]:
    """One sentence for each run on a log directory, or undo of one, that began and did not end.

    Only from what lies there, for those that never act; none if unknown.
    """
    try:
        pointer = read_pointer(root)
    except RecoveryRefused:
        return []
    if pointer is None:
        return []
    found = []
    for run in pointer.at_work:
        directories = [os.path.join(place, run) for place in (os.path.realpath(root) + ".recovery", *pointer.places)]
        names = [each for each in _BEGUN if any(os.path.lexists(os.path.join(place, each)) for place in directories)]
        if names:
            found.append(cut_short(run, is_undo=names[0] != JOURNAL))
    return found


def findings_of_half_done(root: str) -> list[Finding]:
    """Half-done changes as findings about the log directory."""
    code, severity = FindingCode.RUN_UNFINISHED, Severity.WARNING
    return [Finding(code, severity, None, None, sentence, root) for sentence in half_done(root)]


def _refused(path: str, why: str) -> RecoveryRefused:
    return RecoveryRefused(
        f"{path} does not say where this directory's quarantine is: {why}; remove it to continue without the runs that "
        "it may point to",
        reason="pointer",
    )
