"""Snappy in the framing of snappy-java (`SnappyInputStream`, `SnappyOutputStream`), or as one raw block. A framed
stream is a 16-byte header, then blocks, each after its big-endian length. Input without that header is one raw block. A
length field that equals the first bytes of a header should begin another stream. If no header follows, snappy-java
skips 16 bytes; if it has decompressed nothing since the last such skip, it ends the stream.
"""

from __future__ import annotations

from collections.abc import Iterator

import snappy as _snappy
from construct import Struct

from kafkalog.codec import derive
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.compression._errors import bad_stream, check_size
from kafkalog.codec.compression._pieces import Pieces, copy_earlier
from kafkalog.codec.layout.primitives import Int32Bytes
from kafkalog.codec.layout.snappy_stream import SNAPPY_VERSIONS, STREAM_MAGIC

__all__ = [
    "HEADER", "LENGTH", "MAGIC", "NEXT_HEADER", "before_damage", "blocks_before_damage", "compress", "decode_block",
    "decompress", "most_bytes", "whole_block",
]  # fmt: skip

_VERSIONS = derive.fixed(SNAPPY_VERSIONS, ("version", "compatible_version"))
LENGTH = derive.fixed(Struct("length" / Int32Bytes.prefix), ("length",)).struct
MAGIC = STREAM_MAGIC
HEADER = MAGIC + _VERSIONS.struct.pack(1, 1)
BLOCK_SIZE = 32 * 1024
NEXT_HEADER = LENGTH.unpack(MAGIC[: LENGTH.size])[0]
_read_version = _VERSIONS.reader("version")
_MAX_PREAMBLE = 5
_OLDEST_VERSION = 1


def _check_version(data: bytes | memoryview, position: int) -> None:
    """Raise `FormatError` if the version in the header at `position` is below 1. snappy-java checks this only for
    headers after the first, and never checks the compatible version.
    """
    version = _read_version(data, position + len(MAGIC))
    if version < _OLDEST_VERSION:
        raise bad_stream("snappy", f"a header of version {version}")


