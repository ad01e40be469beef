"""Compute the size of a record in a batch of magic 2 without encoding it (`DefaultRecord.sizeInBytes`)."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.codec.derive import OpKind
from kafkalog.codec.encode.record_checks import header_bytes
from kafkalog.codec.rules.record_shape import RECORD

__all__ = ["MAX_RECORD_OVERHEAD", "content_size", "record_size"]

_LONGEST = {OpKind.INT8: 1, OpKind.VARINT: 5, OpKind.VARLONG: 10}
_FIELDS_BEFORE = sum(opcode.kind is OpKind.INT8 for opcode in RECORD)
"""Bytes of the attributes. The two deltas after them vary in size."""
MAX_RECORD_OVERHEAD = sum(_LONGEST.get(opcode.kind, 0) for opcode in RECORD)
"""Bytes of the longest length, attributes, timestamp delta and offset delta together."""


def _varint_size(value: int) -> int:
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    return max(1, -(-zigzag.bit_length() // 7))


def _bytes_size(value: bytes | None) -> int:
    return 1 if value is None else _varint_size(len(value)) + len(value)


def content_size(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return the size in bytes of key, value and headers in an encoded record, with their length fields. Raises
    `UsageError` for an invalid header.
    """
    size = _bytes_size(key) + _bytes_size(value) + _varint_size(len(headers))
    for header in headers:
        name, content = header_bytes(header)
        size += _bytes_size(name) + _bytes_size(content)
    return size


def record_size(content: int, offset_delta: int, timestamp_delta: int) -> int:
    """Return the size in bytes of a whole record, including its length field. `content` is the result of
    `content_size`.
    """
    body = _FIELDS_BEFORE + _varint_size(timestamp_delta) + _varint_size(offset_delta) + content
    return _varint_size(body) + body
