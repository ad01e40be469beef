"""Find deleted records that are still in live segments: the records below the log start offset (`DeleteRecords`).

They are listed and can be read, but are not restored. Every replica has raised its log start offset, and has truncated
its leader epochs there (`LeaderEpochFileCache.truncateFromStartAsyncFlush`), so other replicas would not follow one
broker's older start.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from kafkalog.codec.common.advice import Sentence
from kafkalog.codec.common.errors import FormatError, StorageError
from kafkalog.codec.common.findings import StopReason
from kafkalog.codec.files.text import decode_offset_checkpoint
from kafkalog.codec.model import BatchHeader, RecordBatch
from kafkalog.codec.names import (
    CLUSTER_METADATA_TOPIC,
    LOG_START_OFFSET_CHECKPOINT,
    DirectoryState,
    parse_partition_directory,
    parse_segment_file,
)
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.jobs.undelete.remains import (
    OnUnreadable,
    Remains,
    RemainsKind,
    RemainsSegment,
    files_by_directory,
    status_in,
)
from kafkalog.log.storage.java import TooLargeError
from kafkalog.recovery.broker.manager import topic_id_or_none
from kafkalog.recovery.checks.deleted_beyond_end import records_in
from kafkalog.recovery.facts.survey import Survey

__all__ = ["below_start_in"]

_NS_IN_MS = 1_000_000


def below_start_in(
    found: Survey,
    topic: str | None,
    partitions: Sequence[int],
    on_unreadable: OnUnreadable | None,
    replicas: Mapping[tuple[str, int], Sequence[int]],
) -> list[Remains]:
    """List the records below the log start offset of each live partition, sorted by directory; empty if the log-start
    checkpoint is missing or malformed. Raises `StorageError` if it cannot be read. The segments concerned are read up
    to that offset, or up to their first damage.

    `topic` (None: all) and `partitions` (empty: all) select partitions. Partitions without such records are omitted,
    unless their segments are damaged. Directories that the survey could not list are omitted. `on_unreadable` is called
    with the path of each other directory with an unreadable file and the error; if it is None, the `StorageError` is
    raised. `replicas` are the replicas by (topic, partition), as far as known.
    """
    files, tree = files_by_directory(found), found.tree()
    remains = []
    for directory, start in sorted(_starts(found).items()):
        name = parse_partition_directory(directory)
        if name is None or directory not in files or (topic is not None and name.topic != topic):
            continue
        if partitions and name.partition not in partitions:
            continue
        try:
            segments = tuple(_segments(found, directory, files[directory], start))
            if any(segment.records or segment.damage for segment in segments):
                remains.append(
                    Remains(
                        topic=name.topic,
                        partition=name.partition,
                        kind=RemainsKind.BELOW_START,
                        place=found.root,
                        directory=directory,
                        segments=segments,
                        topic_id=topic_id_or_none(tree, directory),
                        why_not=_why_not(start, len(replicas.get((name.topic, name.partition), ()))),
                    )
                )
        except StorageError as error:
            if on_unreadable is None:
                raise
            on_unreadable(os.path.join(found.root, directory), error)
    return remains


def _why_not(start: int, replicas: int) -> str:
    """Return why records below the log start offset `start` are not restored. `replicas` is the number of the
    partition's replicas; 0 if unknown.
    """
    where = "on every replica, and the others would not follow one broker's older start"
    if not replicas:
        where = "by the checkpoint, undelete moves no log start, and other replicas would not follow an older one"
    elif replicas == 1:
        where = "by the checkpoint of the only replica, and undelete moves no log start"
    return Sentence(f"the log starts at {start} {where}: a dump of deleted data prints these records")


def _starts(surveyed: Survey) -> dict[str, int]:
    """Read the checkpoint of log start offsets, and return the offset for each live partition directory that the survey
    has; the metadata log is left out. Empty if the file is missing, malformed or too large. Raises `StorageError` if it
    cannot be read.
    """
    if LOG_START_OFFSET_CHECKPOINT not in surveyed.files:
        return {}
    try:
        lines = decode_offset_checkpoint(surveyed.tree().read(LOG_START_OFFSET_CHECKPOINT))
    except (FormatError, TooLargeError):
        return {}
    known = {f"{line.topic}-{line.partition}": line.offset for line in lines if line.topic != CLUSTER_METADATA_TOPIC}
    return {name: offset for name, offset in known.items() if name in surveyed.directories and _is_live(name)}


def _is_live(directory: str) -> bool:
    name = parse_partition_directory(directory)
    return name is not None and name.state is DirectoryState.LIVE


def _segments(surveyed: Survey, directory: str, names: Sequence[str], start: int) -> Iterator[RemainsSegment]:
    logs = []
    for name in names:
        parsed = parse_segment_file(name)
        if parsed is not None and parsed.is_live_log and parsed.base_offset < start:
            logs.append((parsed.base_offset, f"{directory}/{name}"))
    for base_offset, path in sorted(logs):
        yield _segment(surveyed, path, base_offset, start)


def _segment(surveyed: Survey, path: str, base_offset: int, start: int) -> RemainsSegment:
    """Count the records below offset `start` in a live segment, from its beginning up to the first damage.

    In the result, `bytes` is the size of the batches that begin below `start`; without such a batch the first and last
    offset are None, and the epoch is -1. `damage` is None if there is none. Raises `StorageError` if the file cannot be
    read.
    """
    first = last = None
    records, epoch, size = 0, -1, 0
    scanner = Scanner(surveyed.source(path))
    for batch in scanner:
        if batch.header.first_offset >= start:
            break
        count, end = _below(batch, start)
        records += count
        first = batch.header.first_offset if first is None else first
        last = end if last is None else max(last, end)
        epoch = max(epoch, batch.header.partition_leader_epoch)
        size = batch.position + batch.size
    is_damaged = scanner.stop not in (None, StopReason.END)
    status = status_in(surveyed, path)
    return RemainsSegment(
        base_offset=base_offset,
        path=path,
        bytes=size,
        first_offset=first,
        last_offset=last,
        records=records,
        highest_epoch=epoch,
        modified_ms=status.st_mtime_ns // _NS_IN_MS,
        changed_ms=status.st_ctime_ns // _NS_IN_MS,
        damage=f"{scanner.stop} at byte {scanner.valid_bytes}" if is_damaged else None,
    )


def _below(batch: RecordBatch, start: int) -> tuple[int, int]:
    """Return the number of records of a batch below offset `start`, and the last offset of the batch below `start`. The
    batch must begin below `start`. The number is 0 for a control batch. A batch that reaches `start` is decoded, up to
    its first fault.
    """
    if batch.header.last_offset < start:
        return records_in(batch), batch.header.last_offset
    if isinstance(batch.header, BatchHeader) and batch.header.is_control:
        return 0, start - 1
    return sum(record.offset < start for record in decode_batch(batch).records), start - 1
