"""Build messages of magic 0 and 1, single or compressed in one wrapper message. The rules are those of
`MemoryRecordsBuilder.appendLegacyRecord` and `writeLegacyCompressedWrapperHeader`, and of `LegacyRecord`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.compression import compress
from kafkalog.codec.compression.specs import codec_spec
from kafkalog.codec.encode.record_checks import check_record
from kafkalog.codec.encode.records import write_content
from kafkalog.codec.model import (
    LOG_OVERHEAD,
    MESSAGE_V0,
    MESSAGE_V1,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    Codec,
    LegacyHeader,
    Record,
    TimestampType,
)
from kafkalog.codec.rules.framing import LEGACY_CRC_START

__all__ = ["build_messages", "encode_message"]

_LAYOUTS = {0: MESSAGE_V0, 1: MESSAGE_V1}
_write_crc = MESSAGE_V0.writer("crc")


def encode_message(header: LegacyHeader, key: bytes | None, value: bytes | None) -> bytes:
    """Encode an entry of magic 0 or 1 from its header, key and value (None for null). Size and checksum in `header` are
    ignored; the right ones are written. Raises `UsageError` for another magic or a header field that does not fit its
    type.
    """
    layout = _LAYOUTS.get(header.magic)
    if layout is None:
        raise UsageError(f"magic {header.magic} is not a message format")
    body = write_content(key, value)
    size = layout.size - LOG_OVERHEAD.size + len(body)
    values = [header.offset, size, 0, header.magic, header.attributes]
    try:
        data = bytearray(layout.struct.pack(*values, *([header.timestamp] if header.magic else [])) + body)
    except struct.error as error:
        raise UsageError(f"a header field does not fit: {error}") from None
    _write_crc(data, 0, zlib.crc32(memoryview(data)[LEGACY_CRC_START:]))
    return bytes(data)


def _check(records: Sequence[Record], magic: int, codec: int, timestamp_type: TimestampType) -> None:
    spec = codec_spec(codec)
    if spec is None or not spec.is_defined(magic):
        raise UsageError(f"compression {codec} is not defined for magic {magic}")
    if magic > 0 and timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
        raise UsageError("a message of magic 1 has a timestamp type")
    last = None
    for record in records:
        check_record(record)
        if record.headers:
            raise UsageError(f"magic {magic} has no record headers")
        if record.timestamp < NO_TIMESTAMP:
            raise UsageError(f"timestamp {record.timestamp} of offset {record.offset} is negative")
        if last is not None and record.offset <= last:
            raise UsageError(f"offset {record.offset} after {last}: offsets increase within a set")
        last = record.offset


def build_messages(
    records: Sequence[Record],
    *,
    magic: int,
    base_offset: int | None = None,
    codec: Codec | int = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
) -> bytes:
    """Build the messages of `records`; with a `codec`, build one wrapper message that contains them. Return empty bytes
    if there are no records. Inside a wrapper of magic 1, offsets are relative to `base_offset` (default: the first
    record's offset); otherwise they are absolute, and `base_offset` has no effect. The wrapper has the last record's
    offset and the newest timestamp. With LogAppendTime all messages have the timestamp `log_append_time` (ms). Magic 0
    stores no timestamps and ignores `timestamp_type`.

    Raises `UsageError` for an unknown magic, a compression that it does not have, magic 1 with NO_TIMESTAMP_TYPE, and a
    number that does not fit 64 bits. It is raised too for records that Kafka refuses: record headers, offsets that do
    not increase, a timestamp below -1. If records are compressed, it is raised also for a `level` outside its range.
    """
    if magic not in _LAYOUTS:
        raise UsageError(f"magic {magic} is not a message format")
    _check(records, magic, codec, timestamp_type)
    if not records:
        return b""
    append_time = timestamp_type is TimestampType.LOG_APPEND_TIME
    flag = TIMESTAMP_TYPE_FLAG if magic > 0 and append_time else 0
    relative_to = 0
    if magic > 0 and codec != Codec.NONE:
        relative_to = records[0].offset if base_offset is None else base_offset
    entries = []
    for record in records:
        timestamp = log_append_time if append_time else record.timestamp
        header = LegacyHeader(record.offset - relative_to, 0, 0, magic, flag, timestamp)
        entries.append(encode_message(header, record.key, record.value))
    plain = b"".join(entries)
    if codec == Codec.NONE:
        return plain
    newest = log_append_time if append_time else max(record.timestamp for record in records)
    wrapper = LegacyHeader(records[-1].offset, 0, 0, magic, flag | codec, newest)
    return encode_message(wrapper, None, compress(codec, plain, level=level, magic=magic))
