"""Decode and encode the binary files beside a log: offset, time and transaction index, producer snapshot. Index files
have no header, no checksum and no length of the used part: a broker that died leaves zeros after the entries. So
decoders return every whole slot (the space of one entry); `used_offset_entries` and `used_time_entries` count the slots
that hold entries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kafkalog.codec import derive
from kafkalog.codec.common.errors import FormatError, LimitExceeded
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.common.source import BufferSource, Source, next_data
from kafkalog.codec.layout import offset_index, producer_snapshot, time_index, transaction_index
from kafkalog.codec.model import AbortedTransaction, ProducerEntry, field_names
from kafkalog.codec.plain.crc32c import crc32c

__all__ = [
    "ABORTED_TRANSACTION",
    "ABORTED_TRANSACTION_VERSION",
    "OFFSET_ENTRY",
    "PRODUCER_SNAPSHOT_VERSION",
    "SNAPSHOT_HEADER",
    "TIME_ENTRY",
    "Bytes",
    "OffsetEntry",
    "TimeEntry",
    "bytes_by_piece",
    "decode_offset_index",
    "decode_producer_snapshot",
    "decode_time_index",
    "decode_transaction_index",
    "each_slot",
    "encode_offset_index",
    "encode_producer_snapshot",
    "encode_time_index",
    "encode_transaction_index",
    "read_producer_snapshot",
    "slots_by_piece",
    "used_offset_entries",
    "used_time_entries",
]

Bytes = bytes | bytearray | memoryview

_FIRST_PIECE, _PIECE = 1 << 9, 1 << 18
"""Bytes that are read at once when entries are read one after another: the first read, and at most."""
PRODUCER_SNAPSHOT_VERSION = 1
ABORTED_TRANSACTION_VERSION = 0


class OffsetEntry(NamedTuple):
    """One entry of an offset index (`.index`). `relative_offset` counts from the segment's base offset; `position` is
    in bytes.
    """

    relative_offset: int
    position: int


class TimeEntry(NamedTuple):
    """One entry of a time index (`.timeindex`). `timestamp` is in ms since 1970; `relative_offset` counts from the
    segment's base offset.
    """

    timestamp: int
    relative_offset: int


OFFSET_ENTRY = derive.fixed(offset_index.OFFSET_INDEX_ENTRY, OffsetEntry._fields)
TIME_ENTRY = derive.fixed(time_index.TIME_INDEX_ENTRY, TimeEntry._fields)
ABORTED_TRANSACTION = derive.fixed(transaction_index.ABORTED_TRANSACTION, field_names(AbortedTransaction))
SNAPSHOT_HEADER = derive.fixed(producer_snapshot.SNAPSHOT_HEADER, ("version", "crc", "count"))
_PRODUCER = derive.fixed(producer_snapshot.PRODUCER_ENTRY, field_names(ProducerEntry))


def _slots(layout: derive.FixedLayout, data: Bytes) -> memoryview:
    view = memoryview(data)
    return view[: len(view) - len(view) % layout.size]


def each_slot(
    source: Source, layout: derive.FixedLayout, *, start: int = 0, end: int | None = None, pass_holes: bool = False
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Read a file of slots (entries of fixed size); yield number and fields of each slot in order. Only whole slots
    between bytes `start` and `end` (exclusive; None: the end of the file) are read; the slot at `start` has number 0.
    Reads begin small and grow, because callers often stop at the first slot that does not increase. If `pass_holes` is
    True, most slots in the holes of the file, which are all zeros, are left out.
    """
    for number, piece in slots_by_piece(source, layout, start=start, end=end, pass_holes=pass_holes):
        yield from enumerate(piece, number)


def slots_by_piece(
    source: Source, layout: derive.FixedLayout, *, start: int = 0, end: int | None = None, pass_holes: bool = False
) -> Iterator[tuple[int, Sequence[tuple[Any, ...]]]]:
    """Read a file of slots piece by piece, by the rules of `each_slot`. For each piece, yield the number of its first
    slot and a list of the fields of its slots.
    """
    for number, piece in bytes_by_piece(source, layout.size, start=start, end=end, pass_holes=pass_holes):
        yield number, list(layout.struct.iter_unpack(piece))


