"""Decode headers and records with the standard library alone. Headers are decoded with the derived `struct`; records
with one reader function for each derived opcode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkalog.codec import derive
from kafkalog.codec.common.errors import PortableError
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.derive import Opcode, OpKind
from kafkalog.codec.model import BATCH, MESSAGE_V0, MESSAGE_V1, BatchHeader, LegacyHeader
from kafkalog.codec.rules.execution import MessageContent, RawRecord, RecordFault
from kafkalog.codec.rules.record_shape import CONTENT, CONTENT_LENGTH, RECORD, SMALLEST_RECORD

__all__ = ["PLAIN", "PlainExecution", "read_varint", "record_at"]

Bytes = bytes | memoryview
Reader = Callable[[Bytes, int, int, int], tuple[Any, int]]
"""Function (bytes, position, end, largest count) -> value and the position after it."""


class _Fault(PortableError):
    def __init__(self, code: FindingCode, position: int) -> None:
        self.fault = RecordFault(code, position)


def _read_unsigned(data: Bytes, position: int, end: int, max_bytes: int) -> tuple[int, int]:
    value = shift = 0
    stop = position + max_bytes
    cursor = position
    while cursor < end:
        byte = data[cursor]
        cursor += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, cursor
        if cursor == stop:
            raise _Fault(FindingCode.VARINT_TOO_LONG, position)
        shift += 7
    raise _Fault(FindingCode.RECORD_TRUNCATED, position)


def read_varint(data: Bytes, position: int, end: int, _max_count: int = 0) -> tuple[int, int]:
    """Read a zig-zag integer of 32 bits; return it and the position after it. Higher bits are dropped, as in Java.
    Raises `_Fault` if it does not end before `end` or within 5 bytes. `_max_count` is not used.
    """
    if position < end and data[position] < 0x80:
        byte = data[position]
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, position = _read_unsigned(data, position, end, 5)
    value &= 0xFFFFFFFF
    return (value >> 1) ^ -(value & 1), position


def _read_varlong(data: Bytes, position: int, end: int, _max_count: int) -> tuple[int, int]:
    if position < end and data[position] < 0x80:
        byte = data[position]
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, position = _read_unsigned(data, position, end, 10)
    value &= 0xFFFFFFFFFFFFFFFF
    return (value >> 1) ^ -(value & 1), position


def _read_int8(data: Bytes, position: int, end: int, _max_count: int) -> tuple[int, int]:
    if position >= end:
        raise _Fault(FindingCode.RECORD_TRUNCATED, position)
    byte = data[position]
    return byte - 256 if byte > 127 else byte, position + 1


def _read_bytes(data: Bytes, position: int, end: int, _max_count: int) -> tuple[Any, int]:
    if position < end and data[position] < 0x80:  # most lengths; a call less
        byte = data[position]
        length, body = -1 if byte & 1 else byte >> 1, position + 1
    else:
        length, body = read_varint(data, position, end)
    if length < 0:
        return None, body
    if length > end - body:
        raise _Fault(FindingCode.RECORD_TRUNCATED, position)
    return data[body : body + length], body + length


def _read_string(data: Bytes, position: int, end: int, _max_count: int) -> tuple[bytes, int]:
    if position < end and data[position] == 0:
        return b"", position + 1
    value, after = _read_bytes(data, position, end, 0)
    if value is None:
        raise _Fault(FindingCode.HEADER_KEY_INVALID, position)
    return value, after


def _array_reader(opcode: Opcode) -> Reader:
    smallest = opcode.smallest

    def read(data: Bytes, position: int, end: int, max_count: int) -> tuple[tuple[Any, ...], int]:
        if position < end and data[position] == 0:
            return (), position + 1
        count, cursor = read_varint(data, position, end)
        if not 0 <= count <= (end - cursor) // smallest:
            raise _Fault(FindingCode.HEADER_COUNT_INVALID, position)
        if count > max_count:
            raise _Fault(FindingCode.LIMIT_EXCEEDED, position)
        return _read_pairs(data, cursor, end, count)

    return read


def _read_pairs(data: Bytes, cursor: int, end: int, count: int) -> tuple[tuple[tuple[bytes, bytes | None], ...], int]:
    pairs: list[tuple[bytes, bytes | None]] = []
    for _ in range(count):
        key, cursor = _read_string(data, cursor, end, 0)
        value, cursor = _read_bytes(data, cursor, end, 0)
        pairs.append((key, value))
    return tuple(pairs), cursor


_unpack_length, _LENGTH_SIZE = CONTENT_LENGTH.struct.unpack_from, CONTENT_LENGTH.size


def _read_int32_bytes(data: Bytes, position: int, end: int, _max_count: int) -> tuple[bytes | None, int]:
    body = position + _LENGTH_SIZE
    if body > end:
        raise _Fault(FindingCode.RECORD_TRUNCATED, position)
    (length,) = _unpack_length(data, position)
    if length < 0:
        return None, body
    if length > end - body:
        raise _Fault(FindingCode.RECORD_TRUNCATED, position)
    return bytes(data[body : body + length]), body + length


_READERS: dict[OpKind, Reader] = {
    OpKind.INT8: _read_int8,
    OpKind.VARINT: read_varint,
    OpKind.VARLONG: _read_varlong,
    OpKind.BYTES: _read_bytes,
    OpKind.STRING: _read_string,
    OpKind.INT32_BYTES: _read_int32_bytes,
}


def _reader(opcode: Opcode) -> Reader:
    return _array_reader(opcode) if opcode.kind is OpKind.ARRAY else _READERS[opcode.kind]


_MAGIC_POSITION = MESSAGE_V0.position("magic")

if tuple(opcode.name for opcode in RECORD) != ("length", *RawRecord._fields):
    raise derive.DerivationError("RawRecord does not mirror the declared record")
_BODY = tuple(_reader(opcode) for opcode in RECORD[1:])
_read_key, _read_value = (_reader(opcode) for opcode in CONTENT)
_SHORTEST, _SHORTEST_FIELDS = SMALLEST_RECORD, 3
"""Bytes of the shortest record, and of its last three fields."""


class PlainExecution:
    """Decoder of headers, records and message contents in plain Python."""

    name = "plain"

    def batch_header(self, buffer: Bytes, position: int) -> BatchHeader:
        """Decode the v2 header at `position`."""
        return BatchHeader(*BATCH.struct.unpack_from(buffer, position))

    def legacy_header(self, buffer: Bytes, position: int) -> LegacyHeader:
        """Decode the v0 or v1 header at `position`."""
        if buffer[position + _MAGIC_POSITION] == 0:
            return LegacyHeader(*MESSAGE_V0.struct.unpack_from(buffer, position))
        return LegacyHeader(*MESSAGE_V1.struct.unpack_from(buffer, position))

    def records(self, payload: Bytes, count: int, limits: Limits) -> tuple[list[RawRecord], RecordFault | None]:
        """Decode `count` records that fill all of `payload`. Return the records before the first fault, and the fault
        (None if all are sound). Bytes after the last record, and more headers in a record than
        `limits.headers_per_record`, are faults too; nothing is raised. Offsets and timestamps stay deltas.
        """
        data = bytes(payload)
        size = len(data)
        records: list[RawRecord] = []
        position = _ordinary(data, 0, size, count, records)
        try:
            while len(records) < count:
                record, position = _record(data, position, size, limits.headers_per_record)
                records.append(record)
                position = _ordinary(data, position, size, count, records)
            if position != size:
                raise _Fault(FindingCode.RECORDS_TRAILING_BYTES, position)
        except _Fault as stop:
            return records, stop.fault
        return records, None

    def message_content(self, data: Bytes, position: int) -> MessageContent | RecordFault:
        """Decode key and value (None for null) from `position` of the entry `data`; return both, or the fault if they
        cannot be read. More bytes are ignored.
        """
        end = len(data)
        try:
            key, position = _read_key(data, position, end, 0)
            value, _ = _read_value(data, position, end, 0)
        except _Fault as stop:
            return stop.fault
        return key, value


def _record(data: Bytes, position: int, size: int, max_count: int) -> tuple[RawRecord, int]:
    length, cursor = read_varint(data, position, size)
    if length < 0:
        raise _Fault(FindingCode.RECORD_LENGTH_MISMATCH, position)
    end = cursor + length
    if end > size:
        raise _Fault(FindingCode.RECORD_TRUNCATED, position)
    fields = []
    for reader in _BODY:
        value, cursor = reader(data, cursor, end, max_count)
        fields.append(value)
    if cursor != end:
        raise _Fault(FindingCode.RECORD_LENGTH_MISMATCH, cursor)
    return RawRecord(*fields), end


def _ordinary(data: bytes, position: int, size: int, count: int, records: list[RawRecord]) -> int:  # noqa: C901
    """Append ordinary records to `records` from `position` on. An ordinary record is sound and has no headers. Its
    attributes are 0 to 127, and its varints have at most two bytes. Stop when `records` has `count` records, at any
    other record, or at the end of `data`, which has `size` bytes. Return the position after the last appended record.
    The code of `read_varint` is repeated here five times for speed: a call takes longer than its work.
    """
    while len(records) < count and size - position >= _SHORTEST:
        number, cursor = data[position], position + 1
        if number >= 0x80:
            second, cursor = data[cursor], cursor + 1
            if second >= 0x80:
                return position
            number = number & 0x7F | second << 7
        end = cursor + (number >> 1)
        if number & 1 or end > size or end - cursor < _SHORTEST - 1:
            return position
        attributes = data[cursor]
        timestamp, cursor = data[cursor + 1], cursor + 2
        if timestamp >= 0x80:
            second, cursor = data[cursor], cursor + 1
            if second >= 0x80:
                return position
            timestamp = timestamp & 0x7F | second << 7
        offset, cursor = data[cursor], cursor + 1
        if offset >= 0x80:
            second, cursor = data[cursor], cursor + 1
            if second >= 0x80:
                return position
            offset = offset & 0x7F | second << 7
        if end - cursor < _SHORTEST_FIELDS:
            return position
        key: bytes | None = None
        number, cursor = data[cursor], cursor + 1
        if number != 1:
            if number >= 0x80:
                second, cursor = data[cursor], cursor + 1
                if second >= 0x80:
                    return position
                number = number & 0x7F | second << 7
            behind = cursor + (number >> 1)
            if number & 1 or end - behind < _SHORTEST_FIELDS - 1:
                return position
            key, cursor = data[cursor:behind], behind
        value: bytes | None = None
        number, cursor = data[cursor], cursor + 1
        if number != 1:
            if number >= 0x80:
                second, cursor = data[cursor], cursor + 1
                if second >= 0x80:
                    return position
                number = number & 0x7F | second << 7
            behind = cursor + (number >> 1)
            if number & 1 or behind >= end:
                return position
            value, cursor = data[cursor:behind], behind
        if cursor + 1 != end or data[cursor] != 0 or attributes >= 0x80:
            return position
        delta, offset = timestamp >> 1 ^ -(timestamp & 1), offset >> 1 ^ -(offset & 1)
        records.append(tuple.__new__(RawRecord, (attributes, delta, offset, key, value, ())))
        position = end
    return position


def record_at(data: memoryview, position: int, limits: Limits) -> tuple[RawRecord, int] | RecordFault:
    """Decode the record at `position` of the record bytes `data`; return the record and the position after it, or a
    `RecordFault` alone if it cannot be read or has more headers than `limits` allows. Key and value are views of
    `data`, header keys and values are bytes; a null is None.
    """
    try:
        record, behind = _record(data, position, len(data), limits.headers_per_record)
    except _Fault as stop:
        return stop.fault
    headers = tuple((bytes(key), None if value is None else bytes(value)) for key, value in record.headers)
    return record._replace(headers=headers), behind


PLAIN = PlainExecution()
