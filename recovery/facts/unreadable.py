"""Plan around directories that cannot be read: they are left unchanged, and the others are recovered.

These include directories with a link, FIFO, socket or device, which recovery never opens. A log that cannot be read is
noticed only when a plan reads it. Then every topic-partition is planned alone, which finds all unreadable ones at once,
and the rest is planned together. Small files beside the logs are tried before that: a plan does not need them all, but
a broker opens them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    FileKind,
    parse_segment_file,
)
from kafkalog.log.directories.directory import OFFSET_CHECKPOINTS
from kafkalog.log.directories.workers import Workers, groups_of
from kafkalog.log.disk.files import NotRegularFileError, unreadable
from kafkalog.recovery.facts.survey import Survey
from kafkalog.recovery.modes.table import Mode

__all__ = [
    "around_unreadable",
    "findings_of_unreadable",
    "refusal_of_unreadable",
    "sentences_of_unreadable",
    "unpredicted_sentence",
    "unreadable_directories",
    "why_not_predicted",
]

Made = TypeVar("Made")

_OWN_FILES = (META_PROPERTIES, *OFFSET_CHECKPOINTS)
"""Files of the log directory itself that decisions depend on."""

_BESIDE_LOGS = frozenset({LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA})

_WRITTEN = (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT)

_REMEDY = {
    errno.EACCES: "give this user the right to read it",
    errno.EPERM: "give this user the right to read it",
    errno.EIO: "the disk may be failing: copy what can still be read to another one first",
}


def sentences_of_unreadable(survey: Survey) -> dict[str, str]:
    """Return name -> sentence for each unreadable directory: what cannot be read, why, and what to do. Unreadable files
    of the log directory itself are left out.
    """
    return {name: _sentence(survey.root, error) for name, error in survey.unreadable.items() if name not in _OWN_FILES}


def refusal_of_unreadable(survey: Survey, mode: Mode) -> str | None:
    """Return a sentence if recovery must decline because of an unreadable file; None if not. Such a file is a
    checkpoint that recovery would rewrite and could not restore. In mode kafka it can also be `meta.properties`,
    because a broker then opens no log. Missing files are accepted.
    """
    for name in (*_WRITTEN, *([META_PROPERTIES] if mode.spec.is_as_broker else [])):
        error = survey.unreadable.get(name)
        if error is not None:
            remedy = _REMEDY.get(error.errno or 0, "see why it cannot be read")
            why = "recovery would write this file again and could not undo that"
            if name == META_PROPERTIES:
                why = "a broker that cannot read it opens no log, and mode kafka changes nothing then"
            return f"{error}; {why}: {remedy}, and recover again"
    return None


def _sentence(root: str, error: StorageError) -> str:
    remedy = _REMEDY.get(error.errno or 0, "see why it cannot be read")
    if isinstance(error, NotRegularFileError):
        remedy = "put the file itself in its place, or move it out of the log directory"
    is_here = str(error.filename).startswith(f"{root}/")
    state = "nothing in this directory is changed" if is_here else "the copy does not hold this directory"
    return f"{error}; {state}, and nothing in it is counted: {remedy}, and recover again"


def findings_of_unreadable(survey: Survey) -> list[Finding]:
    """Return one finding for each unreadable directory or file; file paths are relative to the log directory."""
    return [
        unreadable(error, name).in_file(_relative(survey.root, name, error))
        for name, error in sorted(survey.unreadable.items())
    ]


def _relative(root: str, directory: str, error: StorageError) -> str:
    """Path, relative to `root`, of the file that the error is about, if it lies in `directory`; else `directory`."""
    file = os.path.relpath(str(error.filename or root), root)
    return file if file.startswith(f"{directory}/") else directory


def around_unreadable(survey: Survey, make: Callable[[Survey, Workers], Made], workers: Workers) -> Made:
    """Return the result of `make(survey, workers)` on a survey without the directories and root files that cannot be
    read; these files count as missing. Directories that are known to be unreadable, or quickly recognized as such, are
    left out before the first call. If `make` raises a `StorageError` about another directory, it is called for each
    topic-partition alone, which finds all unreadable directories. It is then called again without these.

    If one directory of a topic-partition is unreadable, all its directories are left out. Raises `StorageError` if
    something outside the surveyed directories cannot be read.
    """
    own = _own_files(survey)
    survey = survey.without(unreadable_directories(survey))
    survey = survey.without(own)
    while True:
        try:
            return make(survey, workers)
        except StorageError as error:
            name = survey.directory_of(error.filename)
            if name is None:
                raise
            survey = survey.without(_with_companions(survey, {**_unreadable_alone(survey, make, workers), name: error}))


def unreadable_directories(survey: Survey) -> dict[str, StorageError]:
    """Return directory -> error for the directories that cannot be read, as far as that shows without reading a log,
    and the other directories of their topic-partitions.
    """
    return _with_companions(survey, {**_unreadable_beside_logs(survey), **_not_files(survey), **survey.unreadable})


def why_not_predicted(failed: Mapping[str, StorageError]) -> StorageError | None:
    """Return the first error of `failed` (name -> error), by name: a broker's start reads these, and its result is
    unknown if they are not read here. None if there is none.
    """
    return failed[min(failed)] if failed else None


def unpredicted_sentence(error: StorageError) -> str:
    """Sentence that the broker's start cannot be predicted because of the error."""
    file = "" if error.filename is None else f"{os.fspath(error.filename)}: "
    return f"the broker's start cannot be predicted: {file}{error.strerror}"


