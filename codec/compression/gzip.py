"""gzip, as `java.util.zip.GZIPInputStream` reads it and `GZIPOutputStream` writes it (`GzipCompression`)."""

from __future__ import annotations

import zlib

from kafkalog.codec.compression._errors import bad_stream, too_large
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits

__all__ = ["compress", "decompress"]

_GZIP_WINDOW = 31
_MAGIC = b"\x1f\x8b"
_OS_UNKNOWN = 0xFF
_HEADER_OS_POSITION = 9


def decompress(data: bytes | memoryview, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """All members of the stream; whatever follows the last member and is no gzip header is ignored, as the JDK does."""
    parts: list[bytes] = []
    budget = limits.decompressed_batch_bytes
    rest: bytes | memoryview = data
    while True:
        decoder = zlib.decompressobj(_GZIP_WINDOW)
        try:
            part = decoder.decompress(rest, budget + 1)
        except zlib.error as error:
            raise bad_stream("gzip", error) from None
        if len(part) > budget:
            raise too_large("gzip", limits)
        if not decoder.eof:
            raise bad_stream("gzip", "it ends early")
        budget -= len(part)
        parts.append(part)
        rest = decoder.unused_data
        if rest[: len(_MAGIC)] != _MAGIC:
            return parts[0] if len(parts) == 1 else b"".join(parts)


def compress(data: bytes | memoryview, level: int | None = None) -> bytes:
    """One member without name or time; the operating system byte is that of current JDKs."""
    encoder = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
    stream = bytearray(encoder.compress(data) + encoder.flush())
    stream[_HEADER_OS_POSITION - 1] = 0
    stream[_HEADER_OS_POSITION] = _OS_UNKNOWN
    return bytes(stream)
