"""Write and read the files of tasks before the commit: one file of batches per attempt, read only by the commit.

They are beside the log directory, in `<log directory>.writing`, because a broker refuses to start with an unknown
directory inside it. A failed or superseded attempt leaves a file that is never used.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql.datasource import WriterCommitMessage

from kafkalog.codec.common.errors import FormatError, StorageError, UsageError
from kafkalog.codec.model import BATCH, BatchHeader, RecordBatch
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import FileSource, scan_directory
from kafkalog.log.writing.incoming import parse_batch
from kafkalog.spark.batch_building import BuiltBatch
from kafkalog.spark.leftovers import work_directory

__all__ = ["Staged", "StagingFile", "TopicPartition", "begin", "discard", "discard_all", "placed", "work_directory"]

TopicPartition = tuple[str, int]
Extent = tuple[int, int, int]
"""position, size and number of records of a batch"""
_TRIES = 5


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """The result of a task attempt: what it has written, for the commit."""

    task: int
    """Spark's partition number, which defines the order of rows"""
    job: str
    """directory of the attempt's file"""
    file: str
    extents: dict[TopicPartition, list[Extent]] = field(default_factory=dict)
    query: str | None = None
    """the streaming query, if any"""


def _persistently(change: Callable[[], object], *disturbed: int) -> None:
    """Call `change` until it succeeds, at most `_TRIES` times. It is only repeated after a `StorageError` with one of
    the errno values `disturbed`, which concurrent jobs cause. Raises the last such error, and any other error at once.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            change()
            return
        except StorageError as error:
            if error.errno not in disturbed or not tries_left:
                raise


def begin(work: str, job: str) -> None:
    """Create the directory for the staged files of a job in the work directory `work`, which is created too if it is
    missing. Directories that exist are kept. Raises `StorageError` if a directory cannot be created.
    """

    def make() -> None:
        fs.make_directory(work, follow=False)
        fs.make_directory(os.path.join(work, job), follow=False)

    _persistently(make, errno.ENOENT)  # another job that ends removes the work directory while it is empty


class StagingFile:
    """The file of one attempt. It is created with the first batch, in the directory that `begin` has made. `extents`
    has the place of each batch written so far, by partition.
    """

    def __init__(self, work: str, job: str, name: str) -> None:
        self.extents: dict[TopicPartition, list[Extent]] = {}
        self.path = os.path.join(work, job, name)
        self._file: fs.AppendFile | None = None

    def append(self, owner: TopicPartition, batch: BuiltBatch) -> None:
        """Write a batch of the partition `owner` at the end of the file, and record its extent. Raises `UsageError` if
        the job is over, `StorageError` if the batch cannot be written.
        """
        if self._file is None:
            self._file = self._created()
        self.extents.setdefault(owner, []).append((self._file.size, len(batch.data), batch.records))
        self._file.append(batch.data)

    def _created(self) -> fs.AppendFile:
        """Create the file of this attempt, and return it open for appending. If the job is over, its directory is gone;
        a late attempt must not leave anything, so `UsageError` is raised. Raises `StorageError` for other errors.
        """
        try:
            return fs.AppendFile(self.path, create=True)
        except StorageError as error:
            if error.errno != errno.ENOENT:
                raise
            raise UsageError("the job was ended before this attempt of a task began to write") from error

    def close(self, *, durable: bool) -> None:
        """Close the file, if a batch was written. With `durable` its data is first flushed to disk, as a commit
        requires. Raises `StorageError` if that fails.
        """
        if self._file is not None:
            if durable:
                self._file.sync()
            self._file.close()


def placed(staged: Iterable[tuple[str, list[Extent]]], offset: int, leader_epoch: int) -> Iterator[RecordBatch]:
    """Yield the batches of staged files, in order. They get consecutive offsets from `offset` on and the leader epoch
    `leader_epoch`. `staged` has each file's path with (position, size, number of records) per batch.

    Records are not decoded, because a batch's checksum does not cover base offset and leader epoch. The checksum is
    verified. Raises `FormatError` if a batch is damaged or not the one that a task wrote, `StorageError` if a file
    cannot be read.
    """
    offset_start, offset_end = BATCH.position("base_offset"), BATCH.end("base_offset")
    epoch_start, epoch_end = BATCH.position("partition_leader_epoch"), BATCH.end("partition_leader_epoch")
    for path, extents in staged:
        with FileSource(path) as source:
            for position, size, records in extents:
                data = bytearray(source.read(position, size))
                data[offset_start:offset_end] = offset.to_bytes(offset_end - offset_start, "big")
                data[epoch_start:epoch_end] = leader_epoch.to_bytes(epoch_end - epoch_start, "big", signed=True)
                batch = parse_batch(bytes(data))
                header = batch.header
                if not isinstance(header, BatchHeader) or header.last_offset_delta != records - 1:
                    raise FormatError("not the batch that a task wrote", position=position, source=path)
                yield batch
                offset += records


def discard(work: str, jobs: Iterable[str]) -> None:
    """Remove the directories with the staged files of jobs from the work directory `work`. Remove `work` too if it is
    empty afterwards. Jobs without a directory are skipped. Raises `StorageError` if a directory cannot be removed.
    """
    for job in sorted(set(jobs)):
        removal = partial(fs.remove_tree, os.path.join(work, job))
        # an attempt that outlives its job may have just begun to write
        _persistently(removal, errno.ENOTEMPTY, errno.EEXIST)
    fs.remove_if_empty(work)


def discard_all(work: str, prefix: str) -> None:
    """Remove the staged files of all jobs whose name starts with `prefix`, as `discard` does. Nothing happens if `work`
    does not exist or is a link. Raises `StorageError` if a directory cannot be listed or removed.
    """
    if os.path.isdir(work) and not os.path.islink(work):
        discard(work, [entry.name for entry in scan_directory(work) if entry.name.startswith(prefix)])
