"""Functions of compiled code as Python calls them, with numbers, addresses and numpy arrays of int64. Each releases the
interpreter's lock while it works, and raises TypeError for an array of another type or with too few elements: C does
not check them. Memory behind an address must outlive the call and have the stated size. Comments name the C file that
describes the functions below.
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
    """Return a function of the library. All arguments and the result are 64-bit numbers."""
    function = getattr(library(), name)
    function.argtypes = [ctypes.c_int64] * arguments
    function.restype = ctypes.c_int64
    return function  # type: ignore[no-any-return]


def _call(name: str, *arguments: int) -> int:
    return _function(name, len(arguments))(*arguments)


def _numbers(array: Int64s, count: int | None = None) -> int:
    """Return the address of a contiguous one-dimensional array of int64 with at least `count` elements (None: any
    number). Raises TypeError for any other array.
    """
    if array.ndim != 1 or array.dtype.char not in "lq" or not array.flags.c_contiguous:
        raise TypeError(f"not an array of int64 without gaps: {array.dtype}{array.shape}")
    if count is not None and len(array) < count:
        raise TypeError(f"an array of {count} numbers is needed, not of {len(array)}")
    return array.ctypes.data


def _struct(rows: type[Rows], array: Int64s) -> int:
    """Return the address of an array that C reads as a struct. Raises TypeError if it is too short or not of int64."""
    return _numbers(array, len(rows))


def _cells(rows: type[Rows], table: AnyTable, columns: int = 0) -> tuple[int, int]:
    """Return the address of a table (`Cells` or a numpy array) and the number of cells from one row to the next. Raises
    TypeError unless it is a table of int64 with the rows of `rows` and at least `columns` columns, whose cells are
    adjacent within a row.
    """
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
    """Return the address of a table, the number of cells between two rows, and the number of columns. Raises TypeError
    unless it is a table of `rows`.
    """
    return *_cells(rows, table), table.columns if isinstance(table, Cells) else table.shape[1]


class _Buffer(ctypes.Structure):
    """First fields of `Py_buffer`, and room for the others."""

    _fields_ = (("address", ctypes.c_void_p), ("owner", ctypes.py_object), ("rest", ctypes.c_byte * 128))


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_Buffer)]


def address_of(data: bytes | bytearray | memoryview) -> int:
    """Return the address of the first byte of a buffer, which may be read-only. The address is valid while the buffer
    lives. Raises `TypeError` if the object has no buffer, `BufferError` if its bytes are not contiguous.
    """
    view = _Buffer()
    _get_buffer(data, view, 0)
    address = view.address or 0
    _release_buffer(view)
    return address


# --- crc.c ----------------------------------------------------------------------------------------------------------


def crc_of(address: int, size: int, *, ieee: bool = False, by_tables: bool = False) -> int:
    """Return the CRC-32C of `size` bytes at an address, or their CRC-32 if `ieee`. With `by_tables` processor
    instructions are not used.
    """
    return _call("crc_of", address, size, ieee, by_tables)


def has_instructions() -> bool:
    """Whether checksums are computed with processor instructions."""
    return bool(_call("has_instructions"))


# --- scan.c ---------------------------------------------------------------------------------------------------------


def scan_batches(address: int, size: int, largest: int, check: bool, headers: AnyTable) -> int:
    """Scan `size` bytes at an address for consecutive sound v2 batches. Write their headers to `headers`, and return
    their number. A batch of more than `largest` bytes ends the scan; checksums are compared if `check`. Positions count
    from the address.
    """
    return _call("scan_batches", address, size, largest, check, *_table(HeaderColumn, headers))


def scan_messages(address: int, size: int, largest: int, check: bool, headers: Table) -> int:
    """Scan as `scan_batches`, but for entries of magic 0 and 1; `headers` is a table of `MessageColumn`. Entries of
    magic 0 get the timestamp -1.
    """
    return _call("scan_messages", address, size, largest, check, *_table(MessageColumn, headers))


def consecutive_batches(headers: Table, expected: int, highest: int, end: int, flags: int, lows: Int64s) -> int:
    """Return the number of batches, from the first on, that are in order, have none of the attribute bits `flags`, and
    begin below offset `end`. `expected` is the offset that should come first, `highest` the last one that the segment
    can have. `lows` receives the first wanted offset of each batch.
    """
    table = _table(HeaderColumn, headers)
    return _call("consecutive_batches", *table, expected, highest, end, flags, _numbers(lows, table[2]))


def consecutive_messages(headers: Table, expected: int, highest: int, end: int, lows: Int64s) -> int:
    """Return the number of entries of magic 0 and 1, from the first on, that are in order and begin below offset `end`.
    Other arguments are those of `consecutive_batches`.
    """
    table = _table(MessageColumn, headers)
    return _call("consecutive_messages", *table, expected, highest, end, _numbers(lows, table[2]))


def same_codec(headers: Table, start: int, most_records: int, most_bytes: int) -> tuple[int, int]:
    """Return the codec of batch `start`, and the number after the last consecutive batch with the same one. Instead of
    a codec it is `EMPTY` for batches without records, and `UNDECODED` for those that compiled code does not decode: of
    more than `most_records` records or `most_bytes` bytes, or an unknown codec.
    """
    to = _Numbers()
    codec = _call("same_codec", *_table(HeaderColumn, headers), start, most_records, most_bytes, ctypes.addressof(to))
    return codec, to[0]


def fitting_batches(
    headers: Table, start: int, sizes: Int64s, at_least: int, most_rows: int, most_bytes: int
) -> tuple[int, int, int]:
    """Return three numbers: how many batches from number `start` fit, the rows for which room is needed, and the bytes
    of these batches. Together the batches have at most `most_rows` records and `most_bytes` bytes (`sizes` are the
    record bytes of each), but at least `at_least` batches are counted.
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
    """Write addresses and sizes of the record bytes of the first uncompressed batches; return the number of batches.
    Stops when they have `budget` bytes, after one batch at least, and before a batch of more than `largest` bytes.
    `window` is the address from which positions count.
    """
    table = _table(HeaderColumn, headers)
    return _call(
        "locate_records", *table, window, largest, budget, _numbers(addresses, table[2]), _numbers(sizes, table[2])
    )


