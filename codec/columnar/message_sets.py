"""Locate the message set of each v0 or v1 entry. A single message is its own set, in the file's window; the set inside
a wrapper is decompressed into new memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from kafkalog.codec.columnar.buffers import MOST_BYTES
from kafkalog.codec.columnar.decompressed import decompress_together
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import MIB, Limits
from kafkalog.codec.compression import decompress
from kafkalog.codec.headers.message_runs import MessageRun
from kafkalog.codec.model import CODEC_MASK, Codec
from kafkalog.codec.native.functions import locate_values

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

__all__ = ["Opened", "open_entries"]


_LARGEST = MOST_BYTES // 2
"""Most bytes of an entry or set that goes into one Arrow batch with others."""
_AT_ONCE = MIB
"""Bytes of sets that are decompressed before they are decoded: few enough for the processor's cache."""
_WORTH_A_CALL = 4
"""Fewest consecutive wrappers of one compression that are decompressed in one call."""
_EXPECTED = 16
"""Assumed ratio of a set's size to its compressed size; a larger set takes another call."""
_BY_PIECES = -1


class Opened(Struct, frozen=True, kw_only=True):
    """Addresses and sizes in bytes of the message sets of consecutive entries of a run. Size -1: the set cannot be read
    or is too large. `start` is the number of the first entry; `keep` owns the memory.
    """

    start: int
    addresses: Int64s
    sizes: Int64s
    keep: object


def open_entries(run: MessageRun, limits: Limits) -> Iterator[Opened]:
    """Yield the addresses and sizes of the message sets of all entries of a run in order, in groups whose decompressed
    wrappers hold about `_AT_ONCE` bytes. An entry that is not a wrapper is its own message set. A run without wrappers
    is one group. The size is -1 if the message set is larger than `_LARGEST`, or a wrapper's value is null or cannot be
    decompressed within `limits`.
    """
    base = np.frombuffer(run.window, np.uint8).ctypes.data
    addresses, sizes = run["position"] + base, run.sizes
    sizes[sizes > _LARGEST] = -1
    wrappers = np.flatnonzero(run["attributes"] & CODEC_MASK != Codec.NONE)
    if len(wrappers) == 0:
        yield Opened(start=0, addresses=addresses, sizes=sizes, keep=run.window)
        return
    values = _Values(run, wrappers, base, limits)
    start = done = 0
    while start < len(run):
        values.keep, values.opened_bytes = [], 0
        while done < len(wrappers) and values.opened_bytes < _AT_ONCE:
            found_addresses, found_sizes = values.open_from(done)
            chosen = wrappers[done : done + len(found_sizes)]
            addresses[chosen], sizes[chosen] = found_addresses, found_sizes
            done += len(chosen)
        end = len(run) if done == len(wrappers) else int(wrappers[done])
        yield Opened(
            start=start, addresses=addresses[start:end], sizes=sizes[start:end], keep=(run.window, values.keep)
        )
        start = end


class _Values:
    """Compressed values of the wrappers of a run."""

    def __init__(self, run: MessageRun, wrappers: npt.NDArray[np.intp], base: int, limits: Limits) -> None:
        values = np.empty((2, len(run)), np.int64)
        locate_values(base, run.table, values[0], values[1])
        self._window = memoryview(run.window)
        self._base = base
        self._limits = limits
        self._starts, self._sizes = values[0][wrappers], values[1][wrappers]
        self._codecs, self._magics = run["attributes"][wrappers] & CODEC_MASK, run["magic"][wrappers]
        # the library rejects the header checksum of lz4 frames in magic 0, and zstd came with magic 2
        calls = (
            (self._codecs == Codec.SNAPPY) | (self._codecs == Codec.GZIP)
            | ((self._codecs == Codec.LZ4) & (self._magics == 1))
        )  # fmt: skip
        self._kinds = np.where(calls & (self._sizes >= 0), self._codecs, _BY_PIECES)
        self._edges = np.append(np.flatnonzero(np.diff(self._kinds)) + 1, len(wrappers))
        self.keep: list[object] = []
        self.opened_bytes = 0

    def open_from(self, number: int) -> tuple[Int64s | int, Int64s | list[int]]:
        """Decompress wrapper `number` (index among the wrappers), and perhaps following ones in the same call. Return
        the addresses and the sizes in bytes of their message sets, in order; the address of a single set is an int. The
        result is (0, [-1]) if the value of wrapper `number` is null, cannot be decompressed or is too large. Otherwise
        the memory is appended to `keep` and its size added to `opened_bytes`.
        """
        edge = int(self._edges[np.searchsorted(self._edges, number, side="right")])
        kind = int(self._kinds[number])
        if kind != _BY_PIECES and edge - number >= _WORTH_A_CALL:
            sizes = self._sizes[number:edge]
            budget = min(_AT_ONCE - self.opened_bytes, _EXPECTED * int(sizes.sum()))
            sources = self._starts[number:edge] + self._base
            opened = decompress_together(kind, sources, sizes, self._limits, budget)
            if len(opened.sizes):
                self.keep.append(opened.memory)
                self.opened_bytes += int(opened.sizes.sum())
                return opened.addresses, opened.sizes
            self._kinds[number:edge] = _BY_PIECES
        piece = self._piece(number)
        if piece is None:
            return 0, [-1]
        self.keep.append(piece)
        self.opened_bytes += len(piece)
        return int(pa.py_buffer(piece).address), [len(piece)]

    def _piece(self, number: int) -> bytes | memoryview | None:
        """Return the decompressed message set of wrapper `number`; None if its value is null, cannot be decompressed
        within the limits, or the set is larger than `_LARGEST`.
        """
        start, size = int(self._starts[number]), int(self._sizes[number])
        if size < 0:
            return None
        value, magic = self._window[start : start + size], int(self._magics[number])
        try:
            piece = decompress(int(self._codecs[number]), value, self._limits, magic=magic)
        except FormatError:
            return None
        return piece if len(piece) <= _LARGEST else None
