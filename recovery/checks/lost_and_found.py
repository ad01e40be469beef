"""Find batches outside partitions: files that a file system's repair put into `lost+found`, and files that are not
Kafka's.

A batch does not name its topic. A file fits a partition whose log ends where the file begins, or has a segment that
begins where the file ends (`LogSegments` of a partition are contiguous).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from msgspec import Struct

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.wording import counted
from kafkalog.codec.names import LOST_AND_FOUND, DirectoryState, FileKind, segment_file
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import FileSource, is_directory, unreadable

__all__ = ["EndsAt", "batches_outside", "known_ends", "lost_places"]

EndsAt = Callable[[Partition, int], bool]
"""Function that returns whether the log of a partition ends at an offset, the one of the next record;
False if unknown
"""

_MOST_FILES = 1000
"""most files of a lost+found that are read"""
_SMALLEST_BATCH = 26
"""bytes of an empty message of magic 0, with its offset and size (`Records.LOG_OVERHEAD`, `LegacyRecord`)"""


class _Held(Struct, frozen=True):
    """Sound batches at the beginning of a file."""

    batches: int
    first: int
    last: int
    epoch: int

    def __str__(self) -> str:
        epoch = "" if self.epoch < 0 else f" of leader epochs up to {self.epoch}"
        return f"{counted(self.batches, 'sound batch')}{epoch} with offsets {self.first} to {self.last}"


def known_ends(ends: Mapping[str, int | None]) -> EndsAt:
    """Return a function that looks up log end offsets by the partition's path."""
    return lambda partition, offset: ends.get(partition.path) == offset


def batches_outside(log_dir: LogDir, ends_at: EndsAt) -> list[Finding]:
    """Return a finding for each file that holds batches. `ends_at` is called only if there is such a file."""
    findings = []
    lost = (path for place in lost_places(log_dir.path) for path in islice(_files(place), _MOST_FILES))
    for path in dict.fromkeys([*lost, *_foreign(log_dir)]):
        try:
            held = _held(path)
        except StorageError as error:
            findings.append(unreadable(error, path))
            continue
        if held is not None:
            detail = f"{held}: {_where(held, path, log_dir, ends_at)}"
            findings.append(Finding.of(FindingCode.BATCHES_OUTSIDE, 0, held.first, detail, path))
    return findings


def lost_places(root: str) -> list[str]:
    """The lost+found in a log directory, and the one beside it if it is a directory of a larger file system."""
    around = (root, os.path.dirname(os.path.abspath(root)))
    return [place for each in around if is_directory(place := os.path.join(each, LOST_AND_FOUND))]


def _files(place: str) -> Iterator[str]:
    """Yield the regular files in a directory and in its subdirectories, sorted. Links are not followed; unreadable
    directories are skipped.
    """
    for directory, names, files in os.walk(place):
        names.sort()
        if directory != place:
            names.clear()
        yield from (path for name in sorted(files) if not os.path.islink(path := os.path.join(directory, name)))


def _foreign(log_dir: LogDir) -> Iterator[str]:
    findings: Iterable[Finding] = [
        *log_dir.findings, *(finding for partition in log_dir.partitions for finding in partition.findings)
    ]  # fmt: skip
    for finding in findings:
        if finding.code is FindingCode.FOREIGN_FILE and finding.file is not None and os.path.isfile(finding.file):
            yield finding.file


def _held(path: str) -> _Held | None:
    if os.lstat(path).st_size < _SMALLEST_BATCH:
        return None
    batches, first, last, epoch = 0, 0, -1, -1
    with FileSource(path) as source:
        for batch in Scanner(source):
            header = batch.header
            first = header.first_offset if batches == 0 else first
            last, epoch = max(last, header.last_offset), max(epoch, header.partition_leader_epoch)
            batches += 1
    return _Held(batches, first, last, epoch) if batches else None


def _where(held: _Held, path: str, log_dir: LogDir, ends_at: EndsAt) -> str:
    fitting = [
        f"{why}: copy it to {os.path.join(partition.path, segment_file(held.first, FileKind.LOG))}"
        for partition in log_dir.partitions
        if partition.state is DirectoryState.LIVE and (why := _fits(held, partition, log_dir, ends_at)) is not None
    ]
    if not fitting:
        return f"no partition in {log_dir.path} ends where it begins, or has a segment that begins where it ends"
    return f"{' or '.join(fitting)}, once the broker is stopped"


def _fits(held: _Held, partition: Partition, log_dir: LogDir, ends_at: EndsAt) -> str | None:
    bases = {segment.base_offset for segment in partition.segments}
    if held.first in bases and not ends_at(partition, held.first):
        return None
    if held.last + 1 in bases:
        return f"in {partition.name} a segment begins at {held.last + 1}"
    if partition.segments and ends_at(partition, held.first):
        mark = log_dir.high_watermarks.get((partition.topic or "", partition.partition or 0))
        known = f", and its high watermark was {mark}" if mark is not None and mark > held.first else ""
        return f"{partition.name} ends at {held.first}{known}"
    return None