def walk_headers(descriptor: int, memory: int, room: int, walk: Int64s) -> bool:
    """Continue over the headers of an open file. Return False, and change only the memory, if more than the headers is
    needed or reading fails. `memory` is the address of `room` bytes, `walk` an array of `Walk`.
    """
    return bool(_call("walk_headers", descriptor, memory, room, _struct(Walk, walk)))


# --- records.c ------------------------------------------------------------------------------------------------------


def decode_records(
    first: int, size: int, most: int, most_bytes: int, headers: Table, number: int, low: int, high: int, largest: int,
    buffers: Int64s, filled: Int64s,
) -> tuple[int, int]:  # fmt: skip
    """Append at most `most` records of batch `number` to the buffers, from `size` record bytes at the address `first`;
    return the number of records read and the bytes that they took. Only offsets from `low` to `high` (exclusive) are
    appended, but all count. Stops before a record with a fault or with more than `largest` headers, and before one that
    ends after `most_bytes` bytes. The buffers (`ArrowBuffer`, with counters in `filled`) must have room for everything
    that the bytes can hold.
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
    """Append the records of `len(addresses)` batches from number `start` of `headers`; return the number of batches
    before one with a fault. `addresses` and `sizes` are those of the record bytes. Only offsets from `lows` (one for
    each batch) to `high` (exclusive) are appended. `rows` receives the number of appended rows of each batch. A record
    with more than `largest` headers is a fault. The buffers must have room for everything that the bytes can hold.
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
    """Append the records of the batches in `size` bytes at an address, up to the first batch that is not sound and in
    order. Return the number of batches, their bytes, the offset after them, their record bytes, and a reason for
    stopping: the record bytes of the next batch if it lacks room, `MEMORY_IS_FULL`, or 0. `largest` is the most bytes
    of a batch, and `headers` receives the batches' headers. `expected` is the offset that should come first, `highest`
    the last one that the segment can have, `end` the end of the wanted offsets (exclusive); a batch with any of the
    attribute bits `flags` ends the call. No batch may have more than `most_records` records, no record more than
    `most_headers` headers, and all record bytes together no more than `most_bytes`. `capacity` bounds the counters in
    `filled`; `rows` receives the rows of each batch.
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
    """Decompress batches one after another into the memory of `decompressor` until they have `budget` bytes; return the
    number of batches. `sources` and `compressed` are addresses and sizes of the compressed bytes; `addresses` and
    `sizes` receive those of the contents. Stops before a batch of more than `largest` bytes, and before a stream that
    is damaged or of an unusual form, which Python must decompress.
    """
    count = len(sources)
    return _call(
        "decompress_batches", codec, _struct(Decompressor, decompressor), _numbers(sources),
        _numbers(compressed, count), count, largest, budget, _numbers(addresses, count), _numbers(sizes, count),
    )  # fmt: skip


# --- messages.c -----------------------------------------------------------------------------------------------------


def locate_values(address: int, headers: Table, starts: Int64s, sizes: Int64s) -> None:
    """Write the positions of the values of entries of magic 0 and 1, from an address on, and their sizes, -1 for
    null.
    """
    table = _table(MessageColumn, headers)
    _call("locate_values", address, *table, _numbers(starts, table[2]), _numbers(sizes, table[2]))


def measure_sets(addresses: Int64s, sizes: Int64s, headers: Table, most: int, sets: Table) -> None:
    """Fill the table `sets` (rows `MessageSet`) with two numbers for each entry: its number of messages, and the number
    to add to their offsets. `addresses` and `sizes` are those of a wrapper's decompressed set, or of the whole entry.
    The number of messages is -1 if the size is -1, or if the set has more than `most` messages, a wrong checksum, or
    anything but single messages.
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
    """Append the messages of entries to the buffers; return the number of entries before one with a fault. `addresses`
    are the addresses of the entries' message sets, and `sets` is the table that `measure_sets` filled for them; no
    count in it may be -1. Only offsets from `lows` (one for each entry) to `high` (exclusive) are appended. `rows`
    receives the number of appended rows of each entry.
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
    """Write the records of `rows` rows to the address `target`, each batch after free space for its header; return the
    number of batches. `buffers` is a table of `ArrowBuffer`: the addresses of Arrow's buffers with keys, values and
    headers. A batch has at most `batch_bytes` bytes with its header, unless a single record is larger. `timestamps` are
    in ms. `batches`, a table of `Encoded` with a column for each row, receives a description of each batch. The target
    must have room for every record and header.
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
    """Process batches from number `first` to `end` (exclusive) as `LogSegment.recover` does; return the number of the
    first that was not processed because it is invalid, or `end`. `limits` are the segment's base offset, the bytes
    between index entries, and the capacity of the offset and the time index; `state` (`Recovered`) is updated.
    `entries` receives the index entries, a table of `IndexEntry`; `epochs` and `epoch_starts` receive the leader epochs
    that begin and their first offsets.
    """
    table, count = _table(HeaderColumn, headers), end - first
    if end > table[2]:
        raise TypeError("there are fewer batches")
    return _call(
        "recover_batches", *table, first, end, _numbers(limits, 4), _struct(Recovered, state),
        *_cells(IndexEntry, entries, count), _numbers(epochs, count), _numbers(epoch_starts, count),
    )  # fmt: skip


