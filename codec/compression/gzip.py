"""gzip as `java.util.zip.GZIPInputStream` reads it and `GZIPOutputStream` writes it (`GzipCompression`)."""

from __future__ import annotations

import zlib

from kafkalog.codec import derive
from kafkalog.codec.common.limits import DEFAULT_LIMITS, KIB, Limits
from kafkalog.codec.compression._errors import bad_stream, too_large
from kafkalog.codec.compression._pieces import Pieces
from kafkalog.codec.layout.gzip_member import (
    DEFLATED,
    GZIP_EXTRA,
    GZIP_FLAGS,
    GZIP_HEADER,
    GZIP_HEADER_CHECKSUM,
    GZIP_TRAILER,
    MEMBER_MAGIC,
)

__all__ = ["HEADER", "PLAIN_START", "TRAILER", "before_damage", "compress", "decompress", "most_bytes"]

HEADER = derive.fixed(
    GZIP_HEADER, ("magic", "method", "flags", "modified", "extra_flags", "operating_system"), "<"
)
TRAILER = derive.fixed(GZIP_TRAILER, ("checksum", "content_size"), "<")
_EXTRA_LENGTH = derive.fixed(GZIP_EXTRA, ("length",), "<").size
_CHECKSUM = derive.fixed(GZIP_HEADER_CHECKSUM, ("header_checksum",), "<").size
_HAS_EXTRA, _HAS_NAME, _HAS_COMMENT, _HAS_CHECKSUM, _RESERVED = (
    GZIP_FLAGS.mask(name) for name in ("has_extra", "has_name", "has_comment", "has_header_checksum", "reserved")
)
_FLAGS_POSITION = HEADER.position("flags")
PLAIN_START = HEADER.struct.pack(MEMBER_MAGIC, DEFLATED, 0, 0, 0, 0)[: HEADER.end("flags")]
"""First bytes of a member whose header has no optional fields."""
_GZIP_WINDOW = 31
_FIRST_PIECE = 16 * 1024
"""Bytes of the first piece of a stream that are fed to the decoder; below it the bytes of a later member's first piece.
Kafka's streams have one member.
"""
_LATER_PIECE = 256
_LARGEST_STEP = 64 * KIB
"""Most bytes that enter or leave the decoder at once: it concatenates its output itself, by copying."""
_OS_UNKNOWN = 0xFF
_READ = 8 * 1024
"""Bytes that Kafka's reader reads at once (`GzipCompression`)."""
_STEP = 64 * KIB
"""Most bytes of output at once before damage."""
_PIECE = KIB
"""Bytes of input at once before damage. The decoder is copied before each piece, and the last piece is read byte by
byte.
"""
_SHORTEST_MEMBER = HEADER.size + TRAILER.size
"""Least size of a member in bytes. After its last read, the JDK looks for another member only if more bytes than this
are left.
"""


def _header_end(data: memoryview, position: int) -> int | None:
    """Return the position after the gzip member header that begins at `position`, according to the rules of
    `GZIPInputStream.readHeader`. Return None if no valid, complete header is there.
    """
    if len(data) - position < HEADER.size:
        return None
    magic, method, flags, *_ = HEADER.struct.unpack_from(data, position)
    if (magic, method) != (MEMBER_MAGIC, DEFLATED):
        return None
    end = position + HEADER.size
    if flags & _HAS_EXTRA:
        end += _EXTRA_LENGTH + int.from_bytes(data[end : end + _EXTRA_LENGTH], "little")
    for flag in (_HAS_NAME, _HAS_COMMENT):
        if flags & flag:
            length = bytes(data[end:]).find(0)
            if length < 0:
                return None
            end += length + 1
    if flags & _HAS_CHECKSUM:
        if data[end : end + _CHECKSUM] != zlib.crc32(data[position:end]).to_bytes(4, "little")[:_CHECKSUM]:
            return None
        end += _CHECKSUM
    return end if end <= len(data) else None


