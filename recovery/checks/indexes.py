"""Check whether the entries of an index agree with the batches of the log beside it.

Broker versions and appenders write different entries. So only the properties that all of them guarantee are checked
(`OffsetIndex`, `TimeIndex`), during the walk over the batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.source import Source, zeros_end
from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.files.index_files import OFFSET_ENTRY, TIME_ENTRY, bytes_by_piece
from kafkalog.codec.headers.one_batch import AnyRun
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.native.tables import RunFacts
from kafkalog.recovery.checks.index_entries import Entries, Order

__all__ = ["OffsetIndexCheck", "TimeIndexCheck"]


class _EntryCheck(ABC):
    """Check of one index during a walk over its log. The entries are compared, in order, with the batches that the walk
    reaches. The file `index` must stay open meanwhile. Methods raise `StorageError` if the index cannot be read.
    """

    def __init__(self, file: str, base_offset: int, index: Source, layout: FixedLayout, order: Order) -> None:
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
        self._size = layout.size
        self._end = size - size % layout.size
        self._entries = Entries(
            bytes_by_piece(index, layout.size, end=self._end), layout, order, self._end_of_entries
        )

    @property
    def findings(self) -> list[Finding]:
        """Findings so far: about entries, then about how they end."""
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

    def run(self, run: AnyRun, last_offset_before: int) -> None:
        """Check the entries about the batches of a run, add to `findings`, and move behind these entries. The offsets
        of the run increase; `last_offset_before` is the highest offset before it. Raises `StorageError` if the index
        cannot be read.
        """
        columns = run.columns()
        if columns is None:
            self._batch(run.batch(0), last_offset_before)
        else:
            self._columns(columns, last_offset_before)

    @abstractmethod
    def _batch(self, batch: RecordBatch, last_offset_before: int) -> None:
        """Check the entries that one batch covers."""

    @abstractmethod
    def _columns(self, run: BatchRun, last_offset_before: int) -> None:
        """Check the entries that a run covers, as `_batch` does for each batch."""

    def _end_of_entries(self, slot: int) -> None:
        """Add a finding about entry number `slot`, the first one that does not increase. If only zero bytes follow, the
        file was preallocated: INDEX_PREALLOCATED, an INFO. Otherwise it is the warning INDEX_NOT_INCREASING.
        """
        start = slot * self._size
        if start < self._end and zeros_end(self._index, start, self._end) == self._end:
            detail = f"{self._end - start} zero bytes after {slot} entries: the broker did not close it"
            finding = self._finding(FindingCode.INDEX_PREALLOCATED, slot * self._size, detail, severity=Severity.INFO)
        else:
            detail = f"entry {slot} does not increase"
            finding = self._finding(FindingCode.INDEX_NOT_INCREASING, slot * self._size, detail)
        self._of_end.append(finding)

    def _mismatch(self, slot: int, offset: int, detail: str, *, misleads: bool = True) -> None:
        """Count an entry that contradicts the log, and add a finding if it is the first one. The finding is an error if
        `misleads` (a look-up by this entry would miss records of the log), otherwise a warning. `slot` is the number of
        the entry, `offset` the offset that it gives, `detail` the text of the finding.
        """
        self._mismatches += 1
        if self._mismatches == 1:
            severity = Severity.ERROR if misleads else Severity.WARNING
            code = FindingCode.INDEX_ENTRY_MISMATCH
            self._of_entries.append(self._finding(code, slot * self._size, detail, offset, severity))


class OffsetIndexCheck(_EntryCheck):
    """Check of an offset index. The position of every entry must be the start of a batch; all offsets before that
    position must be below the entry's offset (its key), and the log must reach the key. Methods raise `StorageError` if
    the index cannot be read.

    A key may exceed the offsets of the batch at its position, because a broker may have written several batches at
    once.
    """

    def __init__(self, file: str, base_offset: int, index: Source) -> None:
        super().__init__(file, base_offset, index, OFFSET_ENTRY, Order((-1, 0), may_repeat=False))

    def _batch(self, batch: RecordBatch, last_offset_before: int) -> None:
        """Check all entries with positions up to the start of `batch`, the next batch of the log, and move behind them.
        An entry is a mismatch if no batch starts at its position. It is also one if its offset is not above
        `last_offset_before`, the highest offset before the batch. Only the first mismatch of the index becomes a
        finding; an entry that does not increase adds another, and ends the check.
        """
        while (entry := self._entries.next) is not None and entry.second <= batch.position:
            key = self._base + entry.first
            if entry.second < batch.position:
                self._no_batch(entry.slot, key, entry.second)
            elif key <= last_offset_before:
                self._wrong_key(entry.slot, key, entry.second, last_offset_before)
            self._entries.pass_one()

    def _columns(self, run: BatchRun, last_offset_before: int) -> None:
        """Check all entries with positions up to the start of the last batch of `run`, as `_batch` does for each batch,
        and move behind them. The offsets of the run increase; `last_offset_before` is the highest offset before it. At
        most one mismatch is counted for a run.
        """
        from kafkalog.codec.headers.index_agreement import first_wrong_position

        passed = self._entries.pass_up_to(run.position(len(run) - 1))
        if len(passed.seconds) == 0:
            return
        wrong = first_wrong_position(run, last_offset_before, passed.firsts, passed.seconds, base=self._base)
        if wrong is not None:
            number, before = wrong
            slot, key = passed.slot + number, self._base + passed.firsts[number]
            position = passed.seconds[number]
            if before is None:
                self._no_batch(slot, key, position)
            else:
                self._wrong_key(slot, key, position, before)

    def _no_batch(self, slot: int, key: int, position: int) -> None:
        self._mismatch(slot, key, f"offset {key} at position {position}, where no batch begins")

    def _wrong_key(self, slot: int, key: int, position: int, before: int) -> None:
        self._mismatch(slot, key, f"offset {key} at position {position}, but {before} is before it")

    def end(self, last_offset: int) -> None:
        """Finish the check at the end of the valid batches; `last_offset` is their highest offset. The last checked
        entry is a mismatch (a warning) if its offset is above `last_offset`. The next entry, whose position is after
        the last batch, is one too: an error if its offset is at most `last_offset`, else a warning. Only the first
        mismatch of the index becomes a finding. All remaining entries are read; one that does not increase adds a
        finding.
        """
        if (last := self._entries.last) is not None and self._base + last.first > last_offset:
            key = self._base + last.first
            detail = f"offset {key} at position {last.second}, but the log ends with {last_offset}"
            self._mismatch(last.slot, key, detail, misleads=False)
        if (entry := self._entries.next) is not None:
            key = self._base + entry.first
            detail = f"offset {key} at position {entry.second}, after the last batch ({last_offset})"
            self._mismatch(entry.slot, key, detail, misleads=key <= last_offset)
        self._entries.pass_all()


class TimeIndexCheck(_EntryCheck):
    """Check of a time index: no batch up to an entry's offset may have a later timestamp than the entry, and the last
    entry must not be later than all batches. Methods raise `StorageError` if the index cannot be read.
    """

    def __init__(self, file: str, base_offset: int, index: Source) -> None:
        order = Order((-(2**63), 0), may_repeat=True, never=(0, 0))
        super().__init__(file, base_offset, index, TIME_ENTRY, order)
        self._newest = order.before[0]
        """largest timestamp of a batch so far"""

    def _batch(self, batch: RecordBatch, last_offset_before: int) -> None:
        """Skip the entries with offsets up to `last_offset_before`, the highest offset before `batch`. Then compare the
        next entry with `batch`, the next batch of the log: if the batch ends at or below the entry's offset, a later
        timestamp in it is a mismatch. Only the first mismatch of the index becomes a finding; an entry that does not
        increase adds another, and later entries are ignored. Updates the latest timestamp of the log.
        """
        self._newest = max(self._newest, batch.header.max_timestamp)
        while (entry := self._entries.next) is not None and self._base + entry.second <= last_offset_before:
            self._entries.pass_one()
        if entry is None or batch.last_offset > self._base + entry.second:
            return
        if batch.header.max_timestamp > entry.first:
            self._later(entry.slot, entry.first, self._base + entry.second, batch.last_offset)

    def _columns(self, run: BatchRun, last_offset_before: int) -> None:
        """Check the entries up to the end of `run`, as `_batch` does for each batch. The offsets of the run increase;
        `last_offset_before` is the highest offset before it. At most one batch of the run with a later timestamp than
        its entry is counted; only the first mismatch of the index becomes a finding. Updates the latest timestamp of
        the log.
        """
        from kafkalog.codec.headers.index_agreement import first_later_batch

        self._newest = max(self._newest, run.fact(RunFacts.LARGEST_TIMESTAMP))
        before_last = max(last_offset_before, run.last_offset(len(run) - 2) if len(run) > 1 else last_offset_before)
        passed = self._entries.pass_up_to(before_last - self._base, and_next=True)
        later = first_later_batch(run, last_offset_before, passed.firsts, passed.seconds, base=self._base)
        if later is not None:
            number, batch = later
            timestamp, offset = passed.firsts[number], self._base + passed.seconds[number]
            self._later(passed.slot + number, timestamp, offset, run.last_offset(batch))

    def _later(self, slot: int, timestamp: int, offset: int, last_offset: int) -> None:
        detail = f"timestamp {timestamp} up to offset {offset}, but offset {last_offset} is later"
        self._mismatch(slot, offset, detail)

    def end(self, last_offset: int) -> None:
        """Finish the check at the end of the valid batches; `last_offset` is their highest offset. Moves behind the
        entries up to `last_offset`; an entry that does not increase adds a finding. A timestamp in the last of these
        entries that is later than in all batches is a mismatch, with an error. A further entry, with an offset above
        `last_offset`, is a mismatch with a warning; entries after it are not checked. Only the first mismatch of the
        index becomes a finding.
        """
        self._entries.pass_up_to(last_offset - self._base)
        if (last := self._entries.last) is not None and last.first > self._newest:
            offset = self._base + last.second
            detail = f"timestamp {last.first} up to offset {offset}, but the latest is {self._newest}"
            self._mismatch(last.slot, offset, detail)
        if (entry := self._entries.next) is not None:
            offset = self._base + entry.second
            detail = f"timestamp {entry.first} for offset {offset}, after the last ({last_offset})"
            self._mismatch(entry.slot, offset, detail, misleads=False)
