"""Convert appended records and batches to the batches that the log stores (`LogValidator`, `UnifiedLog.append`). As a
leader the log assigns offsets and its epoch; as a follower it keeps batches byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.encode import ProducerState, build_batch, build_messages
from kafkalog.codec.encode.batch import NO_PRODUCER
from kafkalog.codec.encode.record_checks import check_record
from kafkalog.codec.model import (
    BATCH,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    Codec,
    Record,
    RecordBatch,
    TimestampType,
)
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.plain.scanner import scan
from kafkalog.codec.rules.codec_names import as_codec
from kafkalog.log.writing.config import LogConfig

__all__ = ["Appendable", "NewRecord", "Stamp", "assign", "build", "parse_batch", "taken_over"]

_MAGIC = 2
_write_crc = BATCH.writer("crc")


class NewRecord(Struct, frozen=True):
    """A record to append; `timestamp` is in ms, None means the time of the append."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    """`Header`s, or plain pairs"""


Appendable = NewRecord | Record | tuple[bytes | None, bytes | None] | bytes
"""A record to append: a record, a pair (key, value), or a value alone. The offset of a `Record` is ignored."""


class Stamp(Struct, frozen=True):
    """Values that a leader writes into batches: first offset, leader epoch and append time in ms."""

    offset: int
    leader_epoch: int
    now_ms: int


def _record(item: Appendable, offset: int, now_ms: int) -> Record:
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int | None = None
    match item:
        case Record() | NewRecord():
            key, value, timestamp, headers = item.key, item.value, item.timestamp, item.headers
        case (key, value):
            pass
        case bytes():
            value = item
        case _:
            raise UsageError(f"{type(item).__name__} is not a record")
    moment = now_ms if timestamp is None else timestamp
    record = Record(offset, moment, TimestampType.CREATE_TIME, key, value, headers)  # type: ignore[arg-type]
    check_record(record)
    return record


def parse_batch(data: bytes) -> RecordBatch:
    """Return the batch if `data` is exactly one batch with a valid checksum. Raises `FormatError` for anything else: no
    batch, several, damage, or bytes after the batch.
    """
    result = scan(data)
    if len(result.batches) != 1 or result.valid_bytes != len(data):
        detail = result.findings[0].detail if result.findings else f"{len(result.batches)} batches"
        raise FormatError(f"not one valid batch: {detail}", position=result.valid_bytes)
    return result.batches[0]


def build(
    items: Iterable[Appendable],
    stamp: Stamp,
    config: LogConfig,
    *,
    compression: Codec | str | int = Codec.NONE,
    producer: ProducerState = NO_PRODUCER,
) -> list[RecordBatch]:
    """Build the batches of new records, which get consecutive offsets from `stamp.offset` on. The list has one v2
    batch. In an older format, it has one message for each record, or one compressed wrapper message; without records it
    is empty. Records without a timestamp get the stamp's time; with LogAppendTime all records get it.

    Raises `UsageError` for an item that is not a valid record, an empty v2 batch or an unknown codec. Raises it also if
    an old format lacks the codec, or does not allow an idempotent `producer`.
    """
    records = [_record(item, stamp.offset + number, stamp.now_ms) for number, item in enumerate(items)]
    append_time = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    log_append_time = stamp.now_ms if append_time else NO_TIMESTAMP
    if config.magic < _MAGIC:
        if producer != NO_PRODUCER:
            raise UsageError("message_format_version must be 0.11.0 or more for an idempotent producer")
        data = build_messages(
            records,
            magic=config.magic,
            codec=as_codec(compression),
            timestamp_type=config.message_timestamp_type,
            log_append_time=log_append_time,
        )
        return list(scan(data).batches)
    data = build_batch(
        records,
        codec=as_codec(compression),
        timestamp_type=config.message_timestamp_type,
        log_append_time=log_append_time,
        producer=producer,
        partition_leader_epoch=stamp.leader_epoch,
    )
    return [parse_batch(data)]


def assign(batch: RecordBatch, stamp: Stamp, config: LogConfig) -> list[RecordBatch]:
    """Return a producer's batch as the leader appends it (`LogValidator`): with offsets and leader epoch from `stamp`,
    and with the largest timestamp of its records, or with LogAppendTime the time of `stamp`. The bytes of its records
    do not change. A v0 or v1 batch, and any batch for a log with an older format, is instead rebuilt in the log's
    format. The result may then have several batches.

    Raises `FormatError` for a damaged batch. Raises `UsageError` for a batch that a leader rejects: a control batch, a
    batch without records or with gaps in its offsets, or LogAppendTime in a CreateTime topic. Raises it also for a
    codec or an idempotent producer that an old format does not have.
    """
    batch = taken_over(batch)  # before a new checksum could hide that the old one was wrong
    decoded = decode_batch(batch)
    if decoded.finding is not None:
        raise FormatError(decoded.finding.detail, position=decoded.finding.position, code=decoded.finding.code)
    header = batch.header
    if isinstance(header, BatchHeader):
        if header.magic != _MAGIC:
            raise FormatError(f"magic {header.magic}", position=BATCH.position("magic"), code="magic_unknown")
        if header.is_control:
            raise UsageError("control batches are written by end_transaction, or appended with keep_offsets")
        if not decoded.records or header.last_offset_delta != header.records_count - 1:
            raise UsageError("a batch with gaps in its offsets can only be appended with keep_offsets")
    append_time = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME and not append_time:
        raise UsageError("a producer must not send LogAppendTime into a topic of CreateTime")
    if not isinstance(header, BatchHeader):
        records = [replace(record, timestamp=max(record.timestamp, NO_TIMESTAMP)) for record in decoded.records]
        return build(records, stamp, config, compression=header.codec)
    if config.magic < _MAGIC:
        if header.has_producer_id:
            raise UsageError(f"a batch of an idempotent producer cannot become messages of magic {config.magic}")
        return build(decoded.records, stamp, config, compression=header.codec)
    data = bytearray(batch.data)
    values = {"base_offset": stamp.offset, "partition_leader_epoch": stamp.leader_epoch}
    if append_time:
        values |= {"attributes": header.attributes | TIMESTAMP_TYPE_FLAG, "max_timestamp": stamp.now_ms}
    else:
        values["max_timestamp"] = max(record.timestamp for record in decoded.records)
    fields = [values.get(name, getattr(header, name)) for name in BATCH.names]
    data[: BATCH.size] = BATCH.struct.pack(*fields)
    _write_crc(data, 0, crc32c(memoryview(data)[BATCH.end("crc") :]))
    return [parse_batch(bytes(data))]


def taken_over(batch: RecordBatch) -> RecordBatch:
    """Return a checked copy of a batch, which does not depend on the memory from which it was read. Raises
    `FormatError` if it is damaged, `UsageError` if it is not a `RecordBatch`.
    """
    if not isinstance(batch, RecordBatch):
        raise UsageError(f"{type(batch).__name__} is not a batch")
    return parse_batch(bytes(batch.data))
