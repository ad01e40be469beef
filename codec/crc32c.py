"""CRC-32C (Castagnoli), the checksum of v2 batches and producer snapshots (`org.apache.kafka.common.utils.Crc32C`)."""

from __future__ import annotations

import crc32c as _crc32c

__all__ = ["crc32c"]

Buffer = bytes | bytearray | memoryview


def crc32c(data: Buffer, value: int = 0) -> int:
    """Checksum of `data` as an unsigned 32-bit number, continuing from `value`."""
    return _crc32c.crc32c(data, value)
