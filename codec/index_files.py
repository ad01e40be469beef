"""The binary files beside a log: offset, time and transaction index, producer snapshot; decode and encode.

Index files have no header, no checksum and no used length: a broker that died leaves zeros behind the entries.  So the
readers here give every whole slot, and `used_offset_entries` / `used_time_entries` stop where entries no longer make
sense.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafkalog.codec import derive
from kafkalog.codec.arguments import checked
from kafkalog.codec.crc32c import crc32c
from kafkalog.codec.errors import FormatError, LimitExceeded
from kafkalog.codec.layout import offset_index, producer_snapshot, time_index, transaction_index
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.model import AbortedTransaction, ProducerEntry

__all__ = [
    "ABORTED_TRANSACTION",
    "OFFSET_ENTRY",
    "PRODUCER_SNAPSHOT_VERSION",
    "TIME_ENTRY",
    "OffsetEntry",
    "TimeEntry",
    "decode_offset_index",
    "decode_producer_snapshot",
    "decode_time_index",
    "decode_transaction_index",
    "encode_offset_index",
    "encode_producer_snapshot",
    "encode_time_index",
    "encode_transaction_index",
    "used_offset_entries",
    "used_time_entries",
]

Bytes = bytes | bytearray | memoryview

OFFSET_ENTRY = derive.fixed(offset_index.OFFSET_INDEX_ENTRY)
TIME_ENTRY = derive.fixed(time_index.TIME_INDEX_ENTRY)
ABORTED_TRANSACTION = derive.fixed(transaction_index.ABORTED_TRANSACTION)
_SNAPSHOT_HEADER = derive.fixed(producer_snapshot.SNAPSHOT_HEADER)
_PRODUCER = derive.fixed(producer_snapshot.PRODUCER_ENTRY)
PRODUCER_SNAPSHOT_VERSION = 1


class OffsetEntry(NamedTuple):
    """One entry of a `.index`; `relative_offset` counts from the segment's base offset."""

    relative_offset: int
    position: int


class TimeEntry(NamedTuple):
    """One entry of a `.timeindex`; `timestamp` in ms."""

    timestamp: int
    relative_offset: int


def _slots(layout: derive.FixedLayout, data: Bytes) -> memoryview:
    view = memoryview(data)
    return view[: len(view) - len(view) % layout.size]


@checked
def decode_offset_index(data: Bytes) -> list[OffsetEntry]:
    """Every whole slot; a fragment at the end is left out."""
    return [OffsetEntry(*fields) for fields in OFFSET_ENTRY.struct.iter_unpack(_slots(OFFSET_ENTRY, data))]


@checked
def decode_time_index(data: Bytes) -> list[TimeEntry]:
    """Every whole slot; a fragment at the end is left out."""
    return [TimeEntry(*fields) for fields in TIME_ENTRY.struct.iter_unpack(_slots(TIME_ENTRY, data))]


@checked
def decode_transaction_index(data: Bytes) -> list[AbortedTransaction]:
    """Every whole entry; a fragment at the end is left out, as Kafka's reader does."""
    slots = _slots(ABORTED_TRANSACTION, data)
    return [AbortedTransaction(*fields) for fields in ABORTED_TRANSACTION.struct.iter_unpack(slots)]


@checked
def used_offset_entries(entries: Sequence[OffsetEntry]) -> int:
    """How many entries were written: up to the first that does not increase (the first may not be zero either)."""
    last = OffsetEntry(-1, -1)
    for count, entry in enumerate(entries):
        if entry.relative_offset <= last.relative_offset or entry.position <= max(last.position, 0):
            return count
        last = entry
    return len(entries)


@checked
def used_time_entries(entries: Sequence[TimeEntry]) -> int:
    """How many entries were written: up to the first that does not increase."""
    for count, entry in enumerate(entries):
        if count == 0 and entry == (0, 0):
            return 0
        if count and (entry.timestamp <= entries[count - 1].timestamp or entry.relative_offset < entries[count - 1][1]):
            return count
    return len(entries)


@checked
def encode_offset_index(entries: Iterable[OffsetEntry]) -> bytes:
    """The bytes of a trimmed `.index`."""
    return b"".join(OFFSET_ENTRY.struct.pack(*entry) for entry in entries)


@checked
def encode_time_index(entries: Iterable[TimeEntry]) -> bytes:
    """The bytes of a trimmed `.timeindex`."""
    return b"".join(TIME_ENTRY.struct.pack(*entry) for entry in entries)


@checked
def encode_transaction_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """The bytes of a `.txnindex`."""
    return b"".join(
        ABORTED_TRANSACTION.struct.pack(
            entry.version, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset
        )
        for entry in entries
    )


@checked
def decode_producer_snapshot(
    data: Bytes, *, source: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> list[ProducerEntry]:
    """The entries in file order; raises `FormatError` where the broker would discard the file."""
    view = memoryview(data)
    if len(view) > limits.snapshot_bytes:
        raise LimitExceeded("a producer snapshot is too large", limit="snapshot_bytes", source=source)
    try:
        version, crc, count = _SNAPSHOT_HEADER.struct.unpack_from(view)
    except struct.error:
        raise FormatError(
            "a producer snapshot is too short", position=0, source=source, code="snapshot_invalid"
        ) from None
    if version != PRODUCER_SNAPSHOT_VERSION:
        raise FormatError(
            f"producer snapshot version {version}", position=0, field="version", source=source, code="snapshot_invalid"
        )
    if crc32c(view[_SNAPSHOT_HEADER.end("crc") :]) != crc:
        raise FormatError(
            "the checksum of a producer snapshot does not fit",
            position=_SNAPSHOT_HEADER.position("crc"),
            field="crc",
            source=source,
            code="snapshot_invalid",
        )
    body = view[_SNAPSHOT_HEADER.size :]
    if not 0 <= count <= len(body) // _PRODUCER.size:
        raise FormatError(
            f"a producer snapshot cannot hold {count} entries",
            position=_SNAPSHOT_HEADER.position("count"),
            field="count",
            source=source,
            code="snapshot_invalid",
        )
    return [ProducerEntry(*fields) for fields in _PRODUCER.struct.iter_unpack(body[: count * _PRODUCER.size])]


@checked
def encode_producer_snapshot(entries: Sequence[ProducerEntry]) -> bytes:
    """The bytes of a `.snapshot`, entries in the given order."""
    body = b"".join(_PRODUCER.struct.pack(*(getattr(entry, name) for name in _PRODUCER.names)) for entry in entries)
    counted = len(entries).to_bytes(4, "big") + body
    header = _SNAPSHOT_HEADER.struct.pack(PRODUCER_SNAPSHOT_VERSION, crc32c(counted), len(entries))
    return header + body
