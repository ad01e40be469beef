"""Many sound batches at a time: the compiled walk over a source, with the readable one for everything it leaves.

`RunScanner` gives what `codec.scanner.Scanner` gives, in the same order and with the same end, but consecutive sound
batches as one run, whose headers are columns.  Needs compiled code and numpy; see `codec.thresholds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from kafkalog.codec.buffer_pool import Block
from kafkalog.codec.findings import Finding, StopReason
from kafkalog.codec.framing import BATCH_MAGIC, MAGIC_POSITION, entry_size
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.limits import DEFAULT_LIMITS, KIB, MIB, Limits
from kafkalog.codec.model import BATCH, LOG_OVERHEAD, RecordBatch
from kafkalog.codec.native.functions import scan_batches
from kafkalog.codec.native.tables import HeaderColumn, Table, empty_table
from kafkalog.codec.scanner import Scanner
from kafkalog.codec.source import Source, reads_into

if TYPE_CHECKING:
    from kafkalog.codec.headers.message_runs import MessageRun

__all__ = ["RunScanner", "WindowDecoder"]


_SMALLEST_WINDOW, _LARGEST_WINDOW = 4 * MIB, 8 * MIB
_WINDOW_BEHIND = 64 * KIB
"""Bytes read, at least, behind what is likely to be wanted."""
_PAGE = 4 * KIB
"""Bytes lie in a page of memory where they lie in one of the file: the system copies whole pages a third faster."""
_MOST_PATIENCE = 31
"""Runs at most before a decoder that took little is asked again."""
_BATCHES_OF_A_RUN = 8 * KIB
_UNALIKE = 40
"""More columns than that, so that the rows of the table do not all fall into the same lines of the cache."""

WindowDecoder: TypeAlias = "Callable[[bytes | memoryview, int], tuple[int, bool]]"
"""(window, its position) -> bytes of whole batches that it took from the beginning of the window on, and whether it
left the others only because that was enough at a time."""


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
        likely_end: int | None = None,
        check_crc: bool = True,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._source = source
        self._likely_end = likely_end
        self._rest: tuple[bytes | memoryview, int] | None = None
        """a window that was read and not taken whole, and where it begins: it need not be read again"""
        self._decoder: WindowDecoder | None = None
        self._runs_before_offer = self._patience = 0
        self._reads_into = reads_into(source)
        self._with_message_runs = False
        self._end = source.size if end is None else min(end, source.size)
        self._check_crc = check_crc
        self._limits = limits
        self._window_bytes = _SMALLEST_WINDOW
        self._room = 0
        """bytes of the largest window so far: each gets as much memory, so that the last one needs no other"""
        self._headers: Table | None = None
        self.valid_bytes = position
        self.is_large_next = False
        """set where `not_decoded_by` gives None because a batch comes next that is larger than a window"""
        self.stop: StopReason | None = None
        self.findings: list[Finding] = []

    def __iter__(self) -> Iterator[BatchRun | RecordBatch]:
        return cast("Iterator[BatchRun | RecordBatch]", self._walk())

    def all_runs(self) -> Iterator[BatchRun | MessageRun | RecordBatch]:
        """Runs of every magic, and the batches between them."""
        self._with_message_runs = True
        return cast("Iterator[BatchRun | MessageRun | RecordBatch]", self._walk())

    def not_decoded_by(self, decoder: WindowDecoder) -> Iterator[BatchRun | MessageRun | RecordBatch | None]:
        """What a decoder of windows leaves, which is offered them first; None where it has decoded something.

        So is None before a large batch is read, see `is_large_next`: what was decoded can be given out before.
        """
        self._with_message_runs = True
        self._decoder = decoder
        return self._walk()

    def _walk(self) -> Iterator[BatchRun | MessageRun | RecordBatch | None]:
        window: bytes | memoryview = b""
        start = 0
        while self.stop is None:
            if self._decoder is not None:
                yield from self._offered(self._decoder)
                if self._rest is not None:
                    (window, start), self._rest = self._rest, None
                if self.valid_bytes == self._end:
                    self.stop = StopReason.END
                    return
            position = self.valid_bytes
            at = position - start
            if at + self._wanted(window, at) > len(window) and start + len(window) < self._end:
                window, start = self._read(position), position
            run = self._run(window, start, position)
            if run is not None:
                self.valid_bytes = run.end
                yield run
                continue
            if self._decoder is not None and self._is_large(window, position - start):
                window, start = b"", position
                self.is_large_next = True
                yield None
                self.is_large_next = False
            yield from self._one_by_one(position)

    def _is_large(self, window: bytes | memoryview, at: int) -> bool:
        """Whether the batch at `at` says that it is larger than a window."""
        left = len(window) - at
        return left >= LOG_OVERHEAD.size and entry_size(window, at) > max(self._window_bytes, left)

    def _one_by_one(self, position: int) -> Iterator[RecordBatch]:
        """What the readable walk finds until runs may come again; nothing of it is held afterwards."""
        one = Scanner(self._source, position=position, end=self._end, check_crc=self._check_crc, limits=self._limits)
        for batch in one:
            self.valid_bytes = one.valid_bytes
            self._window_bytes = max(self._window_bytes, min(4 * batch.size, _LARGEST_WINDOW))
            is_alone = batch.magic == 2 or (self._with_message_runs and batch.magic in (0, 1))
            yield batch
            del batch
            # messages that have no run follow each other: going on here spares a window for each of them
            if is_alone:
                break
        self.stop = one.stop
        self.findings += one.findings

    def _offered(self, decoder: WindowDecoder) -> Iterator[None]:
        """Offer windows as long as the decoder takes most of them; where it took little, not again for a while."""
        if self._runs_before_offer > 0:
            self._runs_before_offer -= 1
            return
        while self._end - self.valid_bytes >= BATCH.size:
            position, self._rest = self.valid_bytes, None
            window = self._read(position)
            size = len(window)
            taken, enough = decoder(window, position)
            if taken < size:
                self._rest = window, position
            del window  # its memory serves for the next one
            self.valid_bytes += taken
            if taken:
                yield None
            if taken <= size // 2 and not enough:
                self._patience = min(2 * self._patience + 1, _MOST_PATIENCE)
                self._runs_before_offer = self._patience
                return
            self._patience = 0

    def _size(self, window_bytes: int, position: int) -> int:
        """The bytes of a window at a position: not many behind what is likely to be wanted."""
        window_bytes -= position % _PAGE
        if self._likely_end is not None:
            window_bytes = min(window_bytes, max(self._likely_end - position, _WINDOW_BEHIND))
        return min(window_bytes, self._end - position)

    def _read(self, position: int) -> bytes | memoryview:
        size = self._size(self._window_bytes, position)
        if self._reads_into is None:
            return self._source.read(position, size)
        start = position % _PAGE
        self._room = max(self._room, start + size)
        target = Block(self._room).buffer[start : start + size]
        return target[: self._reads_into.read_into(position, target)]

    def _wanted(self, window: bytes | memoryview, at: int) -> int:
        """Bytes that the batch at `at` of the window takes, if the window shows that."""
        if len(window) - at < BATCH.size:
            return BATCH.size
        return min(max(entry_size(window, at), BATCH.size), self._window_bytes)

    def _run(self, window: bytes | memoryview, start: int, position: int) -> BatchRun | MessageRun | None:
        size = min(len(window), self._end - start) - (position - start)
        if size < BATCH.size:
            return None
        if self._with_message_runs and window[position - start + MAGIC_POSITION] < BATCH_MAGIC:
            from kafkalog.codec.headers.message_runs import message_run

            rest = memoryview(window)[position - start : position - start + size]
            return message_run(rest, position, largest=self._limits.batch_bytes, check=self._check_crc)
        address = np.frombuffer(window, np.uint8).ctypes.data + (position - start)
        if self._headers is None:  # which takes a megabyte, and is not needed where a decoder takes everything
            self._headers = empty_table(HeaderColumn, _BATCHES_OF_A_RUN + _UNALIKE)
        found = scan_batches(address, size, self._limits.batch_bytes, self._check_crc, self._headers)
        if found == 0:
            return None
        return BatchRun(self._headers[:, :found].copy(), memoryview(window)[position - start :], position)
