"""Clean runs of v2 batches (consecutive batches whose headers are columns) with compiled code, which reads, chooses and
writes records. Control batches, batches of aborted transactions and batches that compiled code cannot read are left to
`BatchRetention` and `CleanedTransactions`, which decide batch by batch. Needs numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from kafkalog.codec.columnar.decompressed import OpenedBatches, opened_batches
from kafkalog.codec.common.buffer_pool import Block
from kafkalog.codec.common.limits import DEFAULT_LIMITS, MIB
from kafkalog.codec.compression import compress
from kafkalog.codec.encode.put_headers import put_headers
from kafkalog.codec.headers.run_scanner import WINDOW_OF_RECORDS, RunScanner
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import (
    BATCH,
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_OVERHEAD,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    Codec,
    RecordBatch,
)
from kafkalog.codec.native.functions import gather, kept_records
from kafkalog.codec.native.tables import HeaderColumn, KeptBatch, RetainedBatch, Table, empty_table
from kafkalog.codec.rules.framing import BATCH_MAGIC
from kafkalog.log.storage.cleaned_output import STRETCH, CleanedOutput
from kafkalog.log.storage.cleaning.batch_retention import BatchRetention
from kafkalog.log.storage.cleaning.cleaned_transactions import CleanedTransactions
from kafkalog.log.storage.cleaning.key_columns import KeyColumns
from kafkalog.log.storage.cleaning.latest_offsets import put_keys, take_batch
from kafkalog.log.storage.cleaning.retained_batch import emptied, new_attributes
from kafkalog.log.storage.java import IllegalArgumentError, JavaError
from kafkalog.log.storage.log_file import LogBatch, LogFile
from kafkalog.log.storage.segment import LogSegment

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]
    Bytes = npt.NDArray[np.uint8]

__all__ = ["clean_segment", "take_offsets"]


_AT_ONCE = 4 * MIB
"""Record bytes that are decompressed before records are chosen: few enough for the processor's cache."""
_MOST_MORE_BYTES = 9 + 4
"""Most bytes that a record can grow with another base timestamp: its timestamp delta and its length field."""


def _runs(log: LogFile, start: int = 0) -> Iterator[BatchRun | LogBatch]:
    """Yield the batches of a log in order, from the one at position `start` (bytes) to the last valid one: v2 batches
    in runs, v0 and v1 entries one by one as `LogBatch`. Checksums are not verified. What follows the last valid batch
    is read by `LogFile.batches`, which raises a broker's exception for a malformed batch. Raises `StorageError` if the
    file cannot be read.
    """
    scanner = RunScanner(log.source, position=start, window_bytes=WINDOW_OF_RECORDS, check_crc=False)
    for scanned in scanner:
        if not isinstance(scanned, RecordBatch):
            yield scanned
        elif scanned.magic == BATCH_MAGIC:  # a batch larger than a window
            columns = *BATCH.struct.unpack_from(scanned.data), 0
            yield BatchRun(np.array([columns], np.int64).T, scanned.data, scanned.position)
        else:
            yield LogBatch.of(scanned)
    yield from log.batches(scanner.valid_bytes)


def _special(run: BatchRun) -> list[int]:
    """Return the numbers of the transactional and control batches of a run, ascending."""
    numbers: list[int] = np.flatnonzero(run["attributes"] & (CONTROL_FLAG | TRANSACTIONAL_FLAG)).tolist()
    return numbers


# --- the latest offset of each key ----------------------------------------------------------------------------------


