"""LZ4 frames as Kafka reads and writes them (`Lz4BlockInputStream`, `Lz4BlockOutputStream`). Kafka's frame code differs
from the standard library. The header checksum of magic-0 wrappers also covers the frame magic (a bug kept for
compatibility), the content checksum is required but not compared, and bytes after the frame are ignored. So frames are
parsed here, and only blocks are passed to the library.
"""

from __future__ import annotations

from collections.abc import Iterator

import lz4.block as _block
from xxhash import xxh32_intdigest

from kafkalog.codec import derive
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.compression._errors import bad_stream, too_large
from kafkalog.codec.compression._pieces import Pieces, copy_earlier
from kafkalog.codec.layout.lz4_frame import (
    FRAME_MAGIC,
    LZ4_BLOCK_BITS,
    LZ4_BLOCK_DESCRIPTOR,
    LZ4_BLOCK_SIZE,
    LZ4_CHECKSUM,
    LZ4_CONTENT_SIZE,
    LZ4_FLAGS,
    LZ4_HEADER,
    LZ4_HEADER_CHECKSUM,
)

__all__ = [
    "BLOCK_SIZE", "STORED_BLOCK", "WRITTEN_HEADER", "before_damage", "blocks_before_damage", "compress",
    "decode_block", "decompress", "header_checksum", "most_bytes", "whole_block",
]  # fmt: skip

_HEADER = derive.fixed(LZ4_HEADER, ("magic", "flags", "block_descriptor"), "<")
_CONTENT_SIZE = derive.fixed(LZ4_CONTENT_SIZE, ("content_size",), "<").size
_HEADER_CHECKSUM = LZ4_HEADER_CHECKSUM.sizeof()
_SIZE = derive.fixed(LZ4_BLOCK_SIZE, ("size",), "<").struct
_CHECKSUM = derive.fixed(LZ4_CHECKSUM, ("checksum",), "<").struct
MAGIC = FRAME_MAGIC.to_bytes(_HEADER["flags"].position, "little")
STORED_BLOCK = LZ4_BLOCK_BITS.mask("is_stored")
BLOCK_SIZE = 64 * 1024
_WRITER_FLG = LZ4_FLAGS.number({"version": 1, "has_independent_blocks": 1})
_WRITER_BD = LZ4_BLOCK_DESCRIPTOR.number({"largest_block": 4})
_DEFAULT_LEVEL = 9
_LONG, _SHORTEST_MATCH = 15, 4


def _header_checksum(descriptor: bytes) -> int:
    return xxh32_intdigest(descriptor) >> 8 & 0xFF


def header_checksum(header: bytes, *, with_magic: bool) -> int:
    """Return the checksum of a frame's header, which begins with the frame magic. `with_magic` includes that magic, as
    Kafka does for magic 0.
    """
    return _header_checksum(header if with_magic else header[len(MAGIC) :])


_SMALLEST_BLOCK_CODE = 4
_RESERVED, _VERSION = LZ4_FLAGS.mask("reserved"), LZ4_FLAGS.mask("version")
_VERSION_1, _INDEPENDENT = LZ4_FLAGS.number({"version": 1}), LZ4_FLAGS.mask("has_independent_blocks")
_HAS_CONTENT_SIZE, _HAS_BLOCK_CHECKSUMS, _HAS_CONTENT_CHECKSUM = (
    LZ4_FLAGS.mask(name) for name in ("has_content_size", "has_block_checksums", "has_content_checksum")
)
_LARGEST_BLOCK = LZ4_BLOCK_DESCRIPTOR.mask("largest_block")
_LARGEST_BLOCK_1 = LZ4_BLOCK_DESCRIPTOR.number({"largest_block": 1})
WRITTEN_HEADER = MAGIC + bytes([_WRITER_FLG, _WRITER_BD, _header_checksum(bytes([_WRITER_FLG, _WRITER_BD]))])
"""Header of every frame that Kafka writes for magic 1 and 2."""


