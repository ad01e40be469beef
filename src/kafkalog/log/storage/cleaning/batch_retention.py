"""Decide which records of each batch one pass of the cleaner keeps (`Cleaner.cleanInto`, `MemoryRecords.filterTo`)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kafkalog.codec.model import NO_TIMESTAMP, BatchHeader, RecordBatch
from kafkalog.log.storage.cleaning.cleaned_transactions import CleanedTransactions
from kafkalog.log.storage.cleaning.offset_map import OffsetMap
from kafkalog.log.storage.cleaning.retained_batch import StoredRecord, emptied, records_of, rewritten
from kafkalog.log.storage.java import int64
from kafkalog.log.storage.log_file import LogBatch
from kafkalog.log.storage.producers.state import ProducerStateEntry

__all__ = ["BatchRetention", "CleanedCounts"]

_FIRST_V2_MAGIC = 2


class CleanedCounts(Struct):
    """Numbers of records in one pass, control records included."""

    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    """dropped, because no later record of a compacted log can replace them"""

    def add(self, read: int, kept: int, without_key: int) -> None:
        """Add the numbers of more batches."""
        self.records_read += read
        self.records_kept += kept
        self.records_without_key += without_key


class BatchRetention(Struct, kw_only=True):
    """The rules of one cleaner pass about which records of a batch are kept. Batches must be passed in the order of the
    log, over all segments.
    """

    offsets: OffsetMap
    transactions: CleanedTransactions
    producers: Mapping[int, ProducerStateEntry]
    """producers whose state is kept"""
    upper_bound: int
    """first offset that the pass does not clean; the batch before it is kept even if it is empty"""
    now_ms: int
    delete_retention_ms: int
    counts: CleanedCounts

    def retained(self, batch: LogBatch, *, keeps_old_deletes: bool) -> LogBatch | RecordBatch | None:
        """Return what replaces a batch in the cleaned log: the batch itself if nothing changes, a `RecordBatch` with
        fewer records (perhaps none) or a new delete horizon, or None if nothing remains. A v0 or v1 entry that remains
        always becomes a `RecordBatch` of magic 2. `keeps_old_deletes` keeps tombstones of magic 0 and 1, which have no
        delete horizon. Advances the transactions and the counts. Raises `FormatError` for records that cannot be read,
        `JavaError` for a bad control record or a batch that cannot be rewritten.
        """
        if batch.header.is_control:
            ends_nothing = self.transactions.control_batch(batch)
            return self._retained(batch, ends_nothing and self._is_past_horizon(batch), ends_nothing, keeps_old_deletes)
        return self.retained_data(batch, self.transactions.batch(batch), keeps_old_deletes=keeps_old_deletes)

    def retained_data(
        self, batch: LogBatch, is_aborted: bool, *, keeps_old_deletes: bool = False
    ) -> LogBatch | RecordBatch | None:
        """Return what replaces a data batch in the cleaned log, or None if nothing does, see `retained`. `is_aborted`
        says whether it belongs to an aborted transaction; the transactions are not advanced. Adds to the counts.
        """
        return self._retained(batch, is_aborted, False, keeps_old_deletes)

    def _retained(
        self, batch: LogBatch, drops_records: bool, ends_nothing: bool, keeps_old_deletes: bool
    ) -> LogBatch | RecordBatch | None:
        is_control = batch.header.is_control
        keeps_empty = self.keeps_empty(batch)
        if drops_records and not keeps_empty:
            self.counts.records_read += _count(batch)
            return None
        kept: list[StoredRecord] = []
        total = 0
        has_tombstones = False
        for record in records_of(batch):
            total += 1
            if drops_records or not (is_control or self._is_kept(batch, record, keeps_old_deletes)):
                continue
            kept.append(record)
            has_tombstones = has_tombstones or record.value is None
        self.counts.records_read += total
        self.counts.records_kept += len(kept)
        if not kept:
            return emptied(batch) if keeps_empty else None
        horizon = _horizon(batch)
        needs_horizon = (has_tombstones or ends_nothing) and horizon is None
        if len(kept) == total and batch.magic >= _FIRST_V2_MAGIC and not needs_horizon:
            return batch
        if needs_horizon:
            return rewritten(batch, kept, self.new_horizon)
        return rewritten(batch, kept, NO_TIMESTAMP if horizon is None else horizon)

    @property
    def new_horizon(self) -> int:
        """Delete horizon in ms for tombstones and markers that become deletable in this pass."""
        return int64(self.now_ms + self.delete_retention_ms)

    def keeps_empty(self, batch: RecordBatch | LogBatch) -> bool:
        """Whether an empty batch must remain if no record of a batch is kept: it is the last batch of its producer, or
        ends right below `upper_bound`.
        """
        return self._is_last_of_producer(batch) or int64(batch.last_offset + 1) == self.upper_bound

    @property
    def last_offsets_of_empty(self) -> list[int]:
        """Last offsets of data batches that may have to remain as empty batches, see `keeps_empty`."""
        return [self.upper_bound - 1, *(producer.last_batch.last_offset for producer in self.producers.values())]

    def _is_past_horizon(self, batch: LogBatch) -> bool:
        horizon = _horizon(batch)
        return horizon is not None and horizon <= self.now_ms

    def _is_last_of_producer(self, batch: RecordBatch | LogBatch) -> bool:
        """Return whether the batch's header must be kept, so that the broker can restore the state of its producer.
        True for the producer's last data batch; if the state has no data batch, for each marker with the producer's
        current epoch. False without a producer id, for an unknown producer and for any other batch. Raises `KafkaError`
        if the file ends within the batch's header.
        """
        header = batch.header
        known = self.producers.get(header.producer_id) if header.has_producer_id else None
        if known is None:
            return False
        if known.last_batch.last_offset >= 0:
            return batch.last_offset == known.last_batch.last_offset
        return header.is_control and header.producer_epoch == known.producer_epoch

    def _is_kept(self, batch: LogBatch, record: StoredRecord, keeps_old_deletes: bool) -> bool:
        if record.offset > self.offsets.latest_offset:
            return True
        if record.key is None:
            self.counts.records_without_key += 1
            return False
        if record.offset < self.offsets.get(record.key):
            return False
        if record.value is not None:
            return True
        if batch.magic < _FIRST_V2_MAGIC:
            return keeps_old_deletes
        horizon = _horizon(batch)
        return horizon is None or self.now_ms < horizon


def _count(batch: LogBatch) -> int:
    return max(batch.header.records_count, 0) if isinstance(batch.header, BatchHeader) else 1


def _horizon(batch: LogBatch) -> int | None:
    return batch.header.delete_horizon_ms if isinstance(batch.header, BatchHeader) else None
