"""gzip, as `java.util.zip.GZIPInputStream` reads it and `GZIPOutputStream` writes it (`GzipCompression`)."""

from __future__ import annotations

import zlib

from kafkalog.codec.compression._errors import bad_stream, too_large
from kafkalog.codec.compression._pieces import Pieces
from kafkalog.codec.limits import DEFAULT_LIMITS, KIB, Limits

__all__ = ["HEADER", "PLAIN_START", "TRAILER", "compress", "decompress", "most_bytes"]

_GZIP_WINDOW = 31
_MAGIC = b"\x1f\x8b"
_FIRST_PIECE = 16 * 1024
"""of a stream, and what a member after the first begins with, bytes: Kafka's streams have one member"""
_LATER_PIECE = 256
_LARGEST_STEP = 64 * KIB
"""Bytes that go in or come out at a time, at most: what comes out at once the decoder puts together itself, twice."""
_FLAGS_POSITION = 3
_RESERVED_FLAGS = 0xE0
_OS_UNKNOWN = 0xFF
_HEADER_OS_POSITION = 9
HEADER, TRAILER = 10, 8
_SIZE_FIELD = 4
_DEFLATED = 8
PLAIN_START = _MAGIC + bytes([_DEFLATED, 0])
"""The first bytes of a member whose header has only what every one has."""
_HEADER_CHECKSUM, _EXTRA, _NAME, _COMMENT = 2, 4, 8, 16
_READ = 8 * 1024
"""Bytes that Kafka's reader takes at once (`GzipCompression`)."""
_SHORTEST_MEMBER = 18
"""After the last piece that it reads, the JDK looks for another member only where more bytes than this are left."""


def _header_end(data: memoryview, position: int) -> int | None:
    """Where the header of a member ends, as `GZIPInputStream.readHeader` finds it; None where there is none."""
    if len(data) - position < HEADER or data[position : position + 2] != _MAGIC or data[position + 2] != _DEFLATED:
        return None
    flags = data[position + _FLAGS_POSITION]
    end = position + HEADER
    if flags & _EXTRA:
        end += 2 + int.from_bytes(data[end : end + 2], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            length = bytes(data[end:]).find(0)
            if length < 0:
                return None
            end += length + 1
    if flags & _HEADER_CHECKSUM:
        if data[end : end + 2] != (zlib.crc32(data[position:end]) & 0xFFFF).to_bytes(2, "little"):
            return None
        end += 2
    return end if end <= len(data) else None


class _Reads:
    """Where the pieces end in which the JDK reads a stream: it judges by what is left of one, and if one follows."""

    def __init__(self, first_data: int, size: int) -> None:
        self._begin = first_data
        self._size = size

    def end(self, position: int) -> int:
        """Where the piece ends in which a member's data ends, at `position`."""
        pieces = -(-(position - self._begin) // _READ)
        return min(self._begin + pieces * _READ, self._size)

    def go_on(self, position: int, end: int) -> None:
        """A member's data begins at `position`, in the piece that ends at `end`, or after it with a new one."""
        if position >= end:
            self._begin = position


def _without_reserved_flags(start: bytes | memoryview) -> bytes | memoryview:
    """The start of a member as zlib takes it: reserved header flags, which the JDK does not examine, are cleared."""
    if len(start) <= _FLAGS_POSITION or not start[_FLAGS_POSITION] & _RESERVED_FLAGS:
        return start
    copied = bytearray(start)
    copied[_FLAGS_POSITION] &= ~_RESERVED_FLAGS
    return bytes(copied)


def _member(data: memoryview, position: int, parts: Pieces, limits: Limits) -> int:
    """Append the content of the member at `position`; where it ends.

    Fed in pieces that double, because what the decoder leaves unused it copies: many tiny members would cost a square.
    """
    decoder = zlib.decompressobj(_GZIP_WINDOW)
    budget = limits.decompressed_batch_bytes
    piece = _LATER_PIECE if position else _FIRST_PIECE
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
            part = decoder.decompress(rest, min(budget + 1 - parts.size, _LARGEST_STEP))
        except zlib.error as error:
            raise bad_stream("gzip", error) from None
        if parts.size + len(part) > budget:
            raise too_large("gzip", limits)
        parts.append(part)
    return position - len(decoder.unused_data)


def decompress(
    data: bytes | memoryview, limits: Limits = DEFAULT_LIMITS, target: memoryview | None = None
) -> bytes | memoryview:
    """All members of the stream; what follows the last and is not a header of another is ignored, as the JDK does.

    What is no longer than 18 bytes is ignored too, even a whole member.  It is put into `target` if there is room.
    """
    parts = Pieces(target)
    view = memoryview(data)
    position = 0
    reads = _Reads(_header_end(view, 0) or 0, len(view))
    while True:
        position = _member(view, position, parts, limits)
        end = reads.end(position - TRAILER)
        is_looked_at = end < len(view) or len(view) - position > _SHORTEST_MEMBER
        behind = _header_end(view, position) if is_looked_at else None
        if behind is None:
            return parts.joined()
        reads.go_on(behind, end)


def most_bytes(data: bytes | memoryview) -> int | None:
    """The size that the last four bytes give, which is right of a stream of one member below 4 GiB, as Kafka writes."""
    return int.from_bytes(data[-_SIZE_FIELD:], "little") if len(data) > _SIZE_FIELD else None


def compress(data: bytes | memoryview, level: int | None = None) -> bytes:
    """One member without name or time; the operating system byte is that of current JDKs."""
    encoder = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
    stream = bytearray(encoder.compress(data) + encoder.flush())
    stream[_HEADER_OS_POSITION - 1] = 0
    stream[_HEADER_OS_POSITION] = _OS_UNKNOWN
    return bytes(stream)
