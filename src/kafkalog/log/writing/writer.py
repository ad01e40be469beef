"""Write a partition with `Log`, which is modeled on Kafka's log (`UnifiedLog`, `LocalLog`). It appends, rolls, flushes,
truncates, and deletes by age, size or start offset. Only one process at a time can write, because it holds the broker's
own lock file. After a crash at any moment the valid batches of the log are a prefix of the appended ones, with all
flushed data: data is removed from the end backwards, and derived files are written before anything depends on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from kafkalog.codec.common.arguments import checked
from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.encode import ProducerState, build_end_transaction_marker
from kafkalog.codec.encode.batch import NO_PRODUCER
from kafkalog.codec.model import (
    BatchHeader,
    Codec,
    ControlType,
    EndTransactionMarker,
    RecordBatch,
)
from kafkalog.codec.names import (
    CLEANER_OFFSET_CHECKPOINT,
    DELETED,
)
from kafkalog.codec.rules.batches import MAX_RELATIVE_OFFSET
from kafkalog.codec.rules.codec_names import as_codec
from kafkalog.log.disk import fs
from kafkalog.log.reading.transactions import marker_of
from kafkalog.log.storage import retention
from kafkalog.log.storage.cleaning.cleanable_log import CleanableLog
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.producer_appends import ProducerAppends
from kafkalog.log.storage.producers.state import AppendOrigin
from kafkalog.log.storage.replay import rebuild_producer_state
from kafkalog.log.storage.retention import DeletionPolicy
from kafkalog.log.storage.segment import LogSegment, RollParams, change_suffixes
from kafkalog.log.storage.segments import LogSegments
from kafkalog.log.writing import checkpoint_files
from kafkalog.log.writing.compacting import CompactionCounts, compact
from kafkalog.log.writing.incoming import Appendable, Stamp, assign, build, parse_batch, taken_over
from kafkalog.log.writing.loading import (
    SealedSegment,
    open_segment,
    seal,
    sealed,
)
from kafkalog.log.writing.opened_log import OpenedLog, raise_as_format_error

__all__ = ["Log"]

_LARGEST_END = 2**63 - 1
"""Largest end of a log: checkpoints and headers hold signed 64-bit numbers."""
_MAGIC = 2


def _add(appends: ProducerAppends, batch: RecordBatch, header: BatchHeader) -> None:
    """Add one producer batch with its `header` to `appends`, which collects the changes of producer state. Raises
    `UsageError` if a broker would reject the batch, for example because of its sequence number or epoch. Raises
    `FormatError` for a marker that cannot be read.
    """
    marker = marker_of(batch, whole=True) if header.is_control else None
    try:
        appends.add(header, lambda: marker)
    except JavaError as error:
        raise UsageError(str(error)) from error


@checked()
class Log(OpenedLog):
    """One partition that is open for writing. Use it as a context manager, or call `close`. It is thread-safe. The log
    assigns offsets: the next record gets `end_offset`. Methods raise `UsageError` for requests that a broker would
    refuse, `FormatError` for bytes that are not a valid batch, and `StorageError` if the disk fails. After an error
    while files are changed, such as a `StorageError`, the log rejects all changes, and closing it does not write the
    clean shutdown marker. A log belongs to the process that opened it. In a forked child every call raises
    `UsageError`, except `close`, which does nothing there; the parent is not affected.
    """

    # -- appending ---------------------------------------------------------------------------------------------------

    def append(
        self,
        records: Iterable[Appendable | RecordBatch],
        *,
        compression: Codec | str | int = Codec.NONE,
        producer: ProducerState = NO_PRODUCER,
        leader_epoch: int | None = None,
        keep_offsets: bool = False,
    ) -> int:
        """Append records as one batch, or existing batches. Return the offset of the first record, or `end_offset` if
        there are none; nothing is written then. If a batch repeats one of its producer's last five, nothing is written
        and the offset of the original is returned, except with `keep_offsets`. May roll to a new segment, which flushes
        the log; otherwise flushes only as `flush_messages` says.

        Records are `NewRecord`, `Record`, (key, value) or a value; `compression` and `producer` (id, epoch, sequence,
        transactional) apply to them. Batches (`RecordBatch`) keep their compression and producer fields. Both get
        offsets from the log, and `leader_epoch` (None: the log's epoch). With `keep_offsets` batches are written
        unchanged, as on a follower.

        Raises `UsageError` for records or batches that a broker would reject and for records with `keep_offsets`.
        Raises `FormatError` for damaged batches or if an index does not accept a batch. Raises `StorageError` for I/O
        errors.
        """
        with self._guard:
            self._check_open()
            iterator = iter(records)
            try:
                first = next(iterator)
            except StopIteration:
                return self._end
            epoch = self.leader_epoch if leader_epoch is None else leader_epoch
            if isinstance(first, RecordBatch):
                return self._append_given(chain((first,), iterator), epoch, keep_offsets)  # type: ignore[arg-type]
            if keep_offsets:
                raise UsageError("records get their offsets from the log; only batches can keep theirs")
            codec = as_codec(compression)
            stamp = Stamp(self._end, epoch, self._clock())
            batches = build(chain((first,), iterator), stamp, self.config, compression=codec, producer=producer)  # type: ignore[arg-type]
            return self._append(batches, AppendOrigin.CLIENT, stamp.offset)

    def _append_given(self, batches: Iterable[RecordBatch], epoch: int, keep_offsets: bool) -> int:
        if keep_offsets:
            return self._append([taken_over(batch) for batch in batches], AppendOrigin.REPLICATION)
        assigned: list[RecordBatch] = []
        offset, now_ms = self._end, self._clock()
        for batch in batches:
            assigned += assign(batch, Stamp(offset, epoch, now_ms), self.config)
            offset = assigned[-1].header.next_offset
        return self._append(assigned, AppendOrigin.CLIENT, self._end)

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
        """Append the COMMIT or ABORT marker that ends a producer's transaction, as a transaction coordinator does;
        return the marker's offset. `timestamp` is in ms (None: now); `leader_epoch` None means the log's epoch. Raises
        `UsageError` in a log with an old message format. Raises it also if a broker would reject the marker, for
        example because a producer, coordinator or leader epoch is older. Raises `FormatError` if an index does not
        accept it. Raises `StorageError` for I/O errors.
        """
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
        """Check and write batches; return the offset of the first record. Old formats do not store that offset, so the
        caller may pass it as `first_offset`. If one of a client's batches is a duplicate, none is written, and the
        offset of the original is returned.

        Raises `UsageError` if a broker would reject a batch, `FormatError` for a marker that cannot be read. After an
        error while writing, even an interruption, the log rejects all later writes. The error is raised again; an
        exception of the broker's code (`JavaError`) becomes a `FormatError`.
        """
        self._process.require()  # the process may have forked while the caller's records were iterated
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
        except BaseException as error:  # after any error, even an interruption, the state of the files is unknown
            self.fail(error)
            raise_as_format_error(error, self.path)
            raise

    def _check_batches(self, batches: Sequence[RecordBatch], origin: AppendOrigin) -> int:
        """Check batches that are to be appended, and return their total size in bytes. Raises `UsageError` for a batch
        above `max_message_bytes` and for a total above `segment_bytes`. Raises `UsageError` also if offsets do not
        increase from the log end on, or if no offset is left after a batch. Except from replication, a v2 batch with a
        leader epoch below the latest (0 if there is none) raises it too.
        """
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
            reached = self._epochs.latest_epoch
            if header.magic == _MAGIC and epoch < (reached or 0) and origin is not AppendOrigin.REPLICATION:
                raise UsageError(f"leader epoch {epoch} is below the one that the log has reached, {reached}")
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
        roll = RollParams(
            size=size,
            max_timestamp=newest,
            last_offset=end,
            now_ms=now_ms,
            max_segment_bytes=config.segment_bytes,
            max_segment_ms=config.segment_ms,
        )
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

    # -- truncating --------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Remove the batch that contains `offset` and all later ones, so that the next record gets `offset`. Return
        True. Return False if the log ends at or below `offset`: only leader epochs without batches are removed then. If
        `offset` is below the first segment, everything is removed.

        Segments that begin above `offset` are renamed to `.deleted`. Checkpoints, leader epochs and producer state are
        adjusted, and new batches get a higher leader epoch. Raises `UsageError` for a negative offset. Raises
        `FormatError` if a remaining segment cannot be opened or a batch in it is malformed. Raises `StorageError` for
        I/O errors.
        """
        if offset < 0:
            raise UsageError(f"cannot truncate to {offset}")
        with self._guard, self._failing():
            if offset >= self._end:
                self._epochs.truncate_from_end(self._end)
                return False
            self._least_epoch = self.leader_epoch + 1
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

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all segments, leader epochs and producer state, and start an empty log at `offset`, which will be the
        offset of the next record. The old segment files are renamed to `.deleted`. New batches get a higher leader
        epoch. Raises `UsageError` for an offset that is negative or too large, `StorageError` for I/O errors.
        """
        if not 0 <= offset <= _LARGEST_END:
            raise UsageError(f"cannot start at {offset}: offsets are 0 to {_LARGEST_END}")
        with self._guard, self._failing():
            self._least_epoch = self.leader_epoch + 1
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
        """Truncate the last segment at `offset`; return the offset after the last remaining batch."""
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

    def delete_records_before(self, offset: int) -> None:
        """Raise the log start offset to `offset`, as `DeleteRecords` does; do nothing if it is already at or above
        `offset`. Flushes the log if `offset` is above the recovery point, writes the checkpoint and drops older leader
        epochs. Records stay on disk until `delete_old_segments` deletes the segments below `offset`. Raises
        `UsageError` if `offset` is after the log end, `StorageError` for I/O errors.
        """
        with self._guard, self._failing():
            if offset > self._end:
                raise UsageError(f"offset {offset} is out of range: the log holds {self._log_start} to {self._end}")
            if offset > self._log_start:
                if offset > self._recovery_point:
                    self._flush()  # otherwise the log could end below its start offset after a crash
                self._log_start = offset
                self._checkpoint(self._recovery_point)
                self._epochs.truncate_from_start(offset)

    def delete_old_segments(self, policy: DeletionPolicy | None = None) -> int:
        """Delete the oldest segments that end at or below the log start offset, exceed `retention_bytes`, or are older
        than `retention_ms`; return their number. If the active segment is deleted too, a new one is created. The log
        start offset is raised to the first remaining segment if it is below that.

        A `policy` replaces the two settings. It is called for one segment after another, from the oldest on, until it
        returns False; if it raises, nothing is deleted. `by_file_time` is the policy of brokers before 0.10.1.

        Files are renamed to `.deleted` at once, and removed when `file_delete_delay_ms` have passed: by a later call of
        this method, of `append`, `compact` or `close`, or when the log is next opened. Raises `StorageError` for I/O
        errors, `FormatError` if the time index of the active segment does not accept its last entry.
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
        """Rename the files of a segment to `.deleted` and flush their names, which is the first step of a deletion.
        `_remove_deleted` removes them later.
        """
        self._changes += 1
        renamed = change_suffixes(self._disk, self.path, base_offset, "", DELETED)
        fs.sync_directory(self.path)
        self._deleted.append((self._clock() + self.config.file_delete_delay_ms, renamed))

    # -- compacting --------------------------------------------------------------------------------------------------

    def compact(self) -> CompactionCounts:
        """Run one pass of the broker's log cleaner with the settings of `config`; return sizes and counts. If the log
        is not dirty enough, nothing is cleaned and `cleaned_to` of the result is None. The log is flushed first, and
        the result is recorded in `cleaner-offset-checkpoint`. After a pass, segments below the log start offset are
        deleted; `retention_bytes` and `retention_ms` are not applied.

        The latest record of each key is kept. Tombstones, transaction markers and the last batch of each producer are
        treated as in Kafka's `Cleaner`. The active segment is not cleaned. The log end counts as the high watermark.
        Offsets do not change, so gaps remain.

        Raises `FormatError` if a segment that would be cleaned, or one before it, is damaged, because cleaning would
        hide the damage; the log is then not changed. Raises it also if a broker's cleaner would give up; segments that
        were already cleaned then stay cleaned. In both cases the log can still be changed. Raises `StorageError` for
        I/O errors.
        """
        with self._guard:
            unreadable: FormatError
            with self._failing():
                try:
                    return self._compact(self._clock())
                except FormatError as error:  # all changes up to here are complete, so the log stays usable
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
        """Replace the list of inactive segments by those that remain after a cleaner pass."""
        self._changes += 1
        self._sealed = [sealed(segment) for segment in segments.all()[:-1]]

    def _checkpoint_cleaner(self, offset: int) -> None:
        with self._held.guard:
            checkpoint_files.write_offset(self._root, CLEANER_OFFSET_CHECKPOINT, self.name, offset)

    def _truncate_cleaner_checkpoint(self, offset: int) -> None:
        """Lower the cleaner checkpoint to `offset` if it is above, because after a truncation new records from `offset`
        on are dirty (`LogCleanerManager.maybeTruncateCheckpoint`).
        """
        with self._held.guard:
            cleaned_to = checkpoint_files.read_offset(self._root, CLEANER_OFFSET_CHECKPOINT, self.name)
        if cleaned_to is not None and cleaned_to > offset:
            self._checkpoint_cleaner(offset)