def take_offsets(segment: LogSegment, start: int, offsets: KeyColumns, transactions: CleanedTransactions) -> bool:
    """Put the keys of a segment's records into the map `offsets`, with their offsets. Control records, records with an
    offset below `start`, records without a key and records of aborted transactions are skipped. Return True, or False
    if the map became full before the end of the segment; the keys put in before stay.

    Advances `transactions` over the batches, and `offsets.latest_offset` to the last offset that was processed. Raises
    `FormatError` for records that cannot be read, and `JavaError` for a bad control record. Raises `StorageError` if
    the segment cannot be read.
    """
    for run in _runs(segment.log, segment.offset_index.lookup(start).position):
        if isinstance(run, LogBatch):
            has_room = take_batch(run, start, offsets, transactions)
        else:
            has_room = _take_run(run, start, offsets, transactions)
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
        except JavaError as raised:  # ignored below if an earlier key does not fit
            error, counts[number:] = raised, False
            break
    if not _Keys(run, counts, start, offsets).put():
        return False
    if error is not None:
        raise error
    _pass(run, len(run), start, offsets)
    return True


def _pass(run: BatchRun, end: int, start: int, offsets: KeyColumns) -> None:
    """Set the map's `latest_offset` to the last offset of the batch before number `end`, because all keys up to there
    were put in. Nothing changes if there is no such batch or it ends below `start`.
    """
    last = int(run.last_offsets[end - 1]) if end else -1
    if last >= start:
        offsets.latest_offset = last


class _Keys:
    """Keys of the batches of a run for which `counts` is True, to be put into an offset map. Only records with offset
    `start` or higher are used.
    """

    def __init__(self, run: BatchRun, counts: Mask, start: int, offsets: KeyColumns) -> None:
        self._run = run
        self._counting = run.chosen(np.flatnonzero(counts).tolist())
        self._numbers = np.flatnonzero(counts).tolist()
        self._start = start
        self._offsets = offsets

    def put(self) -> bool:
        """Put the keys into the offset map and return True; the caller then advances the map's `latest_offset` over the
        run. Return False if the map became full first; the keys put in before stay. `latest_offset` is then the last
        offset that was put in from the batch that did not fit. If there is none, it is the last offset of the batch
        before; it is unchanged if the run has no such batch or this ends below `start`. Raises `FormatError` for
        records that cannot be read.
        """
        done = 0
        for opened in opened_batches(self._counting, DEFAULT_LIMITS, _AT_ONCE):
            if not self._singly(done, opened.first):
                return False
            while len(opened.addresses):
                decoded, last_put = self._offsets.put_batches(opened, self._start)
                opened = opened.after(decoded)
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
        """Put in the keys of the marked batches with numbers from `first` to `end` (exclusive) in plain Python, because
        compiled code cannot read them. Return True, or False if the map became full first. Advances the map's
        `latest_offset`. Raises `FormatError` for records that cannot be read.
        """
        for number in range(first, end):
            _pass(self._run, self._numbers[number], self._start, self._offsets)
            if not put_keys(LogBatch.of(self._counting.batch(number)), self._start, self._offsets):
                return False
        return True


# --- segments -------------------------------------------------------------------------------------------------------


def clean_segment(
    segment: LogSegment, retention: BatchRetention, output: CleanedOutput, *, keeps_old_deletes: bool
) -> None:
    """Add the batches of a segment that the cleaner keeps to `output`, rewritten if they lose records. Advances the
    transactions and counts of `retention`. With `keeps_old_deletes`, tombstones of magic 0 and 1, which have no delete
    horizon, are kept.

    Raises `StorageError` if a file cannot be read or written, and `FormatError`, `JavaError` or `OffsetOverflowError`
    for a batch that cannot be read, rewritten or written. The message may lack details if batches are processed in
    runs. The caller then cleans the segment again batch by batch, which raises the broker's exception.
    """
    for run in _runs(segment.log):
        if isinstance(run, LogBatch):
            output.put(retention.retained(run, keeps_old_deletes=keeps_old_deletes), segment)
        else:
            _Kept(run, segment, retention, output).write()