def _declared_size(block: bytes | memoryview) -> int:
    size = 0
    for index, byte in enumerate(block[:_MAX_PREAMBLE]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise bad_stream("snappy", "a block does not begin with its size")


def _decompress_block(block: bytes | memoryview, used: int, limits: Limits) -> bytes:
    check_size("snappy", used + _declared_size(block), limits)
    try:
        return bytes(_snappy.uncompress(bytes(block)))
    except Exception as error:  # noqa: BLE001 - the binding's own class differs between its versions
        raise bad_stream("snappy", str(error) or "a block is damaged") from None


def most_bytes(data: bytes | memoryview) -> int | None:
    """Return the sum of the decompressed sizes that all blocks declare, in bytes; None if the length or the declared
    size of a block is invalid. Blocks behind a header at which `decompress` ends the stream count too. Nothing is
    decompressed.
    """
    is_framed = len(data) >= len(HEADER) and bytes(data[: len(MAGIC)]) == MAGIC
    total, position = 0, len(HEADER)
    try:
        if not is_framed:
            return _declared_size(data)
        while position + LENGTH.size <= len(data):
            (length,) = LENGTH.unpack_from(data, position)
            if length == NEXT_HEADER:
                position += len(HEADER)
                continue
            position += LENGTH.size
            if not 0 <= length <= len(data) - position:
                return None
            total += _declared_size(data[position : position + length])
            position += length
    except FormatError:
        return None
    return total


def decompress(data: bytes | memoryview, limits: Limits = DEFAULT_LIMITS, *, magic: int = 2) -> bytes | memoryview:
    """Decompress a stream in snappy-java's framing or, if its header is missing, one raw block. Fewer than 4 bytes at
    the end of a framed stream are ignored, and so is `magic`. A later header with another magic is skipped; if nothing
    was decompressed since the previous such header or the start, it ends the stream. Raises `FormatError` for an empty
    or damaged stream, `LimitExceeded` for a too large result.
    """
    if len(data) == 0:
        raise bad_stream("snappy", "it is empty")
    if len(data) < len(HEADER) or bytes(data[: len(MAGIC)]) != MAGIC:
        return _decompress_block(data, 0, limits)
    parts = Pieces()
    used = used_at_skip = 0
    position = len(HEADER)
    while position + LENGTH.size <= len(data):
        (length,) = LENGTH.unpack_from(data, position)
        if length == NEXT_HEADER:
            if position + len(HEADER) > len(data):
                raise bad_stream("snappy", "a second header is incomplete")
            if bytes(data[position : position + len(MAGIC)]) == MAGIC:
                _check_version(data, position)
            elif used == used_at_skip:
                break
            else:  # snappy-java returns the data so far, and is called again for more
                used_at_skip = used
            position += len(HEADER)
            continue
        position += LENGTH.size
        if not 0 <= length <= len(data) - position:
            raise bad_stream("snappy", f"a block of {length} bytes runs past the end")
        parts.append(_decompress_block(data[position : position + length], used, limits))
        used = parts.size
        position += length
    return parts.joined()


def blocks_before_damage(data: bytes) -> Iterator[bytes]:
    """Yield the compressed bytes of each block, including an incomplete last one; the whole of `data` if it has no
    snappy-java header. An incomplete length ends the iterator, and so does a negative one, which means a second header
    or damage.
    """
    if data[: len(MAGIC)] != MAGIC:
        yield data
        return
    position = len(HEADER)
    while position + LENGTH.size <= len(data):
        (length,) = LENGTH.unpack_from(data, position)
        if length < 0:
            return
        position += LENGTH.size
        yield data[position : position + length]
        position += length


def whole_block(block: bytes, most: int) -> bytes | None:
    """Decompress one complete block; return None if it is damaged or holds more than `most` bytes."""
    try:
        return None if _declared_size(block) > most else bytes(_snappy.uncompress(block))
    except Exception:  # noqa: BLE001 - the binding's own class differs between its versions
        return None


def compress(data: bytes | memoryview, level: int | None = None, *, magic: int = 2) -> bytes:
    """Compress to a framed stream with blocks of 32 KiB, as Kafka's producer does. `level` is ignored, because Snappy
    has none, and so is `magic`.
    """
    stream = [HEADER]
    for start in range(0, len(data), BLOCK_SIZE):
        block = bytes(_snappy.compress(bytes(data[start : start + BLOCK_SIZE])))
        stream += [LENGTH.pack(len(block)), block]
    return b"".join(stream)


def before_damage(data: bytes, limits: Limits) -> bytes:
    """Decompress the blocks of a damaged stream one after another. Of a damaged block, only the bytes before its damage
    are returned; the next block follows. A negative or incomplete block length ends the result. Return at most
    `limits.decompressed_batch_bytes` bytes in all, perhaps none. Damage raises no exception.
    """
    out = bytearray()
    for block in blocks_before_damage(data):
        most = limits.decompressed_batch_bytes - len(out)
        out += whole_block(block, most) or decode_block(block, most)
    return bytes(out)


def decode_block(block: bytes, most: int) -> bytes:
    """Decompress one Snappy block in Python, up to its end, its damage or `most` bytes. Damage raises no exception: the
    bytes before it are returned.
    """
    out, position = bytearray(), 0
    while position < len(block) and block[position] >= 0x80:  # its size, which is not needed
        position += 1
    position += 1

    def number(size: int) -> int:
        nonlocal position
        position += size
        return int.from_bytes(block[position - size : position], "little")

    while position < len(block) and len(out) < most:
        tag = number(1)
        kind, high = tag & 3, tag >> 2
        if kind == 0:
            literals = (high if high < 60 else number(high - 59)) + 1
            out += block[position : position + min(literals, most - len(out))]
            position += literals
            continue
        if kind == 1:
            distance, copied = (high >> 3) << 8 | number(1), (high & 7) + 4
        else:
            distance, copied = number(2 if kind == 2 else 4), high + 1
        if position > len(block) or not copy_earlier(out, distance, copied, most):
            break
    return bytes(out)
