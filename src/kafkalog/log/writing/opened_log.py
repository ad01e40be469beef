"""Keep one partition open for writing: open it, roll and flush its segments, inspect it and close it (`LocalLog`)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from types import TracebackType
from typing import Self

from kafkalog.codec.common.arguments import checked
from kafkalog.codec.common.errors import FormatError, StorageError, UsageError
from kafkalog.codec.common.limits import MIB
from kafkalog.codec.files.text import LeaderEpoch, PartitionMetadata, encode_partition_metadata
from kafkalog.codec.model import (
    MAX_SEQUENCE,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)
from kafkalog.codec.names import (
    DELETED,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    TEMPORARY,
    FileKind,
    PartitionName,
)
from kafkalog.log.directories.directory import existing_log_directory
from kafkalog.log.directories.partition import OffsetAndTimestamp, Partition, read_partition
from kafkalog.log.disk import fs
from kafkalog.log.disk.files import PathLike, scan_directory, status_of
from kafkalog.log.disk.lock import HeldDirectory, hold, latest_cut
from kafkalog.log.disk.pointer import LogCut
from kafkalog.log.disk.process import OwnLock, OwnProcess
from kafkalog.log.reading.consumer_view import Reset
from kafkalog.log.reading.fetch import Chunk
from kafkalog.log.reading.offsets import offsets_before
from kafkalog.log.storage.directory import DirectoryDisk
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.leader_epochs import LeaderEpochCheckpointFile, LeaderEpochFileCache
from kafkalog.log.storage.loader import LoadRequest
from kafkalog.log.storage.producers.known_producers import ProducerStateManager
from kafkalog.log.writing import checkpoint_files
from kafkalog.log.writing.config import LogConfig
from kafkalog.log.writing.flusher import Flusher
from kafkalog.log.writing.live import LiveLog, LiveState
from kafkalog.log.writing.loading import (
    Loaded,
    SealedSegment,
    load,
    open_segment,
    refuse_findings,
    refuse_tiered,
    remove_leftovers,
    seal,
)
from kafkalog.log.writing.session import leave
from kafkalog.log.writing.topics import id_of_topic, partition_name, topic_id_beside

__all__ = ["OpenedLog", "raise_as_format_error"]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@checked()
class OpenedLog:
    """Files and state of one partition that this process has open for writing. `Log`, which appends, is derived from
    it.
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
        """number of times that a segment was added or removed"""
        self._live = LiveLog(path, self._guard, self._state, self.partition)
        self._disk = DirectoryDisk()
        self._least_epoch = 0
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
    def open(
        cls,
        path: PathLike,
        config: LogConfig | None = None,
        *,
        topic_id: str | None = None,
        clock: Callable[[], int] = _now_ms,
    ) -> Self:
        """Open the partition directory `path` (`<log directory>/<topic>-<partition>`) for writing, and create it if it
        is missing; one without segments counts as new. The log directory must exist, and is locked until the last of
        its logs is closed. `topic_id` is the id of a new partition; an existing one must have this id. With None, a new
        partition gets the id of the topic's other partitions there, or a random one if there are none. With None, an
        existing partition without `partition.metadata` gets this file too. `clock` returns ms since 1970. After a crash
        the log is read from its recovery point on and its indexes are rebuilt.

        Raises `FormatError` if the log is damaged, even by an incomplete last batch (`kafkalog recover` repairs it).
        Raises `UsageError` for a wrong name or topic id, a missing log directory, or the local part of a tiered log.
        Raises it also for files that a writer or a broker does not accept, or if another process has the lock. The same
        holds if this process already writes the partition or is recovering the directory. Raises `RecoveryRefused` if a
        recovery of the directory has not ended. Raises `StorageError` for I/O errors.
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
        return bool(read_partition(self.path, self.name, None, as_started=False).segments)

    def _was_clean(self) -> bool:
        """Return whether the log directory had its clean shutdown marker when it was locked, and no error has occurred
        in it since. The marker is read at the first call and then kept. Raises `StorageError` if it cannot be read.
        """
        held = self._held
        if held.was_clean is None:
            held.marker = checkpoint_files.clean_marker(self._root)
            held.was_clean = held.marker is not None
        return held.was_clean and not held.failed

    def _begin(self) -> None:
        """Remove the clean shutdown marker of the log directory, if it has one that is still valid. Raises
        `StorageError` if that fails.
        """
        if self._was_clean():
            checkpoint_files.unmark_clean(self._root)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Context manager for changes to the directory. It first removes the clean shutdown marker. If its block
        raises, the directory is marked as failed, so that closing writes no marker and the next start checks the logs.
        Raises `StorageError` if the marker cannot be removed.
        """
        self._begin()
        try:
            yield
        except BaseException:
            self._held.failed = True
            raise

    def _create(self, topic_id: str | None) -> Loaded:
        if topic_id is None:
            topic_id = topic_id_beside(self._root, self.name.topic)
        identity = PartitionMetadata(0, id_of_topic(topic_id))
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
        return Loaded(sealed=[], active=active, end_offset=0, log_start_offset=0, producers=self._new_producers())

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
        start = checkpoint_files.read_offset(self._root, LOG_START_OFFSET_CHECKPOINT, self.name)
        partition = read_partition(self.path, self.name, start, as_started=False)
        metadata = partition.metadata
        if topic_id is not None and (metadata is None or metadata.topic_id != topic_id):
            raise UsageError(f"{self.path} has topic id {metadata.topic_id if metadata else None}, not {topic_id}")
        refuse_findings(partition)
        self._epochs = self._epochs_of(partition.leader_epochs)
        cut = self._latest_cut()
        if cut is not None:
            self._least_epoch = max(cut.leader_epoch, -1 if (epoch := self._epochs.latest_epoch) is None else epoch) + 1
        point = checkpoint_files.read_offset(self._root, RECOVERY_POINT_CHECKPOINT, self.name) or 0
        refuse_tiered(partition)
        request = LoadRequest(
            directory=self.path,
            settings=self.config,
            now_ms=self._clock(),
            clean=self._was_clean(),
            recovery_point=point,
            log_start_offset=max(start or 0, 0),
        )
        loaded = load(self._disk, partition, request, self._epochs, self._changing())
        if metadata is None:
            identity = PartitionMetadata(0, id_of_topic(topic_id_beside(self._root, self.name.topic)))
            fs.replace(os.path.join(self.path, PARTITION_METADATA), encode_partition_metadata(identity))
        loaded.active.flush()
        self._recovery_point = loaded.end_offset
        return loaded

    def _latest_cut(self) -> LogCut | None:
        """Return how a recovery truncated the log; None if none did, or if a leader epoch was recorded after that."""
        cut = latest_cut(self._held, str(self.name))
        status = None if cut is None else status_of(self._checkpoint_of_epochs.path)
        return None if cut is None or (status is not None and status.st_mtime_ns > cut.time_ns) else cut

    # -- looking -----------------------------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """First offset that can be read."""
        with self._guard:
            return self._log_start

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        with self._guard:
            return self._end

    @property
    def recovery_point(self) -> int:
        """Offset below which everything is flushed."""
        with self._guard:
            return self._recovery_point

    @property
    def last_stable_offset(self) -> int:
        """First offset of the earliest open transaction, but at least the log start offset; the end offset if none is
        open.
        """
        with self._guard:
            undecided = self._producers.first_undecided_offset()
            return self._end if undecided is None else max(undecided, self._log_start)

    @property
    def leader_epoch(self) -> int:
        """Leader epoch of new batches; 0 in a new log. After a recovery truncated the log it is higher than before, as
        with a new leader: so consumers that have read the removed offsets can detect that the new records differ.
        """
        with self._guard:
            latest = self._epochs.latest_epoch
            return max(0 if latest is None else latest, self._least_epoch)

    @property
    def topic_id(self) -> str:
        """Topic id as text; empty if there is none. Raises `StorageError` if the directory cannot be listed."""
        metadata = self.partition().metadata
        return "" if metadata is None else metadata.topic_id

    @property
    def segments(self) -> tuple[int, ...]:
        """Base offsets of the segments, ascending."""
        with self._guard:
            return (*(segment.base_offset for segment in self._sealed), self._active.base_offset)

    @property
    def size(self) -> int:
        """Size of all log files in bytes."""
        with self._guard:
            return sum(segment.size for segment in self._sealed) + self._active.log.size

    def next_sequence(self, producer_id: int, producer_epoch: int | None = None) -> int:
        """Return the sequence number with which the next batch of an idempotent producer must begin. It is one more
        than its last number. Return 0 if the producer is unknown or has no known batch, or if the last number is the
        largest (2^31 - 1). Return 0 also if `producer_epoch` is above the known epoch (None: the known epoch). Changes
        nothing.
        """
        with self._guard:
            known = self._producers.last_entry(producer_id)
            if known is not None and producer_epoch is not None and producer_epoch > known.producer_epoch:
                return 0
            last = NO_SEQUENCE if known is None else known.last_batch.last_sequence
            return 0 if last in (NO_SEQUENCE, MAX_SEQUENCE) else last + 1

    def is_in_transaction(self, producer_id: int) -> bool:
        """Whether a transaction of a producer is open."""
        with self._guard:
            known = self._producers.last_entry(producer_id)
            return known is not None and known.current_txn_first_offset is not None

    def partition(self) -> Partition:
        """Return the current content of the log, for reading: the directory is listed again. Raises `StorageError` if
        that fails.
        """
        with self._guard:
            return read_partition(self.path, self.name, self._log_start)

    def read(
        self, offset: int, max_bytes: int = MIB, *, max_chunk_bytes: int = 64 * MIB, reset: Reset | None = None
    ) -> Chunk:
        """Return a chunk of whole batches from `offset` on, of at most `max_bytes` bytes; if the first batch is larger,
        that size is doubled until it fits, up to `max_chunk_bytes`. At the end of the log the chunk is empty. For an
        offset below the log start or after the end, `reset` says where to read instead; without it
        `OffsetOutOfRangeError` is raised. Raises `FormatError` for damage at the offset. Raises `LimitExceeded` if the
        first batch has more than `max_chunk_bytes`. Raises `UsageError` for invalid sizes. Raises `StorageError` for
        I/O errors.
        """
        return self._live.read(offset, max_bytes, max_chunk_bytes, reset)

    def _state(self) -> LiveState:
        active = SealedSegment(self._active.base_offset, self._active.log.size, NO_TIMESTAMP)
        return LiveState(
            changes=self._changes,
            log_start_offset=self._log_start,
            end_offset=self._end,
            sealed=self._sealed,
            active=active,
        )

    def offsets_before(self, timestamp: int, max_count: int) -> list[int]:
        """Return at most `max_count` base offsets, descending, of the segments last modified at or before `timestamp`
        (ms); see the function `offsets_before`. Raises `StorageError` if a file cannot be read, `UsageError` for an
        invalid `max_count` or `timestamp`.
        """
        with self._guard:
            partition, end = self.partition(), self._end
        return offsets_before(partition, timestamp, max_count, end_offset=end, now_ms=self._clock())

    def offset_for_timestamp(self, timestamp: int) -> OffsetAndTimestamp | None:
        """Return the first record with at least this timestamp (ms); None if there is none. Raises `FormatError` if a
        batch before it cannot be read.
        """
        return self._live.offset_for_timestamp(timestamp)

    # -- rolling and flushing ----------------------------------------------------------------------------------------

    def roll(self) -> int:
        """Begin a new segment at the end of the log, unless the last segment already begins there; return the base
        offset of the last segment. Raises `StorageError` if writing fails, or if an earlier write failed; `UsageError`
        if the log is closed.
        """
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
        """Flush all appended batches to disk. Raises `StorageError` if that fails, or if an earlier write failed;
        `UsageError` if the log is closed.
        """
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
        """Record an error after which all changes to the log are refused, because the state of the disk is unknown.
        Only the first error is kept.
        """
        self._failure = self._failure or error

    def close(self) -> None:
        """Close the log: stop the flusher, flush all files, take a producer snapshot, write the offset checkpoints, and
        release the lock. If the log failed before, nothing is written; only files and lock are released. When the last
        log of a directory is closed, the clean shutdown marker is written. This needs that no log failed, and that all
        other partitions are known to be in order.

        A second call, or a call in a forked child, does nothing. Raises `StorageError` or `FormatError` if writing
        fails; the lock is released in any case.
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
                raise_as_format_error(error, self.path)
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

    def _remove_deleted(self, now_ms: int) -> None:
        """Remove the files of deleted segments whose delay has passed at `now_ms`, which is the second step of a
        deletion.
        """
        due = [paths for due_ms, paths in self._deleted if due_ms <= now_ms]
        self._deleted = [(due_ms, paths) for due_ms, paths in self._deleted if due_ms > now_ms]
        for path in chain.from_iterable(due):
            fs.remove(path)

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
    """Context manager in which any error except `UsageError` ends writing to the log, because its state is unknown. An
    exception of the broker is raised as `FormatError`.
    """

    def __init__(self, log: OpenedLog) -> None:
        self._log = log

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, UsageError):
            self._log.fail(error)
            raise_as_format_error(error, self._log.path)


def raise_as_format_error(error: BaseException, path: str) -> None:
    """Raise `FormatError` for an exception of the broker; do nothing for any other error."""
    if isinstance(error, JavaError):
        raise FormatError(str(error), source=path) from error
