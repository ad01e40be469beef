"""Read and write the journal of a commit, and the list of committed batches of streams. The journal is written before
the commit changes anything.

An unfinished commit is rolled back by the next one, because whoever does not know that it succeeded will write the rows
again. Only data proven to be from that commit is rolled back. These files may be forged by whoever provides a
directory. So each has a checksum and the inode of the log directory, and one that came with a copied directory is
refused. Names must be those that a commit uses, so that they cannot point elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping

from msgspec import Struct, to_builtins

from kafkalog.codec.common.errors import FormatError, RecoveryRefused, StorageError
from kafkalog.codec.common.limits import MIB
from kafkalog.codec.names import DirectoryState, PartitionName, parse_partition_directory
from kafkalog.log.directories.commits import COMMIT_JOURNAL, log_directory_of
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import read_small

__all__ = [
    "JOB",
    "Journal",
    "Planned",
    "committed_batch",
    "load_journal",
    "name_aside",
    "note_batch",
    "remove_journal",
    "save_journal",
]

JOB = re.compile(r"(stream-.*-)?[0-9a-f]{32}")
"""the name of a job and of its directory"""
_STREAMS = "streams.json"
_VERSION = 3
_MARK = 32
"""Hexadecimal digits in the name of a directory set aside, taken from the end of the job's name."""
_LONGEST_NAME = 255
_LARGEST = 1024 * MIB


class Planned(Struct, frozen=True, kw_only=True):
    """The change of a partition that a commit is going to make."""

    name: str
    start: int | None
    """log end offset before; None if the partition did not exist or is rewritten"""
    leader_epoch: int
    replaced: str | None
    """name given to the previous directory, if it is replaced"""
    staged: tuple[tuple[str, list[tuple[int, int, int]]], ...]
    """files with their extents, in offset order"""
    inode: int | None = None
    """inode of the replaced directory, to tell whether it is in its place"""


class Journal(Struct, frozen=True, kw_only=True):
    """What a commit is going to do, with everything that is needed to roll it back."""

    job: str
    query: str | None
    batch: int | None
    partitions: tuple[Planned, ...]
    done: bool = False
    """whether everything is written, and only replaced directories remain to be removed"""


def name_aside(name: PartitionName, job: str, state: DirectoryState) -> str:
    """Return the new name of a partition directory that a job sets aside.

    During the commit it ends with `-stray`, which no broker removes. Afterwards it ends with `-delete`, as in
    `LogManager.asyncDelete`, so that a broker would go on deleting it. The topic is shortened if the name would be too
    long for a file system.
    """
    suffix = f"-{name.partition}.{job[-_MARK:]}-{state.value}"
    return name.topic[: _LONGEST_NAME - len(suffix)] + suffix


def _read(work: str, name: str) -> dict[str, object] | None:
    """Return the content of the JSON file `name` in the work directory, without its checksum, version and directory,
    which are checked; None if it does not exist. Raises `FormatError` if the content is invalid or too large. Raises
    `RecoveryRefused` if it is about another directory, as in a copy. Raises `StorageError` if it cannot be read.
    """
    path = os.path.join(work, name)
    try:
        data = read_small(path, _LARGEST)
    except FileNotFoundError:
        return None
    try:
        content: dict[str, object] = json.loads(data)
    except (ValueError, RecursionError):
        raise FormatError(
            "not the JSON that a commit writes; move it away if you know what it was", source=path
        ) from None
    try:
        checksum = content.pop("checksum")
        if content.pop("version") != _VERSION:
            raise ValueError
        is_whole = checksum == _checksum(content)
        directory = content.pop("directory")
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise FormatError(
            "not the journal of a commit of this version of kafkalog; move it away if you know what it was", source=path
        ) from None
    if not is_whole:
        raise FormatError("its checksum is wrong; move it away if you know what it was", source=path)
    if directory != _inode(work):
        root = log_directory_of(work)
        raise RecoveryRefused(
            f"{path} is of a commit into another directory than {root}, which is a copy of that, was put in its place, "
            f"or came with the file; nothing is done that it says. To go on with what is in {root}, remove {path}",
            reason="journal",
        )
    return content


def _write(work: str, name: str, content: Mapping[str, object]) -> None:
    """Replace a JSON file in the work directory by `content` with a version, the directory's inode and a checksum. It
    is durable when this returns. Raises `StorageError` if it cannot be written.
    """
    bound = {**content, "directory": _inode(work)}
    whole = {"version": _VERSION, **bound, "checksum": _checksum(bound)}
    fs.replace(os.path.join(work, name), json.dumps(whole).encode())


