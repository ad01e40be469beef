"""The compiled walk over the record bytes of many batches, and the copy of their fields into columns.

Numba compiles it; what it reads is the opcode table that `derive` makes of the declared record, frozen into the code.
Kernels never raise and never read outside of a record: they give the first fault and its position as numbers, the same
that the reference gives.  Addresses are those of buffers that the caller keeps alive and that nobody changes meanwhile.
Importing this module takes numba and, once for every machine, a second of compiling; `codec.thresholds` decides.
"""

from __future__ import annotations

from typing import Any

from kafkalog.codec import derive
from kafkalog.codec.derive import Opcode, OpKind
from kafkalog.codec.kernels.jit import compiled, copy
from kafkalog.codec.kernels.leaves import (
    BYTES_LIKE,
    COUNT_INVALID,
    FAULTS,
    LIMIT,
    MISMATCH,
    TRAILING,
    TRUNCATED,
    read_bytes,
    read_number,
    read_varint,
)
from kafkalog.codec.layout import record_batch

__all__ = ["ELEMENT_SLOTS", "FAULTS", "RECORD_SLOTS", "Slot", "elements", "gather", "scan"]

_RECORD = derive.opcodes(record_batch.RECORD)
_ARRAYS = [opcode for opcode in _RECORD if opcode.kind is OpKind.ARRAY]
_KNOWN = frozenset(OpKind) - {OpKind.ARRAY}
if (
    _RECORD[0].kind is not OpKind.VARINT
    or len(_ARRAYS) != 1
    or any(child.kind not in _KNOWN for child in _ARRAYS[0].children)
):
    raise derive.DerivationError("the kernel walks records that begin with their length and hold one flat array")

Slot = tuple[int, ...]
"""Rows of the table that a field takes: its value; address and size (-1 null); address, count and end of an array."""
_WIDTH = {OpKind.INT8: 1, OpKind.VARINT: 1, OpKind.VARLONG: 1, OpKind.BYTES: 2, OpKind.STRING: 2, OpKind.ARRAY: 3}


def _slots(opcodes: tuple[Opcode, ...]) -> dict[str, Slot]:
    found: dict[str, Slot] = {}
    start = 0
    for opcode in opcodes:
        found[opcode.name] = tuple(range(start, start + _WIDTH[opcode.kind]))
        start += _WIDTH[opcode.kind]
    return found


RECORD_SLOTS = _slots(_RECORD[1:])
ELEMENT_SLOTS = _slots(_ARRAYS[0].children)


# Frozen into the compiled code as constants.
_ARRAY = int(OpKind.ARRAY)
_BODY = tuple(int(opcode.kind) for opcode in _RECORD[1:])
_ELEMENT = tuple(int(opcode.kind) for opcode in _ARRAYS[0].children)
_SMALLEST = _ARRAYS[0].smallest
_DECLARED = (_RECORD, FAULTS)


@compiled(declared=_DECLARED)
def _element(table: Any, row: int, position: int, end: int) -> tuple[int, int]:
    """One element of the array; fault and the position behind it, or of the fault.  `table` may have no column."""
    slot = 0
    cursor = position
    keep = row < table.shape[1]
    for op in _ELEMENT:
        start = cursor
        if op in BYTES_LIKE:
            size, cursor, fault = read_bytes(op, start, end)
            if fault != 0:
                return fault, start
            if keep:
                table[slot, row] = cursor
                table[slot + 1, row] = size
            cursor += max(size, 0)
            slot += 2
        else:
            number, cursor, fault = read_number(op, start, end)
            if fault != 0:
                return fault, start
            if keep:
                table[slot, row] = number
            slot += 1
    return 0, cursor


@compiled(declared=_DECLARED)
def _array(table: Any, slot: int, row: int, start: int, end: int, largest: int, nothing: Any) -> tuple[int, int]:
    count, cursor, fault = read_varint(start, end)
    if fault != 0:
        return fault, start
    if count < 0 or count > (end - cursor) // _SMALLEST:
        return COUNT_INVALID, start
    if count > largest:
        return LIMIT, start
    table[slot, row] = cursor
    table[slot + 1, row] = count
    table[slot + 2, row] = end
    for _ in range(count):
        fault, cursor = _element(nothing, 0, cursor, end)
        if fault != 0:
            return fault, cursor
    return 0, cursor


