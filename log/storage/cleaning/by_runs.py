"""The cleaner's work on runs of v2 batches: compiled code reads the records, chooses among them and writes them.

What becomes of whole batches is the affair of `BatchRetention` and `CleanedTransactions`: control batches, batches of
aborted transactions and what compiled code does not read are given to these one by one.  Needs numba and numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kafkalog.codec.buffer_pool import Block
from kafkalog.codec.columnar.decompressed import OpenedBatches, opened_batches
from kafkalog.codec.headers.run_scanner import RunScanner
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.kernels.loading import Kernel
from kafkalog.codec.kernels.tables import KeptBatch, RetainedBatch, Table, empty_table
from kafkalog.codec.limits import DEFAULT_LIMITS, MIB
from kafkalog.codec.model import CONTROL_FLAG, DELETE_HORIZON_FLAG, NO_TIMESTAMP, TRANSACTIONAL_FLAG, RecordBatch
from kafkalog.log.storage.cleaned_output import CleanedOutput
from kafkalog.log.storage.cleaning.batch_retention import BatchRetention
from kafkalog.log.storage.cleaning.cleaned_transactions import CleanedTransactions
from kafkalog.log.storage.cleaning.key_columns import KeyColumns
from kafkalog.log.storage.cleaning.latest_offsets import put_keys, take_batch
from kafkalog.log.storage.cleaning.retained_batch import built, emptied
from kafkalog.log.storage.java import IllegalArgumentError, JavaError
from kafkalog.log.storage.log_file import LogBatch, LogFile
from kafkalog.log.storage.segment import LogSegment

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

__all__ = ["clean_segment", "take_offsets"]

_kept_records = Kernel("clean", "kept_records")

_AT_ONCE = 4 * MIB
"""Record bytes that are decompressed before records are chosen: what a processor's cache may still hold."""
_MOST_MORE_BYTES = 9 + 4
"""By how many bytes a record can grow with another base timestamp: those of its own one, and of its length."""


def _runs(log: LogFile, start: int = 0) -> Iterator[BatchRun | LogBatch]:
    """All batches of a log whose checksums were compared before, from the one at a position on."""
    for found in RunScanner(log.source, position=start, check_crc=False):
        yield LogBatch.of(found) if isinstance(found, RecordBatch) else found


def _special(run: BatchRun) -> list[int]:
    """Numbers of the batches of transactions, and of control batches."""
    numbers: list[int] = np.flatnonzero(run["attributes"] & (CONTROL_FLAG | TRANSACTIONAL_FLAG)).tolist()
    return numbers


# --- the latest offset of each key ----------------------------------------------------------------------------------


def take_offsets(segment: LogSegment, start: int, offsets: KeyColumns, transactions: CleanedTransactions) -> bool:
    """Put the keys of one segment in, from an offset on; False if there was no room for one."""
    for found in _runs(segment.log, segment.offset_index.lookup(start).position):
        if isinstance(found, LogBatch):
            has_room = take_batch(found, start, offsets, transactions)
        else:
            has_room = _take_run(found, start, offsets, transactions)
        if not has_room:
            return False
    return True


def _take_run(run: BatchRun, start: int, offsets: KeyColumns, transactions: CleanedTransactions) -> bool:
    counts, error = run["records_count"] != 0, None
    for number in _special(run):
        batch = run.batch(number)
        try:
            if not batch.header.is_control:
                counts[number] &= not transactions.batch(batch)
                continue
            counts[number] = False
            transactions.control_batch(LogBatch.of(batch))
        except JavaError as raised:  # which does not matter if there is no room for a key that comes before
            error, counts[number:] = raised, False
            break
    if not _Keys(run, counts, start, offsets).put():
        return False
    if error is not None:
        raise error
    _pass(run, len(run), start, offsets)
    return True


def _pass(run: BatchRun, end: int, start: int, offsets: KeyColumns) -> None:
    """All keys of the batches before number `end` are in."""
    last = int(run.last_offsets[end - 1]) if end else -1
    if last >= start:
        offsets.latest_offset = last


