"""The LZ4 frame as Kafka reads and writes it (`Lz4BlockOutputStream`); its numbers are little-endian.

The header checksum is the second byte of the xxHash32 of flags, block descriptor and content size. In magic 0 Kafka
included the frame's magic in it, an error that its readers accept in magic 0 only.
"""

from construct import Const, Int8ub, Int32ul, Int64ul, Struct

from kafkalog.codec.layout.bits import Bit, Bits

__all__ = [
    "FRAME_MAGIC",
    "LZ4_BLOCK_BITS",
    "LZ4_BLOCK_DESCRIPTOR",
    "LZ4_BLOCK_SIZE",
    "LZ4_CHECKSUM",
    "LZ4_CONTENT_SIZE",
    "LZ4_FLAGS",
    "LZ4_HEADER",
    "LZ4_HEADER_CHECKSUM",
]  # fmt: skip

FRAME_MAGIC = 0x184D2204

LZ4_FLAGS = Bits(
    Int8ub,
    Bit("reserved", 0, 2, "0"),
    Bit("has_content_checksum", 2, 1, "1 a checksum follows the end mark; Kafka does not compare it"),
    Bit("has_content_size", 3, 1, "1 the header holds the size of the content"),
    Bit("has_block_checksums", 4, 1, "1 each block is followed by its checksum"),
    Bit("has_independent_blocks", 5, 1, "1: Kafka reads no others"),
    Bit("version", 6, 2, "1"),
)

LZ4_BLOCK_DESCRIPTOR = Bits(
    Int8ub,
    Bit("reserved", 0, 4, "0"),
    Bit("largest_block", 4, 3, "4 64 KiB, 5 256 KiB, 6 1 MiB, 7 4 MiB"),
    Bit("reserved_high", 7, 1, "0"),
)

LZ4_HEADER = Struct(
    "magic" / Const(FRAME_MAGIC, Int32ul) * "0x184D2204",
    "flags" / LZ4_FLAGS * "what the frame has",
    "block_descriptor" / LZ4_BLOCK_DESCRIPTOR * "how large a block may be",
)

LZ4_CONTENT_SIZE = Struct("content_size" / Int64ul * "bytes of the content; only if the flags say so")

LZ4_HEADER_CHECKSUM = Struct("header_checksum" / Int8ub * "second byte of the xxHash32 of what follows the magic")

LZ4_BLOCK_BITS = Bits(
    Int32ul,
    Bit("bytes", 0, 31, "bytes of the block; 0 is the end mark"),
    Bit("is_stored", 31, 1, "1 the block is not compressed"),
)

LZ4_BLOCK_SIZE = Struct("size" / LZ4_BLOCK_BITS * "what comes before each block; zero is the end mark")

LZ4_CHECKSUM = Struct("checksum" / Int32ul * "xxHash32, of a block or of the content")
