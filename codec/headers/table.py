"""Cache of the headers of a log's sound batches, as columns, for later examinations.

A `HeaderTable` has only headers that a scan with checksums has confirmed: from the start of a file up to the first byte
that does not begin a batch of magic 0, 1 or 2 with a valid size and checksum. The rest is left to the plain scanner.
Needs compiled code.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from kafkalog.codec.common.buffer_pool import Block
from kafkalog.codec.common.limits import DEFAULT_LIMITS, KIB, MIB
from kafkalog.codec.common.source import BufferSource, ReadsInto, Source, reads_into
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import (
    BATCH,
    LOG_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    AnyHeader,
    LegacyHeader,
    RecordBatch,
)
from kafkalog.codec.native.cells import Cells, column_of
from kafkalog.codec.native.functions import address_of, move_positions, order_of_run, scan_batches
from kafkalog.codec.native.tables import HeaderColumn, RunFacts, names
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.framing import BATCH_MAGIC, MAGIC_POSITION, SMALLEST_MESSAGE, entry_size

__all__ = ["HeaderRun", "HeaderTable", "MemoryBudget"]


_WINDOW = 512 * KIB
"""Bytes read at once from a source that allocates its own memory."""
_READ_WINDOW = 2 * MIB
"""Bytes read at once into memory that is reused: few enough for the processor's cache, in which the checksum is then
computed.
"""
_BATCHES_OF_A_RUN = 16 * KIB
_SMALL = 256
"""Most columns of a table that is kept although not all are used."""


class MemoryBudget:
    """The number of bytes that columns may still use, for all tables that share it."""

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, size: int) -> bool:
        """Reserve `size` bytes and return True. Return False, and reserve nothing, if fewer are left."""
        if size > self._left:
            return False
        self._left -= size
        return True


class HeaderRun(BatchRun):
    """Headers of consecutive sound batches of any magic, without their bytes. Columns are those of a v2 header. For an
    older message, the base offset is its offset, the largest timestamp is its timestamp, and unknown fields have
    Kafka's sentinels.
    """

    def __init__(self, table: Cells, window_start: int = 0) -> None:
        super().__init__(table, b"", window_start)

    @classmethod
    def of(cls, run: BatchRun) -> HeaderRun:
        """Return the headers of a run without its bytes; they share its memory. A `HeaderRun` is returned unchanged."""
        return run if isinstance(run, HeaderRun) else cls(run.cells, run.window_start)

    def part(self, start: int, end: int) -> HeaderRun:
        """Return the batches from number `start` to `end` (exclusive)."""
        return HeaderRun(self.cells.part(start, end), self.window_start)

    def before(self, end: int) -> HeaderRun:
        """Return the batches that end at or before position `end` of the file; the result may be empty."""
        if self.end <= end:
            return self
        behind = bisect_right(range(len(self)), end, key=self._end_of)
        return self.part(0, behind)

    def _end_of(self, number: int) -> int:
        return self.position(number) + self.value(HeaderColumn.BATCH_LENGTH, number) + LOG_OVERHEAD.size

    def order(self, highest: int) -> memoryview:
        """Compare the offsets of these batches with each other and with `highest`, the highest offset before the run.
        Return a column whose fields are named by `OrderOfRun`.
        """
        return order_of_run(self.cells, highest)

    def last_v2(self, first: int, end: int) -> int | None:
        """Return the number of the last v2 batch among numbers `first` to `end` (exclusive); None if there is none."""
        if first >= end:
            return None
        part = self if (first, end) == (0, len(self)) else self.part(first, end)
        number = part.fact(RunFacts.LAST_V2)
        return None if number < 0 else first + number

    def header(self, number: int) -> AnyHeader:
        """Return the header of batch `number`: a `BatchHeader` for magic 2, a `LegacyHeader` for 0 and 1."""
        if self.value(HeaderColumn.MAGIC, number) == BATCH_MAGIC:
            return self.v2_header(number)
        fields = dict(zip(names(HeaderColumn), self.column(number), strict=True))
        return LegacyHeader(
            fields["base_offset"], fields["batch_length"], fields["crc"], fields["magic"], fields["attributes"],
            fields["max_timestamp"],
        )  # fmt: skip

    def batch(self, number: int) -> RecordBatch:
        """Return batch `number` with empty `data`, because its bytes were not kept."""
        return RecordBatch(self.header(number), self.position(number), b"")

    def __iter__(self) -> Iterator[RecordBatch]:
        for number in range(len(self)):
            yield self.batch(number)


class HeaderTable:
    """Cached headers of the sound batches in the first `size` bytes of a file; they use about 100 bytes each."""

    def __init__(self, size: int, budget: MemoryBudget) -> None:
        self._budget = budget
        self._cached: list[HeaderRun] = []
        self._cached_end = 0
        self._is_complete = False
        self._has_room = True
        self.size = size

    def runs(self, source: Source, end: int) -> Iterator[HeaderRun]:
        """Yield runs of the batches that end at or before byte `end` of the file (at most `size`), in order. Stop at
        the first batch that is not sound.

        Headers that are not cached are read from `source`, and cached if the memory budget allows. Raises
        `StorageError` while iterating if a file cannot be read.
        """
        number = 0
        position = 0
        while number < len(self._cached):
            run = self._cached[number].before(end)
            if len(run):
                yield run
            if len(run) < len(self._cached[number]):
                return
            number, position = number + 1, run.end
        if self._is_complete or position >= end:
            return
        for walked in self._walk(source, position):
            self._cache(walked)
            position = walked.end
            run = walked.before(end)
            if len(run):
                yield run
            if len(run) < len(walked):
                return
        self._is_complete = self._cached_end == position

    def runs_or_batches(self, source: Source, end: int) -> Iterator[HeaderRun | RecordBatch]:
        """Yield the same runs as the method `runs`. If a run has entries of magic 0 or 1, all its batches are instead
        yielded one by one with their bytes. The reason is that the first offset of a compressed entry is only in its
        content. Raises `StorageError` while iterating if `source` cannot be read.
        """
        for run in self.runs(source, end):
            if run.fact(RunFacts.OLDER):
                yield from Scanner(source, position=run.position(0), end=run.end, check_crc=False)
            else:
                yield run

    def noting(self, batches_and_runs: Iterable[BatchRun | RecordBatch]) -> Iterator[BatchRun | RecordBatch]:
        """Yield everything that another scan yields, unchanged, and cache the headers of its runs while the memory
        budget allows. That scan must check checksums and begin at the start of the file. Nothing is cached from the
        first single batch on.
        """
        for batches in batches_and_runs:
            if isinstance(batches, BatchRun):
                self._cache(HeaderRun.of(batches))
            yield batches
            del batches  # its bytes are large

    def _cache(self, run: HeaderRun) -> None:
        if self._has_room and run.position(0) == self._cached_end:
            self._has_room = self._budget.take(run.cells.size)
            if self._has_room:
                self._cached.append(run)
                self._cached_end = run.end

    def _walk(self, source: Source, position: int) -> Iterator[HeaderRun]:
        size = min(self.size, source.size)
        filling = reads_into(source)
        memory = Block(0 if filling is None else max(min(_READ_WINDOW, size - position), 0)).buffer
        at_once = _BATCHES_OF_A_RUN + max(_WINDOW, len(memory)) // BATCH.size
        most = min(at_once, (size - position) // (SMALLEST_MESSAGE + LOG_OVERHEAD.size) + 1)
        table, count = Cells(HeaderColumn, most), 0
        while position < size:
            count_of_window = _next_batches(source, filling, position, size, table.part(count, most), memory)
            if not count_of_window:
                break
            position = HeaderRun(table.part(count, count + count_of_window)).end
            count += count_of_window
            if count >= _BATCHES_OF_A_RUN:
                yield HeaderRun(table.part(0, count).copy())
                count = 0
        if count:  # a small table is kept as it is
            rest = table.part(0, count)
            yield HeaderRun(rest if most <= _SMALL else rest.copy())


def _next_batches(
    source: Source, filling: ReadsInto | None, position: int, end: int, table: Cells, memory: memoryview
) -> int:
    """Read bytes from `position` to at most `end`, and write the headers of the sound batches at their start to
    `table`. Return the number of these batches; 0 if the first batch is not sound. `filling` is the source if it can
    fill memory, else None. With `filling` as many bytes as fit are read into `memory`. If they have no whole sound
    batch, or without `filling`, a `_window` is read. Raises `StorageError` if the source cannot be read.
    """
    if filling is not None:
        target = memory[: min(len(memory), end - position)]
        count = _batches(target[: filling.read_into(position, target)], position, table)
        if count:
            return count
    return _batches(_window(source, position, end), position, table)


def _batches(window: memoryview, position: int, table: Cells) -> int:
    """Write the headers of the sound batches at the start of `window` to `table`, with their positions in the file.
    `window` is at `position` of the file. Return their number. Stops at the first batch that is not sound, and if the
    table is full.
    """
    start = count = 0
    while count < table.columns and (count_alike := _alike(window, start, table.part(count, table.columns))):
        batches = table.part(count, count + count_alike)
        end = HeaderRun(batches).end
        move_positions(batches, position + start)
        start += end
        count += count_alike
    return count


def _window(source: Source, position: int, end: int) -> memoryview:
    """Read and return `_WINDOW` bytes from `position`, or the whole batch there if that is larger. Such a batch must
    end at or before `end` and have a known magic. Return fewer bytes at `end` and at the end of the source. Raises
    `StorageError` if a file cannot be read.
    """
    left = end - position
    window = memoryview(source.read(position, min(_WINDOW, left)))
    if len(window) > MAGIC_POSITION:
        size = entry_size(window, 0)
        if len(window) < size <= left and window[MAGIC_POSITION] <= BATCH_MAGIC:
            window = memoryview(source.read(position, size))
    return window


def _alike(window: memoryview, start: int, table: Cells) -> int:
    """Write the headers of the sound batches from byte `start` of the window to `table`, with positions relative to
    `start`. The batches are either all of magic 2 or all older; they end before a batch of the other kind, before one
    that is not sound, and if the table is full. Return their number; 0 if the first batch is not sound.
    """
    left = len(window) - start
    if left <= MAGIC_POSITION or entry_size(window, start) > left:
        return 0
    magic = window[start + MAGIC_POSITION]
    if magic == BATCH_MAGIC:
        return scan_batches(address_of(window) + start, left, DEFAULT_LIMITS.batch_bytes, True, table)
    if magic > BATCH_MAGIC:
        return 0
    rows: list[tuple[int, ...]] = []
    for batch in Scanner(BufferSource(window[start:])):
        if not isinstance(batch.header, LegacyHeader) or len(rows) == table.columns:
            break
        rows.append(_legacy_row(batch.header, batch.position))
    for field, values in zip(HeaderColumn, zip(*rows, strict=True), strict=False):
        table.row(field)[: len(rows)] = column_of(values)
    return len(rows)


def _legacy_row(header: LegacyHeader, position: int) -> tuple[int, ...]:
    known = {
        "base_offset": header.offset,
        "batch_length": header.batch_length,
        "partition_leader_epoch": NO_PARTITION_LEADER_EPOCH,
        "magic": header.magic,
        "crc": header.crc,
        "attributes": header.attributes,
        "last_offset_delta": 0,
        "base_timestamp": header.timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": NO_PRODUCER_ID,
        "producer_epoch": NO_PRODUCER_EPOCH,
        "base_sequence": NO_SEQUENCE,
        "records_count": 1,
    }
    return (*(known[name] for name in BATCH.names), position)