def _read_header(data: bytes | memoryview, check_header: bool) -> tuple[int, int, bool, bool]:
    """Return the position after the frame header, the largest size of a block in bytes, whether blocks have checksums,
    and whether the content has one. The header checksum is compared only if `check_header`. Raises `FormatError` for an
    incomplete, invalid or unsupported header.
    """
    if len(data) <= _HEADER.size:
        raise bad_stream("lz4", "it ends inside the frame header")
    if bytes(data[: len(MAGIC)]) != MAGIC:
        raise bad_stream("lz4", "the frame magic is missing")
    _, flg, bd = _HEADER.struct.unpack_from(data)
    if flg & _RESERVED or flg & _VERSION != _VERSION_1 or not flg & _INDEPENDENT:
        raise bad_stream("lz4", f"frame flags {flg:#04x} are not supported")
    block_code = (bd & _LARGEST_BLOCK) // _LARGEST_BLOCK_1
    if bd & ~_LARGEST_BLOCK or block_code < _SMALLEST_BLOCK_CODE:
        raise bad_stream("lz4", f"block descriptor {bd:#04x} is not supported")
    position = _HEADER.size + (_CONTENT_SIZE if flg & _HAS_CONTENT_SIZE else 0)
    if position >= len(data):
        raise bad_stream("lz4", "it ends inside the frame header")
    if check_header and data[position] != _header_checksum(bytes(data[len(MAGIC) : position])):
        raise bad_stream("lz4", "the header checksum does not match")
    with_checksums, with_content_checksum = bool(flg & _HAS_BLOCK_CHECKSUMS), bool(flg & _HAS_CONTENT_CHECKSUM)
    return position + _HEADER_CHECKSUM, 1 << (2 * block_code + 8), with_checksums, with_content_checksum


def decompress(data: bytes | memoryview, limits: Limits = DEFAULT_LIMITS, *, magic: int = 2) -> bytes | memoryview:
    """Decompress one LZ4 frame; return its content. Bytes after the frame are ignored. Block checksums are compared,
    the content checksum is not. For magic 0 the header checksum is not compared either, as in Kafka. Raises
    `FormatError` for a damaged or incomplete frame, `LimitExceeded` for a too large result.
    """
    position, max_block, with_checksums, with_content_checksum = _read_header(data, magic != 0)
    parts = Pieces()
    used = 0
    while True:
        if position + _SIZE.size > len(data):
            raise bad_stream("lz4", "it ends without an end mark")
        (word,) = _SIZE.unpack_from(data, position)
        position += _SIZE.size
        size = word & ~STORED_BLOCK
        if size == 0:  # the end mark, even with the flag of a stored block
            if with_content_checksum and position + _CHECKSUM.size > len(data):  # read, though never compared
                raise bad_stream("lz4", "it ends inside the content checksum")
            return parts.joined()
        if size > max_block:
            raise bad_stream("lz4", f"a block of {size} bytes is larger than the frame allows")
        if size > len(data) - position:
            raise bad_stream("lz4", "it ends inside a block")
        block = bytes(data[position : position + size])
        position += size
        if with_checksums:
            stored = data[position : position + _CHECKSUM.size]
            if stored != _CHECKSUM.pack(xxh32_intdigest(block)):
                raise bad_stream("lz4", "a block checksum does not match")
            position += _CHECKSUM.size
        if not word & STORED_BLOCK:
            try:
                block = bytes(_block.decompress(block, uncompressed_size=max_block))
            except _block.LZ4BlockError as error:
                raise bad_stream("lz4", error) from None
        used += len(block)
        if used > limits.decompressed_batch_bytes:
            raise too_large("lz4", limits)
        parts.append(block)


def most_bytes(data: bytes | memoryview) -> int | None:
    """Return an upper bound of the decompressed size: the sum of the largest possible sizes of the frame's blocks. None
    if the header is invalid or the end mark is missing. No checksum is compared, and nothing is decompressed.
    """
    try:
        position, max_block, with_checksums, _ = _read_header(data, check_header=False)
    except FormatError:
        return None
    total = 0
    while position + _SIZE.size <= len(data):
        (word,) = _SIZE.unpack_from(data, position)
        size = word & ~STORED_BLOCK
        if size == 0:
            return total
        total += size if word & STORED_BLOCK else max_block
        position += _SIZE.size + size + (_CHECKSUM.size if with_checksums else 0)
    return None


