"""No compression: the content is the stream."""

from __future__ import annotations

from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits

__all__ = ["before_damage", "compress", "decompress", "most_bytes"]

Bytes = bytes | memoryview


def decompress(data: Bytes, limits: Limits = DEFAULT_LIMITS, *, magic: int = 2) -> Bytes:
    """Return the bytes unchanged."""
    return bytes(data)


def compress(data: Bytes, level: int | None = None, *, magic: int = 2) -> bytes:
    """Return the bytes unchanged."""
    return bytes(data)


def most_bytes(data: Bytes) -> int | None:
    """Return the number of bytes; never None."""
    return len(data)


def before_damage(data: bytes, limits: Limits) -> bytes:
    """Return the bytes, at most `limits.decompressed_batch_bytes` of them."""
    return data[: limits.decompressed_batch_bytes]
