"""CRC-32 (IEEE) for kernels, the checksum of messages of magic 0 and 1: 16 tables, 16 bytes in a step.

Each message has a checksum of its own and is short, so a call of zlib's for each would cost more than the sum.
"""

from __future__ import annotations

from typing import Any

import numba

from kafkalog.codec.fast.crc_kernel import byte_tables
from kafkalog.codec.fast.machine import compiled, load

__all__ = ["checksum_ieee"]

_POLYNOMIAL = 0xEDB88320
_TABLES = byte_tables(_POLYNOMIAL, 16)
_load8, _load64 = load[8], load[64]


@compiled(inline=True)
def _eight(value: Any, zeros: int) -> Any:
    """What eight bytes, the first one lowest, add to a checksum if so many bytes follow them in the step."""
    low = numba.uint64(0xFF)
    return numba.uint64(
        _TABLES[zeros + 7, value & low]
        ^ _TABLES[zeros + 6, value >> numba.uint64(8) & low]
        ^ _TABLES[zeros + 5, value >> numba.uint64(16) & low]
        ^ _TABLES[zeros + 4, value >> numba.uint64(24) & low]
        ^ _TABLES[zeros + 3, value >> numba.uint64(32) & low]
        ^ _TABLES[zeros + 2, value >> numba.uint64(40) & low]
        ^ _TABLES[zeros + 1, value >> numba.uint64(48) & low]
        ^ _TABLES[zeros, value >> numba.uint64(56)]
    )


@compiled()
def checksum_ieee(position: int, size: int) -> Any:
    """CRC-32 of `size` bytes at an address."""
    end = position + size
    crc = numba.uint64(0xFFFFFFFF)
    while end - position >= 16:
        crc = _eight(_load64(position) ^ crc, 8) ^ _eight(_load64(position + 8), 0)
        position += 16
    if end - position >= 8:
        crc = _eight(_load64(position) ^ crc, 0)
        position += 8
    while position < end:
        crc = crc >> numba.uint64(8) ^ numba.uint64(_TABLES[0, (crc ^ _load8(position)) & numba.uint64(0xFF)])
        position += 1
    return crc ^ numba.uint64(0xFFFFFFFF)
