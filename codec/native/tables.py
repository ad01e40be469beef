"""Names for the rows of the tables, and for the numbers of the structs, that compiled code reads and fills.

A table has a column for each batch (or message) and a row for each member of its enumeration.  A struct of C is an
array with an element for each member.  `layout` writes both into `layout.h`.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import TYPE_CHECKING, TypeAlias

from kafkalog.codec.derive import DerivationError
from kafkalog.codec.model import BATCH, MESSAGE_V0, MESSAGE_V1

__all__ = [
    "EMPTY", "LARGEST_RECORD_OVERHEAD", "MEMORY_IS_FULL", "ROW_BYTES", "UNDECODED", "Appended", "ArrowBuffer",
    "Decompressor", "Encoded", "Filled", "HeaderColumn", "IndexEntry", "KeptBatch", "KeyMap", "MessageColumn",
    "MessageSet", "Recovered", "RetainedBatch", "Rows", "Table", "Viewed", "Walk", "check_table", "empty_table",
    "names",
]  # fmt: skip

EMPTY, UNDECODED = -2, -1
"""What `same_codec` says of batches without a record, and of those that compiled code leaves to others."""
MEMORY_IS_FULL = -1
"""What `decode_window` gives in place of bytes if there is no memory to decompress to, or what is viewed lacks room."""

LARGEST_RECORD_OVERHEAD = 5 + 1 + 10 + 5 + 5 + 5 + 5
"""Bytes of a record besides key, value and headers; a header has two more lengths of at most 5."""

ROW_BYTES = 40
"""What compaction notes of each record of a batch."""

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Table: TypeAlias = "npt.NDArray[np.int64]"


class Rows(IntEnum):
    """An enumeration whose members count from 0, as rows of a table do."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[int]) -> int:
        return count


class HeaderColumn(Rows):
    """Columns of a table of batches: the declared fields of a v2 header in their order, and where the batch begins."""

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
    """Columns of a table of v0 and v1 entries.

    The declared fields of magic 1 in their order, and where the entry begins.
    """

    OFFSET = auto()
    SIZE = auto()
    CRC = auto()
    MAGIC = auto()
    ATTRIBUTES = auto()
    TIMESTAMP = auto()
    POSITION = auto()


class ArrowBuffer(Rows):
    """What records are decoded into: the addresses of Arrow's buffers, 0 for one that is not wanted.

    `ENDS` is where each field ends in its data (int32, beginning with that of the row before), `VALID` a byte for each
    row that tells null from the rest.  Fields of bytes need all three, or `VALID` and `VIEWS`: 16 bytes for each row,
    its size and the field itself, or where that is in the data buffer `VIEWED_NUMBER`, whose address is `VIEWED`.
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
    """How much of the buffers is filled: rows, bytes of each data, headers, and how many of each are null.

    `VIEWED` is how many keys or values views point to: those that are in the view itself are not.
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
    """Columns for the messages that an entry of magic 0 or 1 holds.

    How many, -1 where that is left to others, and what is to be added to their offsets.
    """

    COUNT = auto()
    BASE_OFFSET = auto()


class Encoded(Rows):
    """Columns for the batches that are written.

    Their rows, where their record bytes are, and their largest timestamp.
    """

    FIRST_ROW = auto()
    ROWS = auto()
    START = auto()
    SIZE = auto()
    MAX_TIMESTAMP = auto()


