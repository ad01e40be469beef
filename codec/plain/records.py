"""Decode the records of a batch as a consumer gets them, or find the first reason why they cannot be decoded. The rules
are those of `DefaultRecordBatch` (v2) and `AbstractLegacyRecordBatch` (v0, v1). A broker's recovery never looks inside:
a batch with a valid checksum may still hold records that cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity, outline_of
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.compression import decompress
from kafkalog.codec.compression._errors import too_large
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
    to_int64,
)
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.plain.legacy import first_offset, read_legacy
from kafkalog.codec.rules.execution import Execution, RawRecord, RecordFault

__all__ = [
    "DecodedBatch",
    "decode_batch",
    "decode_payload",
    "first_offset_of",
    "iter_records",
    "open_payload",
    "record_finding",
    "records_of",
    "records_payload",
    "stored_records",
]

_INT64 = 2**63


class DecodedBatch(Struct, frozen=True):
    """The records of a batch before the first fault, and the fault; `finding` is None if all were decoded. In a
    compressed batch the finding's position is the start of the batch, and its detail has the position in the
    decompressed bytes.
    """

    records: tuple[Record, ...]
    finding: Finding | None = None


def first_offset_of(batch: RecordBatch, limits: Limits = DEFAULT_LIMITS) -> int:
    """Return the first offset of a batch. For a v2 batch this is its base offset; after compaction it may be below the
    first record's. A compressed v0 or v1 entry is decompressed to find the offset. If this fails, its own offset is
    returned, which is its last.
    """
    header = batch.header
    if isinstance(header, BatchHeader):
        return header.base_offset
    try:
        return first_offset(batch, limits, PLAIN)
    except FormatError:
        return header.last_offset


def records_payload(batch: RecordBatch, limits: Limits = DEFAULT_LIMITS) -> bytes | memoryview:
    """Return the record bytes of a v2 batch, decompressed; a view of the batch if it is not compressed. Raises
    `FormatError` if they cannot be decompressed, `LimitExceeded` if they exceed `limits.decompressed_batch_bytes`, or a
    zstd window exceeds `limits.zstd_window_bytes`.
    """
    if batch.header.codec == Codec.NONE:
        if len(batch.data) - BATCH.size > limits.decompressed_batch_bytes:
            raise too_large("none", limits, len(batch.data) - BATCH.size)
        return batch.payload
    return decompress(batch.header.codec, batch.payload, limits)


def decode_batch(batch: RecordBatch, *, limits: Limits = DEFAULT_LIMITS, execution: Execution = PLAIN) -> DecodedBatch:
    """Decode all records of a batch, control records included. Bad data raises nothing: the records before the first
    fault are returned with a finding.

    * `batch`: from `scan` or a reader
    * `limits`: upper bounds for a batch or file (`Limits`)
    * `execution`: implementation that decodes records; the results do not depend on it
    """
    if not isinstance(batch.header, BatchHeader):
        return DecodedBatch(*read_legacy(batch, limits, execution))
    raw, finding = stored_records(batch, batch.header, limits=limits, execution=execution)
    return DecodedBatch(tuple(records_of(batch.header, raw)), finding)


def stored_records(
    batch: RecordBatch, header: BatchHeader, *, limits: Limits = DEFAULT_LIMITS, execution: Execution = PLAIN
) -> tuple[Sequence[RawRecord], Finding | None]:
    """Decode the records of a v2 batch in their stored form: with deltas instead of offsets and timestamps. Return the
    records before the first fault, and the finding about the fault (None if all are sound). `header` must be the header
    of the batch.
    """
    payload, unreadable = open_payload(batch, limits)
    if unreadable is not None or payload is None:
        return (), unreadable
    return _stored(batch, header, payload, limits, execution)


def _stored(
    batch: RecordBatch, header: BatchHeader, payload: bytes | memoryview, limits: Limits, execution: Execution
) -> tuple[Sequence[RawRecord], Finding | None]:
    raw, problem = execution.records(payload, header.records_count, limits)
    return raw, None if problem is None else record_finding(batch, len(raw), problem)


def decode_payload(
    batch: RecordBatch, payload: bytes | memoryview, limits: Limits, execution: Execution
) -> DecodedBatch:
    """Decode the record bytes that `open_payload` returned for a v2 batch: the records before the first fault, and a
    finding about the fault (None if there is none). Raises `TypeError` for a batch of another magic.
    """
    header = batch.header
    if not isinstance(header, BatchHeader):
        raise TypeError("a v2 batch is needed")
    raw, finding = _stored(batch, header, payload, limits, execution)
    return DecodedBatch(tuple(records_of(header, raw)), finding)


def open_payload(batch: RecordBatch, limits: Limits) -> tuple[bytes | memoryview | None, Finding | None]:
    """Return (decompressed record bytes, None) for a v2 batch. Return (None, a finding) if they cannot be decompressed
    or exceed `limits`, if the record count is negative or above the limit, or for another magic. Both are None for a
    batch without records.
    """
    header = batch.header
    count = header.records_count if isinstance(header, BatchHeader) else -1

    def fault(code: FindingCode, detail: str) -> tuple[None, Finding]:
        return None, _inside(batch, code, batch.position, detail)

    if count == 0:
        return None, None
    if count < 0:
        return fault(FindingCode.RECORDS_COUNT_INVALID, f"{count} records")
    if count > limits.records_per_batch:
        return fault(
            FindingCode.LIMIT_EXCEEDED,
            f"{count} records, more than the {limits.records_per_batch} of records_per_batch: in Python "
            f"limits=Limits(records_per_batch={count}) reads them",
        )
    try:
        return records_payload(batch, limits), None
    except FormatError as error:
        return fault(FindingCode(error.code or FindingCode.DECOMPRESSION_FAILED), error.message)


def record_finding(batch: RecordBatch, done: int, problem: RecordFault) -> Finding:
    """Return the finding about the fault `problem` after the first `done` records of a v2 batch. Its position is the
    faulty byte in the file. In a compressed batch it is the start of the batch, and the detail names the byte in the
    decompressed records.
    """
    count = batch.header.records_count if isinstance(batch.header, BatchHeader) else 0
    if batch.header.codec == Codec.NONE:
        position = batch.position + BATCH.size + problem.position
        detail = f"record {done} of {count}"
    else:
        position = batch.position
        detail = f"record {done} of {count}, byte {problem.position} of the decompressed records"
    return _inside(batch, problem.code, position, detail)


def _inside(batch: RecordBatch, code: FindingCode, position: int, detail: str) -> Finding:
    header = batch.header
    first, last, outline = header.first_offset, header.last_offset, outline_of(header)
    return Finding(code, Severity.ERROR, position, first, detail, last_offset=last, batch=outline)


def _headers(stored: tuple[tuple[bytes, bytes | None], ...]) -> tuple[Header, ...]:
    return tuple([Header(key.decode("utf-8", "surrogateescape"), value) for key, value in stored])


def records_of(header: BatchHeader, raw: Sequence[RawRecord]) -> Iterator[Record]:
    """Yield each stored record of a v2 batch as the `Record` that a consumer gets, in order. It has an absolute offset,
    a timestamp (with LogAppendTime the batch's), a sequence number (-1 if the batch has none) and a leader epoch.
    Offsets and timestamps overflow at 64 bits as in Java.
    """
    kind = header.timestamp_type
    base_offset, base_timestamp, base_sequence = header.base_offset, header.base_timestamp, header.base_sequence
    append_time = header.max_timestamp if kind is TimestampType.LOG_APPEND_TIME else None
    epoch = header.partition_leader_epoch
    for _attributes, timestamp_delta, offset_delta, key, value, headers in raw:
        offset, moment = base_offset + offset_delta, base_timestamp + timestamp_delta
        if not (-_INT64 <= offset < _INT64 and -_INT64 <= moment < _INT64):
            offset, moment = to_int64(offset), to_int64(moment)
        yield Record(
            offset,
            moment if append_time is None else append_time,
            kind,
            key,
            value,
            _headers(headers) if headers else (),
            NO_SEQUENCE if base_sequence < 0 else increment_sequence(base_sequence, offset_delta),
            epoch,
        )


def iter_records(
    batch: RecordBatch, *, limits: Limits = DEFAULT_LIMITS, execution: Execution = PLAIN
) -> tuple[Record, ...]:
    """Return all records of a batch as a tuple, control records included. Raises `FormatError` if one cannot be
    decoded.

    * `batch`: from `scan` or a reader
    * `limits`: upper bounds for a batch or file (`Limits`)
    * `execution`: implementation that decodes records; the results do not depend on it
    """
    decoded = decode_batch(batch, limits=limits, execution=execution)
    if decoded.finding is not None:
        finding = decoded.finding
        raise FormatError(finding.detail, position=finding.position, code=finding.code)
    return decoded.records
