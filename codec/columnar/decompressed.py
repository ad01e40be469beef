"""The record bytes of many batches of one codec, as addresses: in the window where they lie, or decompressed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafkalog.codec.buffer_pool import Block
from kafkalog.codec.compression import decompress, gzip
from kafkalog.codec.compression.native import lz4_decompress, zstd
from kafkalog.codec.errors import FormatError
from kafkalog.codec.kernels.decompress import unpack_lz4, unpack_zstd
from kafkalog.codec.kernels.select_batches import places
from kafkalog.codec.kernels.snappy import unpack_snappy
from kafkalog.codec.limits import Limits
from kafkalog.codec.model import BATCH, Codec

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafkalog.codec.headers.runs import BatchRun

    Int64s = npt.NDArray[np.int64]

__all__ = ["Unpacked", "by_library", "unpack"]


class Unpacked(NamedTuple):
    """Addresses and sizes of the record bytes of the first batches of a run; `keep` keeps them there."""

    addresses: Int64s
    sizes: Int64s
    keep: object


def unpack(run: BatchRun, codec: int, limits: Limits, budget: int) -> Unpacked:
    """Record bytes of the first batches, about `budget` of them, at least one batch; none if the first has a fault.

    All batches of the run have the same codec, and hold a record.
    """
    window = run.window
    base = np.frombuffer(window, np.uint8).ctypes.data
    if codec == Codec.NONE:
        found = np.empty((2, len(run)), np.int64)
        count = places(run.table, base, limits.decompressed_batch_bytes, budget, found[0], found[1])
        return Unpacked(found[0, :count], found[1, :count], window)
    sources = run.starts + (base + BATCH.size)
    sizes = run.sizes - BATCH.size
    opened = by_library(codec, sources, sizes, window, limits, budget)
    if opened is not None and len(opened.addresses):
        return opened
    # what is larger than this is left to who takes one batch at a time
    most = replace(limits, decompressed_batch_bytes=min(limits.decompressed_batch_bytes, 2 * budget))
    return _by_pieces(codec, run.starts + BATCH.size, sizes, memoryview(window), most, budget)


def by_library(
    codec: int, sources: Int64s, compressed: Int64s, window: object, limits: Limits, budget: int
) -> Unpacked | None:
    """Many batches in one call, where the wheels allow it; none where the first is not of the plain shape."""
    context = zstd() if codec == Codec.ZSTD else None
    if context is None and codec != Codec.SNAPPY and (codec != Codec.LZ4 or not lz4_decompress()):
        return None
    largest, room = limits.decompressed_batch_bytes, 2 * budget
    block = Block(room)
    found = np.empty((2, len(sources)), np.int64)
    if codec == Codec.SNAPPY:
        count = unpack_snappy(sources, compressed, block.address, room, largest, budget, found[0], found[1])
    elif context is None:
        count = unpack_lz4(
            lz4_decompress(), sources, compressed, block.address, room, largest, budget, found[0], found[1]
        )
    else:
        count = unpack_zstd(
            context.decompress, context.context, sources, compressed, block.address, room, largest, budget,
            limits.zstd_window_bytes, found[0], found[1],
        )  # fmt: skip
    return Unpacked(found[0, :count], found[1, :count], (block, window))


def _piece(codec: int, data: memoryview, limits: Limits, room: memoryview) -> bytes | memoryview:
    return gzip.decompress(data, limits, room) if codec == Codec.GZIP else decompress(codec, data, limits)


def _by_pieces(codec: int, starts: Int64s, sizes: Int64s, view: memoryview, limits: Limits, budget: int) -> Unpacked:
    pieces: list[bytes | memoryview] = []
    total = 0
    room = Block(2 * budget).buffer
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        try:
            piece = _piece(codec, view[start : start + size], limits, room[total:])
        except FormatError:
            break
        pieces.append(piece)
        total += len(piece)
        if total >= budget:
            break
    addresses = [np.frombuffer(piece, np.uint8).ctypes.data if piece else 0 for piece in pieces]
    return Unpacked(np.array(addresses, np.int64), np.array([len(piece) for piece in pieces], np.int64), pieces)
