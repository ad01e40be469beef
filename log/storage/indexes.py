"""Index files as the broker holds them open (`AbstractIndex`, `OffsetIndex`, `TimeIndex`, `TransactionIndex`).

An existing index is taken to be full of entries; only recovery resets it.  Old bytes stay under a reset until the file
is trimmed, so the file is modeled as what was written over what was there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkalog.codec.index_files import ABORTED_TRANSACTION, OFFSET_ENTRY, TIME_ENTRY, each_slot
from kafkalog.codec.model import NO_TIMESTAMP, AbortedTransaction
from kafkalog.codec.rules import MAX_RELATIVE_OFFSET
from kafkalog.log.storage.java import (
    CorruptIndexError,
    IllegalArgumentError,
    IllegalStateError,
    IndexOffsetOverflowError,
    InvalidOffsetError,
    JavaIOError,
    KafkaError,
    int64,
)
from kafkalog.log.storage.tree import Literal, Tree, Zeros, join

__all__ = ["OffsetIndex", "OffsetPosition", "TimeIndex", "TimestampOffset", "TransactionIndex"]

_WARM_BYTES = 8192


class OffsetPosition(NamedTuple):
    """An entry of an offset index with its absolute offset."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """A timestamp in ms and the offset it belongs to."""

    timestamp: int
    offset: int


class _SlotFile:
    """A memory-mapped file of fixed-size slots: `entries` are in use, the rest is what was there, or zeros."""

    def __init__(self, tree: Tree, path: str, base_offset: int, max_size: int, entry_size: int) -> None:
        if path in tree.directories:
            raise JavaIOError(f"{path} (Is a directory)")
        self._tree = tree
        self.path = path
        self.base_offset = base_offset
        self.max_size = max_size
        self._entry_size = entry_size
        self._written = bytearray()
        self._dirty = False
        if path not in tree.files:
            if max_size < entry_size:
                raise IllegalArgumentError(f"Invalid max index size: {max_size}")
            self.length = max_size // entry_size * entry_size
            tree.files[path] = join([Zeros(self.length)])
            self.entries = 0
        else:
            self.length = tree.files[path].size
            self.entries = self.length // entry_size
        self._source = tree.source(path)

    @property
    def max_entries(self) -> int:
        """Slots that the file has room for."""
        return self.length // self._entry_size

    def _slot(self, number: int) -> bytes:
        start = number * self._entry_size
        end = start + self._entry_size
        if end > self.length:
            raise IllegalArgumentError("an index entry lies behind the end of its file")
        if end <= len(self._written):
            return bytes(self._written[start:end])
        return bytes(self._source.read(start, self._entry_size)).ljust(self._entry_size, b"\0")

    def _append(self, data: bytes) -> None:
        """Add whole entries."""
        position = self.entries * self._entry_size
        if len(self._written) < position:  # entries that were kept, now under written ones
            kept = bytes(self._source.read(len(self._written), position - len(self._written)))
            self._written += kept.ljust(position - len(self._written), b"\0")
        self._written[position:] = data
        self.entries += len(data) // self._entry_size
        self._dirty = True

    def store(self) -> None:
        """Bring the tree up to date: what was written, what was there, zeros."""
        if not self._dirty:
            return
        self._dirty = False
        written = bytes(self._written[: self.length])
        rest = self._tree.files[self.path].slice(len(written), max(self.length, len(written)))
        self._tree.files[self.path] = join([Literal(written), *rest.parts])
        self._source = self._tree.source(self.path)

    def resize(self, size: int) -> bool:
        """Set the file's length; entries stay where they are."""
        size = size // self._entry_size * self._entry_size
        if size == self.length:
            self.store()
            return False
        if self.entries * self._entry_size > size:
            raise IllegalArgumentError(f"newPosition > limit: ({self.entries * self._entry_size} > {size})")
        del self._written[size:]
        self.length = size
        self._tree.files[self.path] = self._tree.files[self.path].slice(0, size)
        self._dirty = True
        self.store()
        return True

    def trim(self) -> None:
        """Cut the file behind its entries."""
        self.resize(self.entries * self._entry_size)

    def renamed(self, path: str) -> None:
        """The file stands under another name now."""
        self.store()
        self.path = path
        self._source = self._tree.source(path)

    def _relative(self, offset: int) -> int:
        relative = int64(offset - self.base_offset)
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            raise IndexOffsetOverflowError(f"Integer overflow for offset: {offset}")
        return relative

    def _lower_bound(self, key: Callable[[int], int], target: int) -> int:
        """The slot of the greatest key at or below the target, or -1: the broker's own search order."""
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
            found = key(middle)
            if found == target:
                return middle
            if found > target:
                high = middle - 1
            else:
                low = middle
        return low


