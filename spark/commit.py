"""Commit the batches that tasks have staged: assign offsets in the order of the tasks, and write all partitions or
none.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from kafkalog.codec.common.errors import RecoveryRefused, UsageError
from kafkalog.codec.common.limits import MIB
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.names import (
    RECOVERY_POINT_CHECKPOINT,
    DirectoryState,
    PartitionName,
    parse_partition_directory,
)
from kafkalog.log import Log
from kafkalog.log.directories.partition import read_partition
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import scan_directory
from kafkalog.log.walk.on_damage import STOP
from kafkalog.log.writing.checkpoint_files import forget, write_offset
from kafkalog.log.writing.session import locked_directory
from kafkalog.spark.commit_lock import in_turn
from kafkalog.spark.journal import (
    Journal,
    Planned,
    committed_batch,
    load_journal,
    name_aside,
    note_batch,
    remove_journal,
    save_journal,
)
from kafkalog.spark.staging import Staged, TopicPartition, discard, placed, work_directory
from kafkalog.spark.write_options import WriteOptions

__all__ = ["abandon", "commit"]

_APPEND_BYTES = MIB


def commit(options: WriteOptions, messages: Iterable[Staged], *, overwrite: bool, batch: int | None = None) -> None:
    """Append the data that tasks have staged to the log directory, all partitions or none; return when it is durable.
    With `overwrite` it replaces the topics that have rows. Creates the directory if it is missing. Waits until other
    commits have ended, and holds the broker's lock during the commit.

    A topic set by the option `topic` is replaced even without rows. An overwrite without rows and without that option
    raises `UsageError`, because it could not replace anything; an append without rows does nothing. `batch` is the
    number of a stream's batch; if that batch is already committed, it is not written again.

    If an earlier commit was killed, it is rolled back first, or ended if everything was written. If this commit cannot
    write all its data, it is rolled back too. Raises `UsageError` if the directory is locked, if other commits last too
    long, or if a partition to replace is a link or a file. Raises `FormatError` if a log, the journal of commits or a
    staged batch is damaged, `StorageError` for I/O errors. Raises `RecoveryRefused` if a recovery of the directory has
    not ended, or an unfinished commit cannot be rolled back.
    """
    staged = sorted(messages, key=lambda message: message.task)
    work = work_directory(options.path)
    if not any(message.extents for message in staged):
        if not overwrite:
            return
        if options.topic is None:
            raise UsageError(
                "there is no row, so that nothing says which topics are to be overwritten, and all are as they were; "
                "the option topic names the one to be emptied"
            )
    if not os.path.isdir(options.path):
        fs.make_directory(options.path)
    query = staged[0].query if staged else None
    job = staged[0].job if staged else uuid.uuid4().hex
    with in_turn(work), locked_directory(options.path):
        _take_back_unfinished(options, work)
        if query is not None and batch is not None and batch <= committed_batch(work, query):
            return
        journal = Journal(
            job=job, query=query, batch=batch, partitions=tuple(_planned(options, staged, job, overwrite=overwrite))
        )
        save_journal(work, journal)
        try:
            _write(options, journal)
        except BaseException:
            _take_back(options, work, journal)
            raise
        if query is not None and batch is not None:
            note_batch(work, query, batch)
        save_journal(work, replace(journal, done=True))
        _end(options, work, journal)


def _end(options: WriteOptions, work: str, journal: Journal) -> None:
    for partition in journal.partitions:
        if partition.replaced is not None:
            name = _name_of(partition)
            before = os.path.join(options.path, partition.replaced)
            gone = os.path.join(options.path, name_aside(name, journal.job, DirectoryState.DELETE))
            for path in (before, gone):
                _refuse_other(path, partition)
            if os.path.isdir(before):  # under the new name, a broker may delete it too
                fs.rename(before, gone)
            fs.remove_tree(gone, inode=partition.inode)
    remove_journal(work)


def _refuse_other(path: str, partition: Planned) -> None:
    """Raise `RecoveryRefused` if `path` exists and is not the directory that an overwrite renamed: if it is a link or
    has another inode.
    """
    if os.path.lexists(path) and (os.path.islink(path) or _inode_of(path) != partition.inode):
        raise RecoveryRefused(
            f"{path} is not the directory that an overwrite of {partition.name} set aside; nothing was removed: if you "
            "know what it is, move it out of the log directory"
        )


def _planned(options: WriteOptions, staged: Sequence[Staged], job: str, *, overwrite: bool) -> Iterator[Planned]:
    """Yield the planned change of each partition, sorted by topic and number. `job` is the id of the commit. For an
    append these are the partitions with staged data. Their plans have the log end offset and leader epoch of the
    existing log, or None and 0 if there is none.

    With `overwrite`, all existing partitions of the same topics and of the option `topic` are planned too. Their plans
    have the new name and the inode of the existing directory; both are None for a new partition. Nothing is renamed.

    Lists the log directory; opens each log to append to, and closes it. Raises `UsageError` if a partition to replace
    is a link or a file. Raises `StorageError` for I/O errors, and the errors of `Log.open`, such as `FormatError` for a
    damaged log.
    """
    by_owner: dict[TopicPartition, list[tuple[str, list[tuple[int, int, int]]]]] = {}
    for message in staged:
        for owner, extents in message.extents.items():
            by_owner.setdefault(owner, []).append((os.path.join(message.job, message.file), extents))
    topics = {topic for topic, _ in by_owner}
    if overwrite and options.topic is not None:
        topics.add(options.topic)
    there = {
        (existing.topic, existing.partition)
        for entry in scan_directory(options.path)
        if (existing := parse_partition_directory(entry.name)) is not None
        and str(existing) == entry.name
        and not existing.state.value
    }
    if overwrite:
        for owner in sorted({*by_owner} | {(topic, number) for topic, number in there if topic in topics}):
            partition = PartitionName(*owner)
            replaced = name_aside(partition, job, DirectoryState.STRAY) if owner in there else None
            path = os.path.join(options.path, str(partition))
            if os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path)):
                raise UsageError(f"{path} is not a directory, so no overwrite replaces it: move it away")
            yield Planned(
                name=str(partition),
                start=None,
                leader_epoch=0,
                replaced=replaced,
                staged=tuple(by_owner.get(owner, ())),
                inode=_inode_of(path),
            )
        return
    for owner in sorted(by_owner):
        name = str(PartitionName(*owner))
        start, epoch = None, 0
        if owner in there:
            with Log.open(os.path.join(options.path, name), options.config) as log:
                start, epoch = log.end_offset, log.leader_epoch
        yield Planned(name=name, start=start, leader_epoch=epoch, replaced=None, staged=tuple(by_owner[owner]))


def _inode_of(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None


def _topic_id(options: WriteOptions, partition: Planned) -> str | None:
    """Return the topic id for a new partition directory. It is the requested id if there is one for this topic.
    Otherwise it is the id in the directory that this commit replaces. If that has none, it is the id in any other
    directory of the topic, links excluded. Return None if none of these directories has a well-formed
    `partition.metadata` file. Raises `StorageError` if a directory cannot be read.
    """
    name = parse_partition_directory(partition.name)
    assert name is not None  # noqa: S101 - it was made from a PartitionName
    if options.topic_id is not None and name.topic == options.topic:
        return options.topic_id
    candidates = [entry.path for entry in scan_directory(options.path) if entry.is_dir(follow_symlinks=False)]
    for path in sorted(candidates, key=lambda path: os.path.basename(path) != partition.replaced):
        other = parse_partition_directory(os.path.basename(path))
        if other is not None and other.topic == name.topic and os.path.basename(path) != partition.name:
            metadata = read_partition(path, other, None).metadata
            if metadata is not None:
                return metadata.topic_id
    return None


def _write(options: WriteOptions, journal: Journal) -> None:
    work = work_directory(options.path)
    for partition in journal.partitions:
        if partition.replaced is not None:
            path = os.path.join(options.path, partition.name)
            fs.rename(path, os.path.join(options.path, partition.replaced))
    fs.sync_directory(options.path)
    for partition in journal.partitions:
        path = os.path.join(options.path, partition.name)
        topic_id = options.topic_id if partition.start is not None else _topic_id(options, partition)
        with Log.open(path, options.config, topic_id=topic_id) as log:
            for group in _grouped(_batches(work, partition), min(_APPEND_BYTES, options.config.segment_bytes)):
                log.append(group, keep_offsets=True)


def _batches(work: str, partition: Planned) -> Iterator[RecordBatch]:
    files = [(os.path.join(work, file), extents) for file, extents in partition.staged]
    return placed(files, partition.start or 0, partition.leader_epoch)


def _grouped(batches: Iterator[RecordBatch], limit: int) -> Iterator[list[RecordBatch]]:
    group: list[RecordBatch] = []
    held = 0
    for batch in batches:
        if group and held + batch.size > limit:
            yield group
            group, held = [], 0
        group.append(batch)
        held += batch.size
    if group:
        yield group


# -- taking back -------------------------------------------------------------------------------------------------------


def abandon(work: str, jobs: Iterable[str]) -> None:
    """Remove the staged files of `jobs` from the directory `work`, except those of a commit that must still be rolled
    back. Raises the errors of `load_journal`, and `StorageError` if a file cannot be removed.
    """
    pending = load_journal(work)
    discard(work, [job for job in jobs if pending is None or pending.job != job])


def _take_back_unfinished(options: WriteOptions, work: str) -> None:
    journal = load_journal(work)
    if journal is None:
        return
    if journal.done or (journal.query is not None and (journal.batch or 0) <= committed_batch(work, journal.query)):
        _end(options, work, journal)
    else:
        _take_back(options, work, journal)
    discard(work, [journal.job])


def _take_back(options: WriteOptions, work: str, journal: Journal) -> None:
    for partition in journal.partitions:
        path = os.path.join(options.path, str(_name_of(partition)))
        if partition.start is None:
            _take_back_directory(options, work, partition, journal.job)
        elif os.path.isdir(path):
            with Log.open(path, options.config) as log:
                if log.end_offset > partition.start:
                    _prove(options, work, partition, path)
                    log.truncate_to(partition.start)
    remove_journal(work)


def _take_back_directory(options: WriteOptions, work: str, partition: Planned, job: str) -> None:
    path = os.path.join(options.path, partition.name)
    gone = os.path.join(options.path, name_aside(_name_of(partition), job, DirectoryState.DELETE))
    before = None if partition.replaced is None else os.path.join(options.path, partition.replaced)
    if before is not None and not os.path.isdir(before):
        if _inode_of(path) != partition.inode:
            raise RecoveryRefused(
                f"{before} is gone, in which an overwrite that did not end kept the rows of before: {path} may hold "
                f"some of the new ones; nothing was changed. To go on with what is there, remove {work} and write the "
                "rows again"
            )
        fs.remove_tree(gone)
        return  # the old directory was not renamed yet, or already renamed back
    fs.remove_tree(gone)
    if os.path.isdir(path):
        _prove(options, work, partition, path)
        fs.rename(path, gone)
        fs.sync_directory(options.path)
        fs.remove_tree(gone)
    if before is not None:
        # the new log's recovery point may be above the end of the restored log; without one a start scans the log
        write_offset(options.path, RECOVERY_POINT_CHECKPOINT, _name_of(partition), None)
        fs.rename(before, path)
        fs.sync_directory(options.path)
    else:
        forget(options.path, _name_of(partition))


def _name_of(partition: Planned) -> PartitionName:
    name = parse_partition_directory(partition.name)
    if name is None or str(name) != partition.name:
        raise UsageError(f"{partition.name!r} is not the name of a partition directory")
    return name


def _prove(options: WriteOptions, work: str, partition: Planned, path: str) -> None:
    """Check that the log at `path` may be truncated to the offset at which an unfinished commit began. The batches from
    there on, up to the first damage, must be the first batches that the commit staged in `work`. Raises
    `RecoveryRefused` if one differs or if a staged file for the comparison is missing. Raises `FormatError` if a staged
    batch is damaged. Raises `StorageError` if a file cannot be read.
    """
    start = partition.start or 0
    written = read_partition(path, _name_of(partition), None).batches(start_offset=start, on_damage=STOP)
    try:
        planned = _batches(work, partition)
        same = all(_equal(theirs, next(planned, None)) for theirs in written)
    except FileNotFoundError:
        same = False
    if not same:
        before = "" if partition.replaced is None else f"; the rows of before are in {partition.replaced}"
        raise RecoveryRefused(
            f"{path}: a commit into {options.path} did not end, and from offset {start} on the log holds what is not "
            f"of that commit; to keep it, remove {work} and write again the rows that were not reported as "
            f"written{before}"
        )


def _equal(theirs: RecordBatch, ours: RecordBatch | None) -> bool:
    return ours is not None and bytes(theirs.data) == bytes(ours.data)
