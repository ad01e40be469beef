"""CRC-32C (Castagnoli), the checksum of v2 batches and producer snapshots (`org.apache.kafka.common.utils.Crc32C`)."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["crc32c"]

Buffer = bytes | bytearray | memoryview
_function: Callable[[Buffer, int], int] | None = None


def crc32c(data: Buffer, value: int = 0) -> int:
    """Checksum of `data` as an unsigned 32-bit number, continuing from `value`."""
    return (_function or _load())(data, value)


def _load() -> Callable[[Buffer, int], int]:
    """The library's function; importing it reads the versions of what is installed, which small commands would feel."""
    global _function
    from crc32c import crc32c as found

    _function = found
    return found
