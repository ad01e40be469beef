"""Scan a segment as `LogSegment.recover` does: index entries, leader epochs and producer state follow from all batches
up to the first invalid one. Runs of sound batches are processed as columns, all others batch by batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkalog.codec.model import NO_PARTITION_LEADER_EPOCH
from kafkalog.codec.rules.batches import MAX_RELATIVE_OFFSET
from kafkalog.log.storage.indexes import OffsetIndex, TimeIndex, TimestampOffset, TransactionIndex
from kafkalog.log.storage.java import OffsetOverflowError, int64
from kafkalog.log.storage.leader_epochs import LeaderEpochFileCache
from kafkalog.log.storage.log_file import LogBatch, LogFile
from kafkalog.log.storage.producer_appends import ProducerAppends
from kafkalog.log.storage.producer_runs import ProducerError, StretchEnd, take_producers
from kafkalog.log.storage.producers.known_producers import ProducerStateManager

if TYPE_CHECKING:
    from kafkalog.codec.headers.rebuild_segment import IndexLimits, Progress, RecoveredRun
    from kafkalog.codec.headers.table import HeaderRun

__all__ = ["Rebuild"]

_V2 = 2


class _Appends:
    """Receiver of producer batches during recovery. Each batch changes the producer state at once, and aborted
    transactions are appended to the transaction index.
    """

    remembered = 1
    """only the last batch, because the state is written to a snapshot, which has no others"""

    def __init__(self, producers: ProducerStateManager, index: TransactionIndex) -> None:
        self._producers = producers
        self._index = index

    def open_since(self, producer_id: int) -> int | None:
        """Return the first offset of a producer's open transaction; None if none is open."""
        state = self._producers.last_entry(producer_id)
        return None if state is None else state.current_txn_first_offset

    def stretch(self, ends: Sequence[StretchEnd]) -> None:
        """Apply the summary of a stretch of data batches to the producer state: `ends` has one element for each
        producer. New transactions are recorded in the order in which they begin in the log.
        """
        began: list[tuple[int, int, int]] = []
        for (header,), number, transactional_from in ends:
            append = self._producers.prepare(header.producer_id)
            append.append_stretch(header, transactional_from)
            began += [(number, offset, header.producer_id) for offset in append.started]
            self._producers.update(append)
        for _number, offset, producer_id in sorted(began):
            self._producers.begin(offset, producer_id)

    def batch(self, batch: LogBatch) -> None:
        """Add one batch of a producer."""
        appends = ProducerAppends(self._producers)
        appends.batch(batch)
        appends.take_over(self._index)


class Rebuild:
    """State of one segment's scan, which updates `indexes`, `epochs` and `producers`. If an index is full, a broker's
    scan throws; with `while_there_is_room` it continues without more entries.
    """

    def __init__(
        self,
        segment: object,
        log: LogFile,
        indexes: tuple[OffsetIndex, TimeIndex, TransactionIndex],
        interval_bytes: int,
        producers: ProducerStateManager,
        epochs: LeaderEpochFileCache,
        *,
        while_there_is_room: bool = False,
    ) -> None:
        self._segment = segment
        self._log = log
        self._offsets, self._times, transactions = indexes
        self._base_offset = self._offsets.base_offset
        self._interval = interval_bytes
        self._producers = producers
        self._epochs = epochs
        self._while_there_is_room = while_there_is_room
        self._appends = _Appends(producers, transactions)
        self._last_indexed = 0
        self.valid_bytes = 0
        self.position = 0
        """position of the batch being processed"""
        self.largest = self._times.last_entry
        """largest timestamp so far"""

    def walk(self) -> None:
        """Process all batches of the log. A batch that the broker would reject raises the broker's exception;
        `valid_bytes` is then the position after the valid batches before it. If only leader epochs or producer state
        reject it, it counts as valid.
        """
        for run, first in self._log.runs():
            self._run(run, first)
        for batch in self._log.batches(self.valid_bytes):
            self._batch(batch)

    # -- one by one --------------------------------------------------------------------------------------------------

    def _batch(self, batch: LogBatch) -> None:
        self.position = batch.position
        batch.ensure_valid()
        last_offset = batch.last_offset
        if not 0 <= int64(last_offset - self._base_offset) <= MAX_RELATIVE_OFFSET:
            raise OffsetOverflowError(self._segment, last_offset)
        header = batch.header
        if header.max_timestamp > self.largest.timestamp:
            self.largest = TimestampOffset(header.max_timestamp, last_offset)
        has_room = not (self._while_there_is_room and (self._offsets.is_full or self._times.is_full))
        if self.valid_bytes - self._last_indexed > self._interval and has_room:
            self._offsets.append(last_offset, self.valid_bytes)
            self._times.maybe_append(*self.largest)
            self._last_indexed = self.valid_bytes
        self.valid_bytes += batch.size
        if batch.magic >= _V2:
            epoch = header.partition_leader_epoch
            if epoch > self._latest_epoch:
                self._epochs.assign(epoch, batch.offset)
            if header.has_producer_id:
                self._appends.batch(batch)
            self._producers.set_map_end(int64(last_offset + 1))

    @property
    def _latest_epoch(self) -> int:
        latest = self._epochs.latest_epoch
        return NO_PARTITION_LEADER_EPOCH if latest is None else latest

    # -- as columns --------------------------------------------------------------------------------------------------

    def _run(self, run: HeaderRun, first: int) -> None:
        from kafkalog.codec.headers.rebuild_segment import recover_run

        while first < len(run):
            before, room = self._progress(), self._room()
            result = recover_run(run, first, len(run), before, room)
            try:
                take_producers(run, first, result.stopped, lambda number: self._log.batch(run, number), self._appends)
            except ProducerError as error:  # everything of the batch is applied except the changes to its producer
                self._commit(recover_run(run, first, error.number + 1, before, room))
                self._set_map_end(run, first, error.number)
                self.position = run.position(error.number)
                raise error.error from error.__cause__
            self._commit(result)
            self._set_map_end(run, first, result.stopped)
            first = result.stopped
            if first < len(run):
                self._batch(self._log.batch(run, first))
                first += 1

    def _room(self) -> IndexLimits:
        from kafkalog.codec.headers.rebuild_segment import IndexLimits

        return IndexLimits(self._base_offset, self._interval, self._offsets.max_entries, self._times.max_entries)

    def _progress(self) -> Progress:
        from kafkalog.codec.headers.rebuild_segment import Progress

        return Progress(
            self.valid_bytes,
            self._last_indexed,
            *self.largest,
            self._offsets.entries,
            self._offsets.last_offset,
            self._times.entries,
            *self._times.last_entry,
            self._latest_epoch,
        )

    def _commit(self, taken: RecoveredRun) -> None:
        after = taken.progress
        self._offsets.extend(taken.offset_entries, after.last_offset)
        self._times.extend(taken.time_entries, TimestampOffset(after.last_timestamp, after.last_timestamp_offset))
        self.largest = TimestampOffset(after.timestamp, after.timestamp_offset)
        self.valid_bytes, self._last_indexed = after.valid_bytes, after.last_indexed
        for epoch, offset in taken.epochs:
            self._epochs.assign(epoch, offset)

    def _set_map_end(self, run: HeaderRun, first: int, end: int) -> None:
        number = run.last_v2(first, end)
        if number is not None:
            self._producers.set_map_end(int64(run.last_offset(number) + 1))
