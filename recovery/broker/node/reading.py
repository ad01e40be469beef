"""Read batches as KRaft's own readers do in a snapshot, in the metadata log, and in `bootstrap.checkpoint`.

A reader ends without an error at the last complete batch; an impossible size, a wrong checksum or another format is an
exception (`RecordsIterator`, `ByteBufferLogInputStream`, `DefaultRecordBatch.ensureValid`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from kafkalog.cluster.records.framed_records import FramedRecord, decode_control, decode_metadata
from kafkalog.codec.common.errors import FormatError, PortableError
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.common.source import Bytes, Source
from kafkalog.codec.model import BATCH, LOG_OVERHEAD, MESSAGE_V0, NO_TIMESTAMP, BatchHeader, ControlType
from kafkalog.codec.plain.control import parse_control_key
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.framing import BATCH_CRC_START
from kafkalog.codec.rules.record_shape import CONTENT_LENGTH

__all__ = ["PARSE", "MetaBatch", "ReaderError", "metadata_batches"]

_CORRUPT = "org.apache.kafka.common.errors.CorruptRecordException"
_ILLEGAL_STATE = "java.lang.IllegalStateException"
_NULL = "java.lang.NullPointerException"
_RUNTIME = "java.lang.RuntimeException"
_INVALID = "org.apache.kafka.common.InvalidRecordException"
PARSE = "org.apache.kafka.server.common.serialization.MetadataParseException"
_size_of, _SIZE_END = LOG_OVERHEAD.reader("size"), LOG_OVERHEAD.end("size")
_OVERHEAD = LOG_OVERHEAD.size
_crc_of = BATCH.reader("crc")
_MAGIC_AT, _MAGIC_END = BATCH.position("magic"), BATCH.end("magic")
_LEAST_SIZE = MESSAGE_V0.size - _OVERHEAD + 2 * CONTENT_LENGTH.size
"""`LegacyRecord.RECORD_OVERHEAD_V0`: the header after the size, and the lengths of key and value"""
_HEADER = BATCH.size
_BATCH_MAGIC = 2


class ReaderError(PortableError):
    """Exception of a reader of the metadata: class and message of Kafka's."""

    def __init__(self, exception: str, message: str) -> None:
        super().__init__(message)
        self.exception = exception
        self.message = message


class MetaBatch(Struct, frozen=True, kw_only=True):
    """One batch with its records; a record that cannot be decoded is kept as bytes."""

    base_offset: int
    next_offset: int
    epoch: int
    is_control: bool
    records: tuple[FramedRecord, ...]
    """in a control batch with the type in their key"""
    position: int = 0
    """in its file, or in the whole log"""
    timestamp: int = NO_TIMESTAMP
    """largest timestamp in ms since 1970; -1 if it has none"""

    def control(self, kind: ControlType) -> Iterator[dict[str, Any]]:
        """Yield the fields of each control record of that type; nothing if this is not a control batch."""
        if self.is_control:
            for record in self.records:
                if record.type == kind and record.decoded is not None:
                    yield dict(record.decoded.fields)


def metadata_batches(
    source: Source, *, checks_crc: bool = True, is_snapshot: bool = True, begins_at: int = 0
) -> Iterator[MetaBatch]:
    """Yield the batches of a metadata log segment or snapshot, in order, up to the last complete one. Raises
    `ReaderError`, with Kafka's exception, if Kafka's reader would throw: for a wrong size, magic or checksum, or
    records that cannot be decoded.

    `checks_crc` False skips checksums, as for `bootstrap.checkpoint`. `is_snapshot` False reads like Kafka's
    `FileRecords`, whose checks and messages differ. `begins_at` is the position of the file in the log, and is added to
    those of the batches. Raises `StorageError` while iterating if a file cannot be read.
    """
    position = 0
    if is_snapshot and 0 < source.size < _MAGIC_END:
        raise ReaderError(_NULL, "the file is shorter than the head of a batch")
    while (size := _size_at(source, position, is_snapshot)) is not None:
        yield _batch(source, position, size, checks_crc, begins_at)
        position += size


