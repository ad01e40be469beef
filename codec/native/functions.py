"""The functions of compiled code, callable from Python with numbers, addresses, tables (`Cells` or numpy arrays) and
columns of int64 (`cells.zeros` or numpy arrays). Each call releases the interpreter's lock, and raises TypeError for an
array of another type or with too few elements, because C does not check them, and `StorageError` if the library cannot
be loaded. Memory at an address must exist during the call and have the stated size. Comments name the C file that
describes the functions below.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from kafkalog.codec.model import CODEC_MASK, NO_END
from kafkalog.codec.native.cells import Cells, column_of, zeros
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
    ListedProducer,
    MessageColumn,
    MessageSet,
    OrderOfRun,
    Recovered,
    RetainedBatch,
    Rows,
    RunFacts,
    Viewed,
    Walk,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kafkalog.codec.native.tables import Table

    AnyTable = Table | Cells
    Int64s = npt.NDArray[np.int64]
    Numbers = Int64s | memoryview
    Bytes = npt.NDArray[np.uint8]

__all__ = [
    "address_of", "batches_by_producer", "choose_records", "consecutive_batches", "consecutive_messages", "crc_of",
    "decode_batches", "decode_records", "decode_sets", "decode_window", "decompress_batches", "doubtful_batches",
    "encode", "equal_batches", "facts_of_run", "fitting_batches", "gaps_of_run", "gather", "has_instructions",
    "in_place", "increasing_entries", "kept_records", "later_batch", "locate_records", "locate_values", "measure_sets",
    "move_keys", "move_positions", "new_epochs", "newest_timestamps", "order_of_run", "other_epochs", "put_checksums",
    "put_keys", "read_entries", "recover_batches", "same_codec", "scan_batches", "scan_messages", "select_batches",
    "sound_prefix", "summarize_run", "take_columns", "transaction_numbers", "walk_headers", "with_checksums",
    "write_entries", "write_lines", "wrong_position",
]  # fmt: skip

_INT64_BYTES = 8
_Numbers = ctypes.c_int64 * 4
Struct = ctypes.Array[ctypes.c_int64]
"""Numbers that C reads and changes as a struct."""


@cache
def _function(name: str, arguments: int) -> Callable[..., int]:
    """Return a function of the library by its name. All its arguments, whose number is `arguments`, and its result are
    64-bit numbers. Cached.
    """
    function = getattr(library(), name)
    function.argtypes = [ctypes.c_int64] * arguments
    function.restype = ctypes.c_int64
    return function  # type: ignore[no-any-return]


def _call(name: str, *arguments: int) -> int:
    return _function(name, len(arguments))(*arguments)


def _offset(offset: int) -> int:
    """Return an offset as C has it: the highest number of 64 bits in place of a higher one, which ctypes would pass as
    a negative number. The offset after a batch at the end of all offsets is such a number.
    """
    return min(offset, NO_END)


def _reachable(highest: int) -> int:
    """Return the highest offset that a batch may have as C has it. A batch that reaches the highest number of 64 bits
    is left to Python, because C has no number for the offset after it.
    """
    return min(highest, NO_END - 1)


def _numbers(array: Numbers, count: int | None = None) -> int:
    """Return the address of a contiguous one-dimensional array of int64 with at least `count` elements (None: any
    number). The address of an empty memoryview is 0. Raises `TypeError` for any other array, and for a read-only
    memoryview.
    """
    if isinstance(array, memoryview):
        if array.ndim != 1 or array.format != "q" or not array.c_contiguous or array.readonly:
            raise TypeError(f"not a writable column of int64: {array.format}{array.shape}")
        if count is not None and len(array) < count:
            raise TypeError(f"a column of {count} numbers is needed, not of {len(array)}")
        return ctypes.addressof(ctypes.c_char.from_buffer(array)) if len(array) else 0
    if array.ndim != 1 or array.dtype.char not in "lq" or not array.flags.c_contiguous:
        raise TypeError(f"not an array of int64 without gaps: {array.dtype}{array.shape}")
    if count is not None and len(array) < count:
        raise TypeError(f"an array of {count} numbers is needed, not of {len(array)}")
    return array.ctypes.data


def _struct(rows: type[Rows], array: Numbers) -> int:
    """Return the address of an array that C reads as a struct with the members `rows`. Raises TypeError if it is too
    short or not of int64.
    """
    return _numbers(array, len(rows))


def _cells(rows: type[Rows], table: AnyTable, columns: int = 0) -> tuple[int, int]:
    """Return the address of a table (`Cells` or a numpy array), and the number of cells from one row to the next.

    Raises `TypeError` unless it is a table of int64 with the rows `rows` and at least `columns` columns. The cells of a
    row must be adjacent.
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
    """Return the address of a table, the number of cells from one row to the next, and the number of columns. Raises
    TypeError if it is not a table of `rows`.
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
    """Return the address of the first byte of a buffer, which may be read-only; of an empty buffer any number, also 0.
    The address is valid while the buffer lives and is not resized. Raises `TypeError` if the object has no buffer,
    `BufferError` if its bytes are not contiguous.
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
    """Scan `size` bytes at an address for consecutive sound v2 batches, from the first byte on. Write their headers to
    `headers`, and return their number.

    The scan ends before a batch that is not sound, is incomplete, or has more than `largest` bytes, and when `headers`
    is full. With `check`, checksums are compared. Positions in `headers` are relative to the address.
    """
    return _call("scan_batches", address, size, largest, check, *_table(HeaderColumn, headers))