@compiled(inline=True, declared=_DECLARED)
def _body(table: Any, row: int, position: int, end: int, largest: int, nothing: Any) -> tuple[int, int]:
    """The fields of one record behind its length; fault and the position behind them, or of the fault."""
    slot = 0
    cursor = position
    for op in _BODY:
        start = cursor
        if op in BYTES_LIKE:
            size, cursor, fault = read_bytes(op, start, end)
            if fault != 0:
                return fault, start
            table[slot, row] = cursor
            table[slot + 1, row] = size
            cursor += max(size, 0)
            slot += 2
        elif op == _ARRAY:
            fault, cursor = _array(table, slot, row, start, end, largest, nothing)
            if fault != 0:
                return fault, cursor
            slot += 3
        else:
            number, cursor, fault = read_number(op, start, end)
            if fault != 0:
                return fault, start
            table[slot, row] = number
            slot += 1
    return 0, cursor


@compiled("int64(int64[::1], int64[::1], int64[::1], int64, int64[:,::1], int64[:,::1])", declared=_DECLARED)
def scan(addresses: Any, sizes: Any, counts: Any, largest: int, table: Any, outcome: Any) -> int:
    """The declared records of each batch into `table`, one column a record; how many there were in all.

    `addresses`, `sizes` and `counts` tell of each batch where its record bytes are, how many, and how many records they
    should be; `largest` caps the elements of an array.  `outcome` gets for each batch the records before its first
    fault, the fault, and its position from the first byte.  `table` needs room for the records that fit the bytes.
    """
    row = 0
    nothing = table[:, :0].copy()
    for batch in range(addresses.shape[0]):
        first = addresses[batch]
        end = first + sizes[batch]
        cursor = first
        fault = 0
        where = first
        done = 0
        while done < counts[batch]:
            length, behind, fault = read_varint(cursor, end)
            where = cursor
            if fault != 0:
                break
            if length < 0:
                fault = MISMATCH
                break
            if length > end - behind:
                fault = TRUNCATED
                break
            fault, where = _body(table, row, behind, behind + length, largest, nothing)
            if fault != 0:
                break
            if where != behind + length:
                fault = MISMATCH
                break
            cursor = behind + length
            row += 1
            done += 1
        if fault == 0 and cursor != end:
            fault = TRAILING
            where = cursor
        outcome[0, batch] = done
        outcome[1, batch] = fault
        outcome[2, batch] = where - first if fault != 0 else 0
    return row


@compiled("int64(int64[::1], int64[::1], int64[::1], int64[:,::1])", declared=_DECLARED)
def elements(addresses: Any, counts: Any, ends: Any, table: Any) -> int:
    """The elements of arrays that `scan` has walked over, into `table`, one column an element; how many there were."""
    row = 0
    for array in range(addresses.shape[0]):
        cursor = addresses[array]
        for _ in range(counts[array]):
            fault, cursor = _element(table, row, cursor, ends[array])
            if fault != 0:
                return row
            row += 1
    return row


@compiled("int64(int64[::1], int64[::1], int32[::1], uint8[::1], int64)")
def gather(addresses: Any, sizes: Any, offsets: Any, valid: Any, target: int) -> int:
    """Copy fields one behind the other to `target`, and note where each ends and whether it is one; how many are null.

    `target` needs room for the sum of the sizes, which must be below 2^31.
    """
    position = 0
    nulls = 0
    offsets[0] = 0
    for row in range(addresses.shape[0]):
        size = sizes[row]
        if size < 0:
            valid[row] = 0
            nulls += 1
        else:
            valid[row] = 1
            copy(target + position, addresses[row], size)
            position += size
        offsets[row + 1] = position
    return nulls
