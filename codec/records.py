"""From a batch to its records: what a consumer would see, or the first reason why it cannot.

Decided by `DefaultRecordBatch` (v2) and `AbstractLegacyRecordBatch` (v0, v1).  Recovery never looks in here: a batch
with a valid checksum may still hold records that cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkalog.codec.compression import decompress
from kafkalog.codec.errors import FormatError, LimitExceeded
from kafkalog.codec.execution import Execution, RawRecord
from kafkalog.codec.fast.plain import PLAIN
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.legacy import read_legacy
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import (
    BATCH,
    NO_SEQUENCE,
    BatchHeader,
    Codec,
    Header,
    Record,
    RecordBatch,
    TimestampType,
    increment_sequence,
)

__all__ = ["DecodedBatch", "decode_batch", "iter_records", "records_payload"]


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """The records before the first fault, and the fault.

    For a compressed batch the finding's position is that of the batch; the detail says where in the decompressed
    bytes.
    """

    records: tuple[Record, ...]
    finding: Finding | None = None


def records_payload(batch: RecordBatch, limits: Limits = DEFAULT_LIMITS) -> bytes | memoryview:
    """The record bytes of a v2 batch, decompressed; raises `FormatError` if they cannot be."""
    if batch.header.codec == Codec.NONE:
        if len(batch.data) - BATCH.size > limits.decompressed_batch_bytes:
            raise LimitExceeded("a batch is larger than decompressed_batch_bytes", limit="decompressed_batch_bytes")
        return batch.payload
    return decompress(batch.header.codec, batch.payload, limits)


def decode_batch(batch: RecordBatch, *, limits: Limits = DEFAULT_LIMITS, execution: Execution = PLAIN) -> DecodedBatch:
    """All records of a batch, control records included; never raises for bad data."""
    if not isinstance(batch.header, BatchHeader):
        return DecodedBatch(*read_legacy(batch, limits, execution))
    header = batch.header

    def fault(code: FindingCode, detail: str) -> Finding:
        return Finding(code, Severity.ERROR, batch.position, header.base_offset, detail)

    if header.records_count == 0:
        return DecodedBatch(())
    if header.records_count < 0:
        return DecodedBatch((), fault(FindingCode.RECORDS_COUNT_INVALID, f"{header.records_count} records"))
    if header.records_count > limits.records_per_batch:
        return DecodedBatch((), fault(FindingCode.LIMIT_EXCEEDED, f"{header.records_count} records"))
    try:
        payload = records_payload(batch, limits)
    except FormatError as error:
        return DecodedBatch((), fault(FindingCode(error.code or FindingCode.DECOMPRESSION_FAILED), error.message))
    raw, problem = execution.records(payload, header.records_count, limits)
    records = tuple(_records(header, raw))
    if problem is None:
        return DecodedBatch(records)
    if header.codec == Codec.NONE:
        position = batch.position + BATCH.size + problem.position
        detail = f"record {len(raw)} of {header.records_count}"
    else:
        position = batch.position
        detail = f"record {len(raw)} of {header.records_count}, byte {problem.position} of the decompressed records"
    return DecodedBatch(records, Finding(problem.code, Severity.ERROR, position, header.base_offset, detail))


def _headers(stored: tuple[tuple[bytes, bytes | None], ...]) -> tuple[Header, ...]:
    return tuple(Header(key.decode("utf-8", "surrogateescape"), value) for key, value in stored)


def _records(header: BatchHeader, raw: list[RawRecord]) -> Iterator[Record]:
    timestamp_type = header.timestamp_type
    append_time = header.max_timestamp if timestamp_type is TimestampType.LOG_APPEND_TIME else None
    for record in raw:
        yield Record(
            offset=header.base_offset + record.offset_delta,
            timestamp=header.base_timestamp + record.timestamp_delta if append_time is None else append_time,
            timestamp_type=timestamp_type,
            key=record.key,
            value=record.value,
            headers=_headers(record.headers) if record.headers else (),
            sequence=(
                NO_SEQUENCE
                if header.base_sequence < 0
                else increment_sequence(header.base_sequence, record.offset_delta)
            ),
            leader_epoch=header.partition_leader_epoch,
        )


def iter_records(
    batch: RecordBatch, *, limits: Limits = DEFAULT_LIMITS, execution: Execution = PLAIN
) -> tuple[Record, ...]:
    """All records of a batch that the caller asks to read; raises `FormatError` if it cannot be read whole."""
    decoded = decode_batch(batch, limits=limits, execution=execution)
    if decoded.finding is not None:
        finding = decoded.finding
        raise FormatError(finding.detail, position=finding.position, code=finding.code)
    return decoded.records
