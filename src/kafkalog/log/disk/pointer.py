"""Read the pointer file of a log directory: a small file with the directory's id, its recoveries that have not ended,
and its quarantines in other places.

A quarantine holds the journals of recoveries and the files that they removed; usually it is beside the directory, as
`NAME.recovery`. A broker ignores the pointer file. Its first line has an id of the log directory, which the journals
have too. Then come the ids of recoveries ("runs") that have begun and not ended. Each recovery has a new id. So a
backup, or another directory that was put in this place, does not contain the id, and does not count as half changed.
The other lines are paths of quarantines that are not beside the directory. The file may come from an untrusted source,
together with the directory, so it is only used to find recoveries: nothing new is written to a path because this file
names it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.advice import Advice, Ask, Sentence
from kafkalog.codec.common.errors import FormatError, LimitExceeded, RecoveryRefused, StorageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.files.text import decode_leader_epochs
from kafkalog.codec.names import DELETED, LEADER_EPOCH_CHECKPOINT, QUARANTINE_POINTER, FileKind
from kafkalog.log.disk.files import FileSource, read_small, status_of
from kafkalog.log.disk.remote import storage_of
from kafkalog.log.disk.remote_file import MissingFileError

__all__ = [
    "CLOSING",
    "JOURNAL",
    "JOURNAL_VERSION",
    "MANIFEST",
    "POINTER",
    "POINTER_BEFORE",
    "UNDOING",
    "LogCut",
    "Pointer",
    "cut_short",
    "ends_of",
    "epoch_before_runs",
    "findings_of_half_done",
    "half_done",
    "is_run_id",
    "logs_cut_by_runs",
    "new_owner",
    "partitions_kept_by_runs",
    "read_pointer",
    "runs_of_other_versions",
]  # fmt: skip

POINTER = QUARANTINE_POINTER
POINTER_BEFORE = POINTER + ".new"
"""name until the file is complete"""
JOURNAL = "journal.json"
UNDOING = "undoing.json"
CLOSING = "closing.json"
MANIFEST = "manifest.json"
JOURNAL_VERSION = 3
"""version of the journals that name their executions in the log directory"""
_BEGUN = (UNDOING, CLOSING, JOURNAL)
"""Documents of an execution that has begun and not ended, or of its undo; there is one at a time."""
_MOST_BYTES = 1 << 16
_VERSION_OF_JOURNAL = re.compile(rb'"version": ([0-9]{1,9})\}')
_LARGEST_JOURNAL = 1 << 28
_FILES = "files"
"""directory in an execution with the files that it removed, under the same names"""
_TAKING = frozenset({"truncate", "remove", "write"})
_TAIL = 256
"""bytes at the end of a journal that contain its version: its keys are sorted"""
_FIRST = re.compile(r"kafkalog-quarantine ([0-9a-f]{32})", re.ASCII)
_AT_WORK = "run "
_IF_UNTOUCHED = ", unless a broker was started since"
"""condition of advice on an interrupted execution: a start changes the files, and then the execution cannot go on"""
_RUN_ID = re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{8}", re.ASCII)


def is_run_id(text: str) -> bool:
    """Whether a text has the form of an execution's id."""
    return _RUN_ID.fullmatch(text) is not None


def new_owner() -> str:
    """Return a new random id for a log directory."""
    return os.urandom(16).hex()


def ends_of(root: str, run_id: str, *, is_foreign: bool = False) -> tuple[Advice, Advice]:
    """Return two pieces of advice about an interrupted execution on the log directory `root`: to complete it, and to
    reverse it. If `is_foreign`, another machine began it, and the advice on completing names the execution.
    """
    complete = Ask.COMPLETE if is_foreign else Ask.RECOVER
    run = {"root": root, "run": run_id}
    return Advice("{} completes it", complete, run), Advice("{} reverses it", Ask.UNDO, run)


