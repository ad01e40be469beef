"""Whether index entries describe the log beside them: meaning, not bytes.

Indexes that a broker wrote while it ran differ between versions and appenders; what all of them promise is checked
here, in step with a walk over the batches (`OffsetIndex`, `TimeIndex`).
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.index_files import OFFSET_ENTRY, TIME_ENTRY
from kafkalog.codec.model import RecordBatch

__all__ = ["OffsetIndexCheck", "TimeIndexCheck"]


class _EntryCheck:
    """Entries of one index, taken in order as the walk passes them."""

    def __init__(self, file: str, base_offset: int, data: bytes, entry_size: int) -> None:
        self.file = file
        self._base = base_offset
        self.findings: list[Finding] = []
        self._mismatches = 0
        if len(data) % entry_size:
            self._found(FindingCode.INDEX_SIZE_INVALID, len(data), f"{len(data)} bytes, not a multiple of {entry_size}")
        self._data = memoryview(data)[: len(data) - len(data) % entry_size]
        self._size = entry_size
        self._slot = 0

    def _found(
        self,
        code: FindingCode,
        position: int,
        detail: str,
        offset: int | None = None,
        severity: Severity = Severity.WARNING,
    ) -> None:
        self.findings.append(Finding(code, severity, position, offset, detail, self.file))

    def _end_of_entries(self, slot: int) -> None:
        """Entry `slot` does not increase: zeros of a preallocated file, or nonsense."""
        rest = self._data[slot * self._size :]
        if rest.nbytes and bytes(rest).count(0) == rest.nbytes:
            detail = f"{rest.nbytes} zero bytes behind {slot} entries: the broker did not close it"
            self._found(FindingCode.INDEX_PREALLOCATED, slot * self._size, detail, severity=Severity.INFO)
        else:
            self._found(FindingCode.INDEX_NOT_INCREASING, slot * self._size, f"entry {slot} does not increase")

    def _mismatch(self, slot: int, offset: int, detail: str) -> None:
        self._mismatches += 1
        if self._mismatches == 1:
            self._found(FindingCode.INDEX_ENTRY_MISMATCH, slot * self._size, detail, offset)


class OffsetIndexCheck(_EntryCheck):
    """Every entry's position is the start of a batch, and all offsets before it are smaller than its key."""

    def __init__(self, file: str, base_offset: int, data: bytes) -> None:
        super().__init__(file, base_offset, data, OFFSET_ENTRY.size)
        self._entries = self._increasing()
        self._next = next(self._entries, None)

    def _increasing(self) -> Iterator[tuple[int, int, int]]:
        last = (-1, 0)
        for slot, (relative, position) in enumerate(OFFSET_ENTRY.struct.iter_unpack(self._data)):
            if relative <= last[0] or position <= last[1]:
                self._end_of_entries(slot)
                return
            last = (relative, position)
            yield slot, self._base + relative, position

    def batch(self, batch: RecordBatch, last_offset_before: int) -> None:
        """The walk has come to a batch."""
        while self._next is not None and self._next[2] <= batch.position:
            slot, key, position = self._next
            if position < batch.position:
                self._mismatch(slot, key, f"offset {key} at position {position}, where no batch begins")
            elif key <= last_offset_before:
                self._mismatch(slot, key, f"offset {key} at position {position}, but {last_offset_before} is before it")
            self._next = next(self._entries, None)

    def end(self, last_offset: int) -> None:
        """The walk has come to the end of the valid batches."""
        if self._next is not None:
            slot, key, position = self._next
            self._mismatch(slot, key, f"offset {key} at position {position}, behind the last batch ({last_offset})")
        for _ in self._entries:
            pass


class TimeIndexCheck(_EntryCheck):
    """No batch at or before an entry's offset has a larger timestamp than the entry."""

    def __init__(self, file: str, base_offset: int, data: bytes) -> None:
        super().__init__(file, base_offset, data, TIME_ENTRY.size)
        self._entries = self._increasing()
        self._next = next(self._entries, None)

    def _increasing(self) -> Iterator[tuple[int, int, int]]:
        last = (-(2**63), 0)
        for slot, (timestamp, relative) in enumerate(TIME_ENTRY.struct.iter_unpack(self._data)):
            if timestamp <= last[0] or relative < last[1] or (timestamp == 0 and relative == 0):
                self._end_of_entries(slot)
                return
            last = (timestamp, relative)
            yield slot, timestamp, self._base + relative

    def batch(self, batch: RecordBatch, last_offset_before: int) -> None:
        """The walk has come to a batch."""
        while self._next is not None and self._next[2] <= last_offset_before:
            self._next = next(self._entries, None)
        if self._next is not None and batch.last_offset <= self._next[2]:
            slot, timestamp, offset = self._next
            if batch.header.max_timestamp > timestamp:
                detail = f"timestamp {timestamp} up to offset {offset}, but offset {batch.last_offset} is later"
                self._mismatch(slot, offset, detail)

    def end(self, last_offset: int) -> None:
        """The walk has come to the end of the valid batches."""
        for slot, timestamp, offset in [*([self._next] if self._next is not None else []), *self._entries]:
            if offset > last_offset:
                self._mismatch(
                    slot, offset, f"timestamp {timestamp} for offset {offset}, behind the last ({last_offset})"
                )
                return
