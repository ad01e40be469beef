"""Names for the rows of the tables, and for the members of the structs, that compiled code reads and fills.

A table has a column for each batch (or message), and a row for each member of its enumeration. A struct of C is an
array with an element for each member. `layout` writes both into `layout.h`.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import TYPE_CHECKING, TypeAlias

from kafkalog.codec.derive import DerivationError
from kafkalog.codec.model import BATCH, MESSAGE_V0, MESSAGE_V1

__all__ = [
    "EMPTY", "LARGEST_RECORD_OVERHEAD", "MEMORY_IS_FULL", "ROW_BYTES", "UNDECODED", "UNKNOWN", "Appended",
    "ArrowBuffer", "ContinuityState", "Decompressor", "Encoded", "Filled", "HeaderColumn", "IndexEntry", "KeptBatch",
    "KeyMap", "ListedProducer", "MessageColumn", "MessageSet", "OrderOfRun", "Recovered", "RetainedBatch", "Rows",
    "RunFacts", "Table", "Viewed", "Walk", "check_table", "empty_table", "names",
]  # fmt: skip

EMPTY, UNDECODED = -2, -1
"""Results of `same_codec` for batches without records, and for those that compiled code does not decode."""
MEMORY_IS_FULL = -1
"""Result of `decode_window` in place of bytes if the memory for decompressing is full, or data buffers of views lack
room.
"""

LARGEST_RECORD_OVERHEAD = 5 + 1 + 10 + 5 + 5 + 5 + 5
"""Most bytes of a record without key, value and headers; each header adds two lengths of at most 5 bytes."""

ROW_BYTES = 40
"""Bytes that compaction notes about each record of a batch."""

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Table: TypeAlias = "npt.NDArray[np.int64]"


class Rows(IntEnum):
    """Enumeration whose members count from 0, as the rows of a table."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[int]) -> int:
        return count


class HeaderColumn(Rows):
    """Rows of a table of batches: the declared fields of a v2 header in their order, and the batch's position."""

    BASE_OFFSET = auto()
    BATCH_LENGTH = auto()
    PARTITION_LEADER_EPOCH = auto()
    MAGIC = auto()
    CRC = auto()
    ATTRIBUTES = auto()
    LAST_OFFSET_DELTA = auto()
    BASE_TIMESTAMP = auto()
    MAX_TIMESTAMP = auto()
    PRODUCER_ID = auto()
    PRODUCER_EPOCH = auto()
    BASE_SEQUENCE = auto()
    RECORDS_COUNT = auto()
    POSITION = auto()


class MessageColumn(Rows):
    """Rows of a table of v0 and v1 entries: the declared fields of magic 1 in their order, and the entry's position."""

    OFFSET = auto()
    SIZE = auto()
    CRC = auto()
    MAGIC = auto()
    ATTRIBUTES = auto()
    TIMESTAMP = auto()
    POSITION = auto()


class ArrowBuffer(Rows):
    """Addresses of the Arrow buffers into which records are decoded; 0 for a buffer that is not wanted.

    `ENDS` has the end of each field in its data (int32, preceded by the start of the first). `VALID` has a byte for
    each row, 0 for null. Fields of bytes need `ENDS`, `VALID` and data, or `VALID` and `VIEWS`. `VIEWS` has 16 bytes
    for each row: the size, and the field itself or its place in data buffer `VIEWED_NUMBER`, whose address is `VIEWED`.
    """

    OFFSET = auto()
    TIMESTAMP = auto()
    TIMESTAMP_VALID = auto()
    SEQUENCE = auto()
    KEY_ENDS = auto()
    KEY_VALID = auto()
    KEY = auto()
    VALUE_ENDS = auto()
    VALUE_VALID = auto()
    VALUE = auto()
    HEADER_ENDS = auto()
    HEADER_KEY_ENDS = auto()
    HEADER_KEY = auto()
    HEADER_VALUE_ENDS = auto()
    HEADER_VALUE_VALID = auto()
    HEADER_VALUE = auto()
    KEY_VIEWS = auto()
    VALUE_VIEWS = auto()
    VIEWED = auto()
    VIEWED_NUMBER = auto()


class Filled(Rows):
    """Counters of the filled parts of the buffers: rows, bytes of data, headers, and nulls. `VIEWED` counts the keys or
    values to which views point; those inside the view itself do not count.
    """

    ROWS = auto()
    KEY = auto()
    VALUE = auto()
    HEADERS = auto()
    HEADER_KEY = auto()
    HEADER_VALUE = auto()
    KEY_NULLS = auto()
    VALUE_NULLS = auto()
    HEADER_VALUE_NULLS = auto()
    TIMESTAMP_NULLS = auto()
    KEY_VIEWED = auto()
    VALUE_VIEWED = auto()


