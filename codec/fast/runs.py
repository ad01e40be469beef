"""Many sound batches at a time: the compiled walk over a source, with the readable one for everything it leaves.

`RunScanner` gives what `codec.scan.Scanner` gives, in the same order and with the same end, but stretches of sound v2
batches as one `BatchRun`, whose headers are columns.  Needs numba and numpy; `fast.choice` knows when that is worth it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from kafkalog.codec.fast.arena import Block
from kafkalog.codec.fast.walk_kernel import FIELDS, walk
from kafkalog.codec.findings import Finding, StopReason
from kafkalog.codec.limits import DEFAULT_LIMITS, KIB, MIB, Limits
from kafkalog.codec.model import BATCH, CONTROL_FLAG, LOG_OVERHEAD, TRANSACTIONAL_FLAG, BatchHeader, RecordBatch
from kafkalog.codec.scan import MAGIC_POSITION, Scanner
from kafkalog.codec.source import ReadsInto, Source, lent

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafkalog.codec.fast.legacy_runs import MessageRun

__all__ = ["BatchRun", "RunScanner", "Taker"]

_ROWS = {name: number for number, name in enumerate(FIELDS)}
_SMALLEST_WINDOW, _LARGEST_WINDOW = 2 * MIB, 8 * MIB
_LENT_WINDOW = 8 * MIB
"""Bytes offered to a taker at a time where the source lends them."""
_MOST_PATIENCE = 31
"""Runs at most before a taker that took little is asked again."""
_BATCHES_OF_A_RUN = 8 * KIB
_UNALIKE = 40
"""More columns than that, so that the rows of the table do not all fall into the same lines of the cache."""
_SIZE = LOG_OVERHEAD.reader("size")

Taker: TypeAlias = "Callable[[bytes | memoryview, int], tuple[int, bool]]"
"""(window, its position) -> bytes of whole batches that it took from the beginning of the window on, and whether it
left the others only because that was enough at a time."""


class BatchRun:
    """Consecutive v2 batches whose size and checksum are right: `run["base_offset"]` is that field of all of them."""

    def __init__(self, table: npt.NDArray[np.int64], window: bytes | memoryview, window_start: int) -> None:
        self._table = table
        self._window = window
        self._window_start = window_start

    def __len__(self) -> int:
        return int(self._table.shape[1])

    def __getitem__(self, name: str) -> npt.NDArray[np.int64]:
        column: npt.NDArray[np.int64] = self._table[_ROWS[name]]
        return column

    @property
    def table(self) -> npt.NDArray[np.int64]:
        """A row for each of `walk_kernel.FIELDS`, and one of where batches begin in `window`; not contiguous."""
        return self._table

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where batches begin in `window`, bytes."""
        starts: npt.NDArray[np.int64] = self._table[-1]
        return starts

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """Where batches begin in the file, bytes."""
        return self.starts + self._window_start

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of the whole batches."""
        return self["batch_length"] + LOG_OVERHEAD.size

    @property
    def last_offsets(self) -> npt.NDArray[np.int64]:
        """Offset of the last record of each batch as it was produced."""
        return self["base_offset"] + self["last_offset_delta"]

    @property
    def window(self) -> bytes | memoryview:
        """The bytes that the batches lie in."""
        return self._window

    @property
    def end(self) -> int:
        """Position behind the last batch, in the file."""
        return int(self.positions[-1] + self.sizes[-1])

    @property
    def next_offset(self) -> int:
        """The offset behind the largest one."""
        return int(self.last_offsets.max()) + 1

    def of_transactions(self) -> Iterator[RecordBatch]:
        """Markers, and where a producer writes in a transaction; not again while it is the only one that does."""
        control = self["attributes"] & CONTROL_FLAG != 0
        wanted = control | (self["attributes"] & TRANSACTIONAL_FLAG != 0)
        numbers = np.flatnonzero(wanted)
        producers, data = self["producer_id"][numbers], ~control[numbers]
        again = np.zeros(len(numbers), np.bool_)
        again[1:] = (producers[1:] == producers[:-1]) & data[1:] & data[:-1]
        for number in numbers[~again].tolist():
            yield self.batch(number)

    def part(self, start: int, end: int) -> BatchRun:
        """The batches from number `start` up to, not including, `end`."""
        return BatchRun(self._table[:, start:end], self._window, self._window_start)

    def where(self, chosen: npt.NDArray[np.bool_]) -> BatchRun:
        """Only the batches that a mask selects."""
        return BatchRun(self._table[:, chosen], self._window, self._window_start)

    def batch(self, number: int) -> RecordBatch:
        """One of them, as the readable walk gives it."""
        column = self._table[:, number].tolist()
        start = column[-1]
        size = column[_ROWS["batch_length"]] + LOG_OVERHEAD.size
        data = memoryview(self._window)[start : start + size]
        return RecordBatch(BatchHeader(*column[:-1]), start + self._window_start, data)

    def __iter__(self) -> Iterator[RecordBatch]:
        window = memoryview(self._window)
        for column in self._table.T.tolist():
            start = column[-1]
            size = column[_ROWS["batch_length"]] + LOG_OVERHEAD.size
            yield RecordBatch(BatchHeader(*column[:-1]), start + self._window_start, window[start : start + size])


class RunScanner:
    """Iterates over runs and single batches; afterwards `valid_bytes`, `stop` and `findings` tell the rest.

    Entries of magic 0 and 1 come one by one; `all_runs` gives those as runs too.
    """

    def __init__(
        self,
        source: Source,
        *,
        position: int = 0,
        end: int | None = None,
        check_crc: bool = True,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._source = source
        self._taker: Taker | None = None
        self._runs_before_taker = self._patience = 0
        self._reads_into = source if isinstance(source, ReadsInto) else None
        self._message_runs = False
        self._end = source.size if end is None else min(end, source.size)
        self._check_crc = check_crc
        self._limits = limits
        self._window_bytes = _SMALLEST_WINDOW
        self._table: Any = np.empty((len(FIELDS) + 1, _BATCHES_OF_A_RUN + _UNALIKE), np.int64)
        self.valid_bytes = position
        self.is_large_next = False
        """set where `left_by` gives None because a batch comes next that is larger than a window"""
        self.stop: StopReason | None = None
        self.findings: list[Finding] = []

    def __iter__(self) -> Iterator[BatchRun | RecordBatch]:
        return cast("Iterator[BatchRun | RecordBatch]", self._walk())

    def all_runs(self) -> Iterator[BatchRun | MessageRun | RecordBatch]:
        """The same with runs of every magic."""
        self._message_runs = True
        return cast("Iterator[BatchRun | MessageRun | RecordBatch]", self._walk())

    def left_by(self, taker: Taker) -> Iterator[BatchRun | MessageRun | RecordBatch | None]:
        """What a taker leaves of the same, which is offered windows first; None where it has taken something.

        So is None before a large batch is read, see `is_large_next`: what was taken can be given out before.
        """
        self._message_runs = True
        self._taker = taker
        return self._walk()

    def _walk(self) -> Iterator[BatchRun | MessageRun | RecordBatch | None]:
        window: bytes | memoryview = b""
        start = 0
        while self.stop is None:
            if self._taker is not None:
                yield from self._offered(self._taker)
            position = self.valid_bytes
            at = position - start
            if at + self._wanted(window, at) > len(window) and start + len(window) < self._end:
                window, start = self._read(position), position
            run = self._run(window, start, position)
            if run is not None:
                self.valid_bytes = run.end
                yield run
                continue
            if self._taker is not None and self._is_large(window, position - start):
                window, start = b"", position
                self.is_large_next = True
                yield None
                self.is_large_next = False
            yield from self._one_by_one(position)

    def _is_large(self, window: bytes | memoryview, at: int) -> bool:
        """Whether the batch at `at` says that it is larger than a window."""
        return len(window) - at >= LOG_OVERHEAD.size and _SIZE(window, at) > max(self._window_bytes, len(window) - at)

    def _one_by_one(self, position: int) -> Iterator[RecordBatch]:
        """What the readable walk finds until runs may come again; nothing of it is held afterwards."""
        one = Scanner(self._source, position=position, end=self._end, check_crc=self._check_crc, limits=self._limits)
        for batch in one:
            self.valid_bytes = one.valid_bytes
            self._window_bytes = max(self._window_bytes, min(4 * batch.size, _LARGEST_WINDOW))
            is_alone = batch.magic == 2 or (self._message_runs and batch.magic in (0, 1))
            yield batch
            del batch
            # messages that have no run follow each other: going on here spares a window for each of them
            if is_alone:
                break
        self.stop = one.stop
        self.findings += one.findings

    def _offered(self, taker: Taker) -> Iterator[None]:
        """Offer windows as long as the taker takes most of them; where it took little, not again for a while."""
        if self._runs_before_taker > 0:
            self._runs_before_taker -= 1
            return
        while self._end - self.valid_bytes >= BATCH.size:
            position = self.valid_bytes
            size = min(_LENT_WINDOW, self._end - position)
            with lent(self._source, position, size) as part:
                window = self._read(position) if part is None else part
                size = len(window)
                taken, enough = taker(window, position)
                del window  # what is lent must not be held any longer
            self.valid_bytes += taken
            if taken:
                yield None
            if taken <= size // 2 and not enough:
                self._patience = min(2 * self._patience + 1, _MOST_PATIENCE)
                self._runs_before_taker = self._patience
                return
            self._patience = 0

    def _read(self, position: int) -> bytes | memoryview:
        size = min(self._window_bytes, self._end - position)
        if self._reads_into is None:
            return self._source.read(position, size)
        target = Block(size).buffer[:size]
        return target[: self._reads_into.read_into(position, target)]

    def _wanted(self, window: bytes | memoryview, at: int) -> int:
        """Bytes that the batch at `at` of the window takes, if the window shows that."""
        if len(window) - at < BATCH.size:
            return BATCH.size
        return min(max(_SIZE(window, at) + LOG_OVERHEAD.size, BATCH.size), self._window_bytes)

    def _run(self, window: bytes | memoryview, start: int, position: int) -> BatchRun | MessageRun | None:
        size = min(len(window), self._end - start) - (position - start)
        if size < BATCH.size:
            return None
        if self._message_runs and window[position - start + MAGIC_POSITION] < 2:
            from kafkalog.codec.fast.legacy_runs import message_run

            rest = memoryview(window)[position - start : position - start + size]
            return message_run(rest, position, largest=self._limits.batch_bytes, check=self._check_crc)
        address = np.frombuffer(window, np.uint8).ctypes.data + (position - start)
        found = walk(address, size, self._limits.batch_bytes, self._check_crc, self._table)
        if found == 0:
            return None
        return BatchRun(self._table[:, :found].copy(), memoryview(window)[position - start :], position)
