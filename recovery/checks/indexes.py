"""Whether index entries describe the log beside them: meaning, not bytes.

Indexes that a broker wrote while it ran differ between versions and appenders; what all of them promise is checked
here, in step with a walk over the batches (`OffsetIndex`, `TimeIndex`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.index_files import OFFSET_ENTRY, TIME_ENTRY, each_slot
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.source import Source, zeros_end

if TYPE_CHECKING:
    from kafkalog.codec.headers.table import HeaderRun

__all__ = ["OffsetIndexCheck", "TimeIndexCheck"]


class _EntryCheck:
    """Entries of one index, read in order as the walk passes them; `index` stays open as long."""

    def __init__(self, file: str, base_offset: int, index: Source, layout: FixedLayout) -> None:
        self.file = file
        self._base = base_offset
        self._of_entries: list[Finding] = []
        self._of_end: list[Finding] = []
        self._mismatches = 0
        size = index.size
        if size % layout.size:
            detail = f"{size} bytes, not a multiple of {layout.size}"
            self._of_entries.append(self._finding(FindingCode.INDEX_SIZE_INVALID, size, detail))
        self._index = index
        self._layout = layout
        self._size = layout.size
        self._end = size - size % layout.size

    @property
    def findings(self) -> list[Finding]:
        """What was found so far; entries first, then how they end."""
        return self._of_entries + self._of_end

    def _finding(
        self,
        code: FindingCode,
        position: int,
        detail: str,
        offset: int | None = None,
        severity: Severity = Severity.WARNING,
    ) -> Finding:
        return Finding(code, severity, position, offset, detail, self.file)

    def _slots(self) -> Iterator[tuple[int, tuple[Any, ...]]]:
        return each_slot(self._index, self._layout, end=self._end)

    def _end_of_entries(self, slot: int) -> None:
        """Entry `slot` does not increase: zeros of a preallocated file, or nonsense."""
        start = slot * self._size
        if start < self._end and zeros_end(self._index, start, self._end) == self._end:
            detail = f"{self._end - start} zero bytes after {slot} entries: the broker did not close it"
            found = self._finding(FindingCode.INDEX_PREALLOCATED, slot * self._size, detail, severity=Severity.INFO)
        else:
            detail = f"entry {slot} does not increase"
            found = self._finding(FindingCode.INDEX_NOT_INCREASING, slot * self._size, detail)
        self._of_end.append(found)

    def _mismatch(self, slot: int, offset: int, detail: str) -> None:
        self._mismatches += 1
        if self._mismatches == 1:
            found = self._finding(FindingCode.INDEX_ENTRY_MISMATCH, slot * self._size, detail, offset)
            self._of_entries.append(found)


class OffsetIndexCheck(_EntryCheck):
    """Every entry's position is the start of a batch, and all offsets before it are smaller than its key."""

    def __init__(self, file: str, base_offset: int, index: Source) -> None:
        super().__init__(file, base_offset, index, OFFSET_ENTRY)
        self._entries = self._increasing()
        self._next = next(self._entries, None)

    def _increasing(self) -> Iterator[tuple[int, int, int]]:
        last = (-1, 0)
        for slot, (relative, position) in self._slots():
            if relative <= last[0] or position <= last[1]:
                self._end_of_entries(slot)
                return
            last = (relative, position)
            yield slot, self._base + relative, position

    def batch(self, batch: RecordBatch, last_offset_before: int) -> None:
        """The walk has come to a batch."""
        while self._next is not None and self._next[2] <= batch.position:
            if self._next[2] < batch.position:
                self._no_batch(*self._next)
            elif self._next[1] <= last_offset_before:
                self._wrong_key(*self._next, last_offset_before)
            self._next = next(self._entries, None)

    def run(self, run: HeaderRun, last_offset_before: int) -> None:
        """The walk has come to many batches, their offsets increasing."""
        from kafkalog.codec.headers.index_agreement import first_wrong_position

        entries: list[tuple[int, int, int]] = []
        last_position = int(run.positions[-1])
        while self._next is not None and self._next[2] <= last_position:
            entries.append(self._next)
            self._next = next(self._entries, None)
        if not entries:
            return
        keys, positions = [entry[1] for entry in entries], [entry[2] for entry in entries]
        wrong = first_wrong_position(run, last_offset_before, keys, positions)
        if wrong is not None:
            number, before = wrong
            if before is None:
                self._no_batch(*entries[number])
            else:
                self._wrong_key(*entries[number], before)

    def _no_batch(self, slot: int, key: int, position: int) -> None:
        self._mismatch(slot, key, f"offset {key} at position {position}, where no batch begins")

    def _wrong_key(self, slot: int, key: int, position: int, before: int) -> None:
        self._mismatch(slot, key, f"offset {key} at position {position}, but {before} is before it")

    def end(self, last_offset: int) -> None:
        """The walk has come to the end of the valid batches."""
        if self._next is not None:
            slot, key, position = self._next
            self._mismatch(slot, key, f"offset {key} at position {position}, after the last batch ({last_offset})")
        for _ in self._entries:
            pass


class TimeIndexCheck(_EntryCheck):
    """No batch at or before an entry's offset has a larger timestamp than the entry."""

    def __init__(self, file: str, base_offset: int, index: Source) -> None:
        super().__init__(file, base_offset, index, TIME_ENTRY)
        self._entries = self._increasing()
        self._next = next(self._entries, None)

    def _increasing(self) -> Iterator[tuple[int, int, int]]:
        last = (-(2**63), 0)
        for slot, (timestamp, relative) in self._slots():
            if timestamp <= last[0] or relative < last[1] or (timestamp == 0 and relative == 0):
                self._end_of_entries(slot)
                return
            last = (timestamp, relative)
            yield slot, timestamp, self._base + relative

    def batch(self, batch: RecordBatch, last_offset_before: int) -> None:
        """The walk has come to a batch."""
        while self._next is not None and self._next[2] <= last_offset_before:
            self._next = next(self._entries, None)
        if self._next is None or batch.last_offset > self._next[2]:
            return
        if batch.header.max_timestamp > self._next[1]:
            self._later(*self._next, batch.last_offset)

    def run(self, run: HeaderRun, last_offset_before: int) -> None:
        """The walk has come to many batches, their offsets increasing."""
        from kafkalog.codec.headers.index_agreement import first_later_batch

        entries: list[tuple[int, int, int]] = []
        before_last = max(last_offset_before, int(run.last_offsets[-2]) if len(run) > 1 else last_offset_before)
        while self._next is not None and self._next[2] <= before_last:
            entries.append(self._next)
            self._next = next(self._entries, None)
        if self._next is not None:
            entries.append(self._next)
        if not entries:
            return
        timestamps, offsets = [entry[1] for entry in entries], [entry[2] for entry in entries]
        later = first_later_batch(run, last_offset_before, timestamps, offsets)
        if later is not None:
            number, batch = later
            self._later(*entries[number], int(run.last_offsets[batch]))

    def _later(self, slot: int, timestamp: int, offset: int, last_offset: int) -> None:
        detail = f"timestamp {timestamp} up to offset {offset}, but offset {last_offset} is later"
        self._mismatch(slot, offset, detail)

    def end(self, last_offset: int) -> None:
        """The walk has come to the end of the valid batches."""
        for slot, timestamp, offset in chain(() if self._next is None else (self._next,), self._entries):
            if offset > last_offset:
                self._mismatch(
                    slot, offset, f"timestamp {timestamp} for offset {offset}, after the last ({last_offset})"
                )
                return
