"""Decode batches and entries into their stored parts, and encode the parts again to the same bytes. A `Record` lacks
the deltas behind LogAppendTime, the record attributes and the compressed bytes; `RawBatch` and `RawMessage` keep them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import structs

from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.compression import compress
from kafkalog.codec.encode.batch import build_raw_batch
from kafkalog.codec.encode.message import encode_message
from kafkalog.codec.encode.records import write_records
from kafkalog.codec.model import BatchHeader, Codec, LegacyHeader, RecordBatch
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.plain.legacy import inner_messages, key_and_value
from kafkalog.codec.plain.records import records_payload
from kafkalog.codec.rules.execution import Execution, RawRecord

__all__ = [
    "RawBatch",
    "RawMessage",
    "encode_raw_batch",
    "encode_raw_message",
    "read_raw_batch",
    "read_raw_message",
]


@dataclass(frozen=True, slots=True)
class RawBatch:
    """The stored parts of a v2 batch: header, records, and the compressed payload (None if not compressed)."""

    header: BatchHeader
    records: tuple[RawRecord, ...]
    compressed: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class RawMessage:
    """The stored parts of a v0 or v1 entry. For a wrapper, `value` is the compressed set and `inner` are its
    messages.
    """

    header: LegacyHeader
    key: bytes | None
    value: bytes | None = field(repr=False)
    inner: tuple[RawMessage, ...] = ()


def read_raw_batch(batch: RecordBatch, *, limits: Limits = DEFAULT_LIMITS, execution: Execution = PLAIN) -> RawBatch:
    """Return the stored parts of a v2 batch: header, records and the compressed bytes (None if the batch is not
    compressed, or has no records and no bytes). `execution` is the implementation that decodes records. Raises
    `FormatError` (or `LimitExceeded`, its subclass) if the batch cannot be decoded completely, `UsageError` for another
    magic.
    """
    header = batch.header
    if not isinstance(header, BatchHeader):
        raise UsageError("a batch of magic 2 is needed")
    compressed = bytes(batch.payload) if header.codec != Codec.NONE else None
    if header.records_count == 0 and len(batch.payload) == 0:
        return RawBatch(header, ())
    records, fault = execution.records(records_payload(batch, limits), header.records_count, limits)
    if fault is not None or header.records_count < 0:
        raise FormatError(
            "the records of the batch cannot be read", position=batch.position, code=fault.code if fault else None
        )
    return RawBatch(header, tuple(records), compressed)


def encode_raw_batch(raw: RawBatch, *, level: int | None = None) -> bytes:
    """Encode a batch; length, checksum and record count are computed. If `raw.compressed` is set, those bytes are
    written unchanged and `raw.records` are only counted. Otherwise the records are compressed with `level` (None: the
    default); without records nothing follows the header. Raises `FormatError` or `UsageError` for a value that does not
    fit its type, or an unknown compression or level.
    """
    header = raw.header
    payload = raw.compressed
    if payload is None:
        payload = write_records(raw.records)
        if raw.records:
            payload = compress(header.codec, payload, level=level, magic=header.magic)
    return build_raw_batch(structs.replace(header, records_count=len(raw.records)), payload)


def read_raw_message(
    batch: RecordBatch, *, limits: Limits = DEFAULT_LIMITS, execution: Execution = PLAIN
) -> RawMessage:
    """Return the stored parts of a v0 or v1 entry: header, key, value and, for a wrapper, its inner messages (otherwise
    an empty tuple). `execution` is the implementation that decodes messages. An incomplete message at the end of a
    wrapper is left out, and checksums are not compared. Raises `FormatError` if anything else cannot be decoded,
    `UsageError` for a v2 batch.
    """
    header = batch.header
    if not isinstance(header, LegacyHeader):
        raise UsageError("a message of magic 0 or 1 is needed")
    key, value = key_and_value(batch, execution)
    inner = tuple(
        read_raw_message(RecordBatch(message, 0, data), limits=limits, execution=execution)
        for message, data in inner_messages(batch, limits, execution)
    )
    return RawMessage(header, key, value, inner)


def encode_raw_message(raw: RawMessage, *, keep_value: bool = True, level: int | None = None) -> bytes:
    """Encode an entry; size and checksum are computed. By default a wrapper's stored value is kept, and its inner
    messages are ignored. `keep_value=False` makes the value from the inner messages, compressed with `level` (None: the
    default). Raises `UsageError` for a field that does not fit its type or an unknown level. Raises `FormatError` if
    the messages are compressed and the compression is not defined for their magic.
    """
    value = raw.value
    if raw.inner and not keep_value:
        plain = b"".join(encode_raw_message(message) for message in raw.inner)
        value = compress(raw.header.codec, plain, level=level, magic=raw.header.magic)
    return encode_message(raw.header, raw.key, value)
