"""Encode the records of v2 batches and the content of messages. The writers are derived from the declarations of a
record and of a message, one function for each opcode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.derive import Opcode, OpKind
from kafkalog.codec.rules.execution import RawRecord
from kafkalog.codec.rules.record_shape import CONTENT, CONTENT_LENGTH, RECORD

__all__ = ["write_content", "write_records"]

Writer = Callable[[bytearray, Any], None]


def _append_unsigned(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _integer_writer(bits: int) -> Writer:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def write(out: bytearray, value: int) -> None:
        if not low <= value <= high:
            raise FormatError(f"{value} does not fit into {bits} bits")
        _append_unsigned(out, value << 1 if value >= 0 else (-value << 1) - 1)

    return write


_write_varint = _integer_writer(32)


def _write_int8(out: bytearray, value: int) -> None:
    if not -128 <= value <= 127:
        raise FormatError(f"{value} does not fit into 8 bits")
    out.append(value & 0xFF)


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)  # -1
        return
    _write_varint(out, len(value))
    out += value


def _write_string(out: bytearray, value: bytes | None) -> None:
    if value is None:
        raise FormatError("null is not allowed here")
    _write_bytes(out, value)


def _array_writer(opcode: Opcode) -> Writer:
    writers = tuple(_writer(child) for child in opcode.children)

    def write(out: bytearray, value: tuple[tuple[Any, ...], ...]) -> None:
        _write_varint(out, len(value))
        for element in value:
            for writer, field in zip(writers, element, strict=True):
                writer(out, field)

    return write


_pack_length = CONTENT_LENGTH.struct.pack


def _write_int32_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += _pack_length(-1)
    else:
        out += _pack_length(len(value))
        out += value


_WRITERS: dict[OpKind, Writer] = {
    OpKind.INT8: _write_int8,
    OpKind.VARINT: _write_varint,
    OpKind.VARLONG: _integer_writer(64),
    OpKind.BYTES: _write_bytes,
    OpKind.STRING: _write_string,
    OpKind.INT32_BYTES: _write_int32_bytes,
}


def _writer(opcode: Opcode) -> Writer:
    return _array_writer(opcode) if opcode.kind is OpKind.ARRAY else _WRITERS[opcode.kind]


_BODY = tuple(_writer(opcode) for opcode in RECORD[1:])
_write_key, _write_value = (_writer(opcode) for opcode in CONTENT)


def write_content(key: bytes | None, value: bytes | None) -> bytes:
    """Encode key and value (None for null) of a v0 or v1 message: the bytes after its header."""
    out = bytearray()
    _write_key(out, key)
    _write_value(out, value)
    return bytes(out)


def write_records(records: Iterable[RawRecord]) -> bytes:
    """Encode the records of one v2 batch, uncompressed, each after its length; empty bytes for no records. Raises
    `FormatError` for a value that does not fit its type.
    """
    out = bytearray()
    for record in records:
        body = bytearray()
        for writer, value in zip(_BODY, record, strict=True):
            writer(body, value)
        _write_varint(out, len(body))
        out += body
    return bytes(out)