def batches_by_producer(headers: Table, first: int, end: int, slots: Int64s, producers: Table) -> tuple[int, int]:
    """Return the number of the first control batch of a producer from `first`, or `end` (exclusive) if there is none,
    and the number of producers before it. `producers` receives a column of `Appended` for each of them. `slots` is
    working memory, all -1 before and after; its length must be a power of two, and at least twice the number of
    batches.
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
    """Return the number of batches, from the first on, without a finding; advance `continuity` (`ContinuityState`) over
    them. With `gaps`, offsets may be missing before them.
    """
    return _call("sound_prefix", *_table(HeaderColumn, headers), ctypes.addressof(continuity), gaps)


def gaps_of_run(headers: AnyTable) -> list[int]:
    """Return the numbers of the batches that do not begin at the offset after the batch before them."""
    table = _table(HeaderColumn, headers)
    numbers = (ctypes.c_int64 * table[2])()
    count = _call("gaps_of_run", *table, ctypes.addressof(numbers))
    return numbers[:count]


def summarize_run(headers: AnyTable) -> tuple[list[int], tuple[int, int] | None]:
    """Return the number of batches by codec (index: the codec's number), and the smallest first and largest timestamp
    in ms since 1970; None instead of the times if no batch has one.
    """
    codecs, times = (ctypes.c_int64 * (CODEC_MASK + 1))(), _Numbers()
    known = _call(
        "summarize_run", *_table(HeaderColumn, headers), ctypes.addressof(codecs), ctypes.addressof(times)
    )
    return list(codecs), (times[0], times[1]) if known else None


# --- clean.c --------------------------------------------------------------------------------------------------------


def move_keys(source: int, count: int, table: int, slots: int) -> None:
    """Copy the entries of a map of `count` slots at the address `source` into an empty map of `slots` slots at `table`,
    which is larger.
    """
    _call("move_keys", source, count, table, slots)


def put_keys(
    addresses: Int64s, sizes: Int64s, headers: Table, start: int, low: int, largest: int, table: int, slots: int,
    rows: int, state: Int64s,
) -> int:  # fmt: skip
    """Put the keys of batches into a map with their offsets, if these are at least `low`; return the number of batches
    processed. `addresses` and `sizes` are those of the record bytes; `headers` has the batches from number `start` on;
    a record with more than `largest` headers is a fault. The map of `slots` slots is at the address `table`; `rows` is
    the address of `ROW_BYTES` for each record of the largest batch. Stops before a batch with a fault, and, with
    `is_full` set in `state` (`KeyMap`), if the map is full.
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
    """Choose the records of batches that compaction keeps (`Cleaner.shouldRetainRecord`); return the number of batches
    processed. Choices are written as flags of one byte at the address `flags`. Records above the offset `latest` are
    kept. `keeps_deletes` says of each batch whether its tombstones are too young to be removed. `chosen` is a table of
    `RetainedBatch`. Other arguments are those of `put_keys`.
    """
    return _call(
        "choose_records", *_opened(addresses, sizes, headers, start), start, latest, largest, table, slots, rows,
        _numbers(keeps_deletes, len(addresses)), flags, *_cells(RetainedBatch, chosen, len(addresses)),
    )  # fmt: skip


def kept_records(
    addresses: Int64s, sizes: Int64s, headers: Table, start: int, numbers: Int64s, horizons: Int64s, chosen: Table,
    target: int, written: Table,
) -> int:  # fmt: skip
    """Write the chosen records of some batches, at least one of each, to the address `target`, each batch after free
    space for its header; return the number of batches processed. `addresses` and `sizes` are those of the record bytes
    of the batches from `start`. `numbers` are indexes into these; `horizons` are the delete horizons (ms, negative for
    none) of the same batches. `chosen` is a table of `RetainedBatch`; `written`, a table of `KeptBatch`, receives a
    description of each batch.
    """
    count, (first, lengths, _, *table) = len(numbers), _opened(addresses, sizes, headers, start)
    return _call(
        "kept_records", first, lengths, *table, start, _numbers(numbers), _numbers(horizons, count), count,
        *_cells(RetainedBatch, chosen), target, *_cells(KeptBatch, written, count),
    )  # fmt: skip


def gather(addresses: Int64s, sizes: Int64s, target: int) -> None:
    """Copy pieces of memory to an address, one after another."""
    _call("gather", _numbers(addresses), _numbers(sizes, len(addresses)), len(addresses), target)


# --- json.c ---------------------------------------------------------------------------------------------------------


def write_lines(
    rows: int, buffers: Int64s, appended: Bytes, epochs: Int64s, prefix: Bytes, encoded: bool, target: int
) -> int:
    """Write a line of JSON for each row to the address `target`; return the number of bytes, or -1 if a header's key is
    not UTF-8. `appended` (1 for LogAppendTime) and `epochs` (leader epochs) have an entry for each row; `prefix` is the
    text before the offset. Keys and values are base64 if `encoded`. The target must have room for six times the data.
    """
    if len(appended) < rows or not appended.flags.c_contiguous or not prefix.flags.c_contiguous:
        raise TypeError("not an array of bytes without gaps for each row")
    return _call(
        "write_lines", rows, _struct(ArrowBuffer, buffers), appended.ctypes.data, _numbers(epochs, rows),
        prefix.ctypes.data, len(prefix), encoded, target,
    )  # fmt: skip
