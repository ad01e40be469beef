"""Decode messages of magic 0 and 1, and the compressed sets inside wrapper messages. The rules are those of
`AbstractLegacyRecordBatch` and `LegacyRecord`. Inner offsets are absolute in magic 0 and relative in magic 1, whose
wrapper has the last offset. One level of nesting is allowed. With LogAppendTime all records of a magic-1 wrapper have
the wrapper's timestamp.
"""

from __future__ import annotations

import zlib

from kafkalog.codec.common.errors import FormatError, PortableError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity, outline_of
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.compression import decompress
from kafkalog.codec.model import (
    LOG_OVERHEAD,
    MESSAGE_V0,
    MESSAGE_V1,
    NO_TIMESTAMP,
    Codec,
    LegacyHeader,
    Record,
    RecordBatch,
    TimestampType,
)
from kafkalog.codec.rules.execution import Execution, MessageContent, RecordFault
from kafkalog.codec.rules.framing import LEGACY_CRC_START, SMALLEST_MESSAGE

__all__ = ["first_offset", "inner_messages", "key_and_value", "read_legacy"]

Bytes = bytes | memoryview
_HEADER_SIZE = {0: MESSAGE_V0.size, 1: MESSAGE_V1.size}


class _InvalidMessageError(PortableError):
    def __init__(self, detail: str, code: FindingCode = FindingCode.MESSAGE_INVALID) -> None:
        self.detail = detail
        self.code = code


def _content(header: LegacyHeader, data: Bytes, execution: Execution) -> MessageContent:
    content = execution.message_content(data, _HEADER_SIZE[header.magic])
    if isinstance(content, RecordFault):
        raise _InvalidMessageError(f"the length at byte {content.position} of a message runs past the message's end")
    return content


def _message(execution: Execution, data: Bytes) -> LegacyHeader:
    magic = data[MESSAGE_V0.position("magic")]
    if magic not in _HEADER_SIZE or len(data) < _HEADER_SIZE[magic]:
        raise _InvalidMessageError(f"an inner message of magic {magic} and {len(data)} bytes")
    return execution.legacy_header(data, 0)


def _inner_set(
    header: LegacyHeader, data: Bytes, limits: Limits, execution: Execution
) -> list[tuple[LegacyHeader, Bytes]]:
    """Return header and bytes of every inner message of a wrapper, at least one, in order. An incomplete last message
    is dropped. Raises `_InvalidMessageError` if the wrapper's magic is unknown, its value is null or cannot be read or
    decompressed, or it holds no or too many messages. Raises it also if an inner message is too short or of an unknown
    magic.
    """
    if header.magic not in _HEADER_SIZE:  # a wrong index can lead to bytes that are not a message
        raise _InvalidMessageError(f"a compressed message of magic {header.magic}")
    _key, value = _content(header, data, execution)
    if value is None:
        raise _InvalidMessageError("a compressed message without a value")
    try:
        unpacked = memoryview(decompress(header.codec, value, limits, magic=header.magic))
    except FormatError as error:
        code = FindingCode(error.code or FindingCode.DECOMPRESSION_FAILED)
        raise _InvalidMessageError(error.message, code) from None
    messages: list[tuple[LegacyHeader, Bytes]] = []
    position = 0
    while position + LOG_OVERHEAD.size <= len(unpacked):
        _, length = LOG_OVERHEAD.struct.unpack_from(unpacked, position)
        if length < SMALLEST_MESSAGE:
            raise _InvalidMessageError(f"an inner message with a size field of {length}")
        end = position + LOG_OVERHEAD.size + length
        if end > len(unpacked):
            break
        inner = _message(execution, unpacked[position:end])
        if len(messages) >= limits.records_per_batch:
            raise _InvalidMessageError("too many inner messages", FindingCode.LIMIT_EXCEEDED)
        messages.append((inner, unpacked[position:end]))
        position = end
    if not messages:
        raise _InvalidMessageError("a compressed message that holds no message")
    return messages


def _check_plain(inner: LegacyHeader) -> None:
    if inner.codec != Codec.NONE:
        raise _InvalidMessageError("a compressed message inside a compressed message")


def _check_sum(inner: LegacyHeader, data: Bytes) -> None:
    """Raise `_InvalidMessageError` for a wrong checksum of an inner message. Consumers compare it (`check.crcs`); a
    broker compares only the wrapper's.
    """
    computed = zlib.crc32(data[LEGACY_CRC_START:])
    if computed != inner.crc:
        raise _InvalidMessageError(
            f"an inner message whose stored checksum is {inner.crc:#010x}, computed {computed:#010x}"
        )


