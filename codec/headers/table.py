"""Cache of the headers of a log's sound batches, as columns, for later examinations. A `HeaderTable` holds only headers
that a scan with checksums confirmed: from the start of a file up to the first byte that does not begin a batch of magic
0, 1 or 2 with a valid size and checksum. The rest is left to the plain scanner. Needs compiled code and numpy; see
`codec.native.thresholds`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

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
from kafkalog.codec.native.functions import scan_batches
from kafkalog.codec.native.tables import HeaderColumn, Table, empty_table, names
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.framing import BATCH_MAGIC, MAGIC_POSITION, entry_size

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["HeaderRun", "HeaderTable", "MemoryBudget"]


_WINDOW = 512 * KIB
"""Bytes read at once from a source that allocates its own memory."""
_READ_WINDOW = 2 * MIB
"""Bytes read at once into memory that is reused: few enough for the processor's cache, in which the checksum is then
computed.
"""
_BATCHES_OF_A_RUN = 16 * KIB


class MemoryBudget:
    """Bytes of columns that may still be kept, over all tables that share it."""

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, size: int) -> bool:
        """Reserve `size` bytes. Return False, and reserve nothing, if fewer are left."""
        if size > self._left:
            return False
        self._left -= size
        return True


class HeaderRun(BatchRun):
    """Headers of consecutive sound batches of any magic, without their bytes. Columns are those of a v2 header. For an
    older message, the base offset is its offset, the largest timestamp is its timestamp, and unknown fields have
    Kafka's sentinels.
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table, b"", 0)

    @classmethod
    def of(cls, run: BatchRun) -> HeaderRun:
        """Return a copy of a run's headers, with positions in the file instead of the window. A `HeaderRun` is returned
        unchanged.
        """
        if isinstance(run, HeaderRun):
            return run
        table = run.table.copy()
        table[HeaderColumn.POSITION] += run.window_start
        return cls(table)

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """Positions of the batches in the file, in bytes."""
        return self.starts

    def part(self, start: int, end: int) -> HeaderRun:
        """Return the batches from number `start` to `end` (exclusive)."""
        return HeaderRun(self.table[:, start:end])

    def before(self, end: int) -> HeaderRun:
        """Return the batches that end at or before position `end`."""
        return self if self.end <= end else self.part(0, int((self.positions + self.sizes <= end).sum()))

    def number_at(self, position: int) -> int | None:
        """Return the number of the batch that begins at this position; None if none does."""
        number = int(self.positions.searchsorted(position))
        return number if number < len(self) and int(self.positions[number]) == position else None

    def highest_before(self, end: int, highest: int) -> npt.NDArray[np.int64]:
        """Return, for each of the first `end` batches, the highest last offset before it. `highest` is the highest one
        before the run.
        """
        offsets = np.concatenate([np.array([highest], np.int64), self.last_offsets[:end]])
        highest_so_far: npt.NDArray[np.int64] = np.maximum.accumulate(offsets)
        return highest_so_far[:-1]

    def are_of_producers(self, first: int, end: int) -> bool:
        """Whether an idempotent or transactional producer wrote one of the batches from number `first` to `end`
        (exclusive).
        """
        return bool((self["producer_id"][first:end] > NO_PRODUCER_ID).any())

    def last_v2(self, first: int, end: int) -> int | None:
        """Return the number of the last v2 batch from number `first` to `end` (exclusive); None if there is none."""
        numbers = (self["magic"][first:end] == BATCH_MAGIC).nonzero()[0]
        return first + int(numbers[-1]) if len(numbers) else None

    def header(self, number: int) -> AnyHeader:
        """Return the header of batch `number`: a `BatchHeader` for magic 2, a `LegacyHeader` for 0 and 1."""
        if self["magic"][number] == BATCH_MAGIC:
            return self.v2_header(number)
        fields = dict(zip(names(HeaderColumn), self.table[:, number].tolist(), strict=True))
        return LegacyHeader(
            fields["base_offset"], fields["batch_length"], fields["crc"], fields["magic"], fields["attributes"],
            fields["max_timestamp"],
        )  # fmt: skip

    def batch(self, number: int) -> RecordBatch:
        """Return batch `number` with empty `data`, because its bytes were not kept."""
        return RecordBatch(self.header(number), int(self.positions[number]), b"")

    def __iter__(self) -> Iterator[RecordBatch]:
        for number in range(len(self)):
            yield self.batch(number)


