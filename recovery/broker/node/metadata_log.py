"""Predict the third part of a start: the metadata log is loaded, and a snapshot is chosen.

The log is loaded like any other after a crash, always scanned from its start (`KafkaMetadataLog`, `KafkaRaftLog`). Only
the newest snapshot by epoch and end is used; if the log ends before it, the log is dropped (`recoverSnapshots`,
`truncateToLatestSnapshot`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from msgspec import Struct

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.files.text import decode_leader_epochs
from kafkalog.codec.names import (
    CLUSTER_METADATA_DIRECTORY,
    CLUSTER_METADATA_TOPIC_ID,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    FileKind,
    parse_kraft_snapshot_file,
)
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.log.disk.files import FileSource
from kafkalog.log.storage.producers.snapshots import snapshot_offsets, within_reach
from kafkalog.log.storage.tree import Tree
from kafkalog.log.walk.lookup import indexed_position
from kafkalog.recovery.broker.manager import StartResult, load_log_directory, topic_id_or_none
from kafkalog.recovery.broker.node.answer import ConsequenceKind, Fault, Part, StartConsequence
from kafkalog.recovery.broker.node.ending import ends, without_cause
from kafkalog.recovery.broker.node.node_files import NodeFiles
from kafkalog.recovery.broker.node.reading import MetaBatch, ReaderError, metadata_batches

__all__ = ["Displaced", "LoadedMetadata", "Snapshot", "load_metadata_log"]

_NAME = CLUSTER_METADATA_DIRECTORY


class Contents(Struct):
    """Decoded batches, and the error that ended decoding, if any."""

    batches: list[MetaBatch] | None = None
    error: ReaderError | None = None

    def read(self, source: Callable[[], Iterator[MetaBatch]]) -> Iterator[MetaBatch]:
        """Yield the batches of `source()` in order. When the first one is asked for, all are decoded and kept; later
        calls yield the kept ones and do not use `source`. If decoding fails, every call raises the `ReaderError` after
        the batches before it. If `source` raises another exception, it is raised at once and nothing is kept.
        """
        if self.batches is None:
            batches: list[MetaBatch] = []
            try:
                batches.extend(source())
            except ReaderError as error:
                self.error = error
            self.batches = batches
        yield from self.batches
        if self.error is not None:
            raise ReaderError(self.error.exception, self.error.message)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot, identified by its name."""

    path: str
    end: int
    epoch: int

    contents: Contents = field(default_factory=lambda: Contents(), compare=False, repr=False)

    def batches(self) -> Iterator[MetaBatch]:
        """Yield its batches as a start reads them; decoded once. Raises `ReaderError`."""
        return self.contents.read(self._read)

    def _read(self) -> Iterator[MetaBatch]:
        with FileSource(self.path) as source:
            yield from metadata_batches(source)


class Displaced(Struct, frozen=True, kw_only=True):
    """A batch of the metadata log whose base offset is too high; no checksum covers it."""

    expected: int
    """offset after the batch before it"""
    claimed: int
    """its last offset by its header, or the offset before a metadata transaction that begins in it"""