class _Kept:
    """One run of batches in the cleaner, with the result for each batch: its unchanged bytes, new bytes, or nothing if
    it is dropped.
    """

    def __init__(self, run: BatchRun, source: LogSegment, retention: BatchRetention, output: CleanedOutput) -> None:
        if not isinstance(retention.offsets, KeyColumns):
            raise TypeError(f"{type(retention.offsets).__name__} has no columns")
        self._run = run
        self._source = source
        self._retention = retention
        self._offsets = retention.offsets
        self._output = output
        self._table = run.table.copy()
        """headers of the kept batches"""
        self._in_window = run.starts + np.frombuffer(run.window, np.uint8).ctypes.data
        self._addresses = np.zeros(len(run), np.int64)
        """address of the kept bytes of each batch; 0 for nothing"""
        self._single: list[Bytes] = []
        """new bytes of single batches"""
        self._rewritten: list[Bytes] = []
        """new bytes of many batches, until they are written"""
        self._written = 0

    def write(self) -> None:
        """Decide which records of the run are kept, and add the kept batches to the output, in order. Advances the
        transactions and counts of the `BatchRetention`. Raises `FormatError` for records that cannot be read. Raises
        `JavaError` for a bad control record or a batch that cannot be rewritten or indexed. Raises
        `OffsetOverflowError` for an offset that does not fit the new segment. Raises `StorageError` if a file cannot be
        read or written.
        """
        is_read = self._decide_whole()
        numbers = np.flatnonzero(is_read)
        part = self._run.chosen(numbers.tolist())
        done = 0
        for opened in opened_batches(part, DEFAULT_LIMITS, _AT_ONCE):
            self._all_singly(numbers[done : opened.first])
            while len(opened.addresses):
                decoded = self._choose(part, numbers, opened)
                opened = opened.after(decoded)
                if len(opened.addresses):
                    self._singly(int(numbers[opened.first]))
                    opened = opened.after(1)
            done = opened.first
            self._write_up_to(int(numbers[done - 1]) + 1)
        self._all_singly(numbers[done:])
        self._write_up_to(len(self._run))

    def _decide_whole(self) -> Mask:
        """Decide about control batches, batches of aborted transactions and batches without records, because no single
        record must be chosen in them. Store their kept bytes in this object. Return a mask over the batches of the run:
        True for the others, whose records must still be chosen.

        Advances the transactions and counts of the `BatchRetention`. Raises `JavaError` for a bad control record or a
        batch that cannot be rewritten, and `FormatError` for records that cannot be read.
        """
        run, retention = self._run, self._retention
        is_read: Mask = run["records_count"] != 0
        in_transactions = _special(run)
        for number in in_transactions:
            batch = run.batch(number)
            if batch.header.is_control:
                is_read[number] = False
                self._put(number, retention.retained(LogBatch.of(batch), keeps_old_deletes=False))
            elif retention.transactions.batch(batch):
                is_read[number] = False
                self._put(number, retention.retained_data(LogBatch.of(batch), True))
            elif not is_read[number]:
                self._singly(number)
        empty = ~is_read
        empty[in_transactions] = False
        self._all_singly(np.flatnonzero(empty))
        return is_read

    def _put(self, number: int, kept: LogBatch | RecordBatch | None) -> None:
        """Set the replacement of batch `number` in the output. For a `RecordBatch` it is its new bytes, and its header
        replaces the batch's in `_table`. For a `LogBatch` it is the unchanged bytes, for None nothing.
        """
        if isinstance(kept, RecordBatch):
            data = np.frombuffer(kept.data, np.uint8)
            self._single.append(data)
            self._addresses[number] = data.ctypes.data
            self._table[: HeaderColumn.POSITION, number] = BATCH.struct.unpack_from(kept.data)
        elif kept is not None:
            self._addresses[number] = self._in_window[number]

    def _singly(self, number: int) -> None:
        """Decide in plain Python about data batch `number`, which compiled code does not read and which belongs to no
        aborted transaction.
        """
        self._put(number, self._retention.retained_data(LogBatch.of(self._run.batch(number)), False))

    def _all_singly(self, numbers: Int64s) -> None:
        for number in numbers.tolist():
            self._singly(number)

    def _choose(self, part: BatchRun, numbers: Int64s, opened: OpenedBatches) -> int:
        """Choose the kept records of opened (decompressed) batches, up to the first batch that compiled code cannot
        read. Return the number of batches processed. For each of them, the bytes to write are stored in this object:
        its unchanged bytes, rewritten bytes, an empty batch or nothing.

        `part` is the run of all batches whose records are chosen, and `numbers` has their numbers in the whole run.
        Adds to the counts of the `BatchRetention`. Raises `IllegalArgumentError` if a batch cannot be rewritten.
        """
        retention, first = self._retention, opened.first
        headers = part.part(first, first + len(opened.addresses))
        has_horizon = headers["attributes"] & DELETE_HORIZON_FLAG != 0
        keeps_deletes = ~has_horizon | (retention.now_ms < headers["base_timestamp"])
        chosen, flags = self._offsets.choose(opened, keeps_deletes.astype(np.int64))
        count: int = chosen.shape[1]
        headers, has_horizon, numbers = headers.part(0, count), has_horizon[:count], numbers[first : first + count]
        kept, deletes = chosen[RetainedBatch.KEPT], chosen[RetainedBatch.DELETES]
        retention.counts.add(
            int(headers["records_count"].sum()), int(kept.sum()), int(chosen[RetainedBatch.WITHOUT_KEY].sum())
        )
        stays = (kept == headers["records_count"]) & ((deletes == 0) | has_horizon)
        self._addresses[numbers[stays]] = self._in_window[numbers[stays]]
        for number in np.flatnonzero((kept == 0) & np.isin(headers.last_offsets, retention.last_offsets_of_empty)):
            batch = headers.batch(int(number))
            if retention.keeps_empty(batch):
                self._put(int(numbers[number]), emptied(batch))
        changed = np.flatnonzero(~stays & (kept > 0))
        if len(changed):
            new = np.where(deletes > 0, retention.new_horizon, NO_TIMESTAMP)
            horizons = np.where(has_horizon, headers["base_timestamp"], new)
            self._rewrite(numbers[changed], opened, chosen, changed, horizons[changed])
        del flags  # `chosen` has addresses of this memory, so it had to live until here
        return count

    def _rewrite(
        self, numbers: Int64s, opened: OpenedBatches, chosen: Table, changed: Int64s, horizons: Int64s
    ) -> None:
        """Build new bytes and headers for batches that lose records or get a delete horizon, and store them in this
        object. All of them must have the same codec. `changed` are their numbers among the opened batches, and
        `numbers` are their numbers in the whole run. `chosen` is the `RetainedBatch` table of the opened batches.
        `horizons` has the delete horizon (ms) for each changed batch; negative means none.

        Raises `IllegalArgumentError` if a record or producer cannot be written in a v2 batch.
        """
        kept = chosen[RetainedBatch.KEPT, changed]
        target = np.empty(
            int(opened.sizes[changed].sum()) + BATCH.size * len(changed) + _MOST_MORE_BYTES * int(kept.sum()), np.uint8
        )
        written = empty_table(KeptBatch, len(changed))
        done = kept_records(
            opened.addresses, opened.sizes, opened.headers, opened.first, changed, horizons, chosen,
            target.ctypes.data, written,
        )  # fmt: skip
        table = np.take(self._table, numbers, axis=1)
        if done < len(changed) or _has_odd_producers(BatchRun(table, b"", 0)):
            raise IllegalArgumentError("a record cannot be written as it is")
        starts, sizes = written[KeptBatch.START] - target.ctypes.data - BATCH.size, written[KeptBatch.SIZE]
        codec = int(table[HeaderColumn.ATTRIBUTES, 0] & CODEC_MASK)
        if codec != Codec.NONE:
            target, starts, sizes = _compressed(target, starts, sizes, codec)
        table[HeaderColumn.BATCH_LENGTH] = sizes + (BATCH.size - LOG_OVERHEAD.size)
        table[HeaderColumn.ATTRIBUTES] = new_attributes(table[HeaderColumn.ATTRIBUTES], horizons >= 0)
        table[HeaderColumn.BASE_TIMESTAMP] = written[KeptBatch.BASE_TIMESTAMP]
        table[HeaderColumn.MAX_TIMESTAMP] = written[KeptBatch.MAX_TIMESTAMP]
        table[HeaderColumn.RECORDS_COUNT] = kept
        packed = np.empty(len(changed), BATCH.dtype())
        for name, row in zip(BATCH.names, table, strict=False):
            packed[name] = row
        put_headers(target, packed, starts, sizes + BATCH.size)
        self._rewritten.append(target)
        self._table[:, numbers] = table
        self._addresses[numbers] = starts + target.ctypes.data

    def _write_up_to(self, end: int) -> None:
        """Add the kept batches with numbers below `end` that are not yet written to the output. Ranges of unchanged
        batches of at least `STRETCH` bytes are copied from the old file. Afterwards the memory of rewritten batches is
        released, and batches below `end` count as written. Raises `OffsetOverflowError` if an offset does not fit the
        new segment, `FullIndexError` or `InvalidOffsetError` if an index entry cannot be added. Raises `StorageError`
        if writing fails.
        """
        numbers = np.flatnonzero(self._addresses[self._written : end]) + self._written
        stays = self._addresses[numbers] == self._in_window[numbers]
        follows = stays[1:] & stays[:-1] & (numbers[1:] == numbers[:-1] + 1)
        firsts = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(numbers)]
        gathered = 0
        if len(numbers) and int(self._run.sizes[numbers].sum()) >= STRETCH:
            for first, behind in pairwise(firsts):
                if stays[first] and int(self._run.sizes[numbers[first:behind]].sum()) >= STRETCH:
                    self._gather(numbers[gathered:first])
                    low = int(numbers[first])
                    self._output.keep_run(self._run.part(low, low + behind - first), self._source)
                    gathered = behind
        self._gather(numbers[gathered:])
        self._rewritten.clear()
        self._written = end

    def _gather(self, numbers: Int64s) -> None:
        """Copy the kept bytes of the batches with these numbers into one piece of memory, and add it to the output as a
        run. Does nothing for no numbers. Raises `OffsetOverflowError` if an offset does not fit the new segment,
        `FullIndexError` or `InvalidOffsetError` if an index entry cannot be added. Raises `StorageError` if writing
        fails.
        """
        if len(numbers) == 0:
            return
        table = np.take(self._table, numbers, axis=1)
        sizes = table[HeaderColumn.BATCH_LENGTH] + LOG_OVERHEAD.size
        ends = np.cumsum(sizes)
        table[HeaderColumn.POSITION] = ends - sizes
        piece = Block(int(ends[-1]))
        gather(self._addresses[numbers], sizes, piece.address)
        self._output.put_run(BatchRun(table, piece.buffer[: int(ends[-1])], 0))