def scan_messages(address: int, size: int, largest: int, check: bool, headers: AnyTable) -> int:
    """Scan for entries of magic 0 and 1 as `scan_batches` does for v2 batches. `headers` is a table of `MessageColumn`.
    Entries of magic 0 get the timestamp -1.
    """
    return _call("scan_messages", address, size, largest, check, *_table(MessageColumn, headers))


def consecutive_batches(
    headers: AnyTable, expected: int, highest: int, end: int, flags: int, epoch: int, lows: Int64s
) -> int:
    """Return the number of batches at the start of `headers` that are consecutive. Such a batch has a sound header,
    none of the attribute bits `flags`, and begins below offset `end`; its offsets and leader epoch do not go back. A
    batch after missing offsets counts only if there is a next one, which begins after it.

    `expected` is the offset that should come first, `highest` the last one that the segment can have, `epoch` the
    leader epoch before them. The first wanted offset of each counted batch is written to `lows`.
    """
    table = _table(HeaderColumn, headers)
    return _call(
        "consecutive_batches", *table, _offset(expected), _reachable(highest), end, flags, epoch,
        _numbers(lows, table[2]),
    )  # fmt: skip


def consecutive_messages(headers: AnyTable, expected: int, highest: int, end: int, lows: Int64s) -> int:
    """Return the number of entries of magic 0 and 1 at the start of `headers` that are in order and begin below offset
    `end`. The other arguments are the same as in `consecutive_batches`.
    """
    table = _table(MessageColumn, headers)
    return _call(
        "consecutive_messages", *table, _offset(expected), _reachable(highest), end, _numbers(lows, table[2])
    )


def same_codec(headers: AnyTable, start: int, most_records: int, most_bytes: int) -> tuple[int, int]:
    """Return the codec of batch `start`, and the end (exclusive) of the consecutive batches with the same codec.

    Instead of a codec, the first number is `EMPTY` for batches without records, and `UNDECODED` for batches that
    compiled code does not decode: they have a negative number of records or more than `most_records`, more than
    `most_bytes` bytes, or an unknown codec.
    """
    to = _Numbers()
    codec = _call("same_codec", *_table(HeaderColumn, headers), start, most_records, most_bytes, ctypes.addressof(to))
    return codec, to[0]


def fitting_batches(
    headers: Table, start: int, sizes: Int64s, at_least: int, most_rows: int, most_bytes: int
) -> tuple[int, int, int]:
    """Return three numbers: how many batches from number `start` on fit, the number of rows for which room is needed,
    and the record bytes of these batches.

    As many batches fit as have together at most `most_rows` records and `most_bytes` bytes, but at least `at_least`.
    `sizes` are the record bytes of each batch. Raises TypeError if there are more sizes than batches.
    """
    to, table = _Numbers(), _table(HeaderColumn, headers)
    if start + len(sizes) > table[2]:
        raise TypeError("there are more sizes than batches")
    count = _call(
        "fitting_batches", *table, start, _numbers(sizes), len(sizes), at_least, most_rows, most_bytes,
        ctypes.addressof(to),
    )  # fmt: skip
    return count, to[0], to[1]


