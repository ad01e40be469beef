"""Rewrite a batch with some of its records (`MemoryRecords.buildRetainedRecordsInto`, `MemoryRecordsBuilder`). Offsets,
sequence numbers, leader epoch, producer and compression of the original are kept. The result always has magic 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.compression import compress
from kafkalog.codec.encode import ProducerState, build_raw_batch, empty_batch
from kafkalog.codec.encode.records import write_records
from kafkalog.codec.model import (
    BATCH,
    DELETE_HORIZON_FLAG,
    KNOWN_ATTRIBUTES,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    Codec,
    LegacyHeader,
    RecordBatch,
    TimestampType,
)
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.plain.legacy import read_legacy
from kafkalog.codec.plain.records import records_payload
from kafkalog.codec.rules.batches import MAX_RELATIVE_OFFSET
from kafkalog.codec.rules.execution import RawRecord
from kafkalog.log.storage.java import IllegalArgumentError, IllegalStateError, int64
from kafkalog.log.storage.log_file import LogBatch

__all__ = ["StoredRecord", "emptied", "new_attributes", "records_of", "rewritten"]

_MAGIC = 2


class StoredRecord(Struct, frozen=True, kw_only=True):
    """Fields of a record that compaction examines or copies."""

    offset: int
    timestamp: int
    """ms since 1970, as a consumer gets it"""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def records_of(batch: LogBatch) -> Iterator[StoredRecord]:
    """Yield the records of a batch in order, control records included, with absolute offsets and timestamps in ms. With
    LogAppendTime all records of a v2 batch have its largest timestamp. Records of v0 and v1 have no headers. Yields
    nothing for a v2 batch without records. Raises `FormatError`, before the first record, if they cannot be
    decompressed or read, and `KafkaError` if the file ends within the header.
    """
    header = batch.header
    record_batch = RecordBatch(header, batch.position, batch.data)
    if isinstance(header, LegacyHeader):
        records, finding = read_legacy(record_batch, DEFAULT_LIMITS, PLAIN, check_inner=False)
        if finding is not None:
            raise FormatError(finding.detail, position=batch.position, code=finding.code)
        for legacy_record in records:
            yield StoredRecord(
                offset=legacy_record.offset,
                timestamp=legacy_record.timestamp,
                key=legacy_record.key,
                value=legacy_record.value,
                headers=(),
            )
        return
    if header.records_count == 0:
        return
    raw, fault = PLAIN.records(records_payload(record_batch), header.records_count, DEFAULT_LIMITS)
    if fault is not None:
        raise FormatError(f"record {len(raw)} cannot be read", position=batch.position, code=fault.code)
    append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    base, base_timestamp = header.base_offset, header.base_timestamp
    for record in raw:
        timestamp = int64(base_timestamp + record.timestamp_delta) if append_time is None else append_time
        yield StoredRecord(
            offset=base + record.offset_delta,
            timestamp=timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )


def _shape(batch: LogBatch, kept: Sequence[StoredRecord]) -> BatchHeader:
    """Return a v2 header for the rewritten batch; the caller must set the fields that depend on the kept records. A v2
    batch's own header is returned. For v0 and v1 a new header without a producer is returned. It has codec, timestamp
    type and largest timestamp of the batch, and the offsets of the first and last of `kept`, which must not be empty.
    """
    header = batch.header
    if isinstance(header, BatchHeader):
        return header
    has_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    return BatchHeader(
        base_offset=kept[0].offset,
        batch_length=0,
        partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
        magic=_MAGIC,
        crc=0,
        attributes=header.codec | (TIMESTAMP_TYPE_FLAG if has_append_time else 0),
        last_offset_delta=kept[-1].offset - kept[0].offset,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=0,
    )


def _refuse(shape: BatchHeader, kept: Sequence[StoredRecord]) -> None:
    """Raise `IllegalArgumentError` for kept records that `MemoryRecordsBuilder` rejects. Offsets must increase, and
    must not be below the base offset or more than 2^31 - 1 above it. Timestamps must not be below -1. A transactional
    batch needs a producer id. A batch with a producer id needs an epoch other than -1. Unless it is a control batch, it
    also needs a sequence that is not negative.
    """
    last = shape.base_offset - 1
    for record in kept:
        if record.offset <= last:
            raise IllegalArgumentError(f"Illegal offset {record.offset} following previous offset {last}")
        if record.timestamp < NO_TIMESTAMP:
            raise IllegalArgumentError(f"Invalid negative timestamp {record.timestamp}")
        if record.offset - shape.base_offset > MAX_RELATIVE_OFFSET:
            raise IllegalArgumentError("Maximum offset delta exceeded")
        last = record.offset
    if shape.is_transactional and shape.producer_id == NO_PRODUCER_ID:
        raise IllegalArgumentError("Cannot write transactional messages without a valid producer ID")
    if shape.producer_id != NO_PRODUCER_ID:
        if shape.producer_epoch == NO_PRODUCER_EPOCH:
            raise IllegalArgumentError("Invalid negative producer epoch")
        if shape.base_sequence < 0 and not shape.is_control:
            raise IllegalArgumentError("Invalid negative sequence number used")


def rewritten(batch: LogBatch, kept: Sequence[StoredRecord], delete_horizon_ms: int) -> RecordBatch:
    """Return a v2 batch with only the kept records, compressed with the codec of the original. A v2 batch keeps its
    base and last offset; a v0 or v1 batch gets the offsets of the first and last kept record. `kept` must not be empty.

    A `delete_horizon_ms` of 0 or more is stored as base timestamp, and the flag for it is set; negative means none. The
    largest timestamp is computed from the kept records; with LogAppendTime it does not change. Raises
    `IllegalArgumentError` if Kafka's builder would reject the records.
    """
    shape = _shape(batch, kept)
    _refuse(shape, kept)
    append_time = shape.timestamp_type is TimestampType.LOG_APPEND_TIME
    base_timestamp = delete_horizon_ms if delete_horizon_ms >= 0 else kept[0].timestamp
    latest = shape.max_timestamp if append_time else max(record.timestamp for record in kept)
    raw = [
        RawRecord(
            0,
            int64(record.timestamp - base_timestamp),
            record.offset - shape.base_offset,
            record.key,
            record.value,
            record.headers,
        )
        for record in kept
    ]
    header = replace(
        shape,
        attributes=new_attributes(shape.attributes, delete_horizon_ms >= 0),
        base_timestamp=base_timestamp,
        max_timestamp=latest,
        records_count=len(raw),
    )
    return _parsed(build_raw_batch(header, compress(Codec(shape.codec), write_records(raw))))


def new_attributes(attributes: Any, has_horizon: Any) -> Any:
    """Return the attributes of a rewritten batch: unknown bits are cleared, and the delete horizon flag is set only if
    `has_horizon`. Arguments and result are numbers or columns of them.
    """
    return attributes & ~DELETE_HORIZON_FLAG & KNOWN_ATTRIBUTES | DELETE_HORIZON_FLAG * has_horizon


def emptied(batch: RecordBatch | LogBatch) -> RecordBatch:
    """Return a v2 batch without records that keeps offsets, producer fields, control flag, leader epoch, timestamp type
    and largest timestamp of `batch`. Raises `IllegalStateError` for a v0 or v1 entry, `KafkaError` if the file ends
    within the header.
    """
    header = batch.header
    if not isinstance(header, BatchHeader):
        raise IllegalStateError("Empty batches are only supported for magic v2 and above")
    return _parsed(
        empty_batch(
            header.base_offset,
            header.last_offset,
            max_timestamp=header.max_timestamp,
            timestamp_type=header.timestamp_type,
            producer=ProducerState(
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                is_transactional=header.is_transactional,
            ),
            partition_leader_epoch=header.partition_leader_epoch,
            is_control=header.is_control,
        )
    )


def _parsed(data: bytes) -> RecordBatch:
    return RecordBatch(BatchHeader(*BATCH.struct.unpack_from(data)), 0, data)