class OffsetIndex(_SlotFile):
    """`.index`."""

    def __init__(self, tree: Tree, path: str, base_offset: int, max_size: int) -> None:
        super().__init__(tree, path, base_offset, max_size, OFFSET_ENTRY.size)
        self.last_offset = self._last_entry().offset

    def _entry(self, slot: int) -> OffsetPosition:
        relative, position = OFFSET_ENTRY.struct.unpack(self._slot(slot))
        return OffsetPosition(int64(self.base_offset + relative), position)

    def _last_entry(self) -> OffsetPosition:
        return self._entry(self.entries - 1) if self.entries else OffsetPosition(self.base_offset, 0)

    def lookup(self, offset: int) -> OffsetPosition:
        """Greatest entry at or below an offset; the segment's start if none."""
        slot = self._lower_bound(lambda number: self._entry(number).offset, offset)
        return OffsetPosition(self.base_offset, 0) if slot < 0 else self._entry(slot)

    def append(self, offset: int, position: int) -> None:
        """Add an entry; offsets must increase."""
        if self.entries >= self.max_entries:
            raise IllegalArgumentError(f"Attempt to append to a full index (size = {self.entries}).")
        if self.entries and offset <= self.last_offset:
            raise InvalidOffsetError(f"Attempt to append an offset {offset} no larger than {self.last_offset}")
        self._append(OFFSET_ENTRY.struct.pack(self._relative(offset), position))
        self.last_offset = offset

    def extend(self, data: bytes, last_offset: int) -> None:
        """Add entries that increase and fit, the last one of an offset."""
        if data:
            self._append(data)
            self.last_offset = last_offset

    def reset(self) -> None:
        """No entries, full size."""
        self._truncate_to_entries(0)
        self.resize(self.max_size)

    def truncate_to(self, offset: int) -> None:
        """Drop entries at and above an offset."""
        slot = self._lower_bound(lambda number: self._entry(number).offset, offset)
        self._truncate_to_entries(0 if slot < 0 else slot if self._entry(slot).offset == offset else slot + 1)

    def _truncate_to_entries(self, entries: int) -> None:
        self.entries = entries
        self.last_offset = self._last_entry().offset


