"""Streams that are decompressed many in one call, and contents for them."""

from __future__ import annotations

import ctypes
import random

import numpy as np

from kafkalog.codec.columnar.decompressed import Decompressed, decompress_together
from kafkalog.codec.common.limits import DEFAULT_LIMITS, MIB
from kafkalog.codec.model import Codec


def contents(opened: Decompressed) -> list[bytes]:
    pairs = zip(opened.addresses.tolist(), opened.sizes.tolist(), strict=True)
    return [ctypes.string_at(address, size) for address, size in pairs]


def taken_together(codec: Codec, streams: list[bytes], budget: int = 4 * MIB) -> list[bytes]:
    sources = np.array([np.frombuffer(stream, np.uint8).ctypes.data for stream in streams], np.int64)
    sizes = np.array([len(stream) for stream in streams], np.int64)
    return contents(decompress_together(codec, sources, sizes, DEFAULT_LIMITS, budget))


def mixed(size: int, seed: int) -> bytes:
    """Random pieces, and repetitions of them at all distances."""
    source = random.Random(seed)
    data = bytearray()
    while len(data) < size:
        if data and source.random() < 0.6:
            start = source.randrange(len(data))
            data += bytes(data)[start : start + source.randrange(1, 80)] * source.choice([1, 1, 1, 9])
        else:
            data += source.randbytes(source.randrange(1, 90))
    return bytes(data[:size])