def _checksum(content: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _inode(work: str) -> int:
    try:
        return os.stat(log_directory_of(work)).st_ino
    except OSError as error:
        raise StorageError.wrap(error, "cannot examine the directory") from error


def _job(value: object) -> str:
    """Return the name of a job, after checking that it is one and no path. Otherwise raise `ValueError`."""
    if not isinstance(value, str) or os.path.basename(value) != value or JOB.fullmatch(value) is None:
        raise ValueError(value)
    return value


def _file(value: object) -> str:
    """Return the path of a staged file, `<job>/<file>`, after checking both names. Raises `ValueError` if it is
    anything else.
    """
    job, _, file = str(value).partition("/")
    if os.path.basename(file) != file or file in ("", ".", ".."):
        raise ValueError(value)
    return os.path.join(_job(job), file)


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value


def _planned(value: dict[str, object], job: str) -> Planned:
    """Return the planned change of a partition from its JSON object in the journal of the job `job`. Raises
    `ValueError`, `TypeError` or `KeyError` if a commit would not have written this object.
    """
    name = parse_partition_directory(str(value["name"]))
    if name is None or str(name) != value["name"] or name.state.value or os.path.basename(str(name)) != str(name):
        raise ValueError(value)
    replaced = value["replaced"]
    if replaced is not None and replaced != name_aside(name, job, DirectoryState.STRAY):
        raise ValueError(value)
    inode = None if value["inode"] is None else _number(value["inode"])
    if replaced is not None and inode is None:
        raise ValueError(value)
    staged = tuple(
        (_file(file), [(_number(position), _number(size), _number(records)) for position, size, records in extents])
        for file, extents in value["staged"]  # type: ignore[attr-defined]
    )
    start = None if value["start"] is None else _number(value["start"])
    epoch = value["leader_epoch"]
    if type(epoch) is not int:
        raise TypeError(value)
    return Planned(
        name=str(name),
        start=start,
        leader_epoch=epoch,
        replaced=None if replaced is None else str(replaced),
        staged=staged,
        inode=inode,
    )


def load_journal(work: str) -> Journal | None:
    """Return the journal in the work directory `work`, of a commit into the log directory that belongs to it; None if
    there is none. If its `done` is True, the commit was complete; only the replaced directories and the journal must
    still be removed.

    Raises `FormatError` if the file was not written by a commit of this version. Raises `RecoveryRefused` if it is
    about another directory. Raises `StorageError` if it cannot be read.
    """
    content = _read(work, COMMIT_JOURNAL)
    if content is None:
        return None
    try:
        job, query, batch = _job(content["job"]), content["query"], content["batch"]
        if not isinstance(query, str | None) or not isinstance(batch, int | None):
            raise TypeError(content)
        partitions = tuple(_planned(item, job) for item in content["partitions"])  # type: ignore[attr-defined]
        return Journal(job=job, query=query, batch=batch, partitions=partitions, done=bool(content["done"]))
    except (KeyError, TypeError, ValueError):
        raise FormatError(
            "not the journal of a commit of this version of kafkalog", source=os.path.join(work, COMMIT_JOURNAL)
        ) from None


def save_journal(work: str, journal: Journal) -> None:
    """Write the journal, in the work directory, which is created if it is missing. It is durable when this returns, so
    that the commit can begin. Raises `StorageError` if it cannot be written.
    """
    fs.make_directory(work, follow=False)
    _write(work, COMMIT_JOURNAL, to_builtins(journal))


def remove_journal(work: str) -> None:
    """Remove the journal of a commit that is finished or rolled back, durably; nothing happens if there is none. Raises
    `StorageError` if it cannot be removed.
    """
    fs.remove(os.path.join(work, COMMIT_JOURNAL))
    fs.sync_directory(work)


def _streams(work: str) -> dict[str, int]:
    content = _read(work, _STREAMS)
    streams = {} if content is None else content.get("streams")
    if not isinstance(streams, dict) or not all(type(number) is int for number in streams.values()):
        raise FormatError("not the list of streams that a commit writes", source=os.path.join(work, _STREAMS))
    return streams


def committed_batch(work: str, query: str) -> int:
    """Return the number of the last committed batch of a stream, given the id of its query; -1 if there is none. Raises
    `FormatError` if the list of streams was not written by this version. Raises `RecoveryRefused` if it is about
    another directory. Raises `StorageError` if it cannot be read.
    """
    return _streams(work).get(query, -1)


def note_batch(work: str, query: str, batch: int) -> None:
    """Record durably that this batch is the last committed one of a stream; `query` is the id of the stream's query.
    Raises the errors of `committed_batch` (`FormatError`, `RecoveryRefused`, `StorageError`), and `StorageError` if
    writing fails.
    """
    _write(work, _STREAMS, {"streams": {**_streams(work), query: batch}})
