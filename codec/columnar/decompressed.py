"""Decompress the records of many batches of a run (consecutive v2 batches) at once. The results are addresses: of the
file's window if a batch is not compressed, otherwise of the memory with the decompressed bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.buffer_pool import Block
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.compression import decompress, native
from kafkalog.codec.compression.gzip import decompress as decompress_gzip
from kafkalog.codec.model import BATCH, Codec
from kafkalog.codec.native import functions
from kafkalog.codec.native.library import check_streams
from kafkalog.codec.native.tables import HeaderColumn, Table
from kafkalog.codec.rules.record_shape import SMALLEST_RECORD

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafkalog.codec.headers.runs import BatchRun

    Int64s = npt.NDArray[np.int64]

__all__ = [
    "Decompressed", "OpenedBatches", "decompress_batches", "decompress_together", "decompressor", "opened_batches",
]  # fmt: skip


class Decompressed(Struct, frozen=True, kw_only=True):
    """Addresses and sizes in bytes of the record bytes of the first batches of a run, and the memory that holds
    them.
    """

    addresses: Int64s
    sizes: Int64s
    memory: Sequence[bytes | memoryview]
    where: Int64s
    """index into `memory` for each batch"""


def decompress_batches(run: BatchRun, codec: int, limits: Limits, budget: int) -> Decompressed:
    """Decompress the first batches of a run until they have about `budget` bytes. It may stop earlier; the caller
    continues with the next batch. All batches must have the compression `codec` and at least one record. The result is
    empty only in two cases. The first batch cannot be decompressed or exceeds the limits, or it is compressed and has
    more than `2 * budget` bytes decompressed. Uncompressed records are not copied: their addresses are in the run's
    window.
    """
    window = run.window
    base = np.frombuffer(window, np.uint8).ctypes.data
    if codec == Codec.NONE:
        locations = np.empty((2, len(run)), np.int64)
        count = functions.locate_records(run.table, base, limits.decompressed_batch_bytes, budget, *locations)
        return _in_one(locations[:, :count], window)
    sources = run.starts + (base + BATCH.size)
    sizes = run.sizes - BATCH.size
    decompressed = decompress_together(codec, sources, sizes, limits, budget)
    if len(decompressed.addresses):
        return decompressed
    # larger batches are decompressed one at a time by the caller
    most = replace(limits, decompressed_batch_bytes=min(limits.decompressed_batch_bytes, 2 * budget))
    return _one_by_one(codec, run.starts + BATCH.size, sizes, memoryview(window), most, budget)


def decompressor(limits: Limits, memory: int, memory_bytes: int) -> Int64s:
    """Return the C struct `Decompressor` of this thread, which decompresses into `memory_bytes` bytes at the address
    `memory`.
    """
    check_streams()
    return np.array(native.decompressor_of_thread(limits.zstd_window_bytes, memory, memory_bytes), np.int64)


def decompress_together(
    codec: int, sources: Int64s, compressed: Int64s, limits: Limits, budget: int
) -> Decompressed:
    """Decompress batches in one call of compiled code until they fill about `budget` bytes; stop before the first batch
    that fails. `sources` and `compressed` are the address and size in bytes of each compressed stream. Return the
    addresses and sizes of the decompressed batches, and the memory that holds them.

    The result is empty if no installed library has the codec, or if the first stream fails: it is damaged, is not a
    single plain stream, or is larger than the limit or `2 * budget` when decompressed.
    """
    block = Block(2 * budget)
    thread_decompressor = decompressor(limits, block.address, 2 * budget)
    locations = np.empty((2, len(sources)), np.int64)
    count = functions.decompress_batches(
        codec, thread_decompressor, sources, compressed, limits.decompressed_batch_bytes, budget, *locations
    )
    return _in_one(locations[:, :count], block.buffer)


def _in_one(locations: npt.NDArray[np.int64], memory: bytes | memoryview) -> Decompressed:
    return Decompressed(
        addresses=locations[0], sizes=locations[1], memory=(memory,), where=np.zeros(locations.shape[1], np.int64)
    )


def _decompress(codec: int, data: memoryview, limits: Limits, room: memoryview) -> bytes | memoryview:
    return decompress_gzip(data, limits, room) if codec == Codec.GZIP else decompress(codec, data, limits)


def _one_by_one(
    codec: int, starts: Int64s, sizes: Int64s, view: memoryview, limits: Limits, budget: int
) -> Decompressed:
    room = Block(2 * budget)
    memory: list[bytes | memoryview] = [room.buffer]
    locations: list[tuple[int, int, int]] = []
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
        locations.append((address, len(piece), 0 if is_in_room else len(memory) - 1))
        total += len(piece)
        if total >= budget:
            break
    addresses, lengths, where = np.array(locations, np.int64).reshape(-1, 3).T.copy()
    return Decompressed(addresses=addresses, sizes=lengths, memory=memory, where=where)


class OpenedBatches(Struct, frozen=True, kw_only=True):
    """Record bytes of consecutive batches of a run."""

    first: int
    """number of the first batch in the run"""
    addresses: Int64s
    sizes: Int64s
    headers: Table
    """headers of all batches of the run"""
    records: int
    """most records that these bytes can hold"""
    most_records: int
    """most records that one of these batches can hold"""
    memory: Sequence[bytes | memoryview]
    """memory that the addresses refer to"""

    def after(self, taken: int) -> OpenedBatches:
        """Return these batches without the first `taken`."""
        return _opened(self.first + taken, self.addresses[taken:], self.sizes[taken:], self.headers, self.memory)


def _opened(
    first: int, addresses: Int64s, sizes: Int64s, headers: Table, memory: Sequence[bytes | memoryview]
) -> OpenedBatches:
    counts = headers[HeaderColumn.RECORDS_COUNT, first : first + len(sizes)]
    records = np.minimum(counts, sizes // SMALLEST_RECORD + 1)
    most = int(records.max(initial=0))
    return OpenedBatches(
        first=first,
        addresses=addresses,
        sizes=sizes,
        headers=headers,
        records=int(records.sum()),
        most_records=most,
        memory=memory,
    )


def opened_batches(run: BatchRun, limits: Limits, budget: int) -> Iterator[OpenedBatches]:
    """Yield the record bytes of the batches of a run in order, in groups of about `budget` bytes. All batches of a
    group have the same compression. A batch is left out if its number of records is 0 or negative, or if it exceeds
    `limits` or cannot be decompressed. A compressed batch is also left out if it has more than `2 * budget` bytes
    decompressed.
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
