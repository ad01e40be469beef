"""Batches whose compressed stream goes on after its records, or ends before its end: what readers do with the tail."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator

from kafkalog.codec import Codec
from kafkalog.codec.compression import compress
from testkit.made.batches import batch, message, record

SIX = b"".join(record(number, value=bytes(range(200))) for number in range(6))
NONE_MORE = {codec: compress(codec, b"") for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)}
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
LONG = random.Random(5).randbytes(140_000)


def gzip_header(flags: int, *, valid: bool = True) -> bytes:
    """The header of a member with optional fields."""
    out = bytearray(b"\x1f\x8b\x08" + bytes([flags]) + bytes(6))
    if flags & 4:
        out += b"\x03\0abc"
    if flags & 8:
        out += b"name\0"
    if flags & 16:
        out += b"comment\0"
    if flags & 2:
        out += (zlib.crc32(out) + (not valid) & 0xFFFF).to_bytes(2, "little")
    return bytes(out)


def _gzip() -> Iterator[bytes]:
    empty = NONE_MORE[Codec.GZIP]
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    deflated = raw.compress(b"more") + raw.flush()
    trailer = zlib.crc32(b"more").to_bytes(4, "little") + (4).to_bytes(4, "little")
    yield from (b"\x1f\x8b" + bytes(n) for n in (0, 1, 8, 16, 17, 30, 300))
    yield from (b"\x1f\x8b\x08" + bytes(n) for n in (0, 1, 7, 15, 16, 17, 30, 300))
    yield from (bytes(n) for n in (1, 8, 18, 19, 20))
    yield from (empty[:n] for n in range(1, len(empty) + 1))
    yield from (empty + bytes(n) for n in (1, 5, 10, 30))
    yield empty * 2
    yield empty * 3 + b"\x1f\x8b"
    for flags in (0, 2, 4, 8, 16, 2 | 4 | 8 | 16, 0x20, 0xE0 | 8):
        for valid in (True, False):
            whole = gzip_header(flags, valid=valid) + deflated + trailer
            yield whole
            yield whole + bytes(40)
            yield from (whole[:n] + bytes(more) for n in (10, 12, 16, len(whole) - 3) for more in (0, 20))
    yield gzip_header(4)[:10] + b"\xff\xff" + bytes(50)
    yield gzip_header(8)[:10] + b"x" * 50


def _zstd() -> Iterator[bytes]:
    empty, more = NONE_MORE[Codec.ZSTD], compress(Codec.ZSTD, record(6) * 3)
    yield from (more[:n] for n in range(1, len(more)))
    yield from (empty[:n] for n in range(1, len(empty) + 1))
    yield from (ZSTD_MAGIC[:n] + b"x" * m for n in range(4) for m in (1, 5, 20))
    skippable = b"\x53\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"12345"
    yield from (skippable[:n] for n in range(1, len(skippable) + 1))
    yield skippable + more[:9]
    yield empty * 2 + more[:9]
    yield ZSTD_MAGIC + b"\xff" * 20
    yield ZSTD_MAGIC + b"\0\xff" + bytes(10)


def _snappy() -> Iterator[bytes]:
    from kafkalog.codec.compression import snappy

    yield from (snappy.HEADER[:n] for n in range(1, len(snappy.HEADER) + 1))
    yield from (snappy.HEADER[:4] + bytes(n) for n in (0, 1, 11, 12, 13, 40))
    yield from (snappy.HEADER[:n] + b"\xff" * (16 - n) for n in range(3, 16))
    yield from (snappy.MAGIC + bytes([0, 0, 0, version]) + bytes(4) for version in (0, 1, 2))
    yield snappy.MAGIC + b"\xff" * 8
    for bad in (snappy.HEADER[:4] + bytes(12), snappy.HEADER[:7] + b"\xff" * 9):
        whole = compress(Codec.SNAPPY, b"more")[len(snappy.HEADER) :]
        yield from (bad + bytes(n) for n in range(1, 6))
        yield from (bad + each for each in (whole, bad, bad + whole, bad + bad + bytes(4), whole + bad, whole[:-1]))
        yield from (bad + snappy.HEADER + each for each in (b"", whole, bytes(4)))
    yield from (bytes(n) for n in (1, 3, 4, 5, 8))
    yield from ((n).to_bytes(4, "big", signed=True) for n in (-1, 1, 2**31 - 1))
    yield snappy.HEADER * 2
    yield snappy.HEADER + b"\0\0\0\1\0"


def _lz4() -> Iterator[bytes]:
    yield from (bytes(n) for n in (1, 3, 4, 8))
    yield NONE_MORE[Codec.LZ4]
    yield NONE_MORE[Codec.LZ4][:5]


TAILS = {Codec.GZIP: _gzip, Codec.ZSTD: _zstd, Codec.SNAPPY: _snappy, Codec.LZ4: _lz4}


def lz4_with_checksum(payload: bytes, checksum: bytes) -> bytes:
    """A frame whose flags announce a content checksum."""
    import struct

    from xxhash import xxh32_intdigest

    from kafkalog.codec.compression.lz4 import MAGIC

    descriptor = bytes([0x64, 0x40])
    head = MAGIC + descriptor + bytes([xxh32_intdigest(descriptor) >> 8 & 0xFF])
    return head + struct.pack("<I", len(payload) | 0x80000000) + payload + bytes(4) + checksum


def _long() -> Iterator[bytes]:
    """Members and frames that end where the reader's pieces do, and around there."""
    head = len(gzip_header(0))
    for beyond in (*range(-30, 4), 9, 27, 40):
        size = 8192 - head - 5 + beyond  # a stored block has 5 bytes of its own
        value = LONG[: size - 12]
        plain = record(0, value=value)
        stored = b"\x01" + len(plain).to_bytes(2, "little") + (len(plain) ^ 0xFFFF).to_bytes(2, "little") + plain
        trailer = zlib.crc32(plain).to_bytes(4, "little") + len(plain).to_bytes(4, "little")
        whole = gzip_header(0) + stored + trailer
        for tail in (NONE_MORE[Codec.GZIP], b"\x1f\x8b\x08" + bytes(30), compress(Codec.GZIP, b"more"), bytes(40)):
            yield batch(whole + tail, 1, attributes=Codec.GZIP)
            yield message(1, None, gzip_of_messages(len(plain), tail), attributes=Codec.GZIP)
    for size in range(131_040, 131_080, 3):
        plain = record(0, value=LONG[:size])
        for tail in (b"(", compress(Codec.ZSTD, b"x")[:7], bytes(3)):
            yield batch(compress(Codec.ZSTD, plain) + tail, 1, attributes=Codec.ZSTD)


