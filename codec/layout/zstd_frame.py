"""A frame of Zstandard (RFC 8878); its numbers are little-endian.

After the header come the window, unless the frame is a single segment, the dictionary id and the content size, each in
the bytes that the descriptor says. Blocks follow, to the one that is the last, and then perhaps a checksum.
"""

import enum

from construct import Const, Int8ub, Int24ul, Int32ul, Struct

from kafkalog.codec.layout.bits import Bit, Bits

__all__ = [
    "CONTENT_SIZES",
    "DICTIONARY_ID_SIZES",
    "FRAME_MAGIC",
    "LARGEST_BLOCK",
    "SKIPPABLE_MAGIC",
    "SMALLEST_WINDOW",
    "ZSTD_BLOCK",
    "ZSTD_BLOCK_BITS",
    "ZSTD_CHECKSUM",
    "ZSTD_DESCRIPTOR",
    "ZSTD_HEADER",
    "ZSTD_SKIPPABLE",
    "ZSTD_SKIPPABLE_MAGIC",
    "ZSTD_WINDOW",
    "ZSTD_WINDOW_BITS",
    "BlockType",
]  # fmt: skip

FRAME_MAGIC = 0xFD2FB528
SKIPPABLE_MAGIC = 0x184D2A5
SMALLEST_WINDOW = 1024
LARGEST_BLOCK = 128 * 1024
DICTIONARY_ID_SIZES = {0: 0, 1: 1, 2: 2, 3: 4}
CONTENT_SIZES = {0: 0, 1: 2, 2: 4, 3: 8}
"""Bytes of a field by its code in the descriptor. With code 0 a single segment has one byte of content size."""


class BlockType(enum.IntEnum):
    """Type of a block."""

    RAW = 0
    RLE = 1
    COMPRESSED = 2
    RESERVED = 3


ZSTD_DESCRIPTOR = Bits(
    Int8ub,
    Bit("dictionary_id", 0, 2, "code for the bytes of the dictionary id: 0, 1, 2 or 4"),
    Bit("has_checksum", 2, 1, "1 a checksum follows the last block"),
    Bit("reserved", 3, 1, "0"),
    Bit("unused", 4, 1, "ignored"),
    Bit("is_single_segment", 5, 1, "1 there is no window, and the content size has a byte at least"),
    Bit("content_size", 6, 2, "code for the bytes of the content size: 0, 2, 4 or 8"),
)

ZSTD_HEADER = Struct(
    "magic" / Const(FRAME_MAGIC, Int32ul) * "0xFD2FB528",
    "descriptor" / ZSTD_DESCRIPTOR * "what the frame has",
)

ZSTD_WINDOW_BITS = Bits(
    Int8ub,
    Bit("mantissa", 0, 3, "eighths that the window has more"),
    Bit("exponent", 3, 5, "how often 1 KiB is doubled"),
)

ZSTD_WINDOW = Struct("window" / ZSTD_WINDOW_BITS * "memory for decompression; not in a single segment")

ZSTD_BLOCK_BITS = Bits(
    Int24ul,
    Bit("is_last", 0, 1, "1 no block follows"),
    Bit("type", 1, 2, "0 not compressed, 1 one byte that is repeated, 2 compressed, 3 reserved"),
    Bit("size", 3, 21, "bytes of the block; of a repeated byte, how often"),
)

ZSTD_BLOCK = Struct("block" / ZSTD_BLOCK_BITS * "what comes before each block")

ZSTD_CHECKSUM = Struct("checksum" / Int32ul * "lower half of the content's xxHash64; only if the descriptor says so")

ZSTD_SKIPPABLE_MAGIC = Bits(
    Int32ul,
    Bit("number", 0, 4, "any"),
    Bit("magic", 4, 28, "0x184D2A5"),
)

ZSTD_SKIPPABLE = Struct(
    "magic" / ZSTD_SKIPPABLE_MAGIC * "of a frame that has no content",
    "size" / Int32ul * "bytes that follow",
)
