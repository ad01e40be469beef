"""Build record batches of magic 2 as a producer, a coordinator or the cleaner does. The rules are those of
`MemoryRecordsBuilder` (what it refuses, base and largest timestamp) and of `DefaultRecordBatch.writeHeader` and
`writeEmptyHeader`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import attrgetter

from msgspec import Struct

from kafkalog.codec.common.arguments import check_fields
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.compression import compress
from kafkalog.codec.encode.record_checks import check_record, header_bytes
from kafkalog.codec.encode.records import write_records
from kafkalog.codec.model import (
    BATCH,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Codec,
    ControlRecordType,
    ControlType,
    EndTransactionMarker,
    Record,
    TimestampType,
    to_int64,
)
from kafkalog.codec.plain.control import CONTROL_KEY, END_MARKER
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.rules.batches import header_findings
from kafkalog.codec.rules.execution import RawRecord

__all__ = [
    "NO_PRODUCER",
    "ProducerState",
    "build_batch",
    "build_control_batch",
    "build_end_transaction_marker",
    "build_raw_batch",
    "check_header",
    "check_producer",
    "control_key",
    "empty_batch",
]

MAGIC = 2
CONTROL_VERSION = 0
MAX_DELTA = 2**31 - 1
_write_crc = BATCH.writer("crc")
_fields_of = attrgetter(*BATCH.names)
_LENGTH = BATCH.names.index("batch_length")


class ProducerState(Struct, frozen=True):
    """Producer fields of a batch: id and epoch, the sequence number of its first record, and whether it is in a
    transaction.
    """

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False

    def __post_init__(self) -> None:
        check_fields(self)


NO_PRODUCER = ProducerState()


def _attributes(codec: int, timestamp_type: TimestampType, transactional: bool, control: bool, horizon: bool) -> int:
    return (
        codec
        | (TIMESTAMP_TYPE_FLAG if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_FLAG if transactional else 0)
        | (CONTROL_FLAG if control else 0)
        | (DELETE_HORIZON_FLAG if horizon else 0)
    )


def build_raw_batch(header: BatchHeader, payload: bytes) -> bytes:
    """Encode a v2 batch from its header and the bytes after it: records, or one compressed stream of them. Length and
    checksum in `header` are ignored; the right ones are written. Raises `UsageError` if a header field does not fit its
    type.
    """
    values = list(_fields_of(header))
    values[_LENGTH] = BATCH.size - LOG_OVERHEAD.size + len(payload)
    try:
        data = bytearray(BATCH.struct.pack(*values))
    except struct.error as error:
        raise UsageError(f"a header field does not fit: {error}") from None
    data += payload
    _write_crc(data, 0, crc32c(memoryview(data)[BATCH.end("crc") :]))
    return bytes(data)


def check_header(header: BatchHeader) -> None:
    """Raise `UsageError` if readers would report the header of a new batch by the rules of `header_findings`."""
    for finding in header_findings(header, 0):
        raise UsageError(f"such a batch would be reported: {finding.code}, {finding.detail}")


def check_producer(producer: ProducerState, codec: int, *, control: bool = False) -> None:
    """Raise `UsageError` for an unknown compression or impossible producer fields. Impossible are a transaction without
    producer id, and a producer id without epoch or without sequence. With `control` a producer id needs no sequence.
    """
    if codec not in frozenset(Codec):
        raise UsageError(f"compression {codec} is not defined")
    if producer.is_transactional and producer.producer_id == NO_PRODUCER_ID:
        raise UsageError("a transactional batch needs a producer id")
    if producer.producer_id != NO_PRODUCER_ID:
        if producer.producer_epoch == NO_PRODUCER_EPOCH:
            raise UsageError("a producer id needs a producer epoch")
        if producer.base_sequence < 0 and not control:
            raise UsageError("a producer id needs a sequence")


def _check(records: Sequence[Record], producer: ProducerState, codec: int, control: bool) -> None:
    check_producer(producer, codec, control=control)
    last = None
    for record in records:
        check_record(record)
        if record.timestamp < NO_TIMESTAMP:
            raise UsageError(f"timestamp {record.timestamp} of offset {record.offset} is negative")
        if record.timestamp != to_int64(record.timestamp):
            raise UsageError(f"timestamp {record.timestamp} of offset {record.offset} does not fit 64 bits")
        if last is not None and record.offset <= last:
            raise UsageError(f"offset {record.offset} after {last}: offsets increase within a batch")
        last = record.offset


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    codec: Codec | int = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
    producer: ProducerState = NO_PRODUCER,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    delete_horizon_ms: int | None = None,
    is_control: bool = False,
) -> bytes:
    """Build one v2 batch of `records` with their offsets and timestamps (ms). There must be at least one record; see
    `empty_batch`. `base_offset` and `last_offset` default to the offsets of the first and last record; after
    compaction, pass those of the original batch. `level` None is the compression's default level. Sequence, leader
    epoch and timestamp type of the records are ignored.

    With LogAppendTime consumers get `log_append_time` (ms), while the records keep their own times. A
    `delete_horizon_ms` is stored as base timestamp and flagged. Raises `UsageError` if `records` is empty, for an
    unknown compression, a `level` outside its range, or a record outside the batch's offsets. Raises it also for a
    header that readers would report (`check_header`), and for anything else that `MemoryRecordsBuilder` refuses, such
    as offsets that do not increase.
    """
    if not records:
        raise UsageError("a batch needs a record; an emptied one is empty_batch")
    _check(records, producer, codec, is_control)
    if timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
        raise UsageError("a batch of magic 2 has a timestamp type")
    base = records[0].offset if base_offset is None else base_offset
    last = records[-1].offset if last_offset is None else last_offset
    if not 0 <= records[0].offset - base <= last - base <= MAX_DELTA or records[-1].offset > last:
        raise UsageError(f"offsets {records[0].offset} to {records[-1].offset} in a batch from {base} to {last}")
    base_timestamp = records[0].timestamp if delete_horizon_ms is None else delete_horizon_ms
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = log_append_time
    else:
        max_timestamp = max(record.timestamp for record in records)
    raw = [
        RawRecord(
            0,
            to_int64(record.timestamp - base_timestamp),  # as Java does
            record.offset - base,
            record.key,
            record.value,
            tuple(header_bytes(header) for header in record.headers),
        )
        for record in records
    ]
    header = BatchHeader(
        base_offset=base,
        batch_length=0,
        partition_leader_epoch=partition_leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=_attributes(
            codec, timestamp_type, producer.is_transactional, is_control, delete_horizon_ms is not None
        ),
        last_offset_delta=last - base,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.base_sequence,
        records_count=len(raw),
    )
    check_header(header)
    return build_raw_batch(header, compress(codec, write_records(raw), level=level, magic=MAGIC))


def empty_batch(
    base_offset: int,
    last_offset: int,
    *,
    max_timestamp: int,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer: ProducerState = NO_PRODUCER,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    is_control: bool = False,
) -> bytes:
    """Build a batch without records. The cleaner keeps such a batch if its last offset or sequence number is still
    needed. Both offsets are inclusive; `max_timestamp` is in ms. Raises `UsageError` if the last offset is before the
    base offset or too far from it, or if a field does not fit its type. It is raised too for a header that readers
    would report (`check_header`). The producer fields are not checked otherwise.
    """
    if not 0 <= last_offset - base_offset <= MAX_DELTA:
        raise UsageError(f"an empty batch from {base_offset} to {last_offset}")
    attributes = _attributes(Codec.NONE, timestamp_type, producer.is_transactional, is_control, False)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=partition_leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_offset - base_offset,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=max_timestamp,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.base_sequence,
        records_count=0,
    )
    check_header(header)
    return build_raw_batch(header, b"")


def control_key(kind: int, version: int = CONTROL_VERSION) -> bytes:
    """Encode the key of a control record: version and type. Raises `UsageError` if one does not fit 16 bits."""
    try:
        return CONTROL_KEY.struct.pack(version, kind)
    except struct.error as error:
        raise UsageError(f"the key of a control record does not fit: {error}") from None


def build_control_batch(
    values: Sequence[tuple[ControlRecordType | ControlType, bytes]],
    *,
    base_offset: int,
    timestamp: int,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    producer: ProducerState = NO_PRODUCER,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """Build a control batch of one record for each (type, value) pair, with consecutive offsets from `base_offset` and
    one timestamp (ms). `delete_horizon_ms` is stored as base timestamp if given. For the values of KRaft's records see
    `codec.files.kraft`. Raises `UsageError` if `values` is empty, a type or its version does not fit 16 bits, or
    `build_batch` refuses a field.
    """
    records = [
        Record(
            offset=base_offset + number,
            timestamp=timestamp,
            timestamp_type=TimestampType.CREATE_TIME,
            key=control_key(kind) if isinstance(kind, ControlType) else control_key(kind.type, kind.version),
            value=value,
        )
        for number, (kind, value) in enumerate(values)
    ]
    return build_batch(
        records,
        producer=producer,
        partition_leader_epoch=partition_leader_epoch,
        delete_horizon_ms=delete_horizon_ms,
        is_control=True,
    )


def build_end_transaction_marker(
    marker: EndTransactionMarker,
    *,
    base_offset: int,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """Build the transactional control batch with one COMMIT or ABORT marker (`MemoryRecords.withEndTransactionMarker`);
    `timestamp` is in ms, and `delete_horizon_ms` is stored as base timestamp if given. Raises `UsageError` for a marker
    of another type, a missing producer id or epoch (-1), and anything else that does not fit or `build_batch` refuses.
    """
    if marker.type not in (ControlType.ABORT, ControlType.COMMIT):
        raise UsageError(f"{marker.type.name} does not end a transaction")
    try:
        value = END_MARKER.struct.pack(CONTROL_VERSION, marker.coordinator_epoch)
    except struct.error as error:
        raise UsageError(f"a marker's coordinator epoch does not fit: {error}") from None
    return build_control_batch(
        [(marker.type, value)],
        base_offset=base_offset,
        timestamp=timestamp,
        partition_leader_epoch=partition_leader_epoch,
        producer=ProducerState(
            producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=NO_SEQUENCE, is_transactional=True
        ),
        delete_horizon_ms=delete_horizon_ms,
    )
