"""Find the latest offset of each key in the dirty part of a log (`Cleaner.buildOffsetMapForSegment`)."""

from __future__ import annotations

from kafkalog.log.storage.cleaning.cleaned_transactions import CleanedTransactions
from kafkalog.log.storage.cleaning.offset_map import OffsetMap
from kafkalog.log.storage.cleaning.retained_batch import records_of
from kafkalog.log.storage.log_file import LogBatch
from kafkalog.log.storage.segment import LogSegment

__all__ = ["put_keys", "take_batch", "take_offsets"]


def take_offsets(segment: LogSegment, start: int, offsets: OffsetMap, transactions: CleanedTransactions) -> bool:
    """Put the keys of one segment's records with offset `start` or higher into `offsets`. Return True, or False if the
    map became full before all keys were in. Advances `transactions` and `offsets.latest_offset`. Raises `FormatError`
    for records that cannot be read, `JavaError` for a bad control record.
    """
    return all(
        take_batch(batch, start, offsets, transactions)
        for batch in segment.log.batches(segment.offset_index.lookup(start).position)
    )


def take_batch(batch: LogBatch, start: int, offsets: OffsetMap, transactions: CleanedTransactions) -> bool:
    """Put the keys of a batch's records with offset `start` or higher into the offset map. Control batches, and batches
    of aborted transactions, add none. Return True, or False if the map became full before all keys were in. Advances
    `transactions`.

    If the result is True and the batch's last offset is not below `start`, `offsets.latest_offset` becomes that offset.
    Raises `FormatError` for records that cannot be read, `JavaError` for a bad control record or an incomplete header.
    """
    if batch.header.is_control:
        transactions.control_batch(batch)
    elif not transactions.batch(batch) and not put_keys(batch, start, offsets):
        return False
    if batch.last_offset >= start:
        offsets.latest_offset = batch.last_offset
    return True


def put_keys(batch: LogBatch, start: int, offsets: OffsetMap) -> bool:
    """Put the keys of a batch's records with offset `start` or higher into the map. Records without a key are skipped.
    Return True, or False if the map is full before all keys are in; earlier keys then stay in it. Each key put in also
    sets `offsets.latest_offset`. Raises `FormatError` or `KafkaError` for records that cannot be read.
    """
    for record in records_of(batch):
        if record.key is not None and record.offset >= start:
            if offsets.is_full:
                return False
            offsets.put(record.key, record.offset)
    return True
