"""Batches and messages written by hand: a second, independent statement of the layouts for tests to compare with.

Nothing here uses the codec under test, except to be compared with it. Every function takes the odd value that a test
wants to write; lengths and checksums follow unless they are given.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from crc32c import crc32c

# baseOffset, batchLength, partitionLeaderEpoch, magic, crc, attributes, lastOffsetDelta, baseTimestamp, maxTimestamp,
# producerId, producerEpoch, baseSequence, recordsCount
BATCH = struct.Struct(">qiibIhiqqqhii")
OVERHEAD = 12
MAGIC_AT = 16
BATCH_CRC_AT, BATCH_CRC_FROM = 17, 21
MESSAGE_CRC_AT, MESSAGE_CRC_FROM = 12, 16

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40


def unsigned_varint(value: int) -> bytes:
    """Base-128 groups, least significant first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def varint(value: int) -> bytes:
    """Zig-zag, then base-128 groups; any width."""
    return unsigned_varint(value << 1 if value >= 0 else (-value << 1) - 1)


def sized(data: bytes | None) -> bytes:
    """A varint length and the bytes; -1 for None."""
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    offset_delta: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: Sequence[tuple[bytes, bytes | None]] = (),
    *,
    timestamp_delta: int = 0,
    attributes: int = 0,
) -> bytes:
    """One v2 record, its length in front."""
    body = struct.pack(">b", attributes) + varint(timestamp_delta) + varint(offset_delta) + sized(key) + sized(value)
    body += varint(len(headers)) + b"".join(sized(name) + sized(content) for name, content in headers)
    return varint(len(body)) + body


def batch(
    payload: bytes = b"",
    count: int = 0,
    *,
    base_offset: int = 0,
    length: int | None = None,
    leader_epoch: int = -1,
    magic: int = 2,
    crc: int | None = None,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int = 0,
    max_timestamp: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """One v2 batch around record bytes (compressed already, if the attributes say so)."""
    data = BATCH.pack(
        base_offset,
        BATCH.size - OVERHEAD + len(payload) if length is None else length,
        leader_epoch,
        magic,
        crc or 0,
        attributes,
        max(count - 1, 0) if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    return fix_crc(data + payload) if crc is None else data + payload


def records_batch(*records: bytes, base_offset: int = 0, leader_epoch: int = -1) -> bytes:
    """A plain batch of records made by `record`."""
    return batch(b"".join(records), len(records), base_offset=base_offset, leader_epoch=leader_epoch)


def simple(count: int = 1, base_offset: int = 0, leader_epoch: int = -1) -> bytes:
    """A plain batch of `count` small records."""
    records = [record(delta, b"k%d" % delta, b"v" * delta) for delta in range(count)]
    return records_batch(*records, base_offset=base_offset, leader_epoch=leader_epoch)


def field(data: bytes | None) -> bytes:
    """An int32 length and the bytes; -1 for None."""
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def message(
    offset: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    *,
    magic: int = 1,
    attributes: int = 0,
    timestamp: int = 0,
    body: bytes | None = None,
) -> bytes:
    """One v0 or v1 entry; `body` replaces key and value."""
    head = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    content = head + (field(key) + field(value) if body is None else body)
    return struct.pack(">qiI", offset, len(content) + 4, zlib.crc32(content)) + content


def patch(data: bytes, position: int, change: bytes) -> bytes:
    """The same bytes with some of them overwritten."""
    return data[:position] + change + data[position + len(change) :]


def fix_crc(data: bytes) -> bytes:
    """The same batch or message with the checksum that fits: what comes after the checksum becomes reachable."""
    if data[MAGIC_AT] in (0, 1):
        return patch(data, MESSAGE_CRC_AT, struct.pack(">I", zlib.crc32(data[MESSAGE_CRC_FROM:])))
    return patch(data, BATCH_CRC_AT, struct.pack(">I", crc32c(data[BATCH_CRC_FROM:])))