class _Reads:
    """The reads in which the JDK reads a stream of `size` bytes, counted from `first_data`, where the data of the
    current member begins. Whether the JDK looks for another member depends on the bytes left in the last read, and on
    whether another read follows.
    """

    def __init__(self, first_data: int, size: int) -> None:
        self._begin = first_data
        self._size = size

    def end(self, position: int) -> int:
        """Return the end of the read in which a member's data ends at `position`."""
        pieces = -(-(position - self._begin) // _READ)
        return min(self._begin + pieces * _READ, self._size)

    def go_on(self, position: int, end: int) -> None:
        """Begin the next member, whose data starts at `position`. If that is at or after `end`, the end of the current
        read, a new read begins there; otherwise the reads stay the same.
        """
        if position >= end:
            self._begin = position


def _without_reserved_flags(start: bytes | memoryview) -> bytes | memoryview:
    """Return the start of a gzip member with its reserved header flags cleared: zlib rejects these flags, the JDK
    ignores them. The result is a copy, or `start` itself if no such flag is set.
    """
    if len(start) <= _FLAGS_POSITION or not start[_FLAGS_POSITION] & _RESERVED:
        return start
    copied = bytearray(start)
    copied[_FLAGS_POSITION] &= ~_RESERVED
    return bytes(copied)


def _member(data: memoryview, position: int, parts: Pieces, limits: Limits) -> int:
    """Decompress the gzip member at `position` and append its content to `parts`; return the position after the member.
    Raises `FormatError` if it is damaged or incomplete, `LimitExceeded` if `parts` would exceed the limit. Input is fed
    in pieces of doubling size, because zlib copies the unused input: many tiny members would otherwise take quadratic
    time.
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
    data: bytes | memoryview, limits: Limits = DEFAULT_LIMITS, target: memoryview | None = None, *, magic: int = 2
) -> bytes | memoryview:
    """Decompress all members of the stream; return their contents as one, written into `target` if it fits. After a
    member, bytes that do not begin another header are ignored, as in the JDK. A rest of 18 bytes or fewer that the JDK
    would already have read is ignored too, even if it is a whole member. `magic` is ignored. Raises `FormatError` for a
    damaged or incomplete member, `LimitExceeded` for a result that is too large.
    """
    parts = Pieces(target)
    view = memoryview(data)
    position = 0
    reads = _Reads(_header_end(view, 0) or 0, len(view))
    while True:
        position = _member(view, position, parts, limits)
        end = reads.end(position - TRAILER.size)
        is_looked_at = end < len(view) or len(view) - position > _SHORTEST_MEMBER
        behind = _header_end(view, position) if is_looked_at else None
        if behind is None:
            return parts.joined()
        reads.go_on(behind, end)


def most_bytes(data: bytes | memoryview) -> int | None:
    """Return the size in the last four bytes of the stream; None if it is too short. It is right for a stream of one
    member below 4 GiB, as Kafka writes.
    """
    size = TRAILER["content_size"].size
    return int.from_bytes(data[-size:], "little") if len(data) > size else None


def compress(data: bytes | memoryview, level: int | None = None, *, magic: int = 2) -> bytes:
    """Compress to one gzip member without name or time; its operating system byte is that of current JDKs. `level` None
    is zlib's default level; `magic` is ignored.
    """
    encoder = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
    stream = bytearray(encoder.compress(data) + encoder.flush())
    stream[HEADER.position("extra_flags")] = 0
    stream[HEADER.position("operating_system")] = _OS_UNKNOWN
    return bytes(stream)


def before_damage(data: bytes, limits: Limits) -> bytes:
    """Decompress the first member of a damaged gzip stream up to the damage. Return at most
    `limits.decompressed_batch_bytes` bytes; none if nothing can be decoded. Damage raises no exception.
    """
    decoder, out = zlib.decompressobj(_GZIP_WINDOW), bytearray()
    for start in range(0, len(data), _PIECE):
        rest = data[start : start + _PIECE]
        while rest and not decoder.eof and len(out) < limits.decompressed_batch_bytes:
            before = decoder.copy()
            try:
                out += decoder.decompress(rest, min(_STEP, limits.decompressed_batch_bytes - len(out)))
            except zlib.error:
                _one_by_one(before, rest, out, limits)
                return bytes(out)
            rest = decoder.unconsumed_tail
    return bytes(out)


def _one_by_one(decoder: zlib._Decompress, rest: bytes, out: bytearray, limits: Limits) -> None:
    """Append to `out` the output of `decoder` for the input `rest`, byte by byte: a call that fails returns none of the
    bytes that it decoded. Stops when the decoder fails, the input ends, or `out` reaches
    `limits.decompressed_batch_bytes`. No exception is raised for damage.
    """
    try:
        while rest and len(out) < limits.decompressed_batch_bytes:
            out += decoder.decompress(rest, 1)
            rest = decoder.unconsumed_tail
    except zlib.error:
        return
