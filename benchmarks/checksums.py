"""CRC-32 (IEEE) of many messages: the kernel's beside a call of zlib's for each.  Medians of five rounds.

python benchmarks/checksums.py
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numba
import numpy as np

from kafkalog.codec.kernels.crc_ieee import checksum_ieee

BYTES = 20_000_000
ROUNDS = 5


@numba.njit  # type: ignore[untyped-decorator]
def _by_kernel(address: int, count: int, size: int) -> Any:
    total = numba.uint64(0)
    for number in range(count):
        total ^= numba.uint64(checksum_ieee(address + number * size, size))
    return total


def _by_zlib(data: memoryview, size: int) -> int:
    total = 0
    for start in range(0, len(data), size):
        total ^= zlib.crc32(data[start : start + size])
    return total


def _seconds(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def main() -> None:
    """Print a line for each size of message."""
    for size in (100, 1_000, 10_000):
        data = np.frombuffer(os.urandom(BYTES // size * size), np.uint8)
        address, count, view = data.ctypes.data, len(data) // size, memoryview(data)
        if int(_by_kernel(address, count, size)) != _by_zlib(view, size):
            raise SystemExit(f"the checksums of {size} bytes differ")
        ours = median(_seconds(lambda: _by_kernel(address, count, size)) for _ in range(ROUNDS))  # noqa: B023
        theirs = median(_seconds(lambda: _by_zlib(view, size)) for _ in range(ROUNDS))  # noqa: B023
        print(
            f"messages of {size} B: kernel {len(data) / ours / 1e6:.0f} MB/s, zlib {len(data) / theirs / 1e6:.0f} MB/s"
        )


if __name__ == "__main__":
    main()