class MessageSet(Rows):
    """Rows of a table of message sets: the number of messages in an entry of magic 0 or 1 (-1 if it is left to Python),
    and the number to add to their offsets.
    """

    COUNT = auto()
    BASE_OFFSET = auto()


class Encoded(Rows):
    """Rows of a table of encoded batches: their rows, the place of their record bytes, and their largest timestamp."""

    FIRST_ROW = auto()
    ROWS = auto()
    START = auto()
    SIZE = auto()
    MAX_TIMESTAMP = auto()


class Recovered(Rows):
    """State that is passed from batch to batch while a segment is rebuilt (`LogSegment.recover`): valid bytes, position
    of the last index entry, largest timestamp and its offset; number of entries and last entry of both indexes; highest
    leader epoch, and the number of its changes.
    """

    VALID_BYTES = auto()
    LAST_INDEXED = auto()
    TIMESTAMP = auto()
    TIMESTAMP_OFFSET = auto()
    OFFSETS = auto()
    LAST_OFFSET = auto()
    TIMES = auto()
    LAST_TIMESTAMP = auto()
    LAST_TIMESTAMP_OFFSET = auto()
    EPOCH = auto()
    EPOCHS = auto()


class IndexEntry(Rows):
    """Rows of a table of index entries that recovery writes: those of the offset index, and those of the time index."""

    RELATIVE_OFFSET = auto()
    POSITION = auto()
    TIMESTAMP = auto()
    TIMESTAMP_RELATIVE_OFFSET = auto()


class Appended(Rows):
    """Rows of a table with the batches of one producer between two control batches. Apart from the id they are numbers
    of batches, -1 for none.
    """

    PRODUCER_ID = auto()
    FIRST = auto()
    LAST = auto()
    FIRST_TRANSACTIONAL = auto()
    FIRST_PLAIN = auto()
    PLAIN_BEHIND_TRANSACTIONAL = auto()


class KeyMap(Rows):
    """State of a map while keys are put into it: number of keys in it, most keys, whether it was too full for a batch,
    and the last offset of that batch that was put in (-1 for none).
    """

    USED = auto()
    LIMIT = auto()
    IS_FULL = auto()
    LAST_PUT = auto()


class RetainedBatch(Rows):
    """Rows of a table of batches whose records compaction chooses: address of the first record's flag, number of
    records kept, number of tombstones among them, and number of records dropped because they have no key.
    """

    FIRST_FLAG = auto()
    KEPT = auto()
    DELETES = auto()
    WITHOUT_KEY = auto()


class KeptBatch(Rows):
    """Rows of a table of batches whose remaining records were written: place, size and timestamps in ms."""

    START = auto()
    SIZE = auto()
    BASE_TIMESTAMP = auto()
    MAX_TIMESTAMP = auto()


class Decompressor(Rows):
    """Addresses of C functions (0 for none) and of memory for decompressing, with their limits."""

    LZ4_FUNCTION = auto()
    ZSTD_BEGIN = auto()
    ZSTD_NEXT_SIZE = auto()
    ZSTD_CONTINUE = auto()
    ZSTD_CONTEXT = auto()
    GZIP_FUNCTION = auto()
    GZIP_STATE = auto()
    ZSTD_WINDOW_BYTES = auto()
    MEMORY = auto()
    MEMORY_BYTES = auto()


class Viewed(Rows):
    """Memory that views may point into: the window of the batches, and the memory for decompressed records. For both:
    start address (0 for the window if there are no views), number of the data buffer, and number of batches that views
    point into. Memory with views is not used again.
    """

    WINDOW = auto()
    WINDOW_NUMBER = auto()
    OF_WINDOW = auto()
    MEMORY = auto()
    MEMORY_NUMBER = auto()
    OF_MEMORY = auto()


class Walk(Rows):
    """State of a scan over the headers of a file: position, end of the scan, end of the file, and number of bytes to
    scan in one call; the first offset of the batches just scanned, and the one after their last; the range of the file
    that is in memory; and whether batches are so small that whole blocks are read.
    """

    POSITION = auto()
    END = auto()
    FILE_END = auto()
    STEP = auto()
    EXPECTED = auto()
    FIRST_OFFSET = auto()
    NEXT_OFFSET = auto()
    HELD = auto()
    HELD_END = auto()
    IS_DENSE = auto()
    BASE = auto()
    """base offset of the segment; `NO_END` if unknown"""
    NEXT_BASE = auto()
    """base offset of the next segment"""
    IS_FOLLOWED = auto()
    """whether headers led to the end of the passed batches"""


