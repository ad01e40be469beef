"""A member of a gzip stream (RFC 1952) as Java's `GZIPInputStream` reads it; its numbers are little-endian.

The header is followed by its optional fields, in this order: `GZIP_EXTRA`, a name and a comment, which a zero byte ends
each, and `GZIP_HEADER_CHECKSUM`. Then come deflated bytes and `GZIP_TRAILER`.
"""

from construct import Const, Int8ub, Int16ul, Int32ul, Struct

from kafkalog.codec.layout.bits import Bit, Bits

__all__ = [
    "DEFLATED",
    "GZIP_EXTRA",
    "GZIP_FLAGS",
    "GZIP_HEADER",
    "GZIP_HEADER_CHECKSUM",
    "GZIP_TRAILER",
    "MEMBER_MAGIC",
]

MEMBER_MAGIC = 0x8B1F
DEFLATED = 8

GZIP_FLAGS = Bits(
    Int8ub,
    Bit("is_text", 0, 1, "1 the content is probably text"),
    Bit("has_header_checksum", 1, 1, "1 a checksum of the header follows it"),
    Bit("has_extra", 2, 1, "1 extra fields follow the header"),
    Bit("has_name", 3, 1, "1 a file name follows"),
    Bit("has_comment", 4, 1, "1 a comment follows"),
    Bit("reserved", 5, 3, "0; Java ignores them"),
)

GZIP_HEADER = Struct(
    "magic" / Const(MEMBER_MAGIC, Int16ul) * "0x8B1F",
    "method" / Const(DEFLATED, Int8ub) * "8: deflated",
    "flags" / GZIP_FLAGS * "which optional fields follow",
    "modified" / Int32ul * "time of the content, in seconds since 1970; Java writes 0, none",
    "extra_flags" / Int8ub * "how the content was compressed; Java writes 0",
    "operating_system" / Int8ub * "where; Java writes 0, from version 16 on 255, unknown",
)

GZIP_EXTRA = Struct("length" / Int16ul * "bytes of extra fields, which follow; only if the flags say so")

GZIP_HEADER_CHECKSUM = Struct(
    "header_checksum" / Int16ul * "lower half of the CRC-32 of the header's bytes before it; only if the flags say so"
)

GZIP_TRAILER = Struct(
    "checksum" / Int32ul * "CRC-32 of the content",
    "content_size" / Int32ul * "bytes of the content, without the bits above the lowest 32",
)
