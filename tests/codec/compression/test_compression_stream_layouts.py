"""Headers of gzip and zstd: the declarations, the readers written by hand and other programs' readers agree."""

from __future__ import annotations

import gzip
import itertools
import struct
import zlib
from collections.abc import Iterator
from io import BytesIO

import pytest
import zstandard
from construct import Bytes, ConstructError, GreedyBytes, NullTerminated

from kafkalog.codec import DEFAULT_LIMITS, FormatError, decode_batch, scan
from kafkalog.codec.compression import gzip as our_gzip
from kafkalog.codec.compression import zstd as our_zstd
from kafkalog.codec.layout.gzip_member import GZIP_EXTRA, GZIP_HEADER, GZIP_HEADER_CHECKSUM, GZIP_TRAILER
from kafkalog.codec.layout.zstd_frame import (
    CONTENT_SIZES,
    DICTIONARY_ID_SIZES,
    SMALLEST_WINDOW,
    ZSTD_BLOCK,
    ZSTD_CHECKSUM,
    ZSTD_HEADER,
    ZSTD_SKIPPABLE,
    ZSTD_WINDOW,
    BlockType,
)
from kafkalog.codec.model import BATCH, BatchHeader, Codec
from testkit.made.stream_tails import gzip_header
from testkit.recorded.broker_dirs import unpacked

CONTENTS = (b"", b"a", b"kafka " * 50, bytes(300_000), bytes(range(256)) * 900)


def declared_header_end(data: bytes) -> int | None:
    """Position after a gzip header as its declarations and RFC 1952 have it; None if it is damaged or incomplete."""
    stream = BytesIO(data)
    try:
        flags = GZIP_HEADER.parse_stream(stream).flags
        if flags.has_extra:
            Bytes(GZIP_EXTRA.parse_stream(stream).length).parse_stream(stream)
        for wanted in (flags.has_name, flags.has_comment):
            if wanted:
                NullTerminated(GreedyBytes).parse_stream(stream)
        if flags.has_header_checksum:
            right = zlib.crc32(data[: stream.tell()]) & 0xFFFF
            if GZIP_HEADER_CHECKSUM.parse_stream(stream).header_checksum != right:
                return None
    except ConstructError:
        return None
    return stream.tell()


@pytest.mark.parametrize("valid", [True, False])
def test_gzip_headers_end_where_declarations_and_python_say(valid: bool) -> None:
    for flags in range(256):
        header = gzip_header(flags, valid=valid)
        found = our_gzip._header_end(memoryview(header + b"rest"), 0)
        assert found == declared_header_end(header + b"rest"), flags
        if valid or not flags & 2:
            stream = BytesIO(header + b"rest")
            gzip._read_gzip_header(stream)  # type: ignore[attr-defined]
            assert found == stream.tell() == len(header), flags
        else:
            assert found is None, flags
        for cut in range(len(header)):
            assert our_gzip._header_end(memoryview(header[:cut]), 0) == declared_header_end(header[:cut]), (flags, cut)
        for place in range(10):
            other = bytearray(header)
            other[place] ^= 1
            assert our_gzip._header_end(memoryview(other), 0) == declared_header_end(bytes(other)), (flags, place)


def declared_frame_end(data: bytes, position: int) -> int:
    """Position after the zstd frame at `position`, as its declarations and RFC 8878 have it."""
    stream = BytesIO(data)
    stream.seek(position)
    descriptor = ZSTD_HEADER.parse_stream(stream).descriptor
    if not descriptor.is_single_segment:
        ZSTD_WINDOW.parse_stream(stream)
    least = 1 if descriptor.is_single_segment else 0
    fields = DICTIONARY_ID_SIZES[descriptor.dictionary_id], max(CONTENT_SIZES[descriptor.content_size], least)
    stream.seek(sum(fields), 1)
    while True:
        block = ZSTD_BLOCK.parse_stream(stream).block
        stream.seek(1 if block.type == BlockType.RLE else block.size, 1)
        if block.is_last:
            break
    if descriptor.has_checksum:
        ZSTD_CHECKSUM.parse_stream(stream)
    return stream.tell()


def test_zstd_headers_say_what_the_library_reads_in_them() -> None:
    for descriptor, window in itertools.product(range(256), (0, 1, 7, 0x58, 0x8F)):
        header = struct.pack("<IBB", 0xFD2FB528, descriptor, window) + bytes(12)
        flags = ZSTD_HEADER.parse(header).descriptor
        if flags.reserved or (flags.is_single_segment and flags.dictionary_id):
            continue  # refused, or a dictionary id where the window would be
        found = zstandard.get_frame_parameters(header)
        size = ZSTD_HEADER.sizeof() + DICTIONARY_ID_SIZES[flags.dictionary_id]
        if flags.is_single_segment:
            size += max(1, CONTENT_SIZES[flags.content_size])
        else:
            size += ZSTD_WINDOW.sizeof() + CONTENT_SIZES[flags.content_size]
            bits = ZSTD_WINDOW.parse(header[ZSTD_HEADER.sizeof() :]).window
            assert found.window_size == (SMALLEST_WINDOW << bits.exponent) // 8 * (8 + bits.mantissa)
        assert zstandard.frame_header_size(header) == size <= our_zstd._LARGEST_HEADER
        assert found.has_checksum == bool(flags.has_checksum)


@pytest.mark.parametrize("content", CONTENTS, ids=len)
@pytest.mark.parametrize("with_size", [False, True])
@pytest.mark.parametrize("with_checksum", [False, True])
def test_zstd_frames_end_where_declarations_say(content: bytes, with_size: bool, with_checksum: bool) -> None:
    made = zstandard.ZstdCompressor(write_content_size=with_size, write_checksum=with_checksum).compress(content)
    frames = made + our_zstd.compress(content)
    end, bound = our_zstd._frame_end(frames, 0, DEFAULT_LIMITS)
    assert end == declared_frame_end(frames, 0) == len(made)
    assert bound >= len(content)
    assert our_zstd._frame_end(frames, end, DEFAULT_LIMITS)[0] == declared_frame_end(frames, end) == len(frames)
    skippable = ZSTD_SKIPPABLE.build({"magic": {"number": 9, "magic": 0x184D2A5}, "size": 3}) + b"abc"
    assert our_zstd.decompress(skippable + frames) == content * 2
    for size in range(len(skippable)):
        with pytest.raises(FormatError):
            our_zstd.decompress(skippable[:size])


def recorded_streams(codec: Codec) -> Iterator[bytes]:
    """Compressed records of batches that brokers wrote."""
    for path in sorted(unpacked("2.8.2/codecs").glob("**/*.log")):
        for batch in scan(path.read_bytes()).batches:
            if isinstance(batch.header, BatchHeader) and batch.header.codec == codec:
                assert decode_batch(batch).records
                yield bytes(batch.data)[BATCH.size :]


def test_recorded_streams_have_the_declared_headers_and_trailers() -> None:
    streams = list(recorded_streams(Codec.GZIP))
    for stream in streams:
        header, trailer = GZIP_HEADER.parse(stream), GZIP_TRAILER.parse(stream[-GZIP_TRAILER.sizeof() :])
        content = zlib.decompress(stream, 31)
        assert (header.modified, header.extra_flags) == (0, 0)
        assert header.operating_system in (0, 255)
        assert not any(header.flags.values())
        assert (trailer.checksum, trailer.content_size) == (zlib.crc32(content), len(content))
    frames = list(recorded_streams(Codec.ZSTD))
    assert all(declared_frame_end(frame, 0) == len(frame) for frame in frames)
    assert len(streams) > 5
    assert len(frames) > 5