class ContinuityState(Rows):
    """State of `sound_prefix` about the previous batches and the segment; `UNKNOWN` for an unknown value."""

    BASE_OFFSET = auto()
    NEXT_SEGMENT = auto()
    EXPECTED = auto()
    LAST_OFFSET = auto()
    LEADER_EPOCH = auto()


class RunFacts(Rows):
    """Facts about all batches of a run. Numbers of batches, and epochs, are -1 if there is none, except for `LAST_GAP`.
    Offsets are from the headers. The first batch of the run is not compared with a batch before it.
    """

    LEAST_LAST_OFFSET = auto()
    LARGEST_LAST_OFFSET = auto()
    LARGEST_EPOCH = auto()
    EPOCH_FALLS = auto()
    """batches with a lower leader epoch than the batch before them"""
    LEAST_TIMESTAMP = auto()
    LARGEST_TIMESTAMP = auto()
    """smallest and largest of the batches' largest timestamps"""
    DATA_RECORDS = auto()
    """records by the headers, without control batches; a negative number counts as 0"""
    MARKERS = auto()
    """control batches with a producer id"""
    OF_PRODUCERS = auto()
    """batches with a producer id"""
    GAPS = auto()
    """batches that do not begin at the offset after the batch before them"""
    LAST_GAP = auto()
    """number of the last such batch; 0 for none"""
    NOT_ABOVE = auto()
    """batches that do not begin above the last offset of the batch before them"""
    TURNED = auto()
    """batches whose last offset is below their first"""
    OLDER = auto()
    """entries of magic 0 and 1"""
    UNKNOWN_CODECS = auto()
    """batches with a compression that magic 2 does not have"""
    LAST_CLEANED = auto()
    """number of the last batch whose number of records is below its number of offsets, and not negative"""
    LAST_V2 = auto()
    """number of the last batch of magic 2"""


class OrderOfRun(Rows):
    """How the offsets of a run continue the offsets before it. A batch is in front if it ends at or above every offset
    before it, and a repeat if it begins at or below one of them. Numbers of batches are -1 for none.
    """

    REST = auto()
    """number after the last batch in front; 0 for none"""
    BEFORE_REST = auto()
    """highest offset before that number"""
    FIRST_REPEAT = auto()
    BEFORE_FIRST = auto()
    LAST_REPEAT = auto()
    BEFORE_LAST = auto()
    """first and last repeat before `REST`, each with the highest offset before it"""


class ListedProducer(Rows):
    """Rows of a table of the entries of a producer snapshot, in the order of the producer ids."""

    PRODUCER_ID = auto()
    LAST_OFFSET = auto()
    TRANSACTION_START = auto()
    """first offset of the open transaction; negative for none"""
    PRODUCER_EPOCH = auto()


UNKNOWN = -(2**63)
"""Value for an unknown offset."""


def names(rows: type[Rows]) -> tuple[str, ...]:
    """Return the names of an enumeration's members in lower case, in their order."""
    return tuple(row.name.lower() for row in rows)


_V0, _V1 = ([(field.name, field.format) for field in layout.fields] for layout in (MESSAGE_V0, MESSAGE_V1))
if names(HeaderColumn) != (*BATCH.names, "position"):
    raise DerivationError("the columns of batches are not the fields of the declared header")
if names(MessageColumn) != (*MESSAGE_V1.names, "position") or [*_V0, ("timestamp", "q")] != _V1:
    raise DerivationError("the columns of messages are not the fields of the declared headers")


def empty_table(rows: type[Rows], columns: int) -> Table:
    """Return a table of `rows` for `columns` batches or messages. Its contents are undefined."""
    import numpy as np

    return np.empty((len(rows), columns), np.int64)


def check_table(rows: type[Rows], table: Table) -> None:
    """Raise TypeError if an array is not a table of `rows`: compiled code accesses it without a check."""
    if table.ndim != 2 or table.shape[0] != len(rows) or table.dtype.char not in "lq":
        raise TypeError(f"a table of {rows.__name__} has {len(rows)} rows of int64, not {table.dtype}{table.shape}")