def bytes_by_piece(
    source: Source, size: int, *, start: int = 0, end: int | None = None, pass_holes: bool = False
) -> Iterator[tuple[int, Bytes]]:
    """Read a file of slots of `size` bytes piece by piece. For each piece, in order, yield the number of its first slot
    and the bytes of its slots. Only whole slots between bytes `start` and `end` (exclusive; None: the end of the file)
    are read; the slot at `start` has number 0. Pieces begin small and grow. With `pass_holes`, a piece that would begin
    in a hole of the file has one slot of zeros, and the next piece begins after the hole. Ends early if the source
    becomes shorter. Raises `StorageError` while iterating if a file cannot be read.
    """
    last = ((source.size if end is None else min(end, source.size)) - start) // size
    number, at_once = 0, _FIRST_PIECE // size
    while number < last:
        if pass_holes:
            behind = (next_data(source, start + number * size, start + last * size) - start) // size
            if behind > number:
                yield number, bytes(size)
                number = behind
                continue
        data = memoryview(source.read(start + number * size, min(at_once, last - number) * size))
        at_once = min(2 * at_once, _PIECE // size)
        count = len(data) // size
        if count == 0:
            return
        yield number, data[: count * size]
        number += count


def decode_offset_index(data: Bytes) -> list[OffsetEntry]:
    """Decode an offset index; return every whole slot, and ignore a fragment at the end."""
    return [OffsetEntry(*fields) for fields in OFFSET_ENTRY.struct.iter_unpack(_slots(OFFSET_ENTRY, data))]


def decode_time_index(data: Bytes) -> list[TimeEntry]:
    """Decode a time index; return every whole slot, and ignore a fragment at the end."""
    return [TimeEntry(*fields) for fields in TIME_ENTRY.struct.iter_unpack(_slots(TIME_ENTRY, data))]


def decode_transaction_index(data: Bytes) -> list[AbortedTransaction]:
    """Decode a transaction index; return every whole entry, and ignore a fragment at the end, as Kafka's reader
    does.
    """
    slots = _slots(ABORTED_TRANSACTION, data)
    return [AbortedTransaction(*fields) for fields in ABORTED_TRANSACTION.struct.iter_unpack(slots)]


def offset_entry_increases(before: tuple[int, int] | None, entry: tuple[int, int]) -> bool:
    """Whether an entry of an offset index can follow the entry `before`: its relative offset and its position must be
    larger. If `before` is None, it must be possible as the first entry: relative offset 0 or more, position above 0.
    """
    relative_offset, position = (-1, 0) if before is None else before
    return entry[0] > relative_offset and entry[1] > max(position, 0)


def time_entry_increases(before: tuple[int, int] | None, entry: tuple[int, int]) -> bool:
    """Whether an entry of a time index can follow the entry `before`: its timestamp must be larger, and its relative
    offset not smaller. If `before` is None, every entry is possible except (0, 0), an unused slot.
    """
    if before is None:
        return entry != (0, 0)
    return entry[0] > before[0] and entry[1] >= before[1]


def used_offset_entries(entries: Sequence[OffsetEntry]) -> int:
    """Return the number of slots that hold entries: all slots before the first whose entry cannot follow the previous
    one (`offset_entry_increases`). It is 0 if the first slot is zeros.
    """
    last: OffsetEntry | None = None
    for count, entry in enumerate(entries):
        if not offset_entry_increases(last, entry):
            return count
        last = entry
    return len(entries)


def used_time_entries(entries: Sequence[TimeEntry]) -> int:
    """Return the number of slots that hold entries: all slots before the first whose entry cannot follow the previous
    one (`time_entry_increases`). It is 0 if the first slot is zeros.
    """
    last: TimeEntry | None = None
    for count, entry in enumerate(entries):
        if not time_entry_increases(last, entry):
            return count
        last = entry
    return len(entries)


def encode_offset_index(entries: Iterable[OffsetEntry]) -> bytes:
    """Encode an offset index, without unused slots."""
    return b"".join(OFFSET_ENTRY.struct.pack(*entry) for entry in entries)


def encode_time_index(entries: Iterable[TimeEntry]) -> bytes:
    """Encode a time index, without unused slots."""
    return b"".join(TIME_ENTRY.struct.pack(*entry) for entry in entries)


def encode_transaction_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """Encode a transaction index."""
    names = ABORTED_TRANSACTION.names
    return b"".join(ABORTED_TRANSACTION.struct.pack(*(getattr(entry, name) for name in names)) for entry in entries)


def decode_producer_snapshot(
    data: Bytes, *, source: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> list[ProducerEntry]:
    """Decode a producer snapshot; return its entries in file order. Raises `FormatError` if a broker would discard the
    file, `LimitExceeded` if it is larger than `limits.snapshot_bytes`.
    """
    return list(read_producer_snapshot(BufferSource(data), source=source, limits=limits))


def read_producer_snapshot(
    file: Source, *, source: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> Iterator[ProducerEntry]:
    """Check a producer snapshot. Return an iterator over its entries in file order, which keeps only a piece of the
    file in memory. `source` is a file name for messages only. These errors are raised before the function returns:
    `LimitExceeded` if the file is larger than `limits.snapshot_bytes`, and `FormatError` for a short file, an unknown
    version, a wrong checksum or an impossible count. Raises `StorageError` if a file cannot be read.
    """
    if file.size > limits.snapshot_bytes:
        raise LimitExceeded(
            f"a producer snapshot of {file.size} bytes is too large", limit="snapshot_bytes", source=source
        )
    try:
        version, crc, count = SNAPSHOT_HEADER.struct.unpack_from(file.read(0, SNAPSHOT_HEADER.size))
    except struct.error:
        raise FormatError(
            "a producer snapshot is too short", position=0, source=source, code="snapshot_invalid"
        ) from None
    if version != PRODUCER_SNAPSHOT_VERSION:
        raise FormatError(
            f"producer snapshot version {version}", position=0, field="version", source=source, code="snapshot_invalid"
        )
    if _crc_of(file, SNAPSHOT_HEADER.end("crc")) != crc:
        raise FormatError(
            "the checksum of a producer snapshot does not match",
            position=SNAPSHOT_HEADER.position("crc"),
            field="crc",
            source=source,
            code="snapshot_invalid",
        )
    if not 0 <= count <= (file.size - SNAPSHOT_HEADER.size) // _PRODUCER.size:
        raise FormatError(
            f"a producer snapshot cannot hold {count} entries",
            position=SNAPSHOT_HEADER.position("count"),
            field="count",
            source=source,
            code="snapshot_invalid",
        )
    begin = SNAPSHOT_HEADER.size
    slots = each_slot(file, _PRODUCER, start=begin, end=begin + count * _PRODUCER.size)
    return (ProducerEntry(*fields) for _number, fields in slots)


def _crc_of(file: Source, position: int) -> int:
    """Return the CRC-32C of the bytes from `position` to the end of the file, read piece by piece. Raises
    `StorageError` if a file cannot be read.
    """
    value = 0
    while position < file.size:
        piece = file.read(position, min(_PIECE, file.size - position))
        if not piece:
            break
        value = crc32c(piece, value)
        position += len(piece)
    return value


def encode_producer_snapshot(entries: Sequence[ProducerEntry]) -> bytes:
    """Encode a producer snapshot, with its entries in the given order."""
    body = b"".join(_PRODUCER.struct.pack(*(getattr(entry, name) for name in _PRODUCER.names)) for entry in entries)
    data = bytearray(SNAPSHOT_HEADER.struct.pack(PRODUCER_SNAPSHOT_VERSION, 0, len(entries)) + body)
    SNAPSHOT_HEADER.writer("crc")(data, 0, crc32c(memoryview(data)[SNAPSHOT_HEADER.end("crc") :]))
    return bytes(data)
