"""Index files that are open for reading and appending (`AbstractIndex`, `OffsetIndex`, `TimeIndex`,
`TransactionIndex`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkalog.codec.files.index_files import ABORTED_TRANSACTION, OFFSET_ENTRY, TIME_ENTRY, each_slot
from kafkalog.codec.model import NO_TIMESTAMP, AbortedTransaction
from kafkalog.codec.rules.batches import MAX_RELATIVE_OFFSET
from kafkalog.log.storage.disk import Disk
from kafkalog.log.storage.java import (
    CorruptIndexError,
    FullIndexError,
    IllegalArgumentError,
    IllegalStateError,
    IndexOffsetOverflowError,
    InvalidOffsetError,
    KafkaError,
    int64,
)

__all__ = ["OffsetIndex", "OffsetPosition", "TimeIndex", "TimestampOffset", "TransactionIndex"]

_WARM_BYTES = 8192


class OffsetPosition(NamedTuple):
    """Entry of an offset index, with its absolute offset and a position in bytes."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """A timestamp in ms since 1970, and the offset to which it belongs."""

    timestamp: int
    offset: int


class _Index(ABC):
    """An open index file with entries of one size, each with an offset relative to the segment's base offset
    (`AbstractIndex`).
    """

    def __init__(self, disk: Disk, path: str, base_offset: int, max_size: int, entry_size: int) -> None:
        self.base_offset = base_offset
        self.max_size = max_size
        self._entry_size = entry_size
        self._slots = disk.slots(path, entry_size, max_size)
        self._last: Any = None
        """last entry; None until it is needed, because recovery resets most indexes before that"""

    @property
    def entries(self) -> int:
        """Number of used entries."""
        return self._slots.entries

    @property
    def max_entries(self) -> int:
        """Number of entries that the file has room for."""
        return self._slots.max_entries

    @property
    def used_bytes(self) -> int:
        """Size of the used entries in bytes."""
        return self.entries * self._entry_size

    def content(self) -> bytes:
        """Return the bytes of all entries."""
        return b"".join(map(self._slots.slot, range(self._slots.entries)))

    @abstractmethod
    def offset_at(self, slot: int) -> int:
        """Return the absolute offset of an entry."""

    def resize(self, size: int) -> bool:
        """Set the file's size in bytes, keeping the entries; return whether that changed the file."""
        return self._slots.resize(size)

    def trim(self) -> None:
        """Truncate the file to its entries."""
        self._slots.trim()

    def reset(self) -> None:
        """Drop all entries and give the file its full size."""
        self._truncate_to_entries(0)
        self.resize(self.max_size)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at and above an offset. The file keeps its size."""
        slot = self._lower_bound(offset)
        self._truncate_to_entries(0 if slot < 0 else slot if self.offset_at(slot) == offset else slot + 1)

    def _truncate_to_entries(self, entries: int) -> None:
        self._slots.keep(entries)
        self._last = None

    def store(self) -> None:
        """Write pending changes to the disk."""
        self._slots.store()

    def renamed(self, path: str) -> None:
        """Record the file's new path."""
        self._slots.renamed(path)

    def sync(self) -> None:
        """Flush the entries to disk."""
        self._slots.sync()

    def close(self) -> None:
        """Close the file."""
        self._slots.close()

    def _relative(self, offset: int) -> int:
        relative = int64(offset - self.base_offset)
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            raise IndexOffsetOverflowError(f"Integer overflow for offset: {offset}")
        return relative

    def _lower_bound(self, target: int) -> int:
        """Return the slot number of the entry with the greatest offset at or below `target`; -1 if there is none.
        Searches in the broker's order (last entries first), so that a damaged index gives the broker's result.
        """
        key = self.offset_at
        if self.entries == 0:
            return -1
        first_hot = max(0, self.entries - 1 - _WARM_BYTES // self._entry_size)
        if key(first_hot) < target:
            low, high = first_hot, self.entries - 1
        elif key(0) > target:
            return -1
        else:
            low, high = 0, first_hot
        while low < high:
            middle = (low + high + 1) // 2
            middle_offset = key(middle)
            if middle_offset == target:
                return middle
            if middle_offset > target:
                high = middle - 1
            else:
                low = middle
        return low


class OffsetIndex(_Index):
    """Offset index (`.index`): entries with the last offset and the position of a batch."""

    def __init__(self, disk: Disk, path: str, base_offset: int, max_size: int) -> None:
        super().__init__(disk, path, base_offset, max_size, OFFSET_ENTRY.size)

    @property
    def last_offset(self) -> int:
        """Offset of the last entry; the segment's base offset if there is none."""
        if self._last is None:
            self._last = self._entry(self.entries - 1).offset if self.entries else self.base_offset
        offset: int = self._last
        return offset

    def _entry(self, slot: int) -> OffsetPosition:
        relative, position = OFFSET_ENTRY.struct.unpack(self._slots.slot(slot))
        return OffsetPosition(int64(self.base_offset + relative), position)

    def offset_at(self, slot: int) -> int:
        """Return the absolute offset of an entry."""
        return self._entry(slot).offset

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another entry."""
        return self._slots.entries >= self._slots.max_entries

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the entry with the greatest offset at or below `offset`; the segment's base offset and position 0 if
        there is none.
        """
        slot = self._lower_bound(offset)
        return OffsetPosition(self.base_offset, 0) if slot < 0 else self._entry(slot)

    def append(self, offset: int, position: int) -> None:
        """Append an entry for an absolute offset and a byte position in the log. Raises `FullIndexError` if there is no
        room. Raises `InvalidOffsetError` if the offset is not above the last entry's. Raises `IndexOffsetOverflowError`
        if it is below the base offset or more than 2^31 - 1 above it. Raises `StorageError` if the file cannot be
        written.
        """
        if self.is_full:
            raise FullIndexError(f"Attempt to append to a full index (size = {self.entries}).")
        if self.entries and offset <= self.last_offset:
            raise InvalidOffsetError(f"Attempt to append an offset {offset} no larger than {self.last_offset}")
        self._slots.append(OFFSET_ENTRY.struct.pack(self._relative(offset), position))
        self._last = offset

    def extend(self, data: bytes, last_offset: int) -> None:
        """Append encoded entries, which must increase and fit (not checked); `last_offset` is the offset of the last
        entry.
        """
        if data:
            self._slots.append(data)
            self._last = last_offset


class TimeIndex(_Index):
    """Time index (`.timeindex`): entries with the largest timestamp so far, and the last offset of the batch that
    reached it.
    """

    def __init__(self, disk: Disk, path: str, base_offset: int, max_size: int) -> None:
        super().__init__(disk, path, base_offset, max_size, TIME_ENTRY.size)

    @property
    def last_entry(self) -> TimestampOffset:
        """Last entry of the index. Without entries it has timestamp -1 and the segment's base offset. It is read once
        and then kept. Raises `StorageError` if it cannot be read.
        """
        if self._last is None:
            nothing = TimestampOffset(NO_TIMESTAMP, self.base_offset)
            self._last = self._entry(self.entries - 1) if self.entries else nothing
        entry: TimestampOffset = self._last
        return entry

    def _entry(self, slot: int) -> TimestampOffset:
        timestamp, relative = TIME_ENTRY.struct.unpack(self._slots.slot(slot))
        return TimestampOffset(timestamp, int64(self.base_offset + relative))

    def offset_at(self, slot: int) -> int:
        """Return the absolute offset of an entry."""
        return self._entry(slot).offset

    @property
    def is_full(self) -> bool:
        """Whether at most the last slot is free, which is reserved for the entry at rolling."""
        return self._slots.entries >= self._slots.max_entries - 1

    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Append an entry if its timestamp (ms) is larger than the last one's (-1 without entries); otherwise append
        nothing. The last slot is reserved for rolling: raises `FullIndexError`, even if nothing would be appended, if
        no other slot is free. With `skip_full_check` the reserved slot may be used, and `FullIndexError` is raised only
        if an entry is due and no slot is free.

        Raises `InvalidOffsetError` for an offset below the last entry's. Raises `IllegalStateError` for a timestamp
        below the last entry's. Raises `IndexOffsetOverflowError` if the offset does not fit relative to the base
        offset. Raises `StorageError` if the file cannot be read or written.
        """
        if not skip_full_check and self.is_full:
            raise FullIndexError(f"Attempt to append to a full time index (size = {self.entries}).")
        if self.entries and offset < self.last_entry.offset:
            raise InvalidOffsetError(f"Attempt to append an offset ({offset}) below {self.last_entry.offset}")
        if self.entries and timestamp < self.last_entry.timestamp:
            raise IllegalStateError(f"Attempt to append a timestamp ({timestamp}) below {self.last_entry.timestamp}")
        if timestamp > self.last_entry.timestamp:
            if self.entries >= self.max_entries:
                raise FullIndexError("the time index has no room for its last entry")
            self._slots.append(TIME_ENTRY.struct.pack(timestamp, self._relative(offset)))
            self._last = TimestampOffset(timestamp, offset)

    def extend(self, data: bytes, last_entry: TimestampOffset) -> None:
        """Append encoded entries, which must increase and fit (not checked); `last_entry` is the last of them."""
        if data:
            self._slots.append(data)
            self._last = last_entry


class TransactionIndex:
    """Transaction index (`.txnindex`): aborted transactions in the order of their markers. The file is created with the
    first entry.
    """

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self._base_offset = base_offset
        self._last_offset: int | None = None
        self._file = disk.open_or_create_later(path)
        self._appended = bytearray()

    @property
    def torn_bytes(self) -> int:
        """Number of bytes after the last whole entry. A broker ignores them, and appends after them."""
        return self._file.source().size % ABORTED_TRANSACTION.size if self._file.exists else 0

    def _entries(self) -> Iterator[tuple[int, AbortedTransaction]]:
        """Write pending entries to the file, then yield (slot number from 0, entry) in file order. Yield nothing if
        there is no file. A hole of a sparse file reads as entries of zeros; only the first of them is yielded. Raises
        `KafkaError` if the high byte of an entry's version is 1 to 127. Raises `StorageError` if the file cannot be
        read or written.
        """
        self.store()
        if not self._file.exists:
            return
        for number, fields in each_slot(self._file.source(), ABORTED_TRANSACTION, pass_holes=True):
            entry = AbortedTransaction(*fields)
            first_byte = entry.version >> 8 & 0xFF
            if 0 < first_byte < 128:  # only the first byte of the version is examined
                raise KafkaError(f"Unexpected aborted transaction version {first_byte}")
            yield number, entry

    def sanity_check(self) -> None:
        """Raise for the first bad entry: `CorruptIndexError` if its last offset is below the segment's base offset,
        `KafkaError` if the high byte of its version is 1 to 127. Writes pending entries first. Raises `StorageError` if
        the file cannot be read or written.
        """
        for _number, entry in self._entries():
            if entry.last_offset < self._base_offset:
                raise CorruptIndexError(f"Last offset of aborted transaction {entry.last_offset} is below the segment")

    def collect(self, start: int, end: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the aborted transactions whose last offset is at or above `start` and whose first offset is below
        `end`, in index order. Return also whether the search is complete: True if an entry's last stable offset is at
        or above `end`, because indexes of later segments then have no such transactions.

        Pending entries are written first. Raises `KafkaError` if the version of an entry that is read has a high byte
        of 1 to 127; entries after the search's end are not read. Raises `StorageError` if the file cannot be read or
        written.
        """
        transactions = []
        for _number, entry in self._entries():
            if entry.last_offset >= start and entry.first_offset < end:
                transactions.append(entry)
            if entry.last_stable_offset >= end:
                return transactions, True
        return transactions, False

    def append(self, entry: AbortedTransaction) -> None:
        """Append an entry in memory; `store` writes it to the end of the file. Raises `IllegalArgumentError` if its
        last offset is not above the last offset of the previous entry. Entries that the file had before this object are
        not compared, except after `truncate_to` has dropped some.
        """
        if self._last_offset is not None and self._last_offset >= entry.last_offset:
            raise IllegalArgumentError("The last offset of appended transactions must increase sequentially")
        self._last_offset = entry.last_offset
        self._appended += ABORTED_TRANSACTION.struct.pack(
            entry.version, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset
        )

    def store(self) -> None:
        """Write pending entries to the disk."""
        if self._appended:
            self._file.append(bytes(self._appended))
            self._appended.clear()

    def reset(self) -> None:
        """Drop all entries: truncate the file to 0 bytes, if it exists, and forget pending entries."""
        self._appended.clear()
        if self._file.exists:
            self._file.truncate(0)
        self._last_offset = None

    def truncate_to(self, offset: int) -> None:
        """Drop the first entry whose last offset is at or above `offset`, and all entries after it. Writes pending
        entries first. Does nothing if the file does not exist. Raises `KafkaError` if the version of an entry that is
        read has a high byte of 1 to 127; entries after the first dropped one are not read. Raises `StorageError` if the
        file cannot be read or written.
        """
        last: int | None = None
        for number, entry in self._entries():
            if entry.last_offset >= offset:
                self._file.truncate(number * ABORTED_TRANSACTION.size)
                self._last_offset = last
                return
            last = entry.last_offset

    def renamed(self, path: str) -> None:
        """Record the file's new path."""
        self._file.renamed(path)

    def sync(self) -> None:
        """Write and flush the entries."""
        self.store()
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