def blocks_before_damage(data: bytes) -> Iterator[tuple[bytes, int, bool]]:
    """Yield a tuple for each block: its bytes without checksum, the largest size in bytes that a block of this frame
    can have decompressed, and whether it is stored uncompressed. The end mark, or an impossible block size, ends the
    iterator; an incomplete last block is included. Raises `FormatError` if the header is damaged.
    """
    position, max_block, with_checksums, _ = _read_header(data, check_header=True)
    while position + _SIZE.size <= len(data):
        (word,) = _SIZE.unpack_from(data, position)
        position += _SIZE.size
        size = word & ~STORED_BLOCK
        if not 0 < size <= max_block:
            return
        yield data[position : position + size], max_block, bool(word & STORED_BLOCK)
        position += size + (_CHECKSUM.size if with_checksums else 0)


def whole_block(block: bytes, most: int) -> bytes | None:
    """Decompress one complete block; return None if it is damaged or holds more than `most` bytes."""
    try:
        return bytes(_block.decompress(block, uncompressed_size=most))
    except _block.LZ4BlockError:
        return None


def compress(data: bytes | memoryview, level: int | None = None, *, magic: int = 2) -> bytes:
    """Compress to one frame of independent 64 KiB blocks without checksums, as Kafka does. A block that would not
    become smaller is stored. `level` None or 9, Kafka's default, uses LZ4's fast compression, any other level its high
    compression. For magic 0 the header checksum also covers the frame magic. Empty data gives a frame without blocks.
    """
    descriptor = bytes([_WRITER_FLG, _WRITER_BD])
    checksum = _header_checksum(MAGIC + descriptor if magic == 0 else descriptor)
    stream = [MAGIC, descriptor, bytes([checksum])]
    for start in range(0, len(data), BLOCK_SIZE):
        raw = bytes(data[start : start + BLOCK_SIZE])
        if level is None or level == _DEFAULT_LEVEL:
            block = _block.compress(raw, store_size=False)
        else:
            block = _block.compress(raw, mode="high_compression", compression=level, store_size=False)
        if len(block) < len(raw):
            stream += [_SIZE.pack(len(block)), block]
        else:
            stream += [_SIZE.pack(len(raw) | STORED_BLOCK), raw]
    stream.append(_SIZE.pack(0))
    return b"".join(stream)


def before_damage(data: bytes, limits: Limits) -> bytes:
    """Decompress the blocks of a damaged frame one after another. Of a damaged block, only the bytes before its damage
    are returned; the next block follows. An impossible block size ends the result. Return at most
    `limits.decompressed_batch_bytes` bytes in all; none if the header is damaged. Damage raises no exception.
    """
    out = bytearray()
    try:
        for block, largest, is_stored in blocks_before_damage(data):
            most = min(largest, limits.decompressed_batch_bytes - len(out))
            out += block[:most] if is_stored else whole_block(block, most) or decode_block(block, most)
    except FormatError:
        pass
    return bytes(out)


def decode_block(block: bytes, most: int) -> bytes:
    """Decompress one LZ4 block in Python, up to its end, its damage or `most` bytes. Damage raises no exception: the
    bytes before it are returned.
    """
    out, position = bytearray(), 0

    def length(nibble: int) -> int:
        nonlocal position
        total = nibble
        while nibble == _LONG and position < len(block):
            total += block[position]
            position += 1
            if block[position - 1] < 0xFF:
                break
        return total

    while position < len(block) and len(out) < most:
        token = block[position]
        position += 1
        literals = length(token >> 4)
        out += block[position : position + min(literals, most - len(out))]
        position += literals
        if position + 2 > len(block):
            break
        distance = int.from_bytes(block[position : position + 2], "little")
        position += 2
        if not copy_earlier(out, distance, length(token & _LONG) + _SHORTEST_MATCH, most):
            break
    return bytes(out)
