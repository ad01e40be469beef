"""Check that hand-written loops match the declared record and message. Every module with such a loop imports this one,
and its import fails if other fields are declared. The loops are written by hand because opcodes would take too long.
"""

from __future__ import annotations

from construct import Struct

from kafkalog.codec import derive
from kafkalog.codec.derive import OpKind
from kafkalog.codec.layout import legacy_message, primitives, record_batch

__all__ = ["CONTENT", "CONTENT_LENGTH", "RECORD", "SMALLEST_HEADER", "SMALLEST_RECORD"]

_KINDS = (
    ("length", OpKind.VARINT), ("attributes", OpKind.INT8), ("timestamp_delta", OpKind.VARLONG),
    ("offset_delta", OpKind.VARINT), ("key", OpKind.BYTES), ("value", OpKind.BYTES), ("headers", OpKind.ARRAY),
)  # fmt: skip
_HEADER_KINDS = (OpKind.STRING, OpKind.BYTES)

RECORD = derive.opcodes(record_batch.RECORD)
"""The declared record as opcodes."""
if (
    tuple((opcode.name, opcode.kind) for opcode in RECORD) != _KINDS
    or tuple(child.kind for child in RECORD[-1].children) != _HEADER_KINDS
):
    raise derive.DerivationError("readers and writers are written for another record than the declared one")
CONTENT = derive.opcodes(legacy_message.MESSAGE_CONTENT)
"""Key and value of a declared message of magic 0 or 1 as opcodes."""
if tuple((opcode.name, opcode.kind) for opcode in CONTENT) != (
    ("key", OpKind.INT32_BYTES), ("value", OpKind.INT32_BYTES),
):  # fmt: skip
    raise derive.DerivationError("readers and writers are written for another message than the declared one")
CONTENT_LENGTH = derive.fixed(Struct("length" / primitives.Int32Bytes.prefix), ("length",))
"""Length in front of a message's key or value."""
SMALLEST_RECORD = len(RECORD)
"""Least bytes of a record: one for each field."""
SMALLEST_HEADER = RECORD[-1].smallest
"""Least bytes of a record header."""