def _base_of_wrapper(header: LegacyHeader, last_inner: LegacyHeader) -> int:
    """Return the number to add to the inner offsets of a wrapper. It is 0 in magic 0, whose inner offsets are absolute.
    In magic 1 it is 0 if the wrapper's offset is 0: old clients wrote absolute inner offsets there. Otherwise it is the
    wrapper's offset less the last inner offset. Raises `_InvalidMessageError` if this would be negative.
    """
    if header.magic != 1 or header.offset == 0:
        return 0
    if header.offset < last_inner.offset:
        raise _InvalidMessageError(f"wrapper offset {header.offset} below inner offset {last_inner.offset}")
    return header.offset - last_inner.offset


def _record(
    execution: Execution, header: LegacyHeader, data: Bytes, offset: int, wrapper: LegacyHeader | None
) -> Record:
    key, value = _content(header, data, execution)
    outer = wrapper or header
    timestamp = NO_TIMESTAMP  # messages of magic 0 have none, whatever their wrapper has
    if header.magic > 0:
        timestamp = (outer if outer.timestamp_type is TimestampType.LOG_APPEND_TIME else header).timestamp
    return Record(offset, timestamp, outer.timestamp_type, key, value)


def read_legacy(
    batch: RecordBatch, limits: Limits, execution: Execution, *, check_inner: bool = True
) -> tuple[tuple[Record, ...], Finding | None]:
    """Decode the record of a single message, or the records of a wrapper. Return the records before the first fault,
    and the finding about the fault (None if all are sound). If the sizes, magics or offsets in a wrapper are wrong
    anywhere, there are no records. If `check_inner` is True, the checksums of inner messages are compared, as consumers
    do; the cleaner does not. Raises `TypeError` for a v2 batch.
    """
    header = batch.header
    if not isinstance(header, LegacyHeader):
        raise TypeError("a v0 or v1 entry is needed")
    records: list[Record] = []
    try:
        if header.codec == Codec.NONE:
            return (_record(execution, header, batch.data, header.offset, None),), None
        inner = _inner_set(header, batch.data, limits, execution)
        base = _base_of_wrapper(header, inner[-1][0])
        for message, data in inner:
            _check_plain(message)
            if check_inner:
                _check_sum(message, data)
            records.append(_record(execution, message, data, base + message.offset, header))
    except _InvalidMessageError as error:
        offset, outline = header.offset, outline_of(header)
        place = batch.position, offset
        finding = Finding(error.code, Severity.ERROR, *place, error.detail, last_offset=offset, batch=outline)
        return tuple(records), finding
    return tuple(records), None


def first_offset(batch: RecordBatch, limits: Limits, execution: Execution) -> int:
    """Return the first offset of a v0 or v1 entry. For a wrapper this is the offset of its first inner message; the
    wrapper is decompressed to find it. For any other entry it is the entry's own offset. For a v2 batch, return its
    last offset. Raises `FormatError` if a wrapper cannot be read or begins with another wrapper, or if the number that
    `_base_of_wrapper` returns would be negative.
    """
    header = batch.header
    if not isinstance(header, LegacyHeader) or header.codec == Codec.NONE:
        return header.last_offset
    try:
        inner = _inner_set(header, batch.data, limits, execution)
        _check_plain(inner[0][0])
        return _base_of_wrapper(header, inner[-1][0]) + inner[0][0].offset
    except _InvalidMessageError as error:
        raise FormatError(error.detail, position=batch.position, code=error.code) from None


def inner_messages(
    batch: RecordBatch, limits: Limits, execution: Execution, count: int | None = None
) -> list[tuple[LegacyHeader, Bytes]]:
    """Return header and bytes of the first `count` messages in a wrapper (None: of all), with offsets as stored; an
    empty list for any other batch. Raises `FormatError` if the wrapper cannot be read, or one of these messages is a
    wrapper.
    """
    header = batch.header
    if not isinstance(header, LegacyHeader) or header.codec == Codec.NONE:
        return []
    try:
        inner = _inner_set(header, batch.data, limits, execution)[:count]
        for message, _ in inner:
            _check_plain(message)
        return inner
    except _InvalidMessageError as error:
        raise FormatError(error.detail, position=batch.position, code=error.code) from None


def key_and_value(batch: RecordBatch, execution: Execution) -> MessageContent:
    """Return the stored key and value of one v0 or v1 entry, each None for null. The value of a wrapper is its
    compressed set. Raises `FormatError` if they cannot be read, `TypeError` for a v2 batch.
    """
    if not isinstance(batch.header, LegacyHeader):
        raise TypeError("a v0 or v1 entry is needed")
    try:
        return _content(batch.header, batch.data, execution)
    except _InvalidMessageError as error:
        raise FormatError(error.detail, position=batch.position, code=error.code) from None