def _own_files(survey: Survey) -> dict[str, StorageError]:
    """Return name -> error for `meta.properties` and checkpoint files of the log directory that the operating system
    cannot read; each is read. Missing files are skipped. Raises `StorageError` if the error has no errno.
    """
    failed: dict[str, StorageError] = {}
    for name in _OWN_FILES:
        if name in survey.files:
            try:
                survey.source(name).read(0, min(survey.files[name].size, DEFAULT_LIMITS.checkpoint_bytes))
            except StorageError as error:
                if error.errno is None:
                    raise
                failed[name] = error
    return failed


def _not_files(survey: Survey) -> dict[str, StorageError]:
    """Return name -> error for each directory of the survey with an entry that is neither a file nor a directory: a
    FIFO, socket or device, or a link to something that exists. The error names the first such path in sorted order.
    """
    failed: dict[str, StorageError] = {}
    for path, what in sorted(survey.special.items()):
        directory, separator, _name = path.partition("/")
        if separator and directory in survey.directories:
            error = NotRegularFileError(errno.EINVAL, what, os.path.join(survey.root, path))
            failed.setdefault(directory, error)
    return failed


def _unreadable_beside_logs(survey: Survey) -> dict[str, StorageError]:
    """Return directory -> error for directories with a file beside the logs that cannot be opened, or whose first byte
    cannot be read. Such files are indexes, producer snapshots, `leader-epoch-checkpoint` and `partition.metadata`.
    """
    failed: dict[str, StorageError] = {}
    for path, facts in survey.files.items():
        directory, _separator, name = path.partition("/")
        if directory in survey.directories and directory not in failed and _is_opened(name):
            try:
                survey.source(path).read(0, min(facts.size, 1))
            except StorageError as error:
                failed[directory] = error
    return failed


def _is_opened(name: str) -> bool:
    if name in _BESIDE_LOGS:
        return True
    file = parse_segment_file(name)
    return file is not None and file.kind is not FileKind.LOG


def _unreadable_alone(
    survey: Survey, make: Callable[[Survey, Workers], Made], workers: Workers
) -> dict[str, StorageError]:
    """Find the topic-partitions that cannot be read, by calling `make` for each alone. Return the first unreadable
    directory of each -> its error; empty if all can be read. `workers` shows the progress. Raises `StorageError` if an
    error is about no surveyed directory.
    """
    failed: dict[str, StorageError] = {}
    workers.begin("what cannot be read", {path: facts.size for path, facts in survey.files.items()})
    for group in groups_of([path for path in survey.directories if "/" not in path]):
        try:
            make(survey.only(group), Workers())
        except StorageError as error:
            name = survey.directory_of(error.filename)
            if name is None:
                raise
            failed[name] = error
        for directory in group:
            workers.done(directory)
    return failed


def _with_companions(survey: Survey, failed: Mapping[str, StorageError]) -> dict[str, StorageError]:
    """Return `failed` (directory -> error) together with the other directories of their topic-partitions, such as
    future copies, because a broker opens and closes these together. An added directory has the error of its
    topic-partition.
    """
    everything: Iterable[str] = {*failed, *(path for path in survey.directories if "/" not in path)}
    by_group = {
        directory: next(failed[other] for other in group if other in failed)
        for group in groups_of(sorted(everything))
        if any(other in failed for other in group)
        for directory in group
    }
    return {name: failed.get(name, error) for name, error in by_group.items()}