class HeaderTable:
    """Headers of the sound batches in the first `size` bytes of a file; about 100 bytes each in memory."""

    def __init__(self, size: int, budget: MemoryBudget) -> None:
        self._budget = budget
        self._cached: list[HeaderRun] = []
        self._cached_end = 0
        self._is_complete = False
        self._has_room = True
        self.size = size

    def runs(self, source: Source, end: int) -> Iterator[HeaderRun]:
        """Yield runs of the batches that end at or before byte `end`, in order, up to the first batch that is not
        sound. Headers that are not cached are read from `source`, and cached if the memory budget allows.
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

    def noting(self, found: Iterable[BatchRun | RecordBatch]) -> Iterator[BatchRun | RecordBatch]:
        """Yield everything that another scan yields, unchanged, and cache the headers of its runs. That scan must check
        checksums and begin at the start of the file. Single batches are not cached.
        """
        for batches in found:
            if isinstance(batches, BatchRun):
                self._cache(HeaderRun.of(batches))
            yield batches
            del batches  # its bytes are large

    def _cache(self, run: HeaderRun) -> None:
        if self._has_room and int(run.positions[0]) == self._cached_end:
            self._has_room = self._budget.take(run.table.nbytes)
            if self._has_room:
                self._cached.append(run)
                self._cached_end = run.end

    def _walk(self, source: Source, position: int) -> Iterator[HeaderRun]:
        pieces: list[Table] = []
        count = 0
        scratch = empty_table(HeaderColumn, _WINDOW // BATCH.size)
        size = min(self.size, source.size)
        filling = reads_into(source)
        memory = Block(0 if filling is None else max(min(_READ_WINDOW, size - position), 0)).buffer
        while position < size:
            tables = _next_pieces(source, filling, position, size, scratch, memory)
            if not tables:
                break
            pieces += tables
            position = HeaderRun(tables[-1]).end
            count += sum(piece.shape[1] for piece in tables)
            if count >= _BATCHES_OF_A_RUN:
                yield HeaderRun(np.concatenate(pieces, axis=1))
                pieces, count = [], 0
        if pieces:
            yield HeaderRun(np.concatenate(pieces, axis=1))


def _next_pieces(
    source: Source, filling: ReadsInto | None, position: int, end: int, scratch: Table, memory: memoryview
) -> list[Table]:
    """Return tables of the sound batches from `position`, from one window that ends at or before `end`; an empty list
    if the first batch is not sound. If `filling` (the source, if it can fill memory) is not None, the window is read
    into `memory`, and a new one is read only if that finds no whole batch. `scratch` is overwritten.
    """
    if filling is not None:
        target = memory[: min(len(memory), end - position)]
        tables = _pieces(target[: filling.read_into(position, target)], position, scratch)
        if tables:
            return tables
    return _pieces(_window(source, position, end), position, scratch)


def _pieces(window: memoryview, position: int, scratch: Table) -> list[Table]:
    """Return tables of the sound batches from the start of `window`, which is at `position` of the file; empty if there
    are none. A table has batches of magic 2 only, or older entries only; positions are those in the file. `scratch` is
    overwritten.
    """
    tables: list[Table] = []
    address = np.frombuffer(window, np.uint8).ctypes.data
    start = 0
    while (piece := _piece(window, start, address, scratch)) is not None:
        size = int(piece[HeaderColumn.POSITION, -1] + piece[HeaderColumn.BATCH_LENGTH, -1]) + LOG_OVERHEAD.size
        piece[HeaderColumn.POSITION] += position + start
        tables.append(piece)
        start += size
    return tables


def _window(source: Source, position: int, end: int) -> memoryview:
    """Return the bytes from `position`: a window, or one whole batch if that is larger and ends at or before `end`.
    Never more than the bytes before `end`.
    """
    left = end - position
    window = memoryview(source.read(position, min(_WINDOW, left)))
    if len(window) > MAGIC_POSITION:
        size = entry_size(window, 0)
        if len(window) < size <= left and window[MAGIC_POSITION] <= BATCH_MAGIC:
            window = memoryview(source.read(position, size))
    return window


def _piece(window: memoryview, start: int, address: int, scratch: Table) -> Table | None:
    """Return the headers of sound batches from byte `start` of the window, with positions relative to `start`: only v2
    batches, or only older messages. None if the first is not sound. `address` is that of the window; `scratch` is
    overwritten.
    """
    left = len(window) - start
    if left <= MAGIC_POSITION or entry_size(window, start) > left:
        return None
    magic = window[start + MAGIC_POSITION]
    if magic == BATCH_MAGIC:
        count = scan_batches(address + start, left, DEFAULT_LIMITS.batch_bytes, True, scratch)
        return scratch[:, :count].copy() if count else None
    if magic > BATCH_MAGIC:
        return None
    rows: list[tuple[int, ...]] = []
    for batch in Scanner(BufferSource(window[start:])):
        if not isinstance(batch.header, LegacyHeader):
            break
        rows.append(_legacy_row(batch.header, batch.position))
    return np.array(rows, np.int64).T.copy() if rows else None


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
