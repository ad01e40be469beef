"""A partition that is written: `Log`, as Kafka's documentation describes its log (`UnifiedLog`, `LocalLog`).

Appending, rolling, flushing, truncating and deleting by age, size or start offset.  One writer at a time, by the
broker's own lock.  At every moment a crash leaves a log whose valid batches are a prefix of what was appended, with
everything in it that was flushed: what goes away goes from the end backwards, and whatever is derived is written before
something relies on it.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from types import TracebackType
from typing import Self

from kafkalog.codec.arguments import checked
from kafkalog.codec.codec_names import as_codec
from kafkalog.codec.encode import ProducerState, build_end_transaction_marker
from kafkalog.codec.encode.batch import NO_PRODUCER
from kafkalog.codec.errors import FormatError, StorageError, UsageError
from kafkalog.codec.limits import MIB
from kafkalog.codec.model import (
    MAX_SEQUENCE,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Codec,
    ControlType,
    EndTransactionMarker,
    RecordBatch,
)
from kafkalog.codec.names import (
    CLEANER_OFFSET_CHECKPOINT,
    DELETED,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    TEMPORARY,
    DirectoryState,
    FileKind,
    PartitionName,
    parse_partition_directory,
)
from kafkalog.codec.rules import MAX_RELATIVE_OFFSET
from kafkalog.codec.text import LeaderEpoch, PartitionMetadata, decode_uuid, encode_partition_metadata, encode_uuid
from kafkalog.log.directories.directory import existing_log_directory
from kafkalog.log.directories.partition import OffsetAndTimestamp, Partition, read_partition
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import PathLike, scan_directory
from kafkalog.log.disk.lock import HeldDirectory, hold
from kafkalog.log.disk.process import OwnLock, OwnProcess
from kafkalog.log.reading.consumer_view import Reset
from kafkalog.log.reading.fetch import Chunk
from kafkalog.log.reading.offsets import offsets_before
from kafkalog.log.reading.transactions import marker_of
from kafkalog.log.storage import retention
from kafkalog.log.storage.cleaning.cleanable_log import CleanableLog
from kafkalog.log.storage.directory import DirectoryDisk
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.leader_epochs import LeaderEpochCheckpointFile, LeaderEpochFileCache
from kafkalog.log.storage.loader import LoadRequest
from kafkalog.log.storage.producer_appends import ProducerAppends
from kafkalog.log.storage.producers.known_producers import ProducerStateManager
from kafkalog.log.storage.producers.state import AppendOrigin
from kafkalog.log.storage.replay import rebuild_producer_state
from kafkalog.log.storage.retention import DeletionPolicy
from kafkalog.log.storage.segment import LogSegment, RollParams, change_suffixes
from kafkalog.log.storage.segments import LogSegments
from kafkalog.log.writing import checkpoint_files
from kafkalog.log.writing.compacting import CompactionCounts, compact
from kafkalog.log.writing.config import LogConfig
from kafkalog.log.writing.flusher import Flusher
from kafkalog.log.writing.incoming import Appendable, Stamp, assign, build, parse_batch, taken_over
from kafkalog.log.writing.live import LiveLog, LiveState
from kafkalog.log.writing.loading import (
    Loaded,
    SealedSegment,
    load,
    open_segment,
    refuse_findings,
    remove_leftovers,
    seal,
    sealed,
)
from kafkalog.log.writing.session import leave

__all__ = ["Log", "check_topic", "partition_name"]

_LARGEST_END = 2**63 - 1
"""where a log may end: checkpoints and headers hold 64 bits, with a sign"""
_MAGIC = 2
_TOPIC_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_LONGEST_TOPIC = 249


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def check_topic(name: str) -> None:
    """`UsageError` for what is not the name of a topic (`Topic.validate`), such as one that leads to another place."""
    if not 0 < len(name) <= _LONGEST_TOPIC or not _TOPIC_CHARACTERS.issuperset(name) or name in (".", ".."):
        raise UsageError(f"{name[:_LONGEST_TOPIC]!r} is not the name of a topic")


def partition_name(path: str) -> PartitionName:
    """The name of a partition directory that a broker would find; `UsageError` for any other."""
    name = parse_partition_directory(os.path.basename(path))
    if name is None or name.state is not DirectoryState.LIVE or name.partition < 0:
        raise UsageError(f"{path} is not named like a partition directory (<topic>-<partition>)")
    check_topic(name.topic)
    if os.path.basename(path) != str(name):
        raise UsageError(f"{path} should end in {name}: a broker would not find it")
    return name


def _topic_id(topic_id: str | None) -> str:
    if topic_id is None:
        while True:
            text = encode_uuid(uuid.uuid4().bytes)
            if not text.startswith("-"):  # as Kafka's own, which must not look like an option
                return text
    try:
        value = decode_uuid(topic_id)
    except FormatError as error:
        raise UsageError(f"topic_id: {error.message}") from None
    if not any(value):
        raise UsageError("topic_id is zero")
    return topic_id


def _add(appends: ProducerAppends, batch: RecordBatch, header: BatchHeader) -> None:
    """Take in one batch of a producer; `UsageError` is what a broker answers to one that breaks the rules."""
    marker = marker_of(batch, whole=True) if header.is_control else None
    try:
        appends.add(header, lambda: marker)
    except JavaError as error:
        raise UsageError(str(error)) from error


class Log:
    """One partition, open for writing; use as a context manager, or `close` it.

    Thread-safe.  The log assigns offsets: the next record gets `end_offset`.  Raises `UsageError` for what a broker
    would refuse, `FormatError` for bytes that are not a valid batch, `StorageError` when the disk fails: after that the
    log accepts nothing more, and closing it does not write the clean-shutdown marker.

    A log belongs to the process that opened it.  In a forked child every call raises `UsageError`, except `close`,
    which does nothing there; the parent is not disturbed.
    """

    def __init__(
        self,
        path: str,
        name: PartitionName,
        config: LogConfig,
        held: HeldDirectory,
        clock: Callable[[], int],
        topic_id: str | None,
    ) -> None:
        self.path = path
        self.name = name
        self.config = config
        self._held = held
        self._clock = clock
        self._process = OwnProcess(path)
        self._guard = OwnLock(self._process)
        self._failure: BaseException | None = None
        self._closed = False
        self._root = os.path.dirname(path)
        self._deleted: list[tuple[int, list[str]]] = []
        self._changes = 0
        """how many segments came or went"""
        self._live = LiveLog(path, self._guard, self._state, self.partition)
        self._disk = DirectoryDisk()
        self._checkpoint_of_epochs = LeaderEpochCheckpointFile(self._disk, path)
        loaded = self._create(topic_id) if not self._exists() else self._load(topic_id)
        self._sealed = loaded.sealed
        self._active = loaded.active
        self._producers = loaded.producers
        self._end = self._files_end = loaded.end_offset
        self._log_start = loaded.log_start_offset
        self._checkpointed_ms = clock()
        seconds = config.flush_seconds
        self._flusher = None if seconds is None else Flusher(seconds, self._flush_by_clock)

    @classmethod
    @checked
    def open(
        cls,
        path: PathLike,
        config: LogConfig | None = None,
        *,
        topic_id: str | None = None,
        clock: Callable[[], int] = _now_ms,
    ) -> Self:
        """Open the partition directory `path` (`<log directory>/<topic>-<partition>`), creating it if it is missing.

        The log directory must exist.  `topic_id` is that of a new partition, by default a random one; an existing
        partition must have this id.  `clock` returns milliseconds since 1970.  After a crash the log is read from its
        recovery point on and the indexes are rebuilt; if it is damaged, even by a torn last batch, `FormatError` is
        raised, and `kafkalog recover` repairs it.
        """
        directory = os.path.abspath(os.fspath(path))
        name = partition_name(directory)
        root = existing_log_directory(os.path.dirname(directory))
        held = hold(root, str(name))
        try:
            with held.guard:
                return cls(directory, name, config or LogConfig(), held, clock, topic_id)
        except BaseException:
            held.refused(str(name))
            held.release(str(name))
            raise

    # -- opening -----------------------------------------------------------------------------------------------------

    def _exists(self) -> bool:
        if not os.path.lexists(self.path):
            return False
        return bool(read_partition(self.path, self.name, None).segments)

    def _was_clean(self) -> bool:
        """Whether the directory was closed in order."""
        held = self._held
        if held.was_clean is None:
            held.marker = checkpoint_files.clean_marker(self._root)
            held.was_clean = held.marker is not None
        return held.was_clean and not held.failed

    def _begin(self) -> None:
        """From now on the directory counts as open."""
        if self._was_clean():
            checkpoint_files.unmark_clean(self._root)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """The directory counts as open; what an error leaves unfinished is examined by the next start."""
        self._begin()
        try:
            yield
        except BaseException:
            self._held.failed = True
            raise

    def _create(self, topic_id: str | None) -> Loaded:
        identity = PartitionMetadata(0, _topic_id(topic_id))
        present = [entry.name for entry in scan_directory(self.path)] if os.path.isdir(self.path) else []
        others = [name for name in present if not name.endswith((TEMPORARY, DELETED))]
        known = {PARTITION_METADATA, LEADER_EPOCH_CHECKPOINT}
        foreign = [
            name
            for name in others
            if name not in known and not name.endswith((FileKind.OFFSET_INDEX, FileKind.TIME_INDEX))
        ]
        if foreign:
            raise UsageError(f"{self.path} holds no segment, but {foreign[0]}")
        self._begin()
        fs.make_directory(self.path)
        remove_leftovers(self.path)
        for stale in set(others) - known:
            fs.remove(os.path.join(self.path, stale))
        fs.replace(os.path.join(self.path, PARTITION_METADATA), encode_partition_metadata(identity))
        self._disk.create(self._checkpoint_of_epochs.path)
        self._epochs = self._epochs_of(())
        active = open_segment(self._disk, self.path, 0, self.config, self._clock(), create=True)
        active.flush()
        fs.sync_directory(self.path)
        self._recovery_point = 0
        return Loaded([], active, 0, 0, self._new_producers())

    def _new_producers(self) -> ProducerStateManager:
        try:
            return ProducerStateManager(self._disk, self.path, self._clock(), self.config.producer_id_expiration_ms)
        except JavaError as error:
            raise UsageError(f"{self.path} holds a snapshot that a broker cannot read: {error}") from error

    def _epochs_of(self, entries: tuple[LeaderEpoch, ...]) -> LeaderEpochFileCache:
        try:
            return LeaderEpochFileCache(self._checkpoint_of_epochs, entries, at_once=True)
        except JavaError as error:
            raise FormatError(str(error), source=self._checkpoint_of_epochs.path, code="checkpoint_invalid") from error

    def _load(self, topic_id: str | None) -> Loaded:
        partition = read_partition(self.path, self.name, None)
        metadata = partition.metadata
        if topic_id is not None and (metadata is None or metadata.topic_id != topic_id):
            raise UsageError(f"{self.path} has topic id {metadata.topic_id if metadata else None}, not {topic_id}")
        refuse_findings(partition)
        self._epochs = self._epochs_of(partition.leader_epochs)
        point = checkpoint_files.read_offset(self._root, RECOVERY_POINT_CHECKPOINT, self.name) or 0
        start = checkpoint_files.read_offset(self._root, LOG_START_OFFSET_CHECKPOINT, self.name) or 0
        request = LoadRequest(
            directory=self.path,
            settings=self.config,
            now_ms=self._clock(),
            clean=self._was_clean(),
            recovery_point=point,
            log_start_offset=max(start, 0),
        )
        loaded = load(self._disk, partition, request, self._epochs, self._changing())
        if metadata is None:
            identity = PartitionMetadata(0, _topic_id(None))
            fs.replace(os.path.join(self.path, PARTITION_METADATA), encode_partition_metadata(identity))
        loaded.active.flush()
        self._recovery_point = loaded.end_offset
        return loaded

    # -- looking -----------------------------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """First offset that may be read."""
        with self._guard:
            return self._log_start

    @property
    def end_offset(self) -> int:
        """Offset that the next record gets."""
        with self._guard:
            return self._end

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is durable."""
        with self._guard:
            return self._recovery_point

    @property
    def last_stable_offset(self) -> int:
        """First offset of the earliest open transaction, else the end."""
        with self._guard:
            undecided = self._producers.first_undecided_offset()
            return self._end if undecided is None else max(undecided, self._log_start)

    @property
    def leader_epoch(self) -> int:
        """The epoch that new batches get; 0 in a new log."""
        with self._guard:
            latest = self._epochs.latest_epoch
            return 0 if latest is None else latest

    @property
    def topic_id(self) -> str:
        """The topic's id, as text."""
        metadata = self.partition().metadata
        return "" if metadata is None else metadata.topic_id

    @property
    def segments(self) -> tuple[int, ...]:
        """Base offsets of the segments."""
        with self._guard:
            return (*(segment.base_offset for segment in self._sealed), self._active.base_offset)

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        with self._guard:
            return sum(segment.size for segment in self._sealed) + self._active.log.size

    @checked
    def next_sequence(self, producer_id: int, producer_epoch: int | None = None) -> int:
        """The sequence that the next batch of an idempotent producer must begin with; 0 in a newer epoch."""
        with self._guard:
            known = self._producers.last_entry(producer_id)
            if known is not None and producer_epoch is not None and producer_epoch > known.producer_epoch:
                return 0
            last = NO_SEQUENCE if known is None else known.last_batch.last_sequence
            return 0 if last in (NO_SEQUENCE, MAX_SEQUENCE) else last + 1

    @checked
    def is_in_transaction(self, producer_id: int) -> bool:
        """Whether a transaction of a producer is open."""
        with self._guard:
            known = self._producers.last_entry(producer_id)
            return known is not None and known.current_txn_first_offset is not None

    def partition(self) -> Partition:
        """What the log holds at this moment, for reading."""
        with self._guard:
            return read_partition(self.path, self.name, self._log_start)

    @checked
    def read(
        self, offset: int, max_bytes: int = MIB, *, max_chunk_bytes: int = 64 * MIB, reset: Reset | None = None
    ) -> Chunk:
        """A chunk of whole batches from `offset` on; it doubles until one fits, up to `max_chunk_bytes`.

        For an offset below the log's start or after its end, `reset` says where to read instead; without it
        `OffsetOutOfRangeError` is raised.  At the end the chunk is empty.
        """
        return self._live.read(offset, max_bytes, max_chunk_bytes, reset)

    def _state(self) -> LiveState:
        active = SealedSegment(self._active.base_offset, self._active.log.size, NO_TIMESTAMP)
        return LiveState(self._changes, self._log_start, self._end, self._sealed, active)

    @checked
    def offsets_before(self, timestamp: int, max_count: int) -> list[int]:
        """Base offsets, descending, of the segments last modified by `timestamp`; see `offsets_before`."""
        with self._guard:
            partition, end = self.partition(), self._end
        return offsets_before(partition, timestamp, max_count, end_offset=end, now_ms=self._clock())

    @checked
    def offset_for_timestamp(self, timestamp: int) -> OffsetAndTimestamp | None:
        """The first record with at least this timestamp (ms); None if there is none."""
        return self._live.offset_for_timestamp(timestamp)

    # -- appending ---------------------------------------------------------------------------------------------------

    @checked
    def append(
        self,
        records: Iterable[Appendable] | Iterable[RecordBatch],
        *,
        compression: Codec | str | int = Codec.NONE,
        producer: ProducerState = NO_PRODUCER,
        leader_epoch: int | None = None,
        keep_offsets: bool = False,
    ) -> int:
        """Append records as one batch, or existing batches; returns the offset of the first record.

        Records are `NewRecord`, `Record`, (key, value) or a value.  Batches get offsets and epoch as a leader sets
        them, and keep their compression and producer fields; with `keep_offsets` they are written unchanged, as on a
        follower.  `producer` identifies the producer of the records; a batch that repeats one of that producer's last
        is not written again, and the offset of the original is returned.  Appending nothing returns `end_offset`.
        """
        with self._guard:
            self._check_open()
            iterator = iter(records)
            first = next(iterator, None)
            if first is None:
                return self._end
            epoch = self.leader_epoch if leader_epoch is None else leader_epoch
            if isinstance(first, RecordBatch):
                return self._append_given(chain((first,), iterator), epoch, keep_offsets)  # type: ignore[arg-type]
            if keep_offsets:
                raise UsageError("records get their offsets from the log; only batches can keep theirs")
            codec = as_codec(compression)
            stamp = Stamp(self._end, epoch, self._clock())
            made = build(chain((first,), iterator), stamp, self.config, compression=codec, producer=producer)  # type: ignore[arg-type]
            return self._append(made, AppendOrigin.CLIENT, stamp.offset)

    def _append_given(self, batches: Iterable[RecordBatch], epoch: int, keep_offsets: bool) -> int:
        if keep_offsets:
            return self._append([taken_over(batch) for batch in batches], AppendOrigin.REPLICATION)
        made: list[RecordBatch] = []
        offset, now_ms = self._end, self._clock()
        for batch in batches:
            made += assign(batch, Stamp(offset, epoch, now_ms), self.config)
            offset = made[-1].header.next_offset
        return self._append(made, AppendOrigin.CLIENT, self._end)

    @checked
    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int = 0,
        leader_epoch: int | None = None,
        timestamp: int | None = None,
    ) -> int:
        """Append the COMMIT or ABORT marker of a producer's transaction, as a coordinator does; returns its offset."""
        with self._guard:
            self._check_open()
            if self.config.magic < _MAGIC:
                raise UsageError(f"there are no transactions in messages of magic {self.config.magic}")
            kind = ControlType.COMMIT if commit else ControlType.ABORT
            data = build_end_transaction_marker(
                EndTransactionMarker(kind, coordinator_epoch),
                base_offset=self._end,
                timestamp=self._clock() if timestamp is None else timestamp,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                partition_leader_epoch=self.leader_epoch if leader_epoch is None else leader_epoch,
            )
            return self._append([parse_batch(data)], AppendOrigin.COORDINATOR)

    def _append(self, batches: Sequence[RecordBatch], origin: AppendOrigin, first_offset: int | None = None) -> int:
        """Append batches; gives the offset of the first record, which is `first_offset` where that is known."""
        self._process.require()  # whoever gave the records may have forked meanwhile
        size = self._check_batches(batches, origin)
        appends = ProducerAppends(self._producers, origin)
        for batch in batches:
            header = batch.header
            if isinstance(header, BatchHeader) and header.has_producer_id:
                if origin is AppendOrigin.CLIENT:
                    known = self._producers.last_entry(header.producer_id)
                    repeated = known.find_duplicate(header) if known is not None else None
                    if repeated is not None:
                        return repeated.first_offset
                _add(appends, batch, header)
        try:
            written = self._write(batches, size, appends)
            return written if first_offset is None else first_offset
        except BaseException as error:  # an interruption too leaves open how far it came
            self.fail(error)
            _translate(error, self.path)
            raise

    def _check_batches(self, batches: Sequence[RecordBatch], origin: AppendOrigin) -> int:
        """Bytes of an append that may be written; raises `UsageError` otherwise."""
        last = self._end - 1
        for batch in batches:
            header = batch.header
            first = header.first_offset
            if header.size > self.config.max_message_bytes:
                raise UsageError(
                    f"a batch of {header.size} bytes; max_message_bytes is {self.config.max_message_bytes}"
                )
            if first <= last or header.last_offset < first:
                raise UsageError(f"a batch from offset {first} to {header.last_offset} cannot follow offset {last}")
            if header.last_offset >= _LARGEST_END:
                raise UsageError(f"a batch up to offset {header.last_offset}: no offset would be left after it")
            epoch = header.partition_leader_epoch
            if header.magic == _MAGIC and epoch < self.leader_epoch and origin is not AppendOrigin.REPLICATION:
                raise UsageError(f"leader epoch {epoch} is below the one that the log has reached, {self.leader_epoch}")
            last = header.last_offset
        size = sum(batch.header.size for batch in batches)
        if size > self.config.segment_bytes:
            raise UsageError(f"an append of {size} bytes; segment_bytes is {self.config.segment_bytes}")
        return size

    def _write(self, batches: Sequence[RecordBatch], size: int, appends: ProducerAppends) -> int:
        now_ms = self._clock()
        self._remove_deleted(now_ms)
        header, end = batches[0].header, batches[-1].header.last_offset
        for batch in batches:
            if isinstance(batch.header, BatchHeader):
                if batch.header.partition_leader_epoch >= 0:
                    self._epochs.assign(batch.header.partition_leader_epoch, batch.header.base_offset)
            else:
                self._epochs.clear()
        config, newest = self.config, max(batch.header.max_timestamp for batch in batches)
        roll = RollParams(size, newest, end, now_ms, config.segment_bytes, config.segment_ms)
        if self._active.should_roll(roll):
            first = header.base_offset if isinstance(header, BatchHeader) else end - MAX_RELATIVE_OFFSET
            self._roll(max(first, self._end), now_ms)
        self._active.append(batches)
        self._end = self._files_end = end + 1
        appends.take_over(self._active.transaction_index)
        self._active.transaction_index.store()
        self._producers.set_map_end(self._end)
        self._producers.on_high_watermark_updated(self._end)
        if self.config.flush_messages is not None and self._end - self._recovery_point >= self.config.flush_messages:
            self._flush()
        return header.first_offset

    # -- rolling and flushing ----------------------------------------------------------------------------------------

    def roll(self) -> int:
        """Begin a new segment at the end, unless the last one is empty; returns its base offset."""
        with self._guard, self._failing():
            if self._active.log.size or self._active.base_offset != self._end:
                self._roll(self._end, self._clock())
            return self._active.base_offset

    def _roll(self, base_offset: int, now_ms: int) -> None:
        if base_offset == self._active.base_offset:
            return
        old = self._active
        old.append_largest_timestamp()
        old.trim()
        self._flush()
        self._take_snapshot(base_offset)
        self._active = open_segment(self._disk, self.path, base_offset, self.config, now_ms, create=True)
        fs.sync_directory(self.path)
        self._sealed.append(seal(old))
        self._changes += 1
        old.close_handlers()
        self._recovery_point = base_offset
        if now_ms - self._checkpointed_ms >= self.config.offset_checkpoint_interval_ms:
            self._checkpoint(base_offset)

    def _take_snapshot(self, offset: int) -> None:
        self._producers.set_map_end(offset)
        self._producers.take_snapshot()

    def flush(self) -> None:
        """Make everything that was appended durable."""
        with self._guard, self._failing():
            self._flush()

    def _flush(self) -> None:
        self._active.flush()
        self._recovery_point = self._end

    def _flush_by_clock(self) -> None:
        with self._guard:
            if self._closed or self._failure is not None or self._recovery_point >= self._end:
                return
            try:
                self._flush()
            except OSError as error:
                self._failure = error

    def _checkpoint(self, recovery_point: int) -> None:
        start = self._log_start if self._log_start > self.segments[0] else None
        with self._held.guard:
            checkpoint_files.write_offset(self._root, RECOVERY_POINT_CHECKPOINT, self.name, recovery_point)
            checkpoint_files.write_offset(self._root, LOG_START_OFFSET_CHECKPOINT, self.name, start)
        self._checkpointed_ms = self._clock()

    # -- truncating --------------------------------------------------------------------------------------------------

    @checked
    def truncate_to(self, offset: int) -> bool:
        """Remove everything from `offset` on; False if the log ends there or before.

        The batch that holds `offset` is removed as a whole; the next record still gets `offset`.
        """
        if offset < 0:
            raise UsageError(f"cannot truncate to {offset}")
        with self._guard, self._failing():
            if offset >= self._end:
                self._epochs.truncate_from_end(self._end)
                return False
            if offset < self.segments[0]:
                self._truncate_fully(offset)
                return True
            self._checkpoint(min(self._recovery_point, offset))
            self._truncate_cleaner_checkpoint(offset)
            while self._active.base_offset > offset:
                self._active.close_handlers()
                self._retire(self._active.base_offset)
                last = self._sealed.pop()
                self._active = open_segment(
                    self._disk, self.path, last.base_offset, self.config, self._clock(), create=False
                )
            self._files_end = self._truncate_active(offset)
            self._active.flush()
            self._end = offset
            self._producers.delete_snapshots_above(offset)
            self._epochs.truncate_from_end(offset)
            self._log_start = min(self._log_start, offset)
            self._rebuild_producers()
            self._recovery_point = offset
            self._checkpoint(self._files_end)
            return True

    @checked
    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything; the next record gets `offset`."""
        if not 0 <= offset <= _LARGEST_END:
            raise UsageError(f"cannot start at {offset}: offsets are 0 to {_LARGEST_END}")
        with self._guard, self._failing():
            self._truncate_fully(offset)

    def _truncate_fully(self, offset: int) -> None:
        start = self._log_start
        self._log_start = min(offset, start)
        self._checkpoint(0)
        self._truncate_cleaner_checkpoint(offset)
        self._active.close_handlers()
        for base_offset in reversed(self.segments):
            self._retire(base_offset)
        self._sealed.clear()
        self._epochs.clear()
        self._producers.truncate_fully(offset)
        self._active = open_segment(self._disk, self.path, offset, self.config, self._clock(), create=True)
        self._active.flush()
        fs.sync_directory(self.path)
        self._log_start = self._end = self._files_end = self._recovery_point = offset
        self._rebuild_producers()
        self._checkpoint(offset)

    def _truncate_active(self, offset: int) -> int:
        """Cut the last segment; gives the offset after the last batch that is left."""
        self._active.truncate_to(offset, self._clock(), log_first=True)
        return self._active.read_next_offset()

    def _rebuild_producers(self) -> None:
        self._producers = self._new_producers()
        segments = LogSegments()
        for base_offset in self.segments[:-1]:
            segments.put(LogSegment(self._disk, self.path, base_offset, self.config), base_offset)
        segments.put(self._active, self._active.base_offset)
        try:
            rebuild_producer_state(self._producers, segments, self._log_start, self._files_end)
        finally:
            for segment in segments.all()[:-1]:
                segment.close_handlers()
        self._producers.on_high_watermark_updated(self._files_end)

    # -- deleting ----------------------------------------------------------------------------------------------------

    @checked
    def delete_records_before(self, offset: int) -> None:
        """Raise the log start offset, as `DeleteRecords` does; `delete_old_segments` then deletes segments below it."""
        with self._guard, self._failing():
            if offset > self._end:
                raise UsageError(f"offset {offset} is out of range: the log holds {self._log_start} to {self._end}")
            if offset > self._log_start:
                if offset > self._recovery_point:
                    self._flush()  # a start after the end of what survives would be no start
                self._log_start = offset
                self._checkpoint(self._recovery_point)
                self._epochs.truncate_from_start(offset)

    @checked
    def delete_old_segments(self, policy: DeletionPolicy | None = None) -> int:
        """Delete what the retention settings or the log start offset allow; returns the number of segments.

        A `policy` replaces the settings: it is called for one segment after the other, from the oldest on, until it
        returns False.  `by_file_time` is the policy of brokers before 0.10.1.  Files are renamed to `.deleted` at once
        and removed `file_delete_delay_ms` later: by a later call of this or of `append`, or when the log is next
        opened.
        """
        with self._guard:
            self._check_open()
            chosen = None if policy is None else retention.by_policy(self._all(), policy, self.path)
            with self._failing():
                now_ms = self._clock()
                self._remove_deleted(now_ms)
                count = self._delete_oldest(retention.below_start(self._all(), self._log_start), now_ms)
                if chosen is not None:
                    return count + self._delete_oldest(max(chosen - count, 0), now_ms)
                count += self._delete_oldest(retention.beyond_size(self._all(), self.config.retention_bytes), now_ms)
                count += self._delete_oldest(retention.too_old(self._all(), self.config.retention_ms, now_ms), now_ms)
                return count

    def _all(self) -> list[SealedSegment]:
        return [*self._sealed, seal(self._active)]

    def _delete_oldest(self, count: int, now_ms: int) -> int:
        if count > len(self._sealed):
            self._roll(self._end, now_ms)
        gone = self._sealed[:count]
        if not gone:
            return 0
        following = self._sealed[count].base_offset if count < len(self._sealed) else self._active.base_offset
        if following > self._log_start:
            self._log_start = following
            self._epochs.truncate_from_start(following)
        for segment in gone:
            self._retire(segment.base_offset)
            del self._sealed[0]
            snapshot = self._producers.remove_and_mark_snapshot_for_deletion(segment.base_offset)
            if snapshot is not None:
                self._deleted[-1][1].append(snapshot)
        return count

    def _retire(self, base_offset: int) -> None:
        """First step of deleting a segment: its files get another name, durably, before the next segment's."""
        self._changes += 1
        renamed = change_suffixes(self._disk, self.path, base_offset, "", DELETED)
        fs.sync_directory(self.path)
        self._deleted.append((self._clock() + self.config.file_delete_delay_ms, renamed))

    def _remove_deleted(self, now_ms: int) -> None:
        """Second step, for all whose time has come."""
        due = [paths for due_ms, paths in self._deleted if due_ms <= now_ms]
        self._deleted = [(due_ms, paths) for due_ms, paths in self._deleted if due_ms > now_ms]
        for path in chain.from_iterable(due):
            fs.remove(path)

    # -- compacting --------------------------------------------------------------------------------------------------

    def compact(self) -> CompactionCounts:
        """One pass of the broker's log cleaner, with the settings of `config`; the last segment is left alone.

        The latest record of each key is kept; tombstones, transactions and their markers, and the last batch of each
        producer are treated as in `Cleaner`.  Offsets stay as they are, with gaps.  The log end is the high watermark.
        `cleaner-offset-checkpoint` records what was cleaned.  If a segment is damaged, `FormatError` is raised and the
        log stays as it is, because cleaning would hide the damage.
        """
        with self._guard:
            unreadable: FormatError
            with self._failing():
                try:
                    return self._compact(self._clock())
                except FormatError as error:  # nothing is half done
                    unreadable = error
            raise unreadable

    def _compact(self, now_ms: int) -> CompactionCounts:
        self._remove_deleted(now_ms)
        self._flush()
        segments = LogSegments()
        for base_offset in self.segments[:-1]:
            segments.put(LogSegment(self._disk, self.path, base_offset, self.config), base_offset)
        segments.put(self._active, self._active.base_offset)
        log = CleanableLog(
            disk=self._disk,
            directory=self.path,
            settings=self.config,
            segments=segments,
            producers=self._producers,
            epochs=self._epochs,
            log_start_offset=self._log_start,
            end_offset=self._end,
            high_watermark=self._end,
            retire=self._retire_segment,
        )
        try:
            with self._held.guard:
                cleaned_to = checkpoint_files.read_offset(self._root, CLEANER_OFFSET_CHECKPOINT, self.name)
            counts = compact(log, self.partition(), cleaned_to, now_ms)
        except FormatError:
            self._take_cleaned(segments)
            raise
        finally:
            for segment in segments.all()[:-1]:
                segment.close_handlers()
        self._take_cleaned(segments)
        if counts.cleaned_to is not None:
            self._checkpoint_cleaner(counts.cleaned_to)
        return counts

    def _retire_segment(self, segment: LogSegment) -> None:
        segment.close_handlers()
        self._retire(segment.base_offset)

    def _take_cleaned(self, segments: LogSegments) -> None:
        """Go on with the segments that a pass has left."""
        self._changes += 1
        self._sealed = [sealed(segment) for segment in segments.all()[:-1]]

    def _checkpoint_cleaner(self, offset: int) -> None:
        with self._held.guard:
            checkpoint_files.write_offset(self._root, CLEANER_OFFSET_CHECKPOINT, self.name, offset)

    def _truncate_cleaner_checkpoint(self, offset: int) -> None:
        """What is written after a truncation is dirty (`LogCleanerManager.maybeTruncateCheckpoint`)."""
        with self._held.guard:
            cleaned_to = checkpoint_files.read_offset(self._root, CLEANER_OFFSET_CHECKPOINT, self.name)
        if cleaned_to is not None and cleaned_to > offset:
            self._checkpoint_cleaner(offset)

    # -- closing -----------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError(f"{self.path} is closed")
        if self._failure is not None:
            raise StorageError(
                getattr(self._failure, "errno", None), f"an earlier write failed ({self._failure})", self.path
            ) from self._failure

    def _failing(self) -> _Failing:
        self._check_open()
        return _Failing(self)

    def fail(self, error: BaseException) -> None:
        """Accept nothing more: what is on the disk is no longer known."""
        self._failure = self._failure or error

    def close(self) -> None:
        """Flush, write what makes the next start fast, and release the lock; a second call does nothing.

        The clean-shutdown marker is written when the last log of the directory is closed, if all of them were closed
        without an error.
        """
        if not self._process.is_here:
            return
        if self._flusher is not None and not self._closed:
            self._flusher.stop()
        with self._guard:
            if self._closed:
                return
            self._closed = True
            try:
                if self._failure is None:
                    self._close_files()
            except BaseException as error:
                self._held.failed = True
                _translate(error, self.path)
                raise
            finally:
                self._active.close_handlers()
                self._leave()

    def _close_files(self) -> None:
        self._remove_deleted(self._clock())
        self._active.append_largest_timestamp()
        self._active.trim()
        self._active.flush()
        self._take_snapshot(self._files_end)
        self._producers.remove_stray_snapshots(list(self.segments))
        self._producers.delete_snapshots_up_to(self._log_start)
        fs.sync_directory(self.path)
        self._recovery_point = self._end
        self._checkpoint(self._files_end)

    def _leave(self) -> None:
        with self._held.guard:
            self._held.failed = self._held.failed or self._failure is not None
            leave(self._held, str(self.name))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Failing:
    """A block in which an error, but for a refusal, ends the log's writing: nobody knows how far it came."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, UsageError):
            self._log.fail(error)
            _translate(error, self._log.path)


def _translate(error: BaseException, path: str) -> None:
    """What a broker would have thrown is a `FormatError` here."""
    if isinstance(error, JavaError):
        raise FormatError(str(error), source=path) from error
