"""What comes out of a compressed stream before it breaks or ends early: for showing it, never for reading a log.

Each codec is read as its `decompress` does, under the same limits.  A library gives a block of LZ4 and of Snappy whole
or not at all, so a block that breaks is decoded here as far as it goes.  Bytes near the break may be wrong already: a
stream does not break where it is damaged, but where that cannot be overlooked any more.
"""

from __future__ import annotations

import zlib
from io import BytesIO

from kafkalog.codec.errors import FormatError
from kafkalog.codec.limits import KIB, Limits
from kafkalog.codec.model import Codec

__all__ = ["decompress_before_damage"]

_STEP = 64 * KIB
"""Bytes that come out at a time, at most."""
_PIECE = KIB
"""Bytes of gzip that go in at a time: of each piece a decoder is copied, and the last one is read byte by byte."""
_GZIP_WINDOW = 31
_LONG, _SHORTEST_MATCH = 15, 4


def decompress_before_damage(codec: int, data: bytes, limits: Limits) -> bytes:
    """The first bytes of the content of a stream, as far as they come; all of them if it is sound."""
    match codec:
        case Codec.NONE:
            return data[: limits.decompressed_batch_bytes]
        case Codec.GZIP:
            return _gzip(data, limits)
        case Codec.SNAPPY:
            return _snappy(data, limits)
        case Codec.LZ4:
            return _lz4(data, limits)
        case Codec.ZSTD:
            return _zstd(data, limits)
    return b""


def _gzip(data: bytes, limits: Limits) -> bytes:
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
    """Append what a decoder gives before it fails: a call that fails gives nothing of what it has decoded."""
    try:
        while rest and len(out) < limits.decompressed_batch_bytes:
            out += decoder.decompress(rest, 1)
            rest = decoder.unconsumed_tail
    except zlib.error:
        return


def _zstd(data: bytes, limits: Limits) -> bytes:
    import zstandard

    out = bytearray()
    for step in (_STEP, 1):  # after a failure again, past what came before it, as far as blocks are whole
        decoder = zstandard.ZstdDecompressor(max_window_size=limits.zstd_window_bytes)
        try:
            with decoder.stream_reader(BytesIO(data), read_size=KIB) as reader:
                passed = 0
                while passed < len(out) and (part := reader.read(min(_STEP, len(out) - passed))):
                    passed += len(part)
                while len(out) < limits.decompressed_batch_bytes:
                    part = reader.read(min(step, limits.decompressed_batch_bytes - len(out)))
                    if not part:
                        return bytes(out)
                    out += part
                return bytes(out)
        except zstandard.ZstdError:
            continue
    return bytes(out)


def _lz4(data: bytes, limits: Limits) -> bytes:
    from kafkalog.codec.compression import lz4

    out = bytearray()
    try:
        for block, largest, is_stored in lz4.blocks_before_damage(data):
            most = min(largest, limits.decompressed_batch_bytes - len(out))
            out += block[:most] if is_stored else lz4.whole_block(block, most) or _lz4_block(block, most)
    except FormatError:
        pass
    return bytes(out)


def _snappy(data: bytes, limits: Limits) -> bytes:
    from kafkalog.codec.compression import snappy

    out = bytearray()
    for block in snappy.blocks_before_damage(data):
        most = limits.decompressed_batch_bytes - len(out)
        out += snappy.whole_block(block, most) or _snappy_block(block, most)
    return bytes(out)


def _lz4_block(block: bytes, most: int) -> bytes:
    """The content of one block of LZ4 up to where it ends or breaks."""
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
        if not _copied(out, distance, length(token & _LONG) + _SHORTEST_MATCH, most):
            break
    return bytes(out)


def _snappy_block(block: bytes, most: int) -> bytes:
    """The content of one block of Snappy up to where it ends or breaks."""
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
        if position > len(block) or not _copied(out, distance, copied, most):
            break
    return bytes(out)


def _copied(out: bytearray, distance: int, length: int, most: int) -> bool:
    """Append bytes that came before, which may overlap what they make; False where there are none so far back."""
    if not 0 < distance <= len(out):
        return False
    length = min(length, most - len(out))
    pattern = bytes(out[-distance:])
    out += (pattern * (length // distance + 1))[:length]
    return True


