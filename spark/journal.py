"""What a commit is about to do, on disk before it does it; and which batches of which streams are committed.

A commit that did not reach its end is rolled back by the next one: whoever was not told that rows were written writes
them again.  Only what is provably that commit's is ever rolled back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict

from kafkalog.classes import dataclass
from kafkalog.codec.errors import FormatError
from kafkalog.codec.limits import MIB
from kafkalog.log.directories.commits import COMMIT_JOURNAL
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import read_small

__all__ = ["Journal", "Planned", "committed_batch", "load_journal", "note_batch", "remove_journal", "save_journal"]

_STREAMS = "streams.json"
_VERSION = 2
_LARGEST = 1024 * MIB


@dataclass(frozen=True, slots=True)
class Planned:
    """What is about to happen to one partition."""

    name: str
    start: int | None
    """where its log ended; None if it was not there, or is rewritten"""
    leader_epoch: int
    replaced: str | None
    """the name that the directory of before is given, if there is one to be replaced"""
    staged: tuple[tuple[str, list[tuple[int, int, int]]], ...]
    """files with their extents, in the order of offsets"""
    inode: int | None = None
    """of the directory that is replaced: whether it still is in its place, or again, can be told by that"""


@dataclass(frozen=True, slots=True)
class Journal:
    """One commit."""

    job: str
    query: str | None
    batch: int | None
    partitions: tuple[Planned, ...]
    done: bool = False
    """everything is written; what was replaced has still to be removed"""


def _read(path: str) -> object:
    try:
        data = read_small(path, _LARGEST)
    except FileNotFoundError:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise FormatError(
            "not the JSON that a commit writes; move it away if you know what it was", source=path
        ) from None


def _name(value: object) -> str:
    """A name in a directory, which leads nowhere else."""
    if not isinstance(value, str) or os.path.basename(value) != value or value in ("", ".", ".."):
        raise ValueError(value)
    return value


def _file(value: object) -> str:
    job, _, file = str(value).partition("/")
    return os.path.join(_name(job), _name(file))


def load_journal(work: str) -> Journal | None:
    """The commit that did not end, if there is one."""
    path = os.path.join(work, COMMIT_JOURNAL)
    found = _read(path)
    if found is None:
        return None
    try:
        if not isinstance(found, dict) or found["version"] != _VERSION:
            raise TypeError
        partitions = tuple(
            Planned(
                _name(each["name"]),
                None if each["start"] is None else int(each["start"]),
                int(each["leader_epoch"]),
                None if each["replaced"] is None else _name(each["replaced"]),
                tuple(
                    (_file(file), [(int(a), int(b), int(c)) for a, b, c in extents]) for file, extents in each["staged"]
                ),
                None if each["inode"] is None else int(each["inode"]),
            )
            for each in found["partitions"]
        )
        return Journal(_name(found["job"]), found["query"], found["batch"], partitions, bool(found["done"]))
    except (KeyError, TypeError, ValueError):
        raise FormatError("not the journal of a commit of this version of kafkalog", source=path) from None


def save_journal(work: str, journal: Journal) -> None:
    """Durable before the commit changes anything."""
    fs.make_directory(work)
    fs.replace(os.path.join(work, COMMIT_JOURNAL), json.dumps({"version": _VERSION} | asdict(journal)).encode())


def remove_journal(work: str) -> None:
    """The commit came to its end, or was rolled back."""
    fs.remove(os.path.join(work, COMMIT_JOURNAL))
    fs.sync_directory(work)


def _streams(work: str) -> Mapping[str, int]:
    found = _read(os.path.join(work, _STREAMS))
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(number, int) for number in found.values()):
        raise FormatError("not the list of streams that a commit writes", source=os.path.join(work, _STREAMS))
    return found


def committed_batch(work: str, query: str) -> int:
    """The last batch of a stream that was committed; -1 if none was."""
    return _streams(work).get(query, -1)


def note_batch(work: str, query: str, batch: int) -> None:
    """A batch of a stream is committed; durable."""
    fs.replace(os.path.join(work, _STREAMS), json.dumps({**_streams(work), query: batch}).encode())