def cut_short(root: str, run_id: str, *, is_foreign: bool = False, is_undo: bool = False) -> Sentence:
    """Return a sentence for the user: the recovery of the log directory `root` with the id `run_id` has begun and not
    ended. It has advice how to complete or reverse the recovery. With `is_undo`, the sentence is about an unfinished
    undo of the recovery. With `is_foreign`, it adds that the recovery was begun on another machine.
    """
    where = ", begun on another machine," if is_foreign else ""
    complete, reverse = ends_of(root, run_id, is_foreign=is_foreign)
    if is_undo:
        begin = f"the undo of run {run_id}{where} was cut short: "
        return Sentence(begin, replace(complete, text="{}"), " or ", replace(reverse, text="{} completes it"))
    return Sentence(f"run {run_id}{where} was cut short: ", complete, ", ", reverse, _IF_UNTOUCHED)


class Pointer(Struct, frozen=True):
    """Content of a pointer file: the id of the log directory, paths of quarantines in other places, and ids of
    executions that have not ended.
    """

    owner: str
    places: tuple[str, ...] = ()
    at_work: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """Return the content of the file as bytes."""
        lines = [f"kafkalog-quarantine {self.owner}", *(_AT_WORK + run for run in self.at_work), *self.places]
        return "".join(line + "\n" for line in lines).encode("utf-8", "surrogateescape")


def read_pointer(root: str) -> Pointer | None:
    """Return the content of a log directory's pointer file; None if there is no such file. Raises `RecoveryRefused` if
    the file cannot be read, has more than 64 KiB, or does not have the form that kafkalog writes.
    """
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
    """Return one sentence for each recovery of a log directory, or undo of a recovery, that has begun and not ended.
    First come the ones in the pointer file, in its order, then the ones that other versions of kafkalog began. A
    recovery whose journal is in no quarantine is omitted. The list is empty if the pointer file cannot be read, and for
    an object store, so only commands that change nothing may use it.
    """
    if storage_of(root) is not None:
        return []
    try:
        pointer = read_pointer(root)
    except RecoveryRefused:
        return []
    sentences: list[Sentence] = []
    for run in () if pointer is None else pointer.at_work:
        directories = [os.path.join(place, run) for place in _places(root, pointer)]
        names = [name for name in _BEGUN if any(os.path.lexists(os.path.join(place, name)) for place in directories)]
        if names:
            sentences.append(cut_short(root, run, is_undo=names[0] != JOURNAL))
    return [*sentences, *map(Sentence, runs_of_other_versions(root, pointer))]


def _places(root: str, pointer: Pointer | None) -> tuple[str, ...]:
    """Return the paths of all quarantines that may contain executions on the log directory `root`: first the default
    quarantine beside it, then the quarantines that its pointer file lists.
    """
    return (os.path.realpath(root) + ".recovery", *(() if pointer is None else pointer.places))


def runs_of_other_versions(root: str, pointer: Pointer | None) -> list[str]:
    """Return one sentence for each recovery that another version of kafkalog has begun and not ended. They are in the
    order of the quarantines, sorted by id in each. Earlier versions did not name recoveries in the log directory, so
    the journals in the quarantines are read. A journal that cannot be read, or has no version at its end, counts as one
    of another version. A quarantine that is missing or cannot be listed is skipped.

    `pointer` is the content of the pointer file, or None if there is none.
    """
    sentences = []
    for place in _places(root, pointer):
        try:
            names = sorted(filter(is_run_id, os.listdir(place)))
        except OSError:
            continue
        for run in names:
            for document in (os.path.join(place, run, name) for name in _BEGUN):
                version = _version_of(document)
                if version is not None and version != JOURNAL_VERSION:
                    sentences.append(
                        f"run {run} of another version of kafkalog was cut short and has left {root} half done: "
                        "complete or undo it with that version, or move "
                        f"{os.path.join(place, run)} away to go on with what is there"
                    )
                    break
    return sentences


class LogCut(Struct, frozen=True):
    """Time and last leader epoch of the log of a partition directory when an execution removed a part of it."""

    time_ns: int
    """time of the execution in ns since 1970"""
    leader_epoch: int
    """last leader epoch listed before; -1 if unknown"""


def logs_cut_by_runs(root: str) -> dict[str, LogCut]:
    """Return partition directory name -> latest `LogCut`, for each log from which a completed recovery removed
    something. Quarantines that cannot be listed are ignored, and so are recoveries without a readable manifest, for
    example after an undo. Empty if the pointer file cannot be read. Raises `StorageError` if a manifest cannot be
    examined.
    """
    cuts: dict[str, LogCut] = {}
    for directory, time_ns in _completed(root):
        for path in _logs_taken(os.path.join(directory, MANIFEST)):
            cut = LogCut(time_ns, _epoch_before(directory, path))
            if path not in cuts or cuts[path].time_ns <= cut.time_ns:
                cuts[path] = cut
    return cuts


