"""The stream of snappy-java that holds Snappy blocks (`SnappyOutputStream`, `SnappyCodec`): a header, then blocks."""

from construct import Const, Int32sb, Struct

from kafkalog.codec.layout.primitives import Int32Bytes

__all__ = ["SNAPPY_BLOCK", "SNAPPY_MAGIC", "SNAPPY_VERSIONS", "STREAM_MAGIC"]

STREAM_MAGIC = b"\x82SNAPPY\0"

SNAPPY_MAGIC = Struct("magic" / Const(STREAM_MAGIC) * "0x82, SNAPPY, 0; without it the whole input is one raw block")

SNAPPY_VERSIONS = Struct(
    "version" / Int32sb * "1",
    "compatible_version" / Int32sb * "1: the oldest version that reads the stream",
)

SNAPPY_BLOCK = Struct("block" / Int32Bytes * "a Snappy block, of at most 32 KiB before compression")