class Recovered(Rows):
    """What recovery of a segment carries from batch to batch (`LogSegment.recover`).

    Bytes that are valid, position of the last index entry, the largest timestamp and its offset; of both indexes the
    number of entries and the last one; the highest leader epoch, and how many changes of it were noted.
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
    """Columns for the index entries that recovery writes: those of the offset index, and those of the time index."""

    RELATIVE_OFFSET = auto()
    POSITION = auto()
    TIMESTAMP = auto()
    TIMESTAMP_RELATIVE_OFFSET = auto()


class Appended(Rows):
    """Columns for the batches of one producer between two control batches.

    But for the id numbers of batches, -1 for none.
    """

    PRODUCER_ID = auto()
    FIRST = auto()
    LAST = auto()
    FIRST_TRANSACTIONAL = auto()
    FIRST_PLAIN = auto()
    PLAIN_BEHIND_TRANSACTIONAL = auto()


class KeyMap(Rows):
    """What putting keys into a map needs to know of it, and says: its keys, how many it takes.

    And if that ended a batch whose keys there was no room for: whether it did, and the last offset that was put in of
    that batch, -1 for none.
    """

    USED = auto()
    LIMIT = auto()
    IS_FULL = auto()
    LAST_PUT = auto()


class RetainedBatch(Rows):
    """Columns for the batches whose records compaction chooses from.

    The address of the flag of the first record, how many records stay, how many of them are tombstones, and how many
    go because they have no key.
    """

    FIRST_FLAG = auto()
    KEPT = auto()
    DELETES = auto()
    WITHOUT_KEY = auto()


class KeptBatch(Rows):
    """Columns for the batches whose remaining records are written: where these are, and their timestamps, ms."""

    START = auto()
    SIZE = auto()
    BASE_TIMESTAMP = auto()
    MAX_TIMESTAMP = auto()


class Decompressor(Rows):
    """What decompressing needs: addresses of C functions (0 for none) and of memory, and what limits them."""

    LZ4_FUNCTION = auto()
    ZSTD_FUNCTION = auto()
    ZSTD_CONTEXT = auto()
    GZIP_FUNCTION = auto()
    GZIP_STATE = auto()
    ZSTD_WINDOW_BYTES = auto()
    MEMORY = auto()
    MEMORY_BYTES = auto()


class Viewed(Rows):
    """Where views may point to: the window that batches are in, and the memory that they are decompressed to.

    Of both the address where they begin (that of the window is 0 where there are no views), which data buffers of the
    columns they are, and how many batches were taken from there.  Memory that is viewed is not used again.
    """

    WINDOW = auto()
    WINDOW_NUMBER = auto()
    OF_WINDOW = auto()
    MEMORY = auto()
    MEMORY_NUMBER = auto()
    OF_MEMORY = auto()


class Walk(Rows):
    """Where a walk over the headers of a file is: its place, where it must end, and how far it goes at a time.

    Of the batches passed at a time the offset of the first, and the one after the last; what is held of the file from
    where to where; and whether batches are so small that blocks are read.
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
    NEXT_BASE = auto()
    """base offset of the segment after it"""
    IS_FOLLOWED = auto()
    """whether headers led to the end of the batches passed"""


def names(rows: type[Rows]) -> tuple[str, ...]:
    """The members of an enumeration as fields are named."""
    return tuple(row.name.lower() for row in rows)


_V0, _V1 = ([(field.name, field.format) for field in layout.fields] for layout in (MESSAGE_V0, MESSAGE_V1))
if names(HeaderColumn) != (*BATCH.names, "position"):
    raise DerivationError("the columns of batches are not the fields of the declared header")
if names(MessageColumn) != (*MESSAGE_V1.names, "position") or [*_V0, ("timestamp", "q")] != _V1:
    raise DerivationError("the columns of messages are not the fields of the declared headers")


def empty_table(rows: type[Rows], columns: int) -> Table:
    """A table of `rows` with room for `columns` batches or messages; its contents are undefined."""
    import numpy as np

    return np.empty((len(rows), columns), np.int64)


def check_table(rows: type[Rows], table: Table) -> None:
    """Raise TypeError if an array is not a table of `rows`: compiled code reads and writes it without a check."""
    import numpy as np

    if table.ndim != 2 or table.shape[0] != len(rows) or table.dtype != np.int64:
        raise TypeError(f"a table of {rows.__name__} has {len(rows)} rows of int64, not {table.dtype}{table.shape}")
