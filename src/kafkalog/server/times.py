"""Searches by timestamp for clients, one at a time and with limited memory (`UnifiedLog.fetchOffsetByTimestamp`).

A batch that would need too much memory is not decompressed. Its first offset is the answer, so a client may get some
records too many but none too few.
"""

from __future__ import annotations

from threading import Lock

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.limits import MIB, Limits
from kafkalog.codec.model import BatchHeader, RecordBatch
from kafkalog.codec.plain.records import decode_batch
from kafkalog.log.directories.locate import looking_for_newest
from kafkalog.log.directories.partition import Partition, looking_for_timestamp
from kafkalog.log.reading.readable import OffsetAndTimestamp
from kafkalog.log.walk.sliced import Sliced

__all__ = ["looking_for_time"]

_BOUNDED = Limits(decompressed_batch_bytes=32 * MIB, records_per_batch=100_000)
_ONE_AT_A_TIME = Lock()


def looking_for_time(partition: Partition, timestamp: int | None) -> Sliced[OffsetAndTimestamp | None]:
    """Find the first record with at least this timestamp (ms since 1970), or for None the record with the largest
    timestamp, including records after damage. A generator that yields between slices of work; its return value is the
    record's offset and timestamp, or None if there is none. Raises `FormatError` for a message set of magic 0 or 1 that
    needs too much memory. Raises `StorageError` if the log cannot be read.
    """
    if timestamp is None:
        return (yield from looking_for_newest(partition, through_damage=True, look=_look))[0]
    return (yield from looking_for_timestamp(partition, timestamp, through_damage=True, look=_look))


def _look(batch: RecordBatch, timestamp: int, start: int, _limits: Limits) -> OffsetAndTimestamp | None:
    header = batch.header
    epoch = header.partition_leader_epoch if isinstance(header, BatchHeader) else -1
    with _ONE_AT_A_TIME:
        decoded_batch = decode_batch(batch, limits=_BOUNDED)
        for record in decoded_batch.records:
            if record.timestamp >= timestamp and record.offset >= start:
                return OffsetAndTimestamp(record.offset, record.timestamp, epoch)
        is_too_large = decoded_batch.finding is not None and decoded_batch.finding.code is FindingCode.LIMIT_EXCEEDED
    if not is_too_large:
        return None
    if not isinstance(header, BatchHeader):  # its first offset is inside
        raise FormatError("a message set that takes too much memory to look for a time in it", position=batch.position)
    return OffsetAndTimestamp(max(header.base_offset, start), header.max_timestamp, epoch)
