"""The record bytes of many batches of one codec, as addresses: in the window where they lie, or decompressed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from kafkalog.codec.buffer_pool import Block
from kafkalog.codec.compression import decompress, native
from kafkalog.codec.compression.gzip import decompress as decompress_gzip
from kafkalog.codec.errors import FormatError
from kafkalog.codec.limits import Limits
from kafkalog.codec.model import BATCH, Codec
from kafkalog.codec.native import functions
from kafkalog.codec.native.library import check_streams
from kafkalog.codec.native.tables import HeaderColumn, Table
from kafkalog.codec.record_shape import SMALLEST_RECORD

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafkalog.codec.headers.runs import BatchRun

    Int64s = npt.NDArray[np.int64]

__all__ = [
    "Decompressed", "OpenedBatches", "decompress_batches", "decompress_together", "decompressor", "opened_batches",
]  # fmt: skip



class Decompressed(NamedTuple):
    """Addresses and sizes of the record bytes of the first batches of a run, and the pieces of memory they are in."""

    addresses: Int64s
    sizes: Int64s
    memory: Sequence[bytes | memoryview]
    where: Int64s
    """which of the pieces those of each batch are in"""


def decompress_batches(run: BatchRun, codec: int, limits: Limits, budget: int) -> Decompressed:
    """Record bytes of the first batches, about `budget` of them, at least one batch; none if the first has a fault.

    All batches of the run have the same codec, and hold a record.
    """
    window = run.window
    base = np.frombuffer(window, np.uint8).ctypes.data
    if codec == Codec.NONE:
        found = np.empty((2, len(run)), np.int64)
        count = functions.locate_records(run.table, base, limits.decompressed_batch_bytes, budget, found[0], found[1])
        return _in_one(found[:, :count], window)
    sources = run.starts + (base + BATCH.size)
    sizes = run.sizes - BATCH.size
    together = decompress_together(codec, sources, sizes, limits, budget)
    if len(together.addresses):
        return together
    # what is larger than this is left to who takes one batch at a time
    most = replace(limits, decompressed_batch_bytes=min(limits.decompressed_batch_bytes, 2 * budget))
    return _one_by_one(codec, run.starts + BATCH.size, sizes, memoryview(window), most, budget)


def decompressor(limits: Limits, memory: int, memory_bytes: int) -> Int64s:
    """The struct `Decompressor`: what this thread decompresses with, into so many bytes at an address."""
    check_streams()
    return np.array(native.decompressor_of_thread(limits.zstd_window_bytes, memory, memory_bytes), np.int64)


def decompress_together(
    codec: int, sources: Int64s, compressed: Int64s, limits: Limits, budget: int
) -> Decompressed:
    """Decompress many batches in one call; none if the first is not of the plain shape, or no wheel has its codec."""
    block = Block(2 * budget)
    with_these = decompressor(limits, block.address, 2 * budget)
    found = np.empty((2, len(sources)), np.int64)
    count = functions.decompress_batches(
        codec, with_these, sources, compressed, limits.decompressed_batch_bytes, budget, found[0], found[1]
    )
    return _in_one(found[:, :count], block.buffer)


def _in_one(found: npt.NDArray[np.int64], memory: bytes | memoryview) -> Decompressed:
    return Decompressed(found[0], found[1], (memory,), np.zeros(found.shape[1], np.int64))


def _decompress(codec: int, data: memoryview, limits: Limits, room: memoryview) -> bytes | memoryview:
    return decompress_gzip(data, limits, room) if codec == Codec.GZIP else decompress(codec, data, limits)


def _one_by_one(
    codec: int, starts: Int64s, sizes: Int64s, view: memoryview, limits: Limits, budget: int
) -> Decompressed:
    room = Block(2 * budget)
    memory: list[bytes | memoryview] = [room.buffer]
    found: list[tuple[int, int, int]] = []
    total = 0
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        try:
            piece = _decompress(codec, view[start : start + size], limits, room.buffer[total:])
        except FormatError:
            break
        address = np.frombuffer(piece, np.uint8).ctypes.data if piece else room.address
        is_in_room = room.address <= address < room.address + room.size
        if not is_in_room:
            memory.append(piece)
        found.append((address, len(piece), 0 if is_in_room else len(memory) - 1))
        total += len(piece)
        if total >= budget:
            break
    addresses, lengths, where = np.array(found, np.int64).reshape(-1, 3).T.copy()
    return Decompressed(addresses, lengths, memory, where)


class OpenedBatches(NamedTuple):
    """Record bytes of batches that follow each other in a run."""

    first: int
    """number of the first of them"""
    addresses: Int64s
    sizes: Int64s
    headers: Table
    """of the run"""
    records: int
    """how many these bytes hold at most"""
    most_records: int
    """the same of one batch"""
    memory: Sequence[bytes | memoryview]
    """what the addresses are in"""

    def after(self, taken: int) -> OpenedBatches:
        """Without the first ones."""
        return _opened(self.first + taken, self.addresses[taken:], self.sizes[taken:], self.headers, self.memory)


def _opened(
    first: int, addresses: Int64s, sizes: Int64s, headers: Table, memory: Sequence[bytes | memoryview]
) -> OpenedBatches:
    counts = headers[HeaderColumn.RECORDS_COUNT, first : first + len(sizes)]
    records = np.minimum(counts, sizes // SMALLEST_RECORD + 1)
    most = int(records.max(initial=0))
    return OpenedBatches(first, addresses, sizes, headers, int(records.sum()), most, memory)


def opened_batches(run: BatchRun, limits: Limits, budget: int) -> Iterator[OpenedBatches]:
    """The record bytes of a run, in pieces of about `budget` bytes; what cannot be opened is missing between these.

    So are batches without a record.
    """
    start = 0
    while start < len(run):
        codec, end = functions.same_codec(run.table, start, limits.records_per_batch, limits.decompressed_batch_bytes)
        while start < end and codec >= 0:
            opened = decompress_batches(run.part(start, end), codec, limits, budget)
            count = len(opened.addresses)
            if count:
                yield _opened(start, opened.addresses, opened.sizes, run.table, (run.window, *opened.memory))
            start += max(count, 1)
        start = end