def locate_records(
    headers: AnyTable, window: int, largest: int, budget: int, addresses: Numbers, sizes: Numbers
) -> int:
    """Write addresses and sizes of the record bytes of the first uncompressed batches; return the number of batches.

    The count ends before a batch of more than `largest` bytes, and before the batch with which they would have more
    than `budget` bytes, unless it is the first. `window` is the address to which positions are relative.
    """
    table = _table(HeaderColumn, headers)
    return _call(
        "locate_records", *table, window, largest, budget, _numbers(addresses, table[2]), _numbers(sizes, table[2])
    )


def walk_headers(descriptor: int, memory: int, room: int, walk: Numbers) -> bool:
    """Continue a scan over the headers of an open file. Return False if reading fails or more than the headers is
    needed; then only the memory is changed.

    `descriptor` is the file's descriptor, `memory` the address of `room` bytes to read into, `walk` a struct `Walk`,
    which is updated.
    """
    return bool(_call("walk_headers", descriptor, memory, room, _struct(Walk, walk)))


# --- records.c ------------------------------------------------------------------------------------------------------


def decode_records(
    first: int, size: int, most: int, most_bytes: int, headers: Table, number: int, low: int, high: int, largest: int,
    buffers: Int64s, filled: Int64s,
) -> tuple[int, int]:  # fmt: skip
    """Append at most `most` records of batch `number` to the buffers, from `size` record bytes at the address `first`.
    Return the number of records read, and the number of bytes that they take.

    Only offsets from `low` to `high` (exclusive) are appended, but all records are counted. Stops before a record that
    is damaged or has more than `largest` headers, and before one that ends after `most_bytes` bytes. The buffers
    (`ArrowBuffer`, with counters in `filled`) must have room for everything that the bytes can contain.
    """
    to = _Numbers()
    done = _call(
        "decode_records", first, size, most, most_bytes, *_table(HeaderColumn, headers), number, _offset(low), high,
        largest, _struct(ArrowBuffer, buffers), _struct(Filled, filled), ctypes.addressof(to),
    )  # fmt: skip
    return done, to[0]