class _Keys:
    """The keys of the batches of a run that count, from an offset on."""

    def __init__(self, run: BatchRun, counts: Mask, start: int, offsets: KeyColumns) -> None:
        self._run = run
        self._counting = run.where(counts)
        self._numbers = np.flatnonzero(counts).tolist()
        self._start = start
        self._offsets = offsets

    def put(self) -> bool:
        """Put them in; False if there was no room for one."""
        done = 0
        for opened in opened_batches(self._counting, DEFAULT_LIMITS, _AT_ONCE):
            if not self._singly(done, opened.first):
                return False
            while len(opened.addresses):
                taken, last_put = self._offsets.put_batches(opened, self._start)
                opened = opened.after(taken)
                if last_put is not None:
                    _pass(self._run, self._numbers[opened.first], self._start, self._offsets)
                    if last_put >= 0:
                        self._offsets.latest_offset = last_put
                    return False
                if len(opened.addresses):
                    if not self._singly(opened.first, opened.first + 1):
                        return False
                    opened = opened.after(1)
            done = opened.first
        return self._singly(done, len(self._numbers))

    def _singly(self, first: int, end: int) -> bool:
        """Put those of batches in that compiled code does not read."""
        for number in range(first, end):
            _pass(self._run, self._numbers[number], self._start, self._offsets)
            if not put_keys(LogBatch.of(self._counting.batch(number)), self._start, self._offsets):
                return False
        return True


# --- segments -------------------------------------------------------------------------------------------------------


def clean_segment(
    segment: LogSegment, retention: BatchRetention, output: CleanedOutput, *, keeps_old_deletes: bool
) -> None:
    """Write what is kept of a segment; where records cannot be written, with an error that only says so."""
    for found in _runs(segment.log):
        if isinstance(found, LogBatch):
            output.put(retention.retained(found, keeps_old_deletes=keeps_old_deletes), segment)
        else:
            _Kept(found, segment, retention, output).write()


