"""gzip, as `java.util.zip.GZIPInputStream` reads it and `GZIPOutputStream` writes it (`GzipCompression`)."""

from __future__ import annotations

import zlib

from kafkalog.codec.compression._errors import bad_stream, too_large
from kafkalog.codec.compression._pieces import Pieces
from kafkalog.codec.limits import DEFAULT_LIMITS, MIB, Limits

__all__ = ["compress", "decompress"]

_GZIP_WINDOW = 31
_MAGIC = b"\x1f\x8b"
_FIRST_PIECE = 16 * 1024
"""of a stream, and what a member behind the first begins with, bytes: Kafka's streams have one member"""
_LATER_PIECE = 256
_LARGEST_STEP = MIB
"""Bytes that go in or come out at a time, at most: what comes out at once the decoder puts together itself, twice."""
_FLAGS_POSITION = 3
_RESERVED_FLAGS = 0xE0
_OS_UNKNOWN = 0xFF
_HEADER_OS_POSITION = 9


def _without_reserved_flags(start: bytes | memoryview) -> bytes | memoryview:
    """The start of a member as zlib takes it: reserved header flags, which the JDK does not look at, are cleared."""
    if len(start) <= _FLAGS_POSITION or not start[_FLAGS_POSITION] & _RESERVED_FLAGS:
        return start
    copied = bytearray(start)
    copied[_FLAGS_POSITION] &= ~_RESERVED_FLAGS
    return bytes(copied)


def _member(data: memoryview, position: int, budget: int, limits: Limits) -> tuple[bytes, int]:
    """The content of the member at `position`, at most `budget` bytes, and where it ends.

    Fed in pieces that double, because what the decoder leaves unused it copies: many tiny members would cost a square.
    """
    decoder = zlib.decompressobj(_GZIP_WINDOW)
    parts = Pieces()
    used, piece = 0, _LATER_PIECE if position else _FIRST_PIECE
    is_first = True
    while not decoder.eof:
        rest: bytes | memoryview = decoder.unconsumed_tail
        if not rest:
            rest = data[position : position + piece]
            if is_first:
                rest = _without_reserved_flags(rest)
            is_first = False
            position += len(rest)
            piece = min(2 * piece, _LARGEST_STEP)
        if len(rest) == 0:
            raise bad_stream("gzip", "it ends early")
        try:
            part = decoder.decompress(rest, min(budget + 1 - used, _LARGEST_STEP))
        except zlib.error as error:
            raise bad_stream("gzip", error) from None
        used += len(part)
        if used > budget:
            raise too_large("gzip", limits)
        parts.append(part)
    return parts.joined(), position - len(decoder.unused_data)


def decompress(data: bytes | memoryview, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """All members of the stream; whatever follows the last member and is no gzip header is ignored, as the JDK does."""
    parts = Pieces()
    budget = limits.decompressed_batch_bytes
    view = memoryview(data)
    position = 0
    while True:
        part, position = _member(view, position, budget, limits)
        budget -= len(part)
        parts.append(part)
        if view[position : position + len(_MAGIC)] != _MAGIC:
            return parts.joined()


def compress(data: bytes | memoryview, level: int | None = None) -> bytes:
    """One member without name or time; the operating system byte is that of current JDKs."""
    encoder = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
    stream = bytearray(encoder.compress(data) + encoder.flush())
    stream[_HEADER_OS_POSITION - 1] = 0
    stream[_HEADER_OS_POSITION] = _OS_UNKNOWN
    return bytes(stream)