def decode_batches(
    addresses: Int64s, sizes: Int64s, headers: Table, start: int, lows: Int64s, high: int, largest: int,
    buffers: Int64s, filled: Int64s, rows: Int64s,
) -> int:  # fmt: skip
    """Append the records of `len(addresses)` batches, from number `start` of `headers` on, to the buffers. Return the
    number of batches before the first damaged one, of which no record remains in the buffers.

    `addresses` and `sizes` are the addresses and sizes of the batches' record bytes. Only offsets from `lows` (one for
    each batch) to `high` (exclusive) are appended. The number of appended rows of each batch is written to `rows`. A
    record with more than `largest` headers counts as damage. The buffers must have room for everything that the bytes
    can contain. Raises `TypeError` if there are more addresses than batches.
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
    epoch: int, most_records: int, most_headers: int, most_bytes: int, decompressor: Int64s, viewed: Int64s,
    capacity: Int64s, buffers: Int64s, filled: Int64s, rows: Int64s,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """Append the records of the batches in `size` bytes at an address to the buffers. Stop at the first batch that is
    not sound or not in order, or when `headers` is full. Updates `decompressor` and `viewed`.

    Return five numbers: the number of batches, their bytes, the offset after them, their record bytes, and the reason
    for stopping. The reason is the number of record bytes of the next batch if there is no room for it. It is this
    number too if all record bytes would be more than `most_bytes`. In both cases the batch's header is the next one in
    `headers`. The reason is `MEMORY_IS_FULL` if new decompression memory is needed, and otherwise 0.

    `largest` is the most bytes of a batch; the batches' headers are written to `headers`. `expected` is the offset that
    should come first, `highest` the last one that the segment can have. `end` is the end of the wanted offsets
    (exclusive), `epoch` the leader epoch before them. The call also ends before a batch with any of the attribute bits
    `flags`, or a lower leader epoch than the one before. It ends before a batch with more than `most_records` records,
    or with a record that has more than `most_headers` headers. `capacity` bounds the counters in `filled`; the number
    of rows of each batch is written to `rows`.
    """
    to, table = _Numbers(), _table(HeaderColumn, headers)
    count = _call(
        "decode_window", address, size, largest, *table, _offset(expected), _reachable(highest), end, flags, epoch,
        most_records, most_headers, most_bytes, _struct(Decompressor, decompressor), _struct(Viewed, viewed),
        _struct(Filled, capacity), _struct(ArrowBuffer, buffers), _struct(Filled, filled), _numbers(rows, table[2]),
        ctypes.addressof(to),
    )  # fmt: skip
    return count, to[0], to[1], to[2], to[3]


def newest_timestamps(
    addresses: Numbers, sizes: Numbers, headers: AnyTable, start: int, largest: int, newest: Numbers
) -> int:
    """Write the largest timestamp (ms since 1970) of each batch to `newest`: base timestamp plus the largest delta of
    its records, also with LogAppendTime. Return the number of batches before the first damaged one.

    `addresses` and `sizes` are the addresses and sizes of the batches' record bytes; `headers` has the batches from
    number `start` on. A record with more than `largest` headers counts as damage. For a batch without records,
    `UNKNOWN` is written. Raises `TypeError` if there are more sizes than batches.
    """
    count, table = len(sizes), _table(HeaderColumn, headers)
    if start + count > table[2]:
        raise TypeError("there are more addresses than batches")
    return _call(
        "newest_timestamps", _numbers(addresses, count), _numbers(sizes), count, *table, start, largest,
        _numbers(newest, count),
    )  # fmt: skip


# --- decompress.c ---------------------------------------------------------------------------------------------------


def decompress_batches(
    codec: int, decompressor: Numbers, sources: Numbers, compressed: Numbers, largest: int, budget: int,
    addresses: Numbers, sizes: Numbers,
) -> int:  # fmt: skip
    """Decompress batches one after another into the memory of `decompressor`; return their number. The batch with which
    they reach `budget` bytes is the last. Their contents stay there until the caller uses the memory again.

    `sources` and `compressed` are addresses and sizes of the compressed bytes; addresses and sizes of the decompressed
    bytes are written to `addresses` and `sizes`. Stops before a batch of more than `largest` bytes or one that does not
    fit the memory. Stops also before a stream that is damaged or has an unusual form: Python must decompress it.
    """
    count = len(sources)
    return _call(
        "decompress_batches", codec, _struct(Decompressor, decompressor), _numbers(sources),
        _numbers(compressed, count), count, largest, budget, _numbers(addresses, count), _numbers(sizes, count),
    )  # fmt: skip


# --- messages.c -----------------------------------------------------------------------------------------------------


def locate_values(address: int, headers: Table, starts: Int64s, sizes: Int64s) -> None:
    """Write the positions, relative to an address, and the sizes of the values of entries of magic 0 and 1 to `starts`
    and `sizes`; the size of null, and of a value that cannot be read, is -1.
    """
    table = _table(MessageColumn, headers)
    _call("locate_values", address, *table, _numbers(starts, table[2]), _numbers(sizes, table[2]))


def measure_sets(addresses: Int64s, sizes: Int64s, headers: Table, most: int, sets: Table) -> None:
    """Write two numbers for each entry of magic 0 or 1 to the table `sets` (rows `MessageSet`). They are its number of
    messages, and the number to add to their offsets. The latter is 0 except for a wrapper of magic 1 whose offset is
    not 0.

    `addresses` and `sizes` are the address and size of a wrapper's decompressed set, or of the whole entry if it is not
    a wrapper. The number of messages is -1 if the size is -1. It is -1 for a wrapper's set that has no message, more
    than `most` messages, a wrong checksum, or anything except single messages. An incomplete last message is ignored.
    It is -1 too if the offset of a wrapper of magic 1 is not 0 and is below the last inner offset.
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
    """Append the messages of entries to the buffers; return the number of entries before the first damaged one, of
    which no message remains in the buffers.

    `addresses` are the addresses of the entries' message sets, and `sets` is the table that `measure_sets` has filled
    for them; no count in it may be -1. Only offsets from `lows` (one for each entry) to `high` (exclusive) are
    appended. The number of appended rows of each entry is written to `rows`.
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
    number of batches.

    `buffers` is a struct `ArrowBuffer` with the addresses of Arrow's buffers for keys, values and headers. A batch has
    at most `batch_bytes` bytes with its header, unless a single record is larger. `timestamps` are in ms since 1970. A
    description of each batch is written to `batches`, a table of `Encoded` with at least as many columns as there are
    rows, because each batch could have a single one. The target must have room for every record and header.
    """
    return _call(
        "encode", rows, _numbers(offsets, rows), _numbers(timestamps, rows), _struct(ArrowBuffer, buffers), target,
        batch_bytes, *_cells(Encoded, batches, rows), rows,
    )  # fmt: skip