def _size_at(source: Source, position: int, is_snapshot: bool) -> int | None:
    """Return the size in bytes of the batch at byte `position`, including its header. Return None at the end, or if the
    batch is incomplete. Raises `ReaderError` if the size is too small, the magic is unknown, or a complete batch has
    magic 0 or 1. `is_snapshot` changes only the text of the first of these errors. Raises `StorageError` if a file
    cannot be read.
    """
    left = source.size - position
    if left < _SIZE_END:
        return None
    head = bytes(source.read(position, min(left, _MAGIC_END)))
    declared = _size_of(head, 0)
    if declared < _LEAST_SIZE:
        words = f"Record size {declared} is less than the minimum record overhead ({_LEAST_SIZE})"
        if not is_snapshot:
            words = f"Found record size {declared} smaller than minimum record overhead ({_LEAST_SIZE}) in file"
        raise ReaderError(_CORRUPT, words)
    if left < _MAGIC_END:
        return None
    magic = int.from_bytes(head[_MAGIC_AT:_MAGIC_END], signed=True)
    if not 0 <= magic <= _BATCH_MAGIC:
        raise ReaderError(_CORRUPT, f"Invalid magic found in record: {magic}")
    if declared + _OVERHEAD > left:
        return None
    if magic != _BATCH_MAGIC:
        raise ReaderError(_ILLEGAL_STATE, "DefaultRecordBatch expected by record type was")
    return declared + _OVERHEAD


def _batch(source: Source, position: int, size: int, checks_crc: bool, begins_at: int) -> MetaBatch:
    if size < _HEADER:
        raise ReaderError(_CORRUPT, f"Record is corrupt (the size {size - _OVERHEAD} is smaller than the minimum")
    batch = next(iter(Scanner(source, position=position, end=position + size, check_crc=checks_crc)), None)
    if batch is None or not isinstance(batch.header, BatchHeader):
        stored, computed = _checksums(source.read(position, size))
        raise ReaderError(_CORRUPT, f"Record is corrupt (stored crc = {stored}, computed crc = {computed})")
    decoded = decode_batch(batch, limits=DEFAULT_LIMITS)
    if decoded.finding is not None and not checks_crc:
        raise ReaderError(_INVALID, "")  # whose words depend on the place
    if decoded.finding is not None:
        raise ReaderError(_RUNTIME, f"the records at offset {batch.header.base_offset} cannot be read")
    header = batch.header
    records = []
    for record in decoded.records:
        if header.is_control:
            try:
                records.append(decode_control(parse_control_key(record.key).type, record.value))
            except FormatError as error:
                raise ReaderError(_RUNTIME, str(error)) from error
            continue
        framed = decode_metadata(record.value)
        _refuse_unknown(framed)
        records.append(framed)
    return MetaBatch(
        base_offset=header.base_offset,
        next_offset=header.next_offset,
        epoch=header.partition_leader_epoch,
        is_control=header.is_control,
        records=tuple(records),
        position=begins_at + position,
        timestamp=header.max_timestamp,
    )


def _checksums(data: Bytes) -> tuple[int, int]:
    """Return the checksum in the header of a batch of magic 2, and the one of its bytes."""
    return _crc_of(data, 0), crc32c(memoryview(data)[BATCH_CRC_START:])


def _refuse_unknown(record: FramedRecord) -> None:
    """Raise `ReaderError` with the exception that `MetadataRecordSerde` throws if a record's type or version is unknown
    or it cannot be decoded. A record whose encoding is only ambiguous is accepted.
    """
    for finding in record.findings:
        if finding.code is FindingCode.RECORD_TYPE_UNKNOWN:
            raise ReaderError(PARSE, f"Unknown metadata id {record.type}")
        if finding.code is not FindingCode.TYPED_RECORD_AMBIGUOUS:
            raise ReaderError(PARSE, f"Failed to deserialize record with type: {record.type}")
