"""The functions of compiled code as Python calls them: numbers, addresses, and numpy arrays of int64.

Each lets go of the interpreter's lock while it works.  The file of C named beside it says more; arrays are checked
here, because C does not look.  Memory behind an address must live as long as the call, and have the size that the
function is told.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from kafkalog.codec.model import CODEC_MASK
from kafkalog.codec.native.cells import Cells
from kafkalog.codec.native.library import library
from kafkalog.codec.native.tables import (
    Appended,
    ArrowBuffer,
    Decompressor,
    Encoded,
    Filled,
    HeaderColumn,
    IndexEntry,
    KeptBatch,
    KeyMap,
    MessageColumn,
    MessageSet,
    Recovered,
    RetainedBatch,
    Rows,
    Viewed,
    Walk,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kafkalog.codec.native.tables import Table

    AnyTable = Table | Cells
    Int64s = npt.NDArray[np.int64]
    Bytes = npt.NDArray[np.uint8]

__all__ = [
    "address_of", "batches_by_producer", "choose_records", "consecutive_batches", "consecutive_messages", "crc_of",
    "decode_batches", "decode_records", "decode_sets", "decode_window", "decompress_batches", "encode",
    "fitting_batches", "gaps_of_run", "gather", "has_instructions", "kept_records", "locate_records", "locate_values",
    "measure_sets", "move_keys", "put_checksums", "put_keys", "recover_batches", "same_codec", "scan_batches",
    "scan_messages", "sound_prefix", "summarize_run", "walk_headers", "write_lines",
]  # fmt: skip

_INT64_BYTES = 8
_Numbers = ctypes.c_int64 * 4
Struct = ctypes.Array[ctypes.c_int64]
"""Numbers that C reads and changes as a struct."""


@cache
def _function(name: str, arguments: int) -> Callable[..., int]:
    """A function of the library, all arguments and the result of which are 64-bit numbers."""
    function = getattr(library(), name)
    function.argtypes = [ctypes.c_int64] * arguments
    function.restype = ctypes.c_int64
    return function  # type: ignore[no-any-return]


def _call(name: str, *arguments: int) -> int:
    return _function(name, len(arguments))(*arguments)


def _numbers(array: Int64s, count: int | None = None) -> int:
    """Address of an array of int64 without gaps, of at least `count` elements.  Raises TypeError for another one."""
    if array.ndim != 1 or array.dtype.char not in "lq" or not array.flags.c_contiguous:
        raise TypeError(f"not an array of int64 without gaps: {array.dtype}{array.shape}")
    if count is not None and len(array) < count:
        raise TypeError(f"an array of {count} numbers is needed, not of {len(array)}")
    return array.ctypes.data


def _struct(rows: type[Rows], array: Int64s) -> int:
    """Address of an array that C reads as a struct."""
    return _numbers(array, len(rows))


def _cells(rows: type[Rows], table: AnyTable, columns: int = 0) -> tuple[int, int]:
    """Address of a table, and cells from one row to the next.  Raises TypeError if it is not a table of `rows`."""
    if isinstance(table, Cells):
        if table.rows is not rows or table.columns < columns:
            raise TypeError(f"a table of {rows.__name__} is needed, not of {table.rows.__name__}")
        return table.place[:2]
    if table.ndim != 2 or table.shape[0] != len(rows) or table.dtype.char not in "lq" or table.shape[1] < columns:
        raise TypeError(f"a table of {rows.__name__} has {len(rows)} rows of int64, not {table.dtype}{table.shape}")
    if table.shape[1] > 1 and table.strides[1] != _INT64_BYTES:
        raise TypeError(f"the cells of a row of {rows.__name__} do not follow each other")
    return table.ctypes.data, table.strides[0] // _INT64_BYTES


def _table(rows: type[Rows], table: AnyTable) -> tuple[int, int, int]:
    """The same, and the number of columns."""
    return *_cells(rows, table), table.columns if isinstance(table, Cells) else table.shape[1]


class _Buffer(ctypes.Structure):
    """The first fields of `Py_buffer`, and room for the others."""

    _fields_ = (("address", ctypes.c_void_p), ("owner", ctypes.py_object), ("rest", ctypes.c_byte * 128))


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_Buffer)]


def address_of(data: bytes | bytearray | memoryview) -> int:
    """Address of the first byte of a buffer, which may be read-only; it is valid while the buffer lives."""
    view = _Buffer()
    _get_buffer(data, view, 0)
    address = view.address or 0
    _release_buffer(view)
    return address


# --- crc.c ----------------------------------------------------------------------------------------------------------


def crc_of(address: int, size: int, *, ieee: bool = False, by_tables: bool = False) -> int:
    """CRC-32C of `size` bytes at an address, or CRC-32 (IEEE); by tables even if the processor has instructions."""
    return _call("crc_of", address, size, ieee, by_tables)


def has_instructions() -> bool:
    """Whether checksums are computed by instructions of the processor."""
    return bool(_call("has_instructions"))


# --- scan.c ---------------------------------------------------------------------------------------------------------


def scan_batches(address: int, size: int, largest: int, check: bool, headers: AnyTable) -> int:
    """Fill `headers` with the sound v2 batches from an address on; how many there are before anything else.

    No batch may be larger than `largest` bytes; checksums are compared if `check`.  Positions count from the address.
    """
    return _call("scan_batches", address, size, largest, check, *_table(HeaderColumn, headers))


def scan_messages(address: int, size: int, largest: int, check: bool, headers: Table) -> int:
    """The same of entries of magic 0 and 1, in a table of `MessageColumn`; magic 0 has the timestamp -1."""
    return _call("scan_messages", address, size, largest, check, *_table(MessageColumn, headers))


def consecutive_batches(headers: Table, expected: int, highest: int, end: int, flags: int, lows: Int64s) -> int:
    """How many batches from the first on are in order, have none of `flags`, and begin below offset `end`.

    `expected` is the offset that should come first, `highest` the last one that the segment may have; `lows` gets the
    first offset wanted of each.
    """
    table = _table(HeaderColumn, headers)
    return _call("consecutive_batches", *table, expected, highest, end, flags, _numbers(lows, table[2]))


def consecutive_messages(headers: Table, expected: int, highest: int, end: int, lows: Int64s) -> int:
    """The same of entries of magic 0 and 1."""
    table = _table(MessageColumn, headers)
    return _call("consecutive_messages", *table, expected, highest, end, _numbers(lows, table[2]))


def same_codec(headers: Table, start: int, most_records: int, most_bytes: int) -> tuple[int, int]:
    """Codec of batch `start`, `EMPTY` or `UNDECODED`, and the number after the last batch of the same."""
    to = _Numbers()
    codec = _call("same_codec", *_table(HeaderColumn, headers), start, most_records, most_bytes, ctypes.addressof(to))
    return codec, to[0]


def fitting_batches(
    headers: Table, start: int, sizes: Int64s, at_least: int, most_rows: int, most_bytes: int
) -> tuple[int, int, int]:
    """How many batches from `start` on have at most `most_rows` records and, by `sizes`, `most_bytes` bytes.

    At least `at_least` are taken whatever they have.  Also the rows to make room for, and the bytes.
    """
    to, table = _Numbers(), _table(HeaderColumn, headers)
    if start + len(sizes) > table[2]:
        raise TypeError("there are more sizes than batches")
    count = _call(
        "fitting_batches", *table, start, _numbers(sizes), len(sizes), at_least, most_rows, most_bytes,
        ctypes.addressof(to),
    )  # fmt: skip
    return count, to[0], to[1]


def locate_records(headers: Table, window: int, largest: int, budget: int, addresses: Int64s, sizes: Int64s) -> int:
    """Fill in where the record bytes of the first batches lie; how many batches.

    Of at least one batch, and of more while they have at most `budget` bytes; none has more than `largest`.  `window`
    is the address that positions count from.
    """
    table = _table(HeaderColumn, headers)
    return _call(
        "locate_records", *table, window, largest, budget, _numbers(addresses, table[2]), _numbers(sizes, table[2])
    )


def walk_headers(descriptor: int, memory: int, room: int, walk: Int64s) -> bool:
    """Go on over the headers of an open file; False if that takes more than headers, and then nothing has changed.

    `memory` is the address of `room` bytes, `walk` an array of `Walk`.
    """
    return bool(_call("walk_headers", descriptor, memory, room, _struct(Walk, walk)))


# --- records.c ------------------------------------------------------------------------------------------------------


def decode_records(
    first: int, size: int, most: int, most_bytes: int, headers: Table, number: int, low: int, high: int, largest: int,
    buffers: Int64s, filled: Int64s,
) -> tuple[int, int]:  # fmt: skip
    """Append at most `most` records of batch `number` from `size` bytes on; how many, and the bytes that they took.

    Wanted are the offsets from `low` up to, not including, `high`; `largest` caps the headers of a record.  It stops
    before a record that ends after `most_bytes` bytes, and before one with a fault.  The buffers (`ArrowBuffer`,
    `Filled`) need room for all that the bytes can hold.
    """
    to = _Numbers()
    done = _call(
        "decode_records", first, size, most, most_bytes, *_table(HeaderColumn, headers), number, low, high, largest,
        _struct(ArrowBuffer, buffers), _struct(Filled, filled), ctypes.addressof(to),
    )  # fmt: skip
    return done, to[0]


def decode_batches(
    addresses: Int64s, sizes: Int64s, headers: Table, start: int, lows: Int64s, high: int, largest: int,
    buffers: Int64s, filled: Int64s, rows: Int64s,
) -> int:  # fmt: skip
    """Append the records of batches from number `start` on; how many batches before one with a fault.

    `addresses` and `sizes` say where the record bytes are.  Wanted are the offsets from `lows`, of each batch, up to,
    not including, `high`.  `rows` gets how many rows each batch has.  The others are those of `decode_records`.
    """
    count, table = len(addresses), _table(HeaderColumn, headers)
    if start + count > table[2]:
        raise TypeError("there are more addresses than batches")
    return _call(
        "decode_batches", _numbers(addresses), _numbers(sizes, count), count, *table, start, _numbers(lows, count),
        high, largest, _struct(ArrowBuffer, buffers), _struct(Filled, filled), _numbers(rows, count),
    )  # fmt: skip


def decode_window(
    address: int, size: int, largest: int, headers: Table, expected: int, highest: int, end: int, flags: int,
    most_records: int, most_headers: int, most_bytes: int, decompressor: Int64s, viewed: Int64s, capacity: Int64s,
    buffers: Int64s, filled: Int64s, rows: Int64s,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """Append the records of the batches in `size` bytes at an address, up to the first that is not sound and in order.

    Gives how many batches, their bytes, the offset behind them, their record bytes, and the record bytes of the next
    batch if that is what lacks room, else 0, or `MEMORY_IS_FULL`.  `largest` and `headers` are those of `scan_batches`,
    `expected`, `highest`, `end` and `flags` those of `consecutive_batches`.  No batch may have more than `most_records`
    records, no record more than `most_headers` headers, and all together no more than `most_bytes`.  `capacity` says up
    to where there is room.
    """
    to, table = _Numbers(), _table(HeaderColumn, headers)
    count = _call(
        "decode_window", address, size, largest, *table, expected, highest, end, flags, most_records, most_headers,
        most_bytes, _struct(Decompressor, decompressor), _struct(Viewed, viewed), _struct(Filled, capacity),
        _struct(ArrowBuffer, buffers), _struct(Filled, filled), _numbers(rows, table[2]), ctypes.addressof(to),
    )  # fmt: skip
    return count, to[0], to[1], to[2], to[3]


# --- decompress.c ---------------------------------------------------------------------------------------------------


def decompress_batches(
    codec: int, decompressor: Int64s, sources: Int64s, compressed: Int64s, largest: int, budget: int, addresses: Int64s,
    sizes: Int64s,
) -> int:  # fmt: skip
    """Decompress batches one after the other into the memory of `decompressor`, up to `budget` bytes; how many.

    `sources` and `compressed` say where the compressed bytes are; `addresses` and `sizes` get where the contents are.
    It stops before a batch that has more than `largest` bytes, or is anything but plain.
    """
    count = len(sources)
    return _call(
        "decompress_batches", codec, _struct(Decompressor, decompressor), _numbers(sources),
        _numbers(compressed, count), count, largest, budget, _numbers(addresses, count), _numbers(sizes, count),
    )  # fmt: skip


# --- messages.c -----------------------------------------------------------------------------------------------------


def locate_values(address: int, headers: Table, starts: Int64s, sizes: Int64s) -> None:
    """Fill in where the values of entries of magic 0 and 1 lie, from an address on, and their sizes, -1 for none."""
    table = _table(MessageColumn, headers)
    _call("locate_values", address, *table, _numbers(starts, table[2]), _numbers(sizes, table[2]))


def measure_sets(addresses: Int64s, sizes: Int64s, headers: Table, most: int, sets: Table) -> None:
    """Fill in how many messages each entry holds, and what is added to their offsets: a table of `MessageSet`.

    `addresses` and `sizes` are those of a wrapper's decompressed set, or of the whole entry.  The count is -1 if a size
    is, and for a set with anything but plain messages with right checksums, at most `most`.
    """
    table = _table(MessageColumn, headers)
    _call(
        "measure_sets", _numbers(addresses, table[2]), _numbers(sizes, table[2]), *table, most,
        *_cells(MessageSet, sets, table[2]),
    )  # fmt: skip


def decode_sets(
    addresses: Int64s, headers: Table, sets: Table, lows: Int64s, high: int, buffers: Int64s, filled: Int64s,
    rows: Int64s,
) -> int:  # fmt: skip
    """Append the messages of entries to the buffers; how many entries before one with a fault.

    `addresses`, `headers` and `sets` are those of `measure_sets`, and no count may be -1.  Wanted are the offsets from
    `lows`, of each entry, up to, not including, `high`.  `rows` gets how many rows each entry has.
    """
    table = _table(MessageColumn, headers)
    return _call(
        "decode_sets", _numbers(addresses, table[2]), *table, *_cells(MessageSet, sets, table[2]),
        _numbers(lows, table[2]), high, _struct(ArrowBuffer, buffers), _struct(Filled, filled),
        _numbers(rows, table[2]),
    )  # fmt: skip


# --- encode.c -------------------------------------------------------------------------------------------------------


def encode(
    rows: int, offsets: Int64s, timestamps: Int64s, buffers: Int64s, target: int, batch_bytes: int, batches: Table
) -> int:
    """Write the records of `rows` rows to an address, each batch behind room for its header; how many batches.

    A batch has at most `batch_bytes` bytes with its header, unless one record is larger.  `batches` is a table of
    `Encoded` with a column for each row; the target has room for every record and header.
    """
    table = _table(Encoded, batches)
    return _call(
        "encode", rows, _numbers(offsets, rows), _numbers(timestamps, rows), _struct(ArrowBuffer, buffers), target,
        batch_bytes, *table,
    )  # fmt: skip


def put_checksums(starts: Int64s, sizes: Int64s) -> None:
    """Compute and store the checksums of whole batches at addresses."""
    _call("put_checksums", _numbers(starts), _numbers(sizes, len(starts)), len(starts))


# --- rebuild.c ------------------------------------------------------------------------------------------------------


def recover_batches(
    headers: Table, first: int, end: int, limits: Int64s, state: Int64s, entries: Table, epochs: Int64s,
    epoch_starts: Int64s,
) -> int:  # fmt: skip
    """Take in batches from number `first` on as `LogSegment.recover` does; the number of the first left, or `end`.

    `limits` are the segment's base offset, the bytes between index entries, and how many each index holds; `state` is
    `Recovered`.  `entries` gets the index entries, a table of `IndexEntry`; `epochs` and `epoch_starts` the leader
    epochs that begin.
    """
    table, count = _table(HeaderColumn, headers), end - first
    if end > table[2]:
        raise TypeError("there are fewer batches")
    return _call(
        "recover_batches", *table, first, end, _numbers(limits, 4), _struct(Recovered, state),
        *_cells(IndexEntry, entries, count), _numbers(epochs, count), _numbers(epoch_starts, count),
    )  # fmt: skip


def batches_by_producer(headers: Table, first: int, end: int, slots: Int64s, producers: Table) -> tuple[int, int]:
    """Number of the next control batch of a producer from `first` on, or `end`, and the number of producers before it.

    `producers` gets what the batches leave each of them with, a table of `Appended`.  `slots` are all -1, before and
    after: a power of two, and twice as many as there are batches or more.
    """
    to, table = _Numbers(), _table(HeaderColumn, headers)
    if end > table[2] or len(slots) & (len(slots) - 1) or len(slots) < 2 * (end - first):
        raise TypeError("there are fewer batches, or too few slots")
    count = _call(
        "batches_by_producer", *table, first, end, _numbers(slots), len(slots),
        *_cells(Appended, producers, end - first), ctypes.addressof(to),
    )  # fmt: skip
    return to[0], count


# --- runs.c ---------------------------------------------------------------------------------------------------------


def sound_prefix(headers: AnyTable, continuity: Struct, gaps: bool) -> int:
    """How many batches from the first on have no finding; `continuity` (`ContinuityState`) moves behind them.

    With `gaps` offsets may be missing before them.
    """
    return _call("sound_prefix", *_table(HeaderColumn, headers), ctypes.addressof(continuity), gaps)


def gaps_of_run(headers: AnyTable) -> list[int]:
    """Numbers of the batches behind the first that do not begin where the one before them ends."""
    table = _table(HeaderColumn, headers)
    numbers = (ctypes.c_int64 * table[2])()
    count = _call("gaps_of_run", *table, ctypes.addressof(numbers))
    return numbers[:count]


def summarize_run(headers: AnyTable) -> tuple[list[int], tuple[int, int] | None]:
    """Batches of each codec, by its number; smallest first and largest timestamp (ms), None if no batch has one."""
    codecs, times = (ctypes.c_int64 * (CODEC_MASK + 1))(), _Numbers()
    known = _call(
        "summarize_run", *_table(HeaderColumn, headers), ctypes.addressof(codecs), ctypes.addressof(times)
    )
    return list(codecs), (times[0], times[1]) if known else None


# --- clean.c --------------------------------------------------------------------------------------------------------


def move_keys(source: int, count: int, table: int, slots: int) -> None:
    """Put what a map of `count` slots at an address holds into an empty one of more slots."""
    _call("move_keys", source, count, table, slots)


def put_keys(
    addresses: Int64s, sizes: Int64s, headers: Table, start: int, low: int, largest: int, table: int, slots: int,
    rows: int, state: Int64s,
) -> int:  # fmt: skip
    """Note the offsets, from `low` on, of the keys of batches; how many batches were taken.

    `addresses` and `sizes` say where the record bytes are, `headers` has the batches from number `start` on; `largest`
    caps the headers of a record.  The map of `slots` slots is at `table`; at `rows` are `ROW_BYTES` for each record of
    the largest batch.  `state` is `KeyMap`: the work also ends if that says that there is no room.
    """
    return _call(
        "put_keys", *_opened(addresses, sizes, headers, start), start, low, largest, table, slots, rows,
        _struct(KeyMap, state),
    )  # fmt: skip


def _opened(addresses: Int64s, sizes: Int64s, headers: Table, start: int) -> tuple[int, ...]:
    count, table = len(addresses), _table(HeaderColumn, headers)
    if start + count > table[2]:
        raise TypeError("there are more addresses than batches")
    return _numbers(addresses), _numbers(sizes, count), count, *table


def choose_records(
    addresses: Int64s, sizes: Int64s, headers: Table, start: int, latest: int, largest: int, table: int, slots: int,
    rows: int, keeps_deletes: Int64s, flags: int, chosen: Table,
) -> int:  # fmt: skip
    """Which records of batches stay (`Cleaner.shouldRetainRecord`), as flags, a byte each; how many batches were taken.

    What lies behind the offset `latest` stays.  `keeps_deletes` says of each batch whether its tombstones are too young
    to go; `chosen` is a table of `RetainedBatch`.  The others are those of `put_keys`.
    """
    return _call(
        "choose_records", *_opened(addresses, sizes, headers, start), start, latest, largest, table, slots, rows,
        _numbers(keeps_deletes, len(addresses)), flags, *_cells(RetainedBatch, chosen, len(addresses)),
    )  # fmt: skip


def kept_records(
    addresses: Int64s, sizes: Int64s, headers: Table, start: int, numbers: Int64s, horizons: Int64s, chosen: Table,
    target: int, written: Table,
) -> int:  # fmt: skip
    """Write the records that stay of some batches, at least one of each; how many batches were taken.

    `numbers` are those of the batches among `addresses`, `horizons` their delete horizons, below 0 for none; `written`
    is a table of `KeptBatch`.  At `target` is room for a header, then come the records of the first batch, and so on.
    """
    count, (first, lengths, _, *table) = len(numbers), _opened(addresses, sizes, headers, start)
    return _call(
        "kept_records", first, lengths, *table, start, _numbers(numbers), _numbers(horizons, count), count,
        *_cells(RetainedBatch, chosen), target, *_cells(KeptBatch, written, count),
    )  # fmt: skip


def gather(addresses: Int64s, sizes: Int64s, target: int) -> None:
    """Copy pieces of memory to an address, one behind the other."""
    _call("gather", _numbers(addresses), _numbers(sizes, len(addresses)), len(addresses), target)


# --- json.c ---------------------------------------------------------------------------------------------------------


def write_lines(
    rows: int, buffers: Int64s, appended: Bytes, epochs: Int64s, prefix: Bytes, encoded: bool, target: int
) -> int:
    """Write a line of JSON for each row to an address; the bytes written, or -1 if a header's name is not UTF-8.

    `appended` (LogAppendTime) and `epochs` have an entry for each row; `prefix` is what comes before the offset.  Keys
    and values are base64 if `encoded`.  The target needs room for six times the data.
    """
    if len(appended) < rows or not appended.flags.c_contiguous or not prefix.flags.c_contiguous:
        raise TypeError("not an array of bytes without gaps for each row")
    return _call(
        "write_lines", rows, _struct(ArrowBuffer, buffers), appended.ctypes.data, _numbers(epochs, rows),
        prefix.ctypes.data, len(prefix), encoded, target,
    )  # fmt: skip
