"""The one record that written-out code knows: every reader and writer of it imports this, which checks the declaration.

The loops over a record's fields are written out where opcodes would cost too much.  They are of the record below; where
another one is declared, nothing of them is imported.
"""

from __future__ import annotations

from kafkalog.codec import derive
from kafkalog.codec.derive import OpKind
from kafkalog.codec.layout import record_batch

__all__ = ["RECORD", "SMALLEST_HEADER", "SMALLEST_RECORD"]

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
SMALLEST_RECORD = len(RECORD)
"""Bytes of a record: one for each field at least."""
SMALLEST_HEADER = RECORD[-1].smallest
"""Bytes of a header at least."""