def put_checksums(starts: Int64s, sizes: Int64s) -> None:
    """Compute the checksums of whole batches, given by addresses and sizes, and write them to their headers."""
    _call("put_checksums", _numbers(starts), _numbers(sizes, len(starts)), len(starts))


# --- rebuild.c ------------------------------------------------------------------------------------------------------


def recover_batches(
    headers: AnyTable, first: int, end: int, limits: Numbers, state: Numbers, entries: AnyTable, epochs: Numbers,
    epoch_starts: Numbers,
) -> int:  # fmt: skip
    """Process batches from number `first` to `end` (exclusive) as `LogSegment.recover` does. Return the number of the
    batch at which processing stopped, or `end`. It stops before a batch that may be invalid, or for which an index has
    no room.

    `limits` are the segment's base offset, the bytes between index entries, and the capacity of the offset index and of
    the time index; `state` (`Recovered`) is updated. Index entries are written to `entries`, a table of `IndexEntry`.
    Leader epochs that begin, and their first offsets, are written to `epochs` and `epoch_starts`. Raises `TypeError` if
    there are fewer than `end` batches.
    """
    table, count = _table(HeaderColumn, headers), end - first
    if end > table[2]:
        raise TypeError("there are fewer batches")
    return _call(
        "recover_batches", *table, first, end, _numbers(limits, 4), _struct(Recovered, state),
        *_cells(IndexEntry, entries, count), _numbers(epochs, count), _numbers(epoch_starts, count),
    )  # fmt: skip