class TimeIndex(_SlotFile):
    """`.timeindex`."""

    def __init__(self, tree: Tree, path: str, base_offset: int, max_size: int) -> None:
        super().__init__(tree, path, base_offset, max_size, TIME_ENTRY.size)
        self.last_entry = self._last_entry()

    def _entry(self, slot: int) -> TimestampOffset:
        timestamp, relative = TIME_ENTRY.struct.unpack(self._slot(slot))
        return TimestampOffset(timestamp, int64(self.base_offset + relative))

    def _last_entry(self) -> TimestampOffset:
        return self._entry(self.entries - 1) if self.entries else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Add an entry if the timestamp is larger than the last one's; one slot is kept in reserve."""
        if not skip_full_check and self.entries >= self.max_entries - 1:
            raise IllegalArgumentError(f"Attempt to append to a full time index (size = {self.entries}).")
        if self.entries and offset < self.last_entry.offset:
            raise InvalidOffsetError(f"Attempt to append an offset ({offset}) below {self.last_entry.offset}")
        if self.entries and timestamp < self.last_entry.timestamp:
            raise IllegalStateError(f"Attempt to append a timestamp ({timestamp}) below {self.last_entry.timestamp}")
        if timestamp > self.last_entry.timestamp:
            if self.entries >= self.max_entries:
                raise IllegalArgumentError("the time index has no room for its last entry")
            self._append(TIME_ENTRY.struct.pack(timestamp, self._relative(offset)))
            self.last_entry = TimestampOffset(timestamp, offset)

    def extend(self, data: bytes, last_entry: TimestampOffset) -> None:
        """Add entries that increase and fit."""
        if data:
            self._append(data)
            self.last_entry = last_entry

    def resize(self, size: int) -> bool:
        """Set the file's length."""
        changed = super().resize(size)
        if changed:
            self.last_entry = self._last_entry()
        return changed

    def reset(self) -> None:
        """No entries, full size."""
        self._truncate_to_entries(0)
        self.resize(self.max_size)

    def truncate_to(self, offset: int) -> None:
        """Drop entries at and above an offset."""
        slot = self._lower_bound(lambda number: self._entry(number).offset, offset)
        self._truncate_to_entries(0 if slot < 0 else slot if self._entry(slot).offset == offset else slot + 1)

    def _truncate_to_entries(self, entries: int) -> None:
        self.entries = entries
        self.last_entry = self._last_entry()


class TransactionIndex:
    """`.txnindex`; created when the first aborted transaction is appended."""

    def __init__(self, tree: Tree, path: str, base_offset: int) -> None:
        if path in tree.directories:
            raise JavaIOError(f"{path} (Is a directory)")
        self._tree = tree
        self.path = path
        self._base_offset = base_offset
        self._last_offset: int | None = None
        self._open = path in tree.files
        self._appended = bytearray()

    def _entries(self) -> Iterator[tuple[int, AbortedTransaction]]:
        """Number and content of each; of the equal ones that a hole in the file is, the first only."""
        if not self._open:
            return
        self.store()
        for number, fields in each_slot(self._tree.source(self.path), ABORTED_TRANSACTION, pass_holes=True):
            entry = AbortedTransaction(*fields)
            first_byte = entry.version >> 8 & 0xFF
            if 0 < first_byte < 128:  # only the first byte of the version is looked at
                raise KafkaError(f"Unexpected aborted transaction version {first_byte}")
            yield number, entry

    def sanity_check(self) -> None:
        """An entry that ends before the segment begins makes the index corrupt."""
        for _number, entry in self._entries():
            if entry.last_offset < self._base_offset:
                raise CorruptIndexError(f"Last offset of aborted transaction {entry.last_offset} is below the segment")

    def append(self, entry: AbortedTransaction) -> None:
        """Add an entry behind whatever the file holds."""
        if self._last_offset is not None and self._last_offset >= entry.last_offset:
            raise IllegalArgumentError("The last offset of appended transactions must increase sequentially")
        self._last_offset = entry.last_offset
        self._appended += ABORTED_TRANSACTION.struct.pack(
            entry.version, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset
        )

    def store(self) -> None:
        """Bring the tree up to date."""
        if self._appended:
            old = self._tree.files[self.path].parts if self._open else ()
            self._tree.files[self.path] = join([*old, Literal(bytes(self._appended))])
            self._appended.clear()
            self._open = True

    def reset(self) -> None:
        """Empty the file if it is there."""
        self._appended.clear()
        if self._open:
            self._tree.write(self.path, b"")
        self._last_offset = None

    def truncate_to(self, offset: int) -> None:
        """Drop entries from the first whose marker is at or above an offset."""
        last: int | None = None
        for number, entry in self._entries():
            if entry.last_offset >= offset:
                self._tree.files[self.path] = self._tree.files[self.path].slice(0, number * ABORTED_TRANSACTION.size)
                self._last_offset = last
                return
            last = entry.last_offset
