"""From runs of v0 and v1 entries to Arrow batches by the compiled decoder, as `run_filler` does it for v2.

Bare messages are read where they lie, the sets in wrappers are decompressed first.  What the decoder cannot take is
handed back, entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalog.codec.compression import decompress
from kafkalog.codec.errors import FormatError
from kafkalog.codec.fast.column_buffers import MOST_BYTES
from kafkalog.codec.fast.legacy_columns import MessageColumns
from kafkalog.codec.fast.legacy_kernel import survey, values_of
from kafkalog.codec.fast.legacy_runs import MessageRun
from kafkalog.codec.limits import MIB, Limits
from kafkalog.codec.model import CODEC_MASK, Codec

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

__all__ = ["MessageFiller"]

_MOST_AT_ONCE = 4 * MIB
"""Sets that are decompressed before they are decoded, bytes: what a processor's cache may still hold."""


class _Opened(NamedTuple):
    """Where the messages of the first entries of a run lie, size -1 where they cannot be had; `keep` keeps them."""

    addresses: Int64s
    sizes: Int64s
    keep: object


def _open(run: MessageRun, limits: Limits) -> _Opened:
    """As many entries from the first one on as hold about `_MOST_AT_ONCE` bytes in wrappers."""
    base = np.frombuffer(run.window, np.uint8).ctypes.data
    addresses, sizes = run["position"] + base, run.sizes
    sizes[sizes > MOST_BYTES // 2] = -1
    wrappers = np.flatnonzero(run["attributes"] & CODEC_MASK != Codec.NONE)
    if len(wrappers) == 0:
        return _Opened(addresses, sizes, run.window)
    places = np.empty((2, len(run)), np.int64)
    values_of(base, run.table, places)
    window = memoryview(run.window)
    pieces: list[bytes] = []
    left = _MOST_AT_ONCE
    fields = (wrappers, *places[:, wrappers], run["attributes"][wrappers] & CODEC_MASK, run["magic"][wrappers])
    for number, start, size, codec, magic in zip(*(field.tolist() for field in fields), strict=True):
        if left <= 0:
            return _Opened(addresses[:number], sizes[:number], (run.window, pieces))
        piece = None if size < 0 else _set_of(codec, magic, window[start : start + size], limits)
        if piece is None:
            sizes[number] = -1
            continue
        pieces.append(piece)
        addresses[number], sizes[number] = pa.py_buffer(piece).address, len(piece)
        left -= len(piece)
    return _Opened(addresses, sizes, (run.window, pieces))


def _set_of(codec: int, magic: int, value: memoryview, limits: Limits) -> bytes | None:
    """What a wrapper holds, decompressed; None if it cannot be, or is more than goes into one Arrow batch."""
    try:
        piece = decompress(codec, value, limits, magic=magic)
    except FormatError:
        return None
    return piece if len(piece) <= MOST_BYTES // 2 else None


class MessageFiller:
    """Collects the records of runs up to a bound of rows and bytes; used as a `RunFiller` is."""

    def __init__(
        self, schema: pa.Schema, topic: str | None, partition: int | None, limits: Limits, rows: int, most_bytes: int
    ) -> None:
        self._columns = MessageColumns(schema, topic, partition, limits, rows, most_bytes)
        self._limits = limits
        self._bytes = 0
        self.rows_bound = rows
        self._bytes_bound = min(most_bytes, MOST_BYTES)

    @property
    def is_empty(self) -> bool:
        """Nothing was collected."""
        return self._bytes == 0

    def take(self) -> pa.RecordBatch:
        """What was collected; begins anew."""
        self._bytes = 0
        return self._columns.take()

    def take_run(self, run: MessageRun, low: Int64s, high: int) -> Iterator[int | None]:
        """Collect a run, of which the offsets from `low` (of each entry) up to, not including, `high` are wanted.

        Yields None where `take` must be called, and the number of an entry that somebody else must read.
        """
        start = 0
        while start < len(run):
            rest = run.part(start, len(run))
            opened = _open(rest, self._limits)
            count = len(opened.addresses)
            for number in self._take(rest.part(0, count), opened, low[start:], high):
                yield None if number is None else start + number
            start += count

    def _take(self, run: MessageRun, opened: _Opened, low: Int64s, high: int) -> Iterator[int | None]:
        found = np.empty((2, len(run)), np.int64)
        survey(opened.addresses, opened.sizes, run.table, self._limits.records_per_batch, found)
        faults = [*np.flatnonzero(found[0] < 0).tolist(), len(run)]
        done = 0
        for fault in faults:
            while done < fault:
                part = slice(done, min(fault, done + self.rows_bound + 1))
                fitting = self._fitting(found[0, part], opened.sizes[part])
                if fitting == 0:
                    yield None
                    continue
                these = slice(done, done + fitting)
                taken = self._columns.fill_sets(
                    opened.addresses[these], opened.sizes[these], run.part(done, done + fitting),
                    found[:, these], low[these], high,
                )  # fmt: skip
                self._bytes += int(opened.sizes[done : done + taken].sum())
                done += taken
                if taken < fitting:
                    yield done
                    done += 1
            if fault < len(run):
                yield fault
            done = fault + 1

    def _fitting(self, counts: Int64s, sizes: Int64s) -> int:
        """How many of the entries are within the bounds together with what is there; one at least when empty."""
        rows = self._columns.rows + np.cumsum(counts)
        total = self._bytes + np.cumsum(sizes)
        within = (rows <= self.rows_bound) & (total <= self._bytes_bound)
        number = len(within) if within.all() else int(np.argmin(within))
        return max(number, 1) if self.is_empty else number