def gzip_of_messages(size: int, tail: bytes) -> bytes:
    """A member with one message of about that size, stored, and what follows it."""
    plain = message(0, None, LONG[: size - 34], magic=1)
    stored = b"\x01" + len(plain).to_bytes(2, "little") + (len(plain) ^ 0xFFFF).to_bytes(2, "little") + plain
    return gzip_header(0) + stored + zlib.crc32(plain).to_bytes(4, "little") + len(plain).to_bytes(4, "little") + tail


def _full_buffers() -> Iterator[bytes]:
    """Snappy streams whose content fills the buffers of who reads it, and a header that is none after it."""
    whole = compress(Codec.SNAPPY, record(1))[16:]
    for size in (2048, 4096, 8192, 16384, 32768, 65536):
        for short in (-1, 0, 1):
            plain = record(0, value=LONG[: size - 20])
            plain = record(0, value=LONG[: size - 20 - (len(plain) - size) + short])
            for tail in (b"\x82SNA" + bytes(12) + whole, b"\x82SNA" + bytes(12) + bytes(4)):
                yield batch(compress(Codec.SNAPPY, plain) + tail, 1, attributes=Codec.SNAPPY)
                yield batch(compress(Codec.SNAPPY, plain) + tail, 2, attributes=Codec.SNAPPY)


def made() -> Iterator[bytes]:
    """One batch, and where the codec is one of theirs one wrapper of magic 0 and 1, for each tail."""
    inner = {magic: b"".join(message(n, magic=magic) for n in range(3)) for magic in (0, 1)}
    for codec, tails in TAILS.items():
        for tail in tails():
            yield batch(compress(codec, SIX) + tail, 6, attributes=codec)
            for magic in (0, 1) if codec != Codec.ZSTD else ():
                stream = compress(codec, inner[magic], magic=magic) + tail
                yield message(2, None, stream, attributes=codec, magic=magic)
    for cut in range(5):
        yield batch(lz4_with_checksum(SIX, bytes(cut)), 6, attributes=Codec.LZ4)
        yield message(2, None, lz4_with_checksum(inner[1], bytes(cut)), attributes=Codec.LZ4)
    yield from _long()
    yield from _full_buffers()
    for attributes in (0, 8):  # magic 0 inside magic 1, as old brokers wrote it, of both types of time
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
            mixed = message(0, magic=0) + message(1, magic=1) + message(2, magic=0)
            for stream in (inner[0], mixed):
                yield message(2, None, compress(codec, stream), attributes=codec | attributes, magic=1)