def batches_by_producer(
    headers: AnyTable, first: int, end: int, slots: Numbers, producers: AnyTable
) -> tuple[int, int]:
    """Group by producer the batches from number `first` to `end` (exclusive), or to the first control batch that has a
    producer. Batches without a producer are left out. Return the number of that control batch, or `end` if there is
    none, and the number of producers. Write a column of `Appended` for each producer to `producers`, in the order of
    their first batches.

    `slots` is working memory, with all elements -1 before and after the call. Raises `TypeError` if its length is not a
    power of two, or is less than twice the number of batches. Raises it also if there are fewer than `end` batches.
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
    """Return the number of batches at the start of `headers` that certainly have no finding, and advance `continuity`
    (`ContinuityState`) past them. With `gaps`, missing offsets before a batch are accepted if there is a next batch,
    which begins above this batch's last offset.
    """
    return _call("sound_prefix", *_table(HeaderColumn, headers), ctypes.addressof(continuity), gaps)


def gaps_of_run(headers: AnyTable) -> list[int]:
    """Return the numbers, ascending, of the batches that do not begin at the offset after the batch before them; the
    first batch is never listed.
    """
    table = _table(HeaderColumn, headers)
    numbers = (ctypes.c_int64 * table[2])()
    count = _call("gaps_of_run", *table, ctypes.addressof(numbers))
    return numbers[:count]


def summarize_run(headers: AnyTable) -> tuple[list[int], tuple[int, int] | None]:
    """Return the number of batches by codec (index: the codec's number), and a pair of timestamps in ms since 1970. The
    pair is the smallest first timestamp (`BatchHeader.first_timestamp`) and the largest timestamp of the batches that
    have one. It is None if no batch has one.
    """
    codecs, times = (ctypes.c_int64 * (CODEC_MASK + 1))(), _Numbers()
    known = _call(
        "summarize_run", *_table(HeaderColumn, headers), ctypes.addressof(codecs), ctypes.addressof(times)
    )
    return list(codecs), (times[0], times[1]) if known else None


def facts_of_run(headers: Cells) -> memoryview:
    """Return the facts about all batches of a run, which must not be empty, as a column whose elements are named by
    `RunFacts`.
    """
    facts = zeros(len(RunFacts))
    _call("facts_of_run", *_table(HeaderColumn, headers), _numbers(facts))
    return facts


def transaction_numbers(headers: Cells, first: int) -> list[int]:
    """Return the numbers, ascending, of the batches from number `first` on that may change the state of a transaction:
    all control batches, and of consecutive transactional data batches of one producer the first.
    """
    return _chosen("transaction_numbers", headers, first)


def _chosen(name: str, headers: Cells, *arguments: int) -> list[int]:
    """Call a function that writes numbers of batches to its last argument and returns their count; return these
    numbers.
    """
    table = _table(HeaderColumn, headers)
    numbers = zeros(table[2])
    count = _call(name, *table, *arguments, _numbers(numbers))
    return numbers[:count].tolist()


def in_place(headers: Cells, base_offset: int, limit: int) -> int:
    """Return the number of batches at the start of `headers` whose offsets are possible in a segment with this base
    offset. Offsets must be below `limit`.
    """
    return _call("in_place", *_table(HeaderColumn, headers), base_offset, limit)


def order_of_run(headers: Cells, highest: int) -> memoryview:
    """Compare the offsets of a run with `highest`, the highest offset before the run. Return a column whose elements
    are named by `OrderOfRun`.
    """
    order = zeros(len(OrderOfRun))
    _call("order_of_run", *_table(HeaderColumn, headers), _offset(highest), _numbers(order))
    return order


def other_epochs(headers: Cells, epoch: int) -> list[int]:
    """Return the numbers of the batches whose leader epoch is neither `epoch` nor -1, ascending."""
    return _chosen("other_epochs", headers, epoch)


def new_epochs(headers: Cells) -> list[int]:
    """Return the numbers, ascending, of the batches whose leader epoch differs from the epoch of the batch before them;
    the first batch is never listed.
    """
    return _chosen("new_epochs", headers)


def doubtful_batches(headers: Cells, listed: Cells, last_offsets: memoryview) -> list[int]:
    """Return the numbers, ascending, of the batches that can contradict the entries of a producer snapshot.

    `listed` is a table of `ListedProducer` with ascending producer ids; `last_offsets` are the entries' last offsets,
    ascending. Raises TypeError if there are no entries.
    """
    table = _table(ListedProducer, listed)
    if not table[2]:
        raise TypeError("there are no entries")
    return _chosen("doubtful_batches", headers, *table, _numbers(last_offsets, table[2]))


def equal_batches(headers: Cells, start: int, others: Cells, other_start: int) -> int:
    """Return how many batches, from number `start` of one run and `other_start` of another on, are equal in offsets,
    size, checksum, leader epoch and magic, up to the first difference or the end of either run.
    """
    ours, theirs = _table(HeaderColumn, headers), _table(HeaderColumn, others)
    count = max(min(ours[2] - start, theirs[2] - other_start), 0)
    return _call("equal_batches", *ours, start, *theirs, other_start, count)


def with_checksums(headers: Cells, wanted: memoryview) -> list[int]:
    """Return the numbers, ascending, of the batches whose checksum is in `wanted`, which must be ascending."""
    return _chosen("with_checksums", headers, _numbers(wanted), len(wanted))


def select_batches(
    attributes: Numbers, producers: Numbers | None, codecs: int, flags: int, values: int, ids: memoryview | None
) -> list[int]:
    """Return the numbers, ascending, of the batches that fulfill three conditions: the codec's bit is set in `codecs`;
    the attribute bits `flags` have the values `values`; the producer id is in `ids` (ascending; None: any).

    Raises TypeError if `ids` is not None, but `producers`, the producer ids of the batches, is.
    """
    count = len(attributes)
    numbers = zeros(count)
    if ids is not None and producers is None:
        raise TypeError("there are no producer ids")
    found = _call(
        "select_batches", _numbers(attributes), 0 if producers is None else _numbers(producers, count), count, codecs,
        flags, values, *((0, -1) if ids is None else (_numbers(ids), len(ids))), _numbers(numbers),
    )  # fmt: skip
    return numbers[:found].tolist()


def take_columns(cells: Cells, numbers: Sequence[int]) -> Cells:
    """Return the columns of a table with these numbers, in this order, in new memory. Raises `TypeError` if there is no
    such column.
    """
    wanted, taken = column_of(numbers), Cells(cells.rows, len(numbers))
    count = _call(
        "take_columns", *_table(cells.rows, cells), len(cells.rows), _numbers(wanted), len(wanted),
        *_cells(taken.rows, taken),
    )  # fmt: skip
    if count < 0:
        raise TypeError("there is no such column")
    return taken


def move_positions(headers: Cells, by: int) -> None:
    """Add `by` bytes to the position of each batch."""
    _call("move_positions", *_table(HeaderColumn, headers), by)


def wrong_position(
    headers: Cells, shift: int, before: int, base: int, keys: memoryview, positions: memoryview
) -> tuple[int, int, bool] | None:
    """Return the first wrong index entry as three values: its number, the highest offset before its batch, and whether
    a batch begins at its position. Return None if no entry is wrong. An entry is wrong if no batch begins at its
    position, or if its key is not above all offsets before that batch.

    `shift` is added to the positions of batches, `base` to keys. `before` is the highest offset before the run. No
    position may be above the position of the last batch.
    """
    to, count = _Numbers(), len(keys)
    number = _call(
        "wrong_position", *_table(HeaderColumn, headers), shift, before, base, _numbers(keys),
        _numbers(positions, count), count, ctypes.addressof(to),
    )  # fmt: skip
    return None if number < 0 else (number, to[0], bool(to[1]))


def later_batch(
    headers: Cells, before: int, base: int, timestamps: memoryview, offsets: memoryview
) -> tuple[int, int] | None:
    """Find the first batch whose largest timestamp is above that of the time index entry that covers it. Return (number
    of the entry, number of the batch). Return None if there is none. The entry that covers a batch is the first with an
    offset above those of all batches before it. It covers the batch only if that offset is not below the batch's last
    one. `before` is the highest offset before the run. The entries' offsets are relative to `base` and must increase
    after the first.
    """
    to, count = _Numbers(), len(offsets)
    number = _call(
        "later_batch", *_table(HeaderColumn, headers), before, base, _numbers(timestamps, count), _numbers(offsets),
        count, ctypes.addressof(to),
    )  # fmt: skip
    return None if number < 0 else (to[0], number)


_ENTRY_FIELDS = (4, 8)


def _field_sizes(sizes: Sequence[int]) -> tuple[int, int]:
    """Return the sizes of an index entry's two fields. Raises `TypeError` for other sizes than 4 and 8 bytes."""
    first, second = sizes
    if first not in _ENTRY_FIELDS or second not in _ENTRY_FIELDS:
        raise TypeError(f"no entry has fields of {first} and {second} bytes")
    return first, second


def read_entries(data: bytes | bytearray | memoryview, sizes: Sequence[int]) -> tuple[memoryview, memoryview]:
    """Return both fields of index entries as columns. The fields are big-endian numbers of `sizes` bytes (4 or 8) each;
    an incomplete entry at the end is left out. Raises TypeError for other sizes.
    """
    first, second = _field_sizes(sizes)
    count = len(data) // (first + second)
    firsts, seconds = zeros(count), zeros(count)
    if count:
        _call("read_entries", address_of(data), count, first, second, _numbers(firsts), _numbers(seconds))
    return firsts, seconds


def increasing_entries(
    firsts: memoryview, seconds: memoryview, before: tuple[int, int], may_repeat: bool, never: tuple[int, int] | None
) -> int:
    """Return the number of index entries at the start that increase without interruption, beginning after the entry
    `before`.

    The first field must increase; the second must increase too, or with `may_repeat` must not decrease. An entry equal
    to `never` ends the count; None means that there is no such entry.
    """
    return _call(
        "increasing_entries", _numbers(firsts), _numbers(seconds, len(firsts)), len(firsts), *before, may_repeat,
        never is not None, *(never or (0, 0)),
    )  # fmt: skip


def write_entries(firsts: memoryview, seconds: memoryview, sizes: Sequence[int]) -> bytes:
    """Encode the entries of an index file; `firsts` and `seconds` are their two fields. The fields become big-endian
    numbers of `sizes` bytes (4 or 8) each; of a number that does not fit, the upper bits are lost. Raises TypeError for
    other sizes.
    """
    first, second = _field_sizes(sizes)
    target = bytearray(len(firsts) * (first + second))
    count = len(firsts)
    _call("write_entries", _numbers(firsts), _numbers(seconds, count), count, first, second, address_of(target))
    return bytes(target)


# --- clean.c --------------------------------------------------------------------------------------------------------


def move_keys(source: int, count: int, table: int, slots: int) -> None:
    """Copy the entries of a map with `count` slots at the address `source` into an empty map with `slots` slots at the
    address `table`; `slots` must be larger than `count`.
    """
    _call("move_keys", source, count, table, slots)


def put_keys(
    addresses: Int64s, sizes: Int64s, headers: Table, start: int, low: int, largest: int, table: int, slots: int,
    rows: int, state: Int64s,
) -> int:  # fmt: skip
    """Put the keys of batches into a map with their offsets, if these are at least `low`; return the number of batches
    processed.

    `addresses` and `sizes` are the addresses and sizes of the batches' record bytes; `headers` has the batches from
    number `start` on. The map with `slots` slots is at the address `table`; `rows` is the address of working memory
    with `ROW_BYTES` for each record of the largest batch. Stops before a damaged batch; a record with more than
    `largest` headers counts as damage. If the map is full, stops too, and sets `is_full` in `state` (`KeyMap`).
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
    processed.

    The choice for each record is written as a flag of one byte from the address `flags` on. Records above the offset
    `latest` are kept. `keeps_deletes` tells for each batch whether its tombstones are too young to be removed. The
    result for each batch is written to `chosen`, a table of `RetainedBatch`. The other arguments are the same as in
    `put_keys`.
    """
    return _call(
        "choose_records", *_opened(addresses, sizes, headers, start), start, latest, largest, table, slots, rows,
        _numbers(keeps_deletes, len(addresses)), flags, *_cells(RetainedBatch, chosen, len(addresses)),
    )  # fmt: skip


def kept_records(
    addresses: Int64s, sizes: Int64s, headers: Table, start: int, numbers: Int64s, horizons: Int64s, chosen: Table,
    target: int, written: Table,
) -> int:  # fmt: skip
    """Write the chosen records of some batches to the address `target`, each batch after free space for its header. The
    target must have room for all this; another base timestamp can make records larger. At least one record of each
    batch must be chosen. Return the number of batches written. Stops at a batch with a damaged record, or with chosen
    records whose offsets do not increase or that have a timestamp below -1; parts of it may already be at the target.

    `addresses` and `sizes` locate the record bytes of consecutive batches; `headers` has the first of them in column
    `start`. `numbers` selects batches by their index in `addresses`. `horizons` has the delete horizon of each selected
    batch, in ms since 1970 (negative for none). `chosen` is a table of `RetainedBatch` with the same index, up to the
    last selected batch. A description of each batch is written to `written`, a table of `KeptBatch`.
    """
    count, (first, lengths, _, *table) = len(numbers), _opened(addresses, sizes, headers, start)
    return _call(
        "kept_records", first, lengths, *table, start, _numbers(numbers), _numbers(horizons, count), count,
        *_cells(RetainedBatch, chosen, int(numbers.max(initial=-1)) + 1), target, *_cells(KeptBatch, written, count),
    )  # fmt: skip


def gather(addresses: Int64s, sizes: Int64s, target: int) -> None:
    """Copy pieces of memory, given by addresses and sizes, to the address `target`, one after another."""
    _call("gather", _numbers(addresses), _numbers(sizes, len(addresses)), len(addresses), target)


# --- json.c ---------------------------------------------------------------------------------------------------------


def write_lines(
    rows: int, buffers: Int64s, appended: Bytes, epochs: Int64s, prefix: Bytes, encoded: bool, target: int
) -> int:
    """Write a line of JSON for each row to the address `target`; return the number of bytes, or -1 if the key of a
    header is not UTF-8.

    `appended` (1 for LogAppendTime) and `epochs` (leader epochs) have an element for each row; `prefix` is the text
    before the offset. Keys, values and header values are written as text, or as base64 if they are not UTF-8; with
    `encoded` always as base64. The target must have room for six times the data and for the text around it. Raises
    `TypeError` if an array is too short or has gaps.
    """
    if len(appended) < rows or not appended.flags.c_contiguous or not prefix.flags.c_contiguous:
        raise TypeError("not an array of bytes without gaps for each row")
    return _call(
        "write_lines", rows, _struct(ArrowBuffer, buffers), appended.ctypes.data, _numbers(epochs, rows),
        prefix.ctypes.data, len(prefix), encoded, target,
    )  # fmt: skip
