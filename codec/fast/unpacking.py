"""The record bytes of many batches of one codec, as addresses: in the window where they lie, or decompressed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalog.codec.compression import decompress
from kafkalog.codec.errors import FormatError
from kafkalog.codec.fast.stretch_kernel import places
from kafkalog.codec.limits import Limits
from kafkalog.codec.model import BATCH, Codec

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafkalog.codec.fast.runs import BatchRun

    Int64s = npt.NDArray[np.int64]

__all__ = ["Unpacked", "unpack"]


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
    if codec == Codec.NONE:
        found = np.empty((2, len(run)), np.int64)
        base = np.frombuffer(window, np.uint8).ctypes.data
        count = places(run.table, base, limits.decompressed_batch_bytes, budget, found[0], found[1])
        return Unpacked(found[0, :count], found[1, :count], window)
    sizes = run.sizes - BATCH.size
    view = memoryview(window)
    pieces: list[bytes] = []
    total = 0
    for start, size in zip((run.starts + BATCH.size).tolist(), sizes.tolist(), strict=True):
        try:
            piece = decompress(codec, view[start : start + size], limits)
        except FormatError:
            break
        pieces.append(piece)
        total += len(piece)
        if total >= budget:
            break
    return Unpacked(*_places(pieces), pieces)


def _places(pieces: list[bytes]) -> tuple[Any, Any]:
    addresses = [pa.py_buffer(piece).address for piece in pieces]
    return np.array(addresses, np.int64), np.array([len(piece) for piece in pieces], np.int64)
