"""The compiled walk over the record bytes of many batches, and the copy of their fields into columns.

Numba compiles it; what it reads is the opcode table that `derive` makes of the declared record, frozen into the code.
Kernels never raise and never read outside of a record: they give the first fault and its position as numbers, the same
that the reference gives.  Addresses are those of buffers that the caller keeps alive and that nobody changes meanwhile.
Importing this module takes numba and, once for every machine, a second of compiling; `fast.choice` decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast
from zlib import crc32

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kafkalog.codec import derive
from kafkalog.codec.derive import Opcode, OpKind
from kafkalog.codec.findings import FindingCode
from kafkalog.codec.layout import record_batch

__all__ = ["ELEMENT_SLOTS", "FAULTS", "RECORD_SLOTS", "Slot", "elements", "gather", "scan"]

F = TypeVar("F", bound=Callable[..., Any])

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

FAULTS = (
    None,
    FindingCode.RECORD_TRUNCATED,
    FindingCode.RECORD_LENGTH_MISMATCH,
    FindingCode.VARINT_TOO_LONG,
    FindingCode.HEADER_COUNT_INVALID,
    FindingCode.HEADER_KEY_INVALID,
    FindingCode.LIMIT_EXCEEDED,
    FindingCode.RECORDS_TRAILING_BYTES,
)
"""What the numbers mean that `scan` gives."""
_TRUNCATED, _MISMATCH, _TOO_LONG, _COUNT_INVALID, _KEY_INVALID, _LIMIT, _TRAILING = range(1, len(FAULTS))

# Frozen into the compiled code as constants.
_VARINT, _VARLONG, _BYTES = int(OpKind.VARINT), int(OpKind.VARLONG), int(OpKind.BYTES)
_STRING, _ARRAY = int(OpKind.STRING), int(OpKind.ARRAY)
_BODY = tuple(int(opcode.kind) for opcode in _RECORD[1:])
_ELEMENT = tuple(int(opcode.kind) for opcode in _ARRAYS[0].children)
_SMALLEST = _ARRAYS[0].smallest

# The cache on disk is found by name and source file: a changed declaration must give another name.
_FINGERPRINT = f"{crc32(repr((_RECORD, FAULTS)).encode()):08x}"


def _compiled(signature: str | None = None, *, inline: bool = False) -> Callable[[F], F]:
    """`numba.njit` with a cache on disk, or without one where there is no place for it."""

    def compile_it(function: F) -> F:
        function.__qualname__ = f"{function.__qualname__}_{_FINGERPRINT}"
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "forceinline": inline}
        try:
            made: Any = numba.njit(signature, cache=True, **options)(function)
        except RuntimeError:  # "cannot cache function": a read-only or zipped package and no home directory
            made = numba.njit(signature, **options)(function)
        return cast(F, made)

    return compile_it


def _loader(bits: int) -> Any:
    def load(_context: Any, address: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = builder.load(builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()))
            value.align = 1
            return builder.zext(value, ir.IntType(64))

        return types.uint64(types.int64), generate

    return intrinsic(load)


def _mover(size: int) -> Any:
    def move(_context: Any, target: Any, source: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pointer = ir.VectorType(ir.IntType(8), size).as_pointer()
            value = builder.load(builder.inttoptr(arguments[1], pointer))
            value.align = 1
            stored = builder.store(value, builder.inttoptr(arguments[0], pointer))
            stored.align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return intrinsic(move)


_byte = _loader(8)
_move1, _move4, _move8, _move16, _move32 = _mover(1), _mover(4), _mover(8), _mover(16), _mover(32)


@_compiled(inline=True)
def _unsigned(position: int, end: int, largest: int) -> tuple[Any, int, int]:
    """Value, position behind it, fault."""
    value = numba.uint64(0)
    shift = numba.uint64(0)
    cursor = position
    stop = position + largest
    while cursor < end:
        byte = _byte(cursor)
        cursor += 1
        value |= (byte & numba.uint64(0x7F)) << shift
        if byte < numba.uint64(0x80):
            return value, cursor, 0
        if cursor == stop:
            return value, cursor, _TOO_LONG
        shift += numba.uint64(7)
    return value, cursor, _TRUNCATED


@_compiled(inline=True)
def _zigzag(value: Any) -> int:
    decoded: int = numba.int64(value >> numba.uint64(1)) ^ -numba.int64(value & numba.uint64(1))
    return decoded


@_compiled(inline=True)
def _varint(position: int, end: int) -> tuple[int, int, int]:
    if position < end:
        byte = _byte(position)
        if byte < numba.uint64(0x80):
            return _zigzag(byte), position + 1, 0
    value, after, fault = _unsigned(position, end, 5)
    return _zigzag(value & numba.uint64(0xFFFFFFFF)), after, fault


@_compiled(inline=True)
def _varlong(position: int, end: int) -> tuple[int, int, int]:
    value, after, fault = _unsigned(position, end, 10)
    return _zigzag(value), after, fault


@_compiled(inline=True)
def _number(op: int, position: int, end: int) -> tuple[int, int, int]:
    """Value, position behind it, fault, of an opcode that reads one number."""
    if op == _VARINT:
        return _varint(position, end)
    if op == _VARLONG:
        return _varlong(position, end)
    if position >= end:
        return 0, position, _TRUNCATED
    return numba.int64(numba.int8(_byte(position))), position + 1, 0


@_compiled(inline=True)
def _bytes(op: int, position: int, end: int) -> tuple[int, int, int]:
    """Size (-1 null), position of the first byte, fault, of an opcode that reads a length and that many bytes."""
    size, behind, fault = _varint(position, end)
    if fault != 0:
        return size, behind, fault
    if size < 0:
        return -1, behind, (_KEY_INVALID if op == _STRING else 0)
    if size > end - behind:
        return size, behind, _TRUNCATED
    return size, behind, 0


@_compiled()
def _element(table: Any, row: int, position: int, end: int) -> tuple[int, int]:
    """One element of the array; fault and the position behind it, or of the fault.  `table` may have no column."""
    slot = 0
    cursor = position
    keep = row < table.shape[1]
    for op in _ELEMENT:
        start = cursor
        if op in (_BYTES, _STRING):
            size, cursor, fault = _bytes(op, start, end)
            if fault != 0:
                return fault, start
            if keep:
                table[slot, row] = cursor
                table[slot + 1, row] = size
            cursor += max(size, 0)
            slot += 2
        else:
            number, cursor, fault = _number(op, start, end)
            if fault != 0:
                return fault, start
            if keep:
                table[slot, row] = number
            slot += 1
    return 0, cursor


@_compiled()
def _array(table: Any, slot: int, row: int, start: int, end: int, largest: int, nothing: Any) -> tuple[int, int]:
    count, cursor, fault = _varint(start, end)
    if fault != 0:
        return fault, start
    if count < 0 or count > (end - cursor) // _SMALLEST:
        return _COUNT_INVALID, start
    if count > largest:
        return _LIMIT, start
    table[slot, row] = cursor
    table[slot + 1, row] = count
    table[slot + 2, row] = end
    for _ in range(count):
        fault, cursor = _element(nothing, 0, cursor, end)
        if fault != 0:
            return fault, cursor
    return 0, cursor


@_compiled(inline=True)
def _body(table: Any, row: int, position: int, end: int, largest: int, nothing: Any) -> tuple[int, int]:
    """The fields of one record behind its length; fault and the position behind them, or of the fault."""
    slot = 0
    cursor = position
    for op in _BODY:
        start = cursor
        if op in (_BYTES, _STRING):
            size, cursor, fault = _bytes(op, start, end)
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
            number, cursor, fault = _number(op, start, end)
            if fault != 0:
                return fault, start
            table[slot, row] = number
            slot += 1
    return 0, cursor


@_compiled("int64(int64[::1], int64[::1], int64[::1], int64, int64[:,::1], int64[:,::1])")
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
            length, behind, fault = _varint(cursor, end)
            where = cursor
            if fault != 0:
                break
            if length < 0:
                fault = _MISMATCH
                break
            if length > end - behind:
                fault = _TRUNCATED
                break
            fault, where = _body(table, row, behind, behind + length, largest, nothing)
            if fault != 0:
                break
            if where != behind + length:
                fault = _MISMATCH
                break
            cursor = behind + length
            row += 1
            done += 1
        if fault == 0 and cursor != end:
            fault = _TRAILING
            where = cursor
        outcome[0, batch] = done
        outcome[1, batch] = fault
        outcome[2, batch] = where - first if fault != 0 else 0
    return row


@_compiled("int64(int64[::1], int64[::1], int64[::1], int64[:,::1])")
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


@_compiled(inline=True)
def _copy(target: int, source: int, size: int) -> None:
    """Exactly `size` bytes, in the largest moves that fit; the last one may overlap the one before."""
    if size >= 32:
        last = size - 32
        done = 0
        while done < last:
            _move32(target + done, source + done)
            done += 32
        _move32(target + last, source + last)
    elif size >= 16:
        _move16(target, source)
        _move16(target + size - 16, source + size - 16)
    elif size >= 8:
        _move8(target, source)
        _move8(target + size - 8, source + size - 8)
    elif size >= 4:
        _move4(target, source)
        _move4(target + size - 4, source + size - 4)
    else:
        for done in range(size):
            _move1(target + done, source + done)


@_compiled("int64(int64[::1], int64[::1], int32[::1], uint8[::1], int64)")
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
            _copy(target + position, addresses[row], size)
            position += size
        offsets[row + 1] = position
    return nulls
