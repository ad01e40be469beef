"""Index files that are written while their segment is (`OffsetIndex`, `TimeIndex`, `TransactionIndex`).

Entries are held in memory and in the file; the file is as long as its entries at every moment, where a broker keeps it
at full size with zeros behind them until the segment is closed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.errors import FormatError
from kafkalog.codec.index_files import (
    ABORTED_TRANSACTION,
    OFFSET_ENTRY,
    TIME_ENTRY,
    OffsetEntry,
    TimeEntry,
    decode_offset_index,
    decode_time_index,
    decode_transaction_index,
    encode_transaction_index,
)
from kafkalog.codec.model import NO_TIMESTAMP, AbortedTransaction
from kafkalog.log.fs import AppendFile

__all__ = ["OffsetIndexWriter", "TimeIndexWriter", "TransactionIndexWriter"]

Entry = TypeVar("Entry", OffsetEntry, TimeEntry)


class _EntryWriter(Generic[Entry]):
    """Entries of one size, each with an offset relative to the segment's."""

    def __init__(
        self, path: str, base_offset: int, slots: int, layout: FixedLayout, decode: Callable[[bytes], list[Entry]],
        *, create: bool,
    ) -> None:  # fmt: skip
        self._base_offset = base_offset
        self._slots = slots
        self._layout = layout
        self._file = AppendFile(path, create=create)
        self.entries: list[Entry] = decode(self._file.read(0, self._file.size))

    def _add(self, entry: Entry) -> None:
        self._file.append(self._layout.struct.pack(*entry))
        self.entries.append(entry)

    def reset(self) -> None:
        """No entries."""
        self.entries.clear()
        self._file.truncate(0)

    def truncate_to(self, offset: int) -> None:
        """Keep the entries below an offset."""
        relative = offset - self._base_offset
        self.entries = [entry for entry in self.entries if entry.relative_offset < relative]
        self._file.truncate(len(self.entries) * self._layout.size)

    def sync(self) -> None:
        """Make the entries durable."""
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class OffsetIndexWriter(_EntryWriter[OffsetEntry]):
    """`.index`: last offset of a batch, and where the batch begins."""

    def __init__(self, path: str, base_offset: int, slots: int, *, create: bool) -> None:
        super().__init__(path, base_offset, slots, OFFSET_ENTRY, decode_offset_index, create=create)

    @property
    def is_full(self) -> bool:
        """There is no room for another entry."""
        return len(self.entries) >= self._slots

    def append(self, last_offset: int, position: int) -> None:
        """Add an entry."""
        self._add(OffsetEntry(last_offset - self._base_offset, position))

    def position_of(self, offset: int) -> int:
        """A position at or before the batch that holds an offset."""
        relative = offset - self._base_offset
        return max((entry.position for entry in self.entries if entry.relative_offset <= relative), default=0)


class TimeIndexWriter(_EntryWriter[TimeEntry]):
    """`.timeindex`: the largest timestamp so far, and the last offset of the batch that reached it."""

    def __init__(self, path: str, base_offset: int, slots: int, *, create: bool) -> None:
        super().__init__(path, base_offset, slots, TIME_ENTRY, decode_time_index, create=create)

    @property
    def is_full(self) -> bool:
        """There is room for the last entry only."""
        return len(self.entries) >= self._slots - 1

    @property
    def last(self) -> tuple[int, int]:
        """Timestamp and offset of the last entry."""
        if not self.entries:
            return NO_TIMESTAMP, self._base_offset
        return self.entries[-1].timestamp, self._base_offset + self.entries[-1].relative_offset

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry, if the timestamp is larger than the last one's."""
        if timestamp > self.last[0]:
            self._add(TimeEntry(timestamp, offset - self._base_offset))


class TransactionIndexWriter:
    """`.txnindex`: aborted transactions, by their markers; there is a file once there is an entry."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: AppendFile | None = None
        self.entries: list[AbortedTransaction] = []
        if os.path.lexists(path):
            self._file = AppendFile(path, create=False)
            data = self._file.read(0, self._file.size)
            if len(data) % ABORTED_TRANSACTION.size:
                raise FormatError("a transaction index with a torn entry", source=path, code="index_invalid")
            self.entries = decode_transaction_index(data)

    def append(self, entry: AbortedTransaction) -> None:
        """Add an entry."""
        if self._file is None:
            self._file = AppendFile(self._path, create=True)
        self._file.append(encode_transaction_index([entry]))
        self.entries.append(entry)

    def reset(self) -> None:
        """No entries; a file that is there stays, empty."""
        self.entries.clear()
        if self._file is not None:
            self._file.truncate(0)

    def truncate_to(self, offset: int) -> None:
        """Keep the entries whose marker is below an offset."""
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        if len(kept) < len(self.entries) and self._file is not None:
            self._file.truncate(len(kept) * ABORTED_TRANSACTION.size)
            self.entries = kept

    def sync(self) -> None:
        """Make the entries durable."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