@dataclass(frozen=True, slots=True)
class LoadedMetadata:
    """The metadata log as a start has it in memory."""

    directory: str
    start: int
    end: int
    epoch: int | None
    """leader epoch of its last batch; None if it has none"""
    snapshot: Snapshot | None
    """the snapshot that is used; None if there is none"""
    older: tuple[Snapshot, ...]
    """the other snapshots, oldest first"""
    tree: Tree | None
    """the log's files after loading; None if there is no log"""
    consequences: tuple[StartConsequence, ...] = ()
    faults: tuple[Fault, ...] = ()
    written_end: int = 0
    """end of the log when its last producer snapshot was written; 0 if none was"""

    contents: Contents = field(default_factory=Contents, compare=False, repr=False)

    @property
    def has_any(self) -> bool:
        """Whether there are records, or a snapshot of records."""
        return self.end > 0 or (self.snapshot is not None and self.snapshot.end > 0)

    @property
    def last_epoch(self) -> int:
        """Leader epoch of the log's last batch, or of the snapshot that is used if that is later; 0 without both."""
        return max(self.epoch or 0, 0 if self.snapshot is None else self.snapshot.epoch)

    def batches(self, start: int) -> Iterator[MetaBatch]:
        """Yield the batches that a reader gets from offset `start` on (`LogSegment.read`). The reader begins at the
        position that the offset index gives, skips batches that end below `start`, and yields all that follow, whatever
        their offsets. The log is decoded once. Raises `ReaderError` if it is damaged, and `StorageError` if a file
        cannot be read.
        """
        place = self._indexed(start)
        is_reached = False
        for batch in self.contents.read(self._read):
            is_reached = is_reached or (batch.position >= place and batch.next_offset > start)
            if is_reached:
                yield batch

    def _indexed(self, start: int) -> int:
        """Byte position, counted through all segments, from which a reader looks for offset `start`, by the offset
        indexes (`OffsetIndex.lookup`). 0 if there is no log or no segment begins at or below `start`. Raises
        `StorageError` if an index cannot be read.
        """
        place = position = 0
        if self.tree is None or not start:
            return place
        for base, path in self.tree.logs(_NAME):
            if base > start:
                break
            place = position
            index = f"{path.removesuffix(FileKind.LOG)}{FileKind.OFFSET_INDEX}"
            if index in self.tree.files:
                place += indexed_position(self.tree.source(index), base_offset=base, target=start)
            position += self.tree.source(path).size
        return place

    def _read(self) -> Iterator[MetaBatch]:
        if self.tree is None:
            return
        position = 0
        for _base, path in self.tree.logs(_NAME):
            source = self.tree.source(path)
            yield from metadata_batches(source, is_snapshot=False, begins_at=position)
            position += source.size

    def displaced(self) -> Displaced | None:
        """Find the highest offset in the log after the snapshot. If it is at or above the end of the log, return the
        first batch that reaches it, else None. Records of a metadata transaction do not count until it has ended.
        Raises `ReaderError` if the log is damaged, and `StorageError` if a file cannot be read.

        A controller remembers its state at the highest last offset that it has read, and not inside a metadata
        transaction (`OffsetControlManager`). Its first own records follow the record of its election. If they end below
        that offset, it gives up its leadership and goes back to that state (`SnapshotRegistry`).
        """
        start = 0 if self.snapshot is None else self.snapshot.end
        expected, opened = start, None
        claimed = start - 1
        found: Displaced | None = None
        for batch in self.batches(start):
            for number, record in enumerate(() if batch.is_control else batch.records):
                if record.name == "BeginTransactionRecord":
                    opened = batch.base_offset + number
                elif record.name in ("EndTransactionRecord", "AbortTransactionRecord"):
                    opened = None
            last = batch.next_offset - 1 if opened is None else min(opened, batch.next_offset) - 1
            if last > claimed:
                claimed, found = last, Displaced(expected=expected, claimed=last)
            expected = batch.next_offset
        return found if claimed >= self.end else None


def load_metadata_log(files: NodeFiles, now_ms: int) -> LoadedMetadata:
    """Load the metadata log (`__cluster_metadata-0`) in memory as a start does, and choose its snapshot. If the
    directory is missing, the result is an empty log without a snapshot. If the snapshot is beyond the log's end (by
    epoch, then by offset), the log is dropped. It then starts and ends at the snapshot, and has no tree. `now_ms` is
    the time to treat as now.

    Raises `StartEndsError` if loading fails, if `partition.metadata` names another topic, or if the log does not begin
    at 0 and no snapshot reaches its start. Raises `StorageError` if files cannot be read.
    """
    if files.metadata_root is None:
        return LoadedMetadata("", 0, 0, None, None, (), None)
    directory = os.path.join(files.metadata_root, _NAME)
    if files.metadata_directory is None:
        return LoadedMetadata(directory, 0, 0, None, None, (), None)
    survey = files.surveyed(files.metadata_root)
    if _NAME in survey.unreadable:
        raise survey.unreadable[_NAME]
    tree = survey.only([_NAME]).tree()
    last_base = max((base for base, _path in tree.logs(_NAME)), default=0)
    written_end = max(within_reach(last_base, snapshot_offsets(tree.names(_NAME))), default=0)
    result = load_log_directory(
        tree,
        settings=lambda topic: LogSettings.from_names({}),
        now_ms=now_ms,
        cluster_metadata=True,
        checkpoints=({}, {}),  # of the partitions, and read later
    )
    if result.outcome != StartResult.LOADED:
        message = result.message_in(files.metadata_root)
        words = without_cause(message) if result.outcome == StartResult.DIR_OFFLINE else message
        raise ends(Part.METADATA_LOG, "unreadable", directory, result.exception or "", words, detail=message)
    log = result.partitions.get(_NAME)
    if log is None:
        return LoadedMetadata(directory, 0, 0, None, None, (), None)
    _refuse_other_topic(directory, tree)
    loaded = LoadedMetadata(
        directory, log.log_start_offset, log.log_end_offset, _latest_epoch(tree), None, (), result.tree,
        *_cuts(directory, log.cut_at, log.emptied is not None), written_end,
    )  # fmt: skip
    return _with_snapshots(loaded)


