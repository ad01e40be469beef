"""Messages of magic 0 and 1, and the compressed sets of them that wrapper messages hold.

Decided by `AbstractLegacyRecordBatch` and `LegacyRecord`: absolute inner offsets in magic 0, relative ones in magic 1
(the wrapper stores the last), one level of nesting, the wrapper's timestamp for all of magic 1 where
the type is LogAppendTime.
"""

from __future__ import annotations

import zlib

from kafkalog.codec.compression import decompress
from kafkalog.codec.errors import FormatError, PortableError
from kafkalog.codec.execution import Execution, MessageContent, RecordFault
from kafkalog.codec.findings import Finding, FindingCode, Severity, outline_of
from kafkalog.codec.framing import LEGACY_CRC_START, SMALLEST_MESSAGE
from kafkalog.codec.limits import Limits
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
    """Header and bytes of every message in a wrapper."""
    if header.magic not in _HEADER_SIZE:  # an index that is wrong leads a broker to bytes that begin no message
        raise _InvalidMessageError(f"a compressed message of magic {header.magic}")
    _key, value = _content(header, data, execution)
    if value is None:
        raise _InvalidMessageError("a compressed message without a value")
    try:
        unpacked = memoryview(decompress(header.codec, value, limits, magic=header.magic))
    except FormatError as error:
        code = FindingCode(error.code or FindingCode.DECOMPRESSION_FAILED)
        raise _InvalidMessageError(error.message, code) from None
    found: list[tuple[LegacyHeader, Bytes]] = []
    position = 0
    while position + LOG_OVERHEAD.size <= len(unpacked):
        _, length = LOG_OVERHEAD.struct.unpack_from(unpacked, position)
        if length < SMALLEST_MESSAGE:
            raise _InvalidMessageError(f"an inner message with a size field of {length}")
        end = position + LOG_OVERHEAD.size + length
        if end > len(unpacked):
            break
        inner = _message(execution, unpacked[position:end])
        if len(found) >= limits.records_per_batch:
            raise _InvalidMessageError("too many inner messages", FindingCode.LIMIT_EXCEEDED)
        found.append((inner, unpacked[position:end]))
        position = end
    if not found:
        raise _InvalidMessageError("a compressed message that holds no message")
    return found


def _check_plain(inner: LegacyHeader) -> None:
    if inner.codec != Codec.NONE:
        raise _InvalidMessageError("a compressed message inside a compressed message")


def _check_sum(inner: LegacyHeader, data: Bytes) -> None:
    """Raise for a wrong checksum: consumers compare it (`check.crcs`), while a broker compares the wrapper's alone."""
    computed = zlib.crc32(data[LEGACY_CRC_START:])
    if computed != inner.crc:
        raise _InvalidMessageError(
            f"an inner message whose stored checksum is {inner.crc:#010x}, computed {computed:#010x}"
        )


def _base_of_wrapper(header: LegacyHeader, last_inner: LegacyHeader) -> int:
    """What is added to inner offsets; a wrapper offset of 0 was written by old clients and means absolute."""
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
    timestamp = NO_TIMESTAMP  # which magic 0 has none of, whatever is around it
    if header.magic > 0:
        timestamp = (outer if outer.timestamp_type is TimestampType.LOG_APPEND_TIME else header).timestamp
    return Record(offset, timestamp, outer.timestamp_type, key, value)


def read_legacy(
    batch: RecordBatch, limits: Limits, execution: Execution, *, check_inner: bool = True
) -> tuple[tuple[Record, ...], Finding | None]:
    """Read the record of a bare message, or the records of a wrapper: those before the first fault, and the fault.

    `check_inner`: compare the checksums of inner messages, as consumers do and the cleaner does not.
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
    """Base offset of an entry: its own, or that of a wrapper's first inner message; `FormatError` if unreadable."""
    header = batch.header
    if not isinstance(header, LegacyHeader) or header.codec == Codec.NONE:
        return header.last_offset
    try:
        inner = _inner_set(header, batch.data, limits, execution)
        _check_plain(inner[0][0])
        return _base_of_wrapper(header, inner[-1][0]) + inner[0][0].offset
    except _InvalidMessageError as error:
        raise FormatError(error.detail, position=batch.position, code=error.code) from None


def inner_messages(batch: RecordBatch, limits: Limits, execution: Execution) -> list[tuple[LegacyHeader, Bytes]]:
    """Header and bytes of every message in a wrapper, nothing for a bare message; `FormatError` if unreadable."""
    header = batch.header
    if not isinstance(header, LegacyHeader) or header.codec == Codec.NONE:
        return []
    try:
        inner = _inner_set(header, batch.data, limits, execution)
        for message, _ in inner:
            _check_plain(message)
        return inner
    except _InvalidMessageError as error:
        raise FormatError(error.detail, position=batch.position, code=error.code) from None


def key_and_value(batch: RecordBatch, execution: Execution) -> MessageContent:
    """Key and value of one entry as they are stored; `FormatError` if unreadable."""
    if not isinstance(batch.header, LegacyHeader):
        raise TypeError("a v0 or v1 entry is needed")
    try:
        return _content(batch.header, batch.data, execution)
    except _InvalidMessageError as error:
        raise FormatError(error.detail, position=batch.position, code=error.code) from None
