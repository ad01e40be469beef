"""Scan of a source for many sound batches at a time with compiled code; everything else is left to the plain scanner.

`RunScanner` yields the same batches as `codec.plain.scanner.Scanner`, in the same order and with the same end.
Consecutive sound batches are yielded as one run, whose headers are columns. Needs compiled code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias, cast

from kafkalog.codec.common.buffer_pool import Block
from kafkalog.codec.common.findings import Finding, StopReason
from kafkalog.codec.common.limits import DEFAULT_LIMITS, KIB, MIB, Limits
from kafkalog.codec.common.source import Source, reads_into
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import BATCH, LOG_OVERHEAD, RecordBatch
from kafkalog.codec.native.cells import Cells
from kafkalog.codec.native.functions import address_of, scan_batches
from kafkalog.codec.native.tables import HeaderColumn
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.framing import BATCH_MAGIC, MAGIC_POSITION, entry_size

if TYPE_CHECKING:
    from kafkalog.codec.headers.message_runs import MessageRun

__all__ = ["WINDOW_OF_RECORDS", "RunScanner", "WindowDecoder"]


WINDOW_OF_RECORDS = 4 * MIB
"""Bytes to read at once if records are decoded from the windows."""
_SMALLEST_WINDOW, _LARGEST_WINDOW = 2 * MIB, 8 * MIB
"""Bytes read at once: the window before is still in memory meanwhile."""
_WINDOW_BEHIND = 64 * KIB
"""Least number of bytes to read after the position at which the caller probably stops."""
_PAGE = 4 * KIB
"""Size of a page. Data is read to the same offset within a page of memory as in the file: the system copies whole pages
a third faster.
"""
_MOST_PATIENCE = 31
"""Most runs to yield before a decoder that accepted little is offered a window again."""
_BATCHES_OF_A_RUN = 8 * KIB
_UNALIKE = 40
"""Extra columns in a table, so that its rows do not share cache lines."""

WindowDecoder: TypeAlias = "Callable[[bytes | memoryview, int], tuple[int, bool]]"
"""Function (window, position of the window in the file) -> number of bytes of whole batches that it decoded from the
start of the window, and whether it stopped only because it has enough for now.
"""


class RunScanner:
    """Iterator over runs and single batches. At its end, `valid_bytes` is the position after the last valid batch,
    `stop` the reason for stopping, and `findings` has the fault there, if any. Iteration yields entries of magic 0 and
    1 one by one; `all_runs` also yields runs of them.
    """

    def __init__(
        self,
        source: Source,
        *,
        position: int = 0,
        end: int | None = None,
        likely_end: int | None = None,
        window_bytes: int | None = None,
        check_crc: bool = True,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._source = source
        self._likely_end = likely_end
        self._rest: tuple[bytes | memoryview, int] | None = None
        """a window that was read but not completely decoded, and its position: it need not be read again"""
        self._decoder: WindowDecoder | None = None
        self._runs_before_offer = self._patience = 0
        self._reads_into = reads_into(source)
        self._with_message_runs = False
        self._end = source.size if end is None else min(end, source.size)
        self._check_crc = check_crc
        self._limits = limits
        self._window_bytes = _SMALLEST_WINDOW if window_bytes is None else window_bytes
        self._room = 0
        """size in bytes of the largest window so far: every window gets this much memory, so that the last one needs no
        other
        """
        self._headers: Cells | None = None
        self.valid_bytes = position
        self.is_large_next = False
        """True while `not_decoded_by` yields None because the next batch is larger than a window"""
        self.stop: StopReason | None = None
        self.findings: list[Finding] = []

    def __iter__(self) -> Iterator[BatchRun | RecordBatch]:
        return cast("Iterator[BatchRun | RecordBatch]", self._walk())

    def all_runs(self) -> Iterator[BatchRun | MessageRun | RecordBatch]:
        """Yield runs of every magic, and the batches between them one by one, in file order."""
        self._with_message_runs = True
        return cast("Iterator[BatchRun | MessageRun | RecordBatch]", self._walk())

    def not_decoded_by(self, decoder: WindowDecoder) -> Iterator[BatchRun | MessageRun | RecordBatch | None]:
        """Offer windows to `decoder` first, and yield the runs and batches that it does not decode. Yield None after
        each window of which it has decoded something.

        Also yield None before a batch larger than a window is read, with `is_large_next` set, so that the caller can
        pass on decoded records and free their memory.
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
        """Whether the batch at index `at` of the window is, by its size field, larger than a window."""
        left = len(window) - at
        return left >= LOG_OVERHEAD.size and entry_size(window, at) > max(self._window_bytes, left)

    def _one_by_one(self, position: int) -> Iterator[RecordBatch]:
        """Yield the batches that the plain scanner finds from `position`, up to and including the first one whose magic
        allows it in a run. Compiled code can continue after that one.

        Updates `valid_bytes`, and at the end `stop` and `findings`; the size of later windows grows with a large batch.
        No batch is kept. Raises `StorageError` if a file cannot be read.
        """
        scanner = Scanner(
            self._source, position=position, end=self._end, check_crc=self._check_crc, limits=self._limits
        )
        for batch in scanner:
            self.valid_bytes = scanner.valid_bytes
            self._window_bytes = max(self._window_bytes, min(4 * batch.size, _LARGEST_WINDOW))
            is_alone = batch.magic == 2 or (self._with_message_runs and batch.magic in (0, 1))
            yield batch
            del batch
            # messages that cannot be in a run follow each other: continuing here saves reading a window for each
            if is_alone:
                break
        self.stop = scanner.stop
        self.findings += scanner.findings

    def _offered(self, decoder: WindowDecoder) -> Iterator[None]:
        """Pass windows to the decoder one after another; yield None after each window from which it decoded something.
        `valid_bytes` advances by the decoded bytes. A window that was not decoded completely is kept in `_rest`. Ends
        if fewer bytes than a header are left. Also ends if the decoder decodes at most half of a window and does not
        report that it has enough; the next call then does nothing, and after further such ends in a row the next 3, 7,
        15 and then always 31 calls. Raises `StorageError` if a file cannot be read.
        """
        if self._runs_before_offer > 0:
            self._runs_before_offer -= 1
            return
        while self._end - self.valid_bytes >= BATCH.size:
            position, self._rest = self.valid_bytes, None
            window = self._read(position)
            size = len(window)
            decoded_bytes, has_enough = decoder(window, position)
            if decoded_bytes < size:
                self._rest = window, position
            del window  # so that its memory can be reused for the next window
            self.valid_bytes += decoded_bytes
            if decoded_bytes:
                yield None
            if decoded_bytes <= size // 2 and not has_enough:
                self._patience = min(2 * self._patience + 1, _MOST_PATIENCE)
                self._runs_before_offer = self._patience
                return
            self._patience = 0

    def _size(self, window_bytes: int, position: int) -> int:
        """Return the size in bytes of the window to read at this position in the file. The window does not reach far
        beyond the likely end.
        """
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
        """Return the size in bytes of the batch at index `at` of the window, but at most the size of a window. If its
        header is not completely in the window, return the size of a header.
        """
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
        address = address_of(window) + (position - start)
        if self._headers is None:  # it takes a megabyte, and is not needed if a decoder decodes everything
            most = max((self._end - position) // BATCH.size, 1)
            self._headers = Cells(HeaderColumn, min(most, _BATCHES_OF_A_RUN) + _UNALIKE)
        count = scan_batches(address, size, self._limits.batch_bytes, self._check_crc, self._headers)
        if count == 0:
            return None
        return BatchRun(self._headers.part(0, count).copy(), memoryview(window)[position - start :], position)
