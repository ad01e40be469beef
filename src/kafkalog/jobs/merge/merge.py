"""Merge several copies of a partition, or several brokers' volumes, into one healthy log or log directory.

Each copy is read past its damage. The batches of a merged log are chosen by the lineage of leader epochs
(`merged_stretches`). Offsets that no copy has are a gap, which is reported. Segments begin at base offsets of the
copies; indexes, snapshots and epochs are those that a broker makes when it loads the merged log.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence

from kafkalog.codec.common.errors import RecoveryRefused, StorageError, UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.files.text import OffsetCheckpointEntry, decode_offset_checkpoint, encode_offset_checkpoint
from kafkalog.codec.names import (
    CLUSTER_METADATA_TOPIC,
    LOG_START_OFFSET_CHECKPOINT,
)
from kafkalog.copies.cluster_memory import read_cluster_memory
from kafkalog.copies.merge_copies import MergeCopies, MergedLog
from kafkalog.copies.merge_result import MergedDirectory, MergedRange, MergeResult
from kafkalog.copies.preview import (
    of_one_partition,
    preferred,
    refuse_several_clusters,
    refuse_several_topics,
)
from kafkalog.copies.volumes import Copy, Shelf, gather
from kafkalog.jobs.merge.request import Merge
from kafkalog.jobs.merge.write import write_partition
from kafkalog.log.directories.directory import refuse_inside
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.log.directories.selection import ALL
from kafkalog.log.disk.files import PathLike, read_small, scan_directory
from kafkalog.log.disk.lock import refuse_half_done
from kafkalog.recovery.act.fs import FileSystem, own_file
from kafkalog.recovery.act.space import refuse_if_full
from kafkalog.recovery.facts.topic_facts import TopicFacts, read_topic_facts

__all__ = ["MergeResult", "MergedDirectory", "MergedRange", "merge_directories", "merge_preview", "merge_replicas"]


def merge_preview(request: Merge | PathLike, *paths: PathLike, limits: Limits = DEFAULT_LIMITS) -> MergeResult:
    """Return the result that `merge_replicas` would have for these copies; writes nothing. Raises `UsageError`,
    `RecoveryRefused` and `StorageError` as `merge_replicas` does, but does not check whether a broker would load the
    merged log.

    * `request`: may be left out for the defaults
    * `paths`: directories of one topic-partition
    * `limits`: what a batch or file may hold at most (`Limits`)
    """
    read, shelf, _settings = _merged_copies(*_asked(request, paths), limits)
    result, _log = read.preview()
    _refuse_half_done(shelf)
    return result


def merge_replicas(
    request: Merge | PathLike, *paths: PathLike, target: PathLike, limits: Limits = DEFAULT_LIMITS
) -> MergeResult:
    """Merge directories of one topic-partition into `<target>/<topic>-<partition>`, which must not exist. The copies
    are only read. Return the result, which names the new directory and the copies from which ranges of offsets come.

    The log start offset is added to the log-start checkpoint in `target` if it is above the first segment's base
    offset. Otherwise the highest valid entry of the copies' checkpoints is added, if there is one. Raises `UsageError`
    if the directories are not copies of one partition, if the new directory exists, or if `target` lies in a log
    directory. Raises it also if the request selects topics, prefers another directory or has an invalid setting. Raises
    `RecoveryRefused` if the directories belong to several clusters, or to different topics with that name. Raises it
    also if an execution on their log directories was interrupted, or another merge is writing the directory. The same
    holds if the file system has no space, or a broker would not load the result. Raises `StorageError` if no copy can
    be read or writing fails. Raises `FormatError`, after the partition was written, if that checkpoint is malformed.

    * `request`: may be left out for the defaults
    * `paths`: directories of one topic-partition, two or more
    * `target`: the log directory in which the merged partition is made
    * `limits`: what a batch or file may hold at most (`Limits`)
    """
    request, paths = _asked(request, paths)
    read, shelf, settings = _merged_copies(request, paths, limits)
    place = os.path.join(os.path.realpath(target), str(read.name))
    if os.path.lexists(place):
        raise UsageError(f"{place} already exists")
    refuse_inside(os.path.dirname(os.path.dirname(place)), target)
    result, log = read.preview()
    _refuse_half_done(shelf)  # or a run has begun while the copies were read
    _write(read, log, os.path.realpath(target), settings, _now(request.at))
    if log.start_entry is not None:
        _write_starts(os.path.realpath(target), [log.start_entry])
    result.target = place
    return result


def _asked(request: Merge | PathLike, paths: tuple[PathLike, ...]) -> tuple[Merge, tuple[PathLike, ...]]:
    """Return the request, the default one if it was left out, and all paths."""
    return (request, paths) if isinstance(request, Merge) else (Merge(), (request, *paths))


def _merged_copies(
    request: Merge, paths: Sequence[PathLike], limits: Limits
) -> tuple[MergeCopies, Shelf, LogSettings]:
    """Open and read directories of one topic-partition. Return the copies, the `Shelf` with their log directories, and
    the settings: those in the request, and Kafka's defaults for the others. The error of a copy that cannot be read is
    kept in the result. Raises `StorageError` if no copy can be read, and `UsageError` and `RecoveryRefused` for
    requests and copies that `merge_replicas` refuses.
    """
    if request.select != ALL:
        raise UsageError("partition directories are chosen by their paths, log directories by topic")
    settings = LogSettings.from_names(request.config)
    shelf = of_one_partition(paths)
    _refuse_half_done(shelf)
    (copies,) = shelf.copies.values()
    wanted = preferred(request.prefer, paths)
    read = MergeCopies(copies, segment_bytes=settings.segment_bytes, prefer=wanted, limits=limits)
    return read, shelf, settings


def _refuse_half_done(shelf: Shelf) -> None:
    """Raise `RecoveryRefused` if an execution on a log directory of the copies was interrupted: a part of the logs may
    be in its quarantine.
    """
    of_copies = (copy.log_dir for copies in shelf.copies.values() for copy in copies)
    for path in dict.fromkeys(log_dir.path for log_dir in (*shelf.log_dirs, *of_copies) if log_dir is not None):
        refuse_half_done(path)


def merge_directories(
    request: Merge | PathLike,
    *paths: PathLike,
    target: PathLike | None,
    limits: Limits = DEFAULT_LIMITS,
    on_read: Callable[[int], None] | None = None,
) -> MergedDirectory:
    """Merge every partition of several log directories into a new or empty log directory; return the result.

    A partition that only one volume has is copied from there. The metadata log of KRaft is left out, and no
    `meta.properties` is written, because the operator decides which broker gets the directory. A partition that cannot
    be merged does not stop the others; the result names it. Raises `UsageError` for wrong paths or settings, or without
    a partition to merge. Raises `RecoveryRefused` for volumes of several clusters or with an interrupted execution.
    Raises `StorageError` if writing fails.

    * `request`: may be left out for the defaults
    * `paths`: log directories of one cluster, two or more
    * `target`: the new or empty log directory; None: nothing is written, and the result says what would be written
    * `limits`: what a batch or file may hold at most (`Limits`)
    * `on_read`: called with the number of log bytes read
    """
    request, paths = _asked(request, paths)
    place = None if target is None else _new_place(target)
    wanted = preferred(request.prefer, paths)
    shelf = gather(paths, chosen=request.select, limits=limits)
    refuse_several_clusters(shelf)
    work = _Work(shelf, request.config, _now(request.at), limits, on_read, wanted)
    _refuse_half_done(shelf)
    metadata = [copy for copy in shelf.copies if copy[0] == CLUSTER_METADATA_TOPIC]
    result = MergedDirectory(target=place, left_out=list(shelf.left_out), unreadable=list(shelf.unreadable))
    result.left_out += [copy.path for key in metadata for copy in shelf.copies.pop(key)]
    if not shelf.copies:
        raise UsageError(f"no partition to merge is in {', '.join(shelf.paths)}")
    starts = [work.merge(copies, place, result) for copies in shelf.copies.values()]
    entries = [entry for entry in starts if entry is not None]
    if entries and place is not None:
        _write_starts(place, entries)
    return result


def _new_place(into: PathLike) -> str:
    target = os.path.realpath(into)
    if os.path.lexists(target) and (not os.path.isdir(target) or scan_directory(target)):
        raise UsageError(f"{target} already exists: name a directory that does not")
    refuse_inside(target, into)
    return target


class _Work:
    """Merger of the partitions of several log directories, one after another."""

    def __init__(
        self,
        shelf: Shelf,
        config: Mapping[str, str],
        now_ms: int,
        limits: Limits,
        on_read: Callable[[int], None] | None,
        prefer: str | None,
    ) -> None:
        self._prefer = prefer
        self._shelf = shelf
        self._memory = read_cluster_memory(shelf.metadata, shelf.zookeeper)
        self._facts: TopicFacts = read_topic_facts(log_dir.path for log_dir in shelf.log_dirs)
        self._config = config
        self._now_ms = now_ms
        self._limits = limits
        self._on_read = on_read

    def merge(self, copies: Sequence[Copy], target: str | None, into: MergedDirectory) -> OffsetCheckpointEntry | None:
        """Merge the copies of one partition into the log directory `target`; if that is None, only compute the result.
        Return the partition's entry for the log-start checkpoint, None if it needs none or was not merged.

        Appends the result to `into.partitions`, and copies that cannot be read to `into.unreadable`. If the merge is
        refused, appends only the partition's name and the reason to `into.refused`. If no copy can be read, or reading
        fails while the result is computed, appends only the partition's name and the error to `into.unreadable`. Raises
        `UsageError` for a setting that Kafka would refuse, and `StorageError` if reading or writing fails while the
        merged log is written.
        """
        name = copies[0].name
        settings = self._facts.settings(name.topic, self._config)
        try:
            refuse_several_topics(self._shelf, copies[0].key)
            read = MergeCopies(
                copies,
                segment_bytes=settings.segment_bytes,
                is_compacted=self._memory.is_compacted(name.topic),
                prefer=self._prefer,
                limits=self._limits,
                on_read=self._on_read,
            )
            result, log = read.preview()
            _refuse_half_done(self._shelf)  # or a run has begun while the copies were read
        except StorageError as error:
            into.unreadable.append((str(name), str(error)))
            return None
        except RecoveryRefused as refused:
            into.refused.append((str(name), refused.sentence))
            return None
        try:
            if target is not None:
                _write(read, log, target, settings, self._now_ms)
        except RecoveryRefused as refused:
            into.refused.append((str(name), refused.sentence))
            return None
        into.unreadable += [
            (copy.path, copy.error)
            for copy in result.copies
            if copy.error is not None and (copy.path, copy.error) not in into.unreadable
        ]
        result.target = None if target is None else os.path.join(target, str(name))
        into.partitions.append(result)
        return log.start_entry


def _write(read: MergeCopies, log: MergedLog, target: str, settings: LogSettings, now_ms: int) -> None:
    refuse_if_full(target, [log.size], "new files")
    with FileSystem.create(target) as fs:
        write_partition(read, log, fs, settings, now_ms)


def _write_starts(target: str, entries: Sequence[OffsetCheckpointEntry]) -> None:
    """Add these log start offsets to the log-start checkpoint of the log directory `target`. The file is replaced
    atomically; entries of other partitions are kept. Raises `FormatError` if the existing file is malformed,
    `StorageError` if it cannot be read or written.
    """
    path = os.path.join(target, LOG_START_OFFSET_CHECKPOINT)
    known: list[OffsetCheckpointEntry] = []
    with contextlib.suppress(FileNotFoundError):
        known = list(decode_offset_checkpoint(read_small(path, DEFAULT_LIMITS.checkpoint_bytes), source=path))
    new = {(entry.topic, entry.partition) for entry in entries}
    data = encode_offset_checkpoint([*(entry for entry in known if (entry[0], entry[1]) not in new), *entries])
    with FileSystem(target) as fs:
        fs.put(LOG_START_OFFSET_CHECKPOINT, data, own_file())


def _now(at: int | None) -> int:
    return time.time_ns() // 1_000_000 if at is None else at