def partitions_kept_by_runs(root: str, partitions: Iterable[str]) -> tuple[str, ...]:
    """Return those of the directories `partitions` of which a completed recovery of the log directory `root` has moved
    `.deleted` segments away and keeps them, in the given order. Quarantines that cannot be listed are ignored. Empty if
    the pointer file cannot be read. Raises `StorageError` if a manifest cannot be examined.
    """
    runs = [os.path.join(directory, _FILES) for directory, _time_ns in _completed(root)]
    return tuple(name for name in partitions if any(_has_deleted(os.path.join(files, name)) for files in runs))


def _has_deleted(directory: str) -> bool:
    try:
        return any(name.endswith(FileKind.LOG.value + DELETED) for name in os.listdir(directory))
    except OSError:
        return False


def epoch_before_runs(root: str, partition: str) -> int:
    """Return the highest leader epoch in the epoch checkpoints of the directory `partition` that completed recoveries
    of the log directory `root` have replaced and keep; -1 if there is none. Quarantines that cannot be listed are
    ignored. -1 also if the pointer file cannot be read. Raises `StorageError` if a manifest cannot be examined.
    """
    return max((_epoch_before(directory, partition) for directory, _time_ns in _completed(root)), default=-1)


def _completed(root: str) -> Iterator[tuple[str, int]]:
    """Yield the directory of each completed recovery of `root` that a quarantine keeps, and the modification time of
    its manifest in ns since 1970. Quarantines that cannot be listed are skipped. Yield nothing if the pointer file
    cannot be read. Raises `StorageError` if a manifest cannot be examined.
    """
    try:
        pointer = read_pointer(root)
    except RecoveryRefused:
        return
    for place in _places(root, pointer):
        try:
            names = sorted(filter(is_run_id, os.listdir(place)))
        except OSError:
            continue
        for directory in (os.path.join(place, run) for run in names):
            status = status_of(os.path.join(directory, MANIFEST))
            if status is not None:
                yield directory, status.st_mtime_ns


def _epoch_before(run: str, partition: str) -> int:
    try:
        data = read_small(os.path.join(run, _FILES, partition, LEADER_EPOCH_CHECKPOINT), _MOST_BYTES)
        return max((entry.epoch for entry in decode_leader_epochs(data)), default=-1)
    except (StorageError, FormatError, LimitExceeded):
        return -1


def _logs_taken(document: str) -> set[str]:
    """Return the names of the partition directories in which a recovery truncated, removed or rewrote a log file,
    according to its manifest. `document` is the manifest's path. Empty if the manifest cannot be read, is malformed or
    is larger than 256 MiB.
    """
    try:
        steps = json.loads(read_small(document, _LARGEST_JOURNAL))["journal"]["steps"]
        partitions = {
            step["path"].partition("/")[0]
            for step in steps
            if step["kind"] in _TAKING and step["path"].endswith(FileKind.LOG.value)
        }
    except (OSError, LimitExceeded, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()
    return {path for path in partitions if path and path not in (".", "..")}


def _version_of(document: str) -> int | None:
    """Return the version of the journal in the file `document`, read from its last 256 bytes. None if the file does not
    exist; 0 if it cannot be read or has no version there.
    """
    try:
        with FileSource(document) as source:
            tail = source.read(max(source.size - _TAIL, 0), _TAIL)
    except MissingFileError:
        return None
    except StorageError:
        return 0
    versions = _VERSION_OF_JOURNAL.findall(tail)
    return int(versions[-1]) if versions else 0


def findings_of_half_done(root: str) -> list[Finding]:
    """Return a RUN_UNFINISHED finding about the log directory for each sentence of `half_done`."""
    code, severity = FindingCode.RUN_UNFINISHED, Severity.WARNING
    return [Finding(code, severity, None, None, sentence, root) for sentence in half_done(root)]


def _refused(path: str, why: str) -> RecoveryRefused:
    return RecoveryRefused(
        f"{path} does not say where this directory's quarantine is: {why}; remove it to continue without the runs that "
        "it may point to",
        reason="pointer",
    )
