"""Read and decompress compressed records frame by frame, in the framing of Kafka's clients. A gzip or zstd stream is
one field; snappy-java's stream and the LZ4 frame are declared in `layout` (`SnappyOutputStream`,
`Lz4BlockOutputStream`). Bytes that a decompressor skips are a field `ignored`.
"""

from __future__ import annotations

from msgspec.structs import replace

from kafkalog.codec import derive
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.compression import compress, decompress
from kafkalog.codec.layout.lz4_frame import (
    LZ4_BLOCK_SIZE,
    LZ4_CHECKSUM,
    LZ4_CONTENT_SIZE,
    LZ4_HEADER,
    LZ4_HEADER_CHECKSUM,
)
from kafkalog.codec.layout.primitives import LENGTH_INVALID, Int32Bytes, LayoutError
from kafkalog.codec.layout.snappy_stream import SNAPPY_BLOCK, SNAPPY_MAGIC, SNAPPY_VERSIONS, STREAM_MAGIC
from kafkalog.codec.model import Codec, codec_label
from kafkalog.codec.parsing.trace import CHECKSUM, Reader

__all__ = ["DECOMPRESSION", "compressed_again", "read_compressed"]

DECOMPRESSION = "decompression"
_IGNORED = "ignored"
_LENGTH = Int32Bytes.prefix.sizeof()
_HEADER_BYTES = len(STREAM_MAGIC) + SNAPPY_VERSIONS.sizeof()


def read_compressed(reader: Reader, codec: int, magic: int, name: str) -> tuple[bytes, memoryview]:
    """Read all bytes left as one compressed field `name`; return the compressed and the decompressed bytes. Raises
    `LayoutError` if they cannot be decompressed or exceed the reader's limits. Before that, the problem is recorded in
    the reader, unless one of the frames' fields already has a problem.
    """
    start = reader.window.tell()
    compressed = bytes(reader.window.between(start, reader.window.end))
    with reader.inside(name, doc=f"{codec_label(codec)} stream") as inner, inner.bounded(inner.window.end) as frames:
        _read_frames(frames, codec, magic)
    try:
        return compressed, memoryview(decompress(codec, compressed, reader.limits, magic=magic))
    except FormatError as error:
        if next(inner.span.problems(), None) is None:  # otherwise a field of the frames is more precise
            reader.blame(name, start, DECOMPRESSION, error.message)
        raise LayoutError(DECOMPRESSION, start, error.message, name) from None


def compressed_again(codec: int, magic: int, plain: bytes, kept: bytes | None) -> bytes:
    """Return `plain` as a compressed stream: the stream `kept` if it decompresses to exactly `plain`, otherwise (or if
    `kept` is None) a new stream with the default level. Raises `FormatError` if `codec` is not defined for `magic`.
    """
    if kept is not None:
        try:
            limits = replace(DEFAULT_LIMITS, decompressed_batch_bytes=max(len(plain), 1))  # what is longer differs
            if decompress(codec, kept, limits, magic=magic) == plain:
                return kept
        except FormatError:
            pass  # another compression, or not a compressed stream
    return compress(codec, plain, magic=magic)


def _read_frames(reader: Reader, codec: int, magic: int) -> None:
    if codec == Codec.SNAPPY:
        _read_snappy(reader)
    elif codec == Codec.LZ4:
        _read_lz4(reader, magic)
    else:
        reader.raw("stream", reader.left, f"one {codec_label(codec)} stream")


def _starts_here(reader: Reader, data: bytes) -> bool:
    here = reader.window.tell()
    return bytes(reader.window.between(here, min(here + len(data), reader.window.end))) == data


def _read_snappy(reader: Reader) -> None:
    if reader.left < _HEADER_BYTES or not _starts_here(reader, STREAM_MAGIC):
        reader.raw("block", reader.left, "a raw Snappy block, without the header of a stream")
        return
    while reader.left >= _LENGTH:
        if _starts_here(reader, STREAM_MAGIC[:_LENGTH]):
            if reader.left < _HEADER_BYTES or not _starts_here(reader, STREAM_MAGIC):
                break
            reader.fields(SNAPPY_MAGIC)
            reader.fields(SNAPPY_VERSIONS)
        else:
            reader.fields(SNAPPY_BLOCK)
    _ignore_rest(reader)


def _read_lz4(reader: Reader, magic: int) -> None:
    start = reader.window.tell()
    header = reader.fields(LZ4_HEADER)
    if header.flags.has_content_size:
        reader.fields(LZ4_CONTENT_SIZE)
    _compare_header(reader, start, magic)
    while True:
        size_position = reader.window.tell()
        size = reader.fields(LZ4_BLOCK_SIZE)["size"]
        if size.bytes == 0:
            break
        if size.bytes > reader.left:
            reader.blame("size", size_position, LENGTH_INVALID, f"{size.bytes} bytes, and {reader.left} are left")
            raise LayoutError(LENGTH_INVALID, size_position, "a block runs past the end", "size")
        reader.raw("block", size.bytes, "stored as it is" if size.is_stored else "an LZ4 block")
        if header.flags.has_block_checksums:
            reader.fields(LZ4_CHECKSUM)
    if header.flags.has_content_checksum:
        reader.fields(LZ4_CHECKSUM)
    _ignore_rest(reader)


def _compare_header(reader: Reader, start: int, magic: int) -> None:
    """Read the header checksum of an LZ4 frame that begins at `start`, and compare it with the bytes before it. A
    tolerant reader records a wrong checksum as a problem, a strict one raises `LayoutError`. In magic 0 any value is
    accepted, as in Kafka. For an accepted checksum a note is added.
    """
    from kafkalog.codec.compression.lz4 import header_checksum

    end = reader.window.tell()
    (name,) = derive.names_of(LZ4_HEADER_CHECKSUM)
    stored = reader.fields(LZ4_HEADER_CHECKSUM)[name]
    frame = bytes(reader.window.between(start, end))
    right, historic = header_checksum(frame, with_magic=False), header_checksum(frame, with_magic=True)
    if stored == right:
        reader.remark(name, "as computed")
    elif magic == 0:
        reader.remark(name, "taken over the frame's magic too, as in magic 0" if stored == historic else "not compared")
    else:
        reader.blame(name, end, CHECKSUM, f"{stored:#04x} is there, and {right:#04x} is computed")


def _ignore_rest(reader: Reader) -> None:
    if reader.left:
        reader.raw(_IGNORED, reader.left, "after the end of the stream; readers pass over it")