def _cuts(
    directory: str, cut_at: int | None, is_emptied: bool
) -> tuple[tuple[StartConsequence, ...], tuple[Fault, ...]]:
    if cut_at is None and not is_emptied:
        return (), ()
    detail = f"the metadata log in {directory} is cut at its first damaged batch"
    cut = StartConsequence(kind=ConsequenceKind.METADATA_LOG_CUT, detail=detail, file=directory)
    return (cut,), (Fault(part=Part.METADATA_LOG, kind="cut", file=directory, detail=detail),)


def _refuse_other_topic(directory: str, tree: Tree) -> None:
    topic_id = topic_id_or_none(tree, _NAME)
    if topic_id is None or topic_id == CLUSTER_METADATA_TOPIC_ID:
        return
    exception = "org.apache.kafka.common.errors.InconsistentTopicIdException"
    message = f"to log for topic partition __cluster_metadata-0,but log already contained topic ID {topic_id}"
    raise ends(Part.METADATA_LOG, "mismatch", os.path.join(directory, PARTITION_METADATA), exception, message)


def _latest_epoch(tree: Tree) -> int | None:
    path = f"{_NAME}/{LEADER_EPOCH_CHECKPOINT}"
    if path not in tree.files:
        return None
    try:
        entries = decode_leader_epochs(tree.read(path))
    except FormatError:
        return None
    return entries[-1].epoch if entries else None


def _with_snapshots(loaded: LoadedMetadata) -> LoadedMetadata:
    kept = []
    for name in sorted(os.listdir(loaded.directory)):
        named = parse_kraft_snapshot_file(name)
        if named is not None and name.endswith(".checkpoint") and named.end_offset >= loaded.start:
            kept.append(Snapshot(os.path.join(loaded.directory, name), named.end_offset, named.epoch))
    kept.sort(key=lambda snapshot: (snapshot.epoch, snapshot.end))
    newest = kept[-1] if kept else None
    if loaded.start > 0 and newest is None:
        message = (
            "Inconsistent snapshot state: there must be a snapshot at an offset larger then the current log start "
            f"offset {loaded.start}"
        )
        detail = f"{message}, but the latest snapshot is Optional.empty"
        raise ends(
            Part.METADATA_SNAPSHOT, "missing", loaded.directory, "java.lang.IllegalStateException", message,
            detail=detail,
        )  # fmt: skip
    if newest is None:
        return loaded
    loaded = replace(loaded, snapshot=newest, older=tuple(kept[:-1]))
    if (newest.epoch, newest.end) <= (loaded.epoch or 0, loaded.end):
        return loaded
    detail = (
        f"the snapshot {os.path.basename(newest.path)} goes further than the metadata log, which ends at {loaded.end}: "
        "the log is dropped"
    )
    dropped = StartConsequence(kind=ConsequenceKind.METADATA_LOG_DROPPED, detail=detail, file=newest.path)
    return replace(
        loaded, start=newest.end, end=newest.end, epoch=None, tree=None, older=(),
        consequences=(*loaded.consequences, dropped), contents=Contents(),
    )  # fmt: skip