class _Kept:
    """What is kept of a run."""

    def __init__(self, run: BatchRun, source: LogSegment, retention: BatchRetention, output: CleanedOutput) -> None:
        if not isinstance(retention.offsets, KeyColumns):
            raise TypeError(f"{type(retention.offsets).__name__} has no columns")
        self._run = run
        self._source = source
        self._retention = retention
        self._offsets = retention.offsets
        self._output = output
        self._stays = np.zeros(len(run), np.bool_)
        """batches that stay as they are, of those that were decided so far"""
        self._others: dict[int, LogBatch | RecordBatch] = {}
        """number -> what stays besides"""
        self._written = 0

    def write(self) -> None:
        """Write it all."""
        run, retention = self._run, self._retention
        is_read = run["records_count"] != 0
        for number in _special(run):
            batch = run.batch(number)
            if batch.header.is_control:
                is_read[number] = False
                self._put(number, retention.retained(LogBatch.of(batch), keeps_old_deletes=False))
            elif retention.transactions.batch(batch):
                is_read[number] = False
                self._put(number, retention.retained_data(LogBatch.of(batch), True))
            elif not is_read[number]:
                self._singly(number)
        attributes = run["attributes"]
        for number in np.flatnonzero(~is_read & (attributes & (CONTROL_FLAG | TRANSACTIONAL_FLAG) == 0)).tolist():
            self._singly(number)
        part, numbers = run.where(is_read), np.flatnonzero(is_read)
        done = 0
        for opened in opened_batches(part, DEFAULT_LIMITS, _AT_ONCE):
            self._all_singly(numbers[done : opened.first])
            while len(opened.addresses):
                taken = self._choose(part, numbers, opened)
                opened = opened.after(taken)
                if len(opened.addresses):
                    self._singly(int(numbers[opened.first]))
                    opened = opened.after(1)
            done = opened.first
            self._write_up_to(int(numbers[done - 1]) + 1)
        self._all_singly(numbers[done:])
        self._write_up_to(len(run))

    def _put(self, number: int, kept: LogBatch | RecordBatch | None) -> None:
        if kept is not None:
            self._others[number] = kept

    def _singly(self, number: int) -> None:
        """Decide about a batch of data that compiled code does not read, and that no aborted transaction has."""
        self._put(number, self._retention.retained_data(LogBatch.of(self._run.batch(number)), False))

    def _all_singly(self, numbers: Int64s) -> None:
        for number in numbers.tolist():
            self._singly(number)

    def _choose(self, part: BatchRun, numbers: Int64s, opened: OpenedBatches) -> int:
        """Decide about the first batches that were opened, up to one that compiled code does not read; how many."""
        retention, first = self._retention, opened.first
        headers = part.part(first, first + len(opened.addresses))
        has_horizon = headers["attributes"] & DELETE_HORIZON_FLAG != 0
        keeps_deletes = ~has_horizon | (retention.now_ms < headers["base_timestamp"])
        chosen, flags = self._offsets.choose(opened, keeps_deletes.astype(np.int64))
        taken = chosen.shape[1]
        headers, has_horizon, numbers = headers.part(0, taken), has_horizon[:taken], numbers[first : first + taken]
        kept, deletes = chosen[RetainedBatch.KEPT], chosen[RetainedBatch.DELETES]
        stays = (kept == headers["records_count"]) & ((deletes == 0) | has_horizon)
        self._stays[numbers] = stays
        counts = retention.counts
        counts.records_read += int(headers["records_count"].sum())
        counts.records_kept += int(kept.sum())
        counts.records_without_key += int(chosen[RetainedBatch.WITHOUT_KEY].sum())
        for number in np.flatnonzero((kept == 0) & np.isin(headers.last_offsets, retention.last_offsets_of_empty)):
            batch = headers.batch(int(number))
            if retention.keeps_empty(batch):
                self._others[int(numbers[number])] = emptied(batch)
        changed = np.flatnonzero(~stays & (kept > 0))
        if len(changed):
            new = np.where(deletes > 0, retention.new_horizon, NO_TIMESTAMP)
            horizons = np.where(has_horizon, headers["base_timestamp"], new)[changed]
            self._rewrite(headers, numbers, opened, chosen, changed, horizons)
        return taken

    def _rewrite(
        self, headers: BatchRun, numbers: Int64s, opened: OpenedBatches, chosen: Table, changed: Int64s, horizons: Int64s
    ) -> None:  # fmt: skip
        """Build the batches in which records go."""
        kept = chosen[RetainedBatch.KEPT, changed]
        room = Block(int(opened.sizes[changed].sum()) + _MOST_MORE_BYTES * int(kept.sum()))
        written = empty_table(KeptBatch, len(changed))
        done = _kept_records(
            opened.addresses, opened.sizes, opened.headers, opened.first, changed, horizons, chosen, room.address,
            written,
        )  # fmt: skip
        if done < len(changed):
            raise IllegalArgumentError("a record cannot be written as it is")
        written[KeptBatch.START] -= room.address
        columns = zip(changed.tolist(), written.T.tolist(), kept.tolist(), (horizons >= 0).tolist(), strict=True)
        for number, (start, size, base_timestamp, largest), count, has_horizon in columns:
            header = headers.v2_header(number)
            records = room.buffer[start : start + size]
            self._others[int(numbers[number])] = built(
                header, records, count, base_timestamp, largest, has_horizon=has_horizon
            )

    def _write_up_to(self, end: int) -> None:
        """Write what is kept before batch number `end`."""
        for number in sorted(number for number in self._others if number < end):
            self._write_run(number)
            self._output.put(self._others.pop(number), self._source)
            self._written = number + 1
        self._write_run(end)

    def _write_run(self, end: int) -> None:
        stays = self._stays[self._written : end]
        if stays.any():
            self._output.keep_run(self._run.part(self._written, end).where(stays), self._source)
        self._written = end
