"""Check of the records of many batches with compiled code, which returns only the batches that Python must examine.

Batches are opened by the functions that `columnar.decompressed` calls too. That module gives numpy's arrays, and a new
block of memory each time, which Arrow may keep. Here numpy is not needed, and all runs use the same block.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.codec.common.buffer_pool import Block
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import MIB, Limits
from kafkalog.codec.compression import decompress, native
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import BATCH, NO_END, TIMESTAMP_TYPE_FLAG, Codec
from kafkalog.codec.native.cells import column_of, zeros
from kafkalog.codec.native.functions import (
    address_of,
    decompress_batches,
    locate_records,
    newest_timestamps,
    same_codec,
)
from kafkalog.codec.native.library import check_streams
from kafkalog.codec.native.tables import UNDECODED, HeaderColumn

__all__ = ["RecordsOfRuns"]

_BUDGET = 4 * MIB
"""Record bytes that are decompressed before they are examined: few enough for the processor's cache."""


class _Opened:
    """Addresses and sizes in bytes of the record bytes of consecutive batches, and the memory that holds them."""

    def __init__(self, addresses: memoryview, sizes: memoryview, memory: object) -> None:
        self.addresses = addresses
        self.sizes = sizes
        self.memory = memory


class RecordsOfRuns:
    """Checker of the records in runs of batches; it does not keep them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._block: Block | None = None

    def doubtful(self, run: BatchRun) -> Iterator[int]:
        """Yield, in order, the numbers of the batches of a run that must be examined in Python. These are batches with
        records that compiled code cannot read, a negative record count, an unknown compression, or more than a limit
        allows; also batches with CreateTime whose header has another largest timestamp than their records. The records
        of all other batches are sound, and so is a batch without records. Raises `StorageError` while iterating if
        compiled code cannot be loaded.
        """
        start, limits = 0, self._limits
        while start < len(run):
            codec, end = same_codec(run.cells, start, limits.records_per_batch, limits.decompressed_batch_bytes)
            if codec == UNDECODED:
                yield from range(start, end)
            while codec >= 0 and start < end:
                opened = self._opened(run.part(start, end), codec)
                if opened is None:
                    yield start
                    start += 1
                else:
                    yield from self._doubtful(opened, run, start)
                    start += len(opened.sizes)
            start = end

    def _doubtful(self, opened: _Opened, run: BatchRun, start: int) -> Iterator[int]:
        """Yield the numbers of the batches in `opened` that must be examined in Python, by the rules of `doubtful`. The
        first batch in `opened` has the number `start` in the run.
        """
        done, count, most = 0, len(opened.sizes), self._limits.headers_per_record
        newest, of_header = zeros(count), run.row(HeaderColumn.MAX_TIMESTAMP)[start : start + count]
        attributes = run.attributes[start : start + count]
        while done < count:
            checked = done + newest_timestamps(
                opened.addresses[done:], opened.sizes[done:], run.cells, start + done, most, newest[done:]
            )
            if newest[done:checked] != of_header[done:checked]:
                for number in range(done, checked):
                    is_appended = attributes[number] & TIMESTAMP_TYPE_FLAG
                    if newest[number] != of_header[number] and not is_appended:
                        yield start + number
            if checked < count:
                yield start + checked  # it has a fault
            done = checked + 1

    def _opened(self, run: BatchRun, codec: int) -> _Opened | None:
        """Return the record bytes of the first batches of a run: at least one batch, and about `_BUDGET` bytes.
        Compressed batches are decompressed into memory of this object, which the next call overwrites. If compiled code
        cannot decompress the first batch, it is returned alone, in memory of its own. All batches must have the
        compression `codec`. Return None if the first batch cannot be decompressed at all or exceeds the limit.
        """
        most, window = self._limits.decompressed_batch_bytes, run.window
        addresses, sizes = zeros(len(run)), zeros(len(run))
        is_stored = codec == Codec.NONE
        bounds = (most, _BUDGET) if is_stored else (NO_END, NO_END)
        count = locate_records(run.cells, address_of(window), *bounds, addresses, sizes)
        if is_stored:
            return _Opened(addresses[:count], sizes[:count], window) if count else None
        check_streams()
        if self._block is None:
            self._block = Block(2 * _BUDGET)
        fields = native.decompressor_of_thread(self._limits.zstd_window_bytes, self._block.address, self._block.size)
        of_contents, content_sizes = zeros(len(run)), zeros(len(run))
        count = decompress_batches(
            codec, column_of(fields), addresses, sizes, most, _BUDGET, of_contents, content_sizes
        )
        if count:
            return _Opened(of_contents[:count], content_sizes[:count], self._block)
        try:
            content = decompress(codec, run.batch(0).data[BATCH.size :], self._limits)
        except FormatError:
            return None
        return _Opened(column_of([address_of(content)]), column_of([len(content)]), content)
