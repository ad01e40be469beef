"""Convert batches between message formats, by the broker's rules. Down, for consumers that know only older formats:
`RecordsUtil.downConvert`. Up, after a topic's format was raised: `LogValidator.convertAndAssignOffsetsNonCompressed`
and `buildRecordsAndAssignOffsets`, but offsets are kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.compression.specs import codec_spec
from kafkalog.codec.encode.batch import NO_PRODUCER, ProducerState, build_batch
from kafkalog.codec.encode.message import build_messages
from kafkalog.codec.model import NO_PARTITION_LEADER_EPOCH, NO_TIMESTAMP, Codec, RecordBatch, TimestampType
from kafkalog.codec.plain.records import iter_records

__all__ = ["down_convert", "up_convert"]

NEWEST_MAGIC = 2


def down_convert(
    batches: Iterable[RecordBatch], magic: int, *, first_offset: int = 0, limits: Limits = DEFAULT_LIMITS
) -> bytes:
    """Encode batches in order in a format of at most `magic` (0, 1 or 2); return their bytes together, empty if there
    are none. Batches of `magic` or lower keep their bytes. Below magic 2, control batches are omitted, and headers and
    producer fields are lost. When an uncompressed batch is converted, its records below `first_offset` are omitted.
    Raises `FormatError` if a batch to convert cannot be decoded, or if any other batch than a control batch has a
    compression that came after `magic`. Raises `UsageError` for an unknown `magic`, or records that `build_messages`
    refuses.
    """
    if magic not in (0, 1, NEWEST_MAGIC):
        raise UsageError(f"magic {magic} is not a message format")
    out: list[bytes] = []
    for batch in batches:
        header = batch.header
        if magic < NEWEST_MAGIC:
            if header.is_control:
                continue
            spec = codec_spec(header.codec)
            if spec is not None and not spec.is_defined(magic):
                raise FormatError(f"a {spec.codec.label} batch cannot be converted down", position=batch.position)
        if header.magic <= magic:
            out.append(bytes(batch.data))
            continue
        compressed = header.codec != Codec.NONE
        records = [
            record for record in iter_records(batch, limits=limits) if compressed or record.offset >= first_offset
        ]
        append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        out.append(
            build_messages(
                [replace(record, headers=()) for record in records],
                magic=magic,
                codec=header.codec,
                timestamp_type=header.timestamp_type,
                log_append_time=header.max_timestamp if append_time else NO_TIMESTAMP,
            )
        )
    return b"".join(out)


def up_convert(
    batch: RecordBatch,
    magic: int = NEWEST_MAGIC,
    *,
    codec: Codec | int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
    producer: ProducerState = NO_PRODUCER,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    limits: Limits = DEFAULT_LIMITS,
) -> bytes:
    """Encode one batch or entry in the newer format `magic` (1 or 2) and keep its offsets. `codec` None keeps its
    compression. `timestamp_type` is the topic's; with LogAppendTime the timestamp becomes `log_append_time` (ms).
    Otherwise records keep their timestamps, and those of magic 0, which have none, get -1. Producer and leader epoch
    are used for magic 2 only. Raises `UsageError` for another `magic`, if the batch is not below it, or if the builder
    refuses the records. Raises `FormatError` if the batch cannot be decoded.
    """
    header = batch.header
    if not header.magic < magic <= NEWEST_MAGIC:
        raise UsageError(f"a batch of magic {header.magic} cannot be converted up to magic {magic}")
    target = header.codec if codec is None else codec
    records = iter_records(batch, limits=limits)
    if magic < NEWEST_MAGIC:
        return build_messages(
            records, magic=magic, codec=target, timestamp_type=timestamp_type, log_append_time=log_append_time
        )
    return build_batch(
        records,
        codec=target,
        timestamp_type=timestamp_type,
        log_append_time=log_append_time,
        producer=producer,
        partition_leader_epoch=partition_leader_epoch,
    )