def _has_odd_producers(run: BatchRun) -> bool:
    """Whether a batch has producer fields that no producer writes, and that `rewritten` may reject: a producer id
    without epoch or sequence, or a transaction without producer id.
    """
    has_producer = run["producer_id"] != NO_PRODUCER_ID
    is_odd = (run["producer_epoch"] == NO_PRODUCER_EPOCH) | (run["base_sequence"] < 0)
    return bool(np.where(has_producer, is_odd, run["attributes"] & TRANSACTIONAL_FLAG != 0).any())


def _compressed(target: Bytes, starts: Int64s, sizes: Int64s, codec: int) -> tuple[Bytes, Int64s, Int64s]:
    """Compress the records of batches in `target`. `starts` are the positions of the batches, each with room for a v2
    header before its records; `sizes` are the bytes of the records alone.

    Return new memory with the batches one after another, each with a header of zeros. Return also the positions of the
    batches in it, and the sizes of their compressed records.
    """
    pieces: list[bytes | memoryview] = []
    for start, size in zip((starts + BATCH.size).tolist(), sizes.tolist(), strict=True):
        pieces += bytes(BATCH.size), compress(Codec(codec), target.data[start : start + size])
    sizes = np.array([len(piece) for piece in pieces[1::2]], np.int64)
    ends = np.cumsum(sizes + BATCH.size)
    return np.frombuffer(bytearray().join(pieces), np.uint8), ends - sizes - BATCH.size, sizes
