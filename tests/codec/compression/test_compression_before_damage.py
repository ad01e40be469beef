"""What comes out of a stream before it breaks: a part of the content, and never more than is allowed."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from msgspec.structs import replace

from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.compression import compress, decompress_before_damage, snappy
from kafkalog.codec.compression.lz4 import decode_block as decode_lz4_block
from kafkalog.codec.compression.snappy import compress as framed
from kafkalog.codec.model import Codec

lz4 = pytest.importorskip("lz4.block")
WORDS = [b"alpha", b"beta", b"gamma", b"delta", b"epsilon", b"0123456789" * 4]


def content(size: int, seed: int = 7) -> bytes:
    """Bytes that can be compressed, with matches near and far."""
    chance = random.Random(seed)
    made = b""
    while len(made) < size:
        made += chance.choice(WORDS) if chance.random() < 0.8 else chance.randbytes(9)
    return made[:size]


LARGE = content(200_000)
codecs = pytest.mark.parametrize("codec", list(Codec))


@codecs
@pytest.mark.parametrize("size", [0, 1, 40, 5_000, 200_000])
def test_of_a_sound_stream_it_is_all(codec: Codec, size: int) -> None:
    assert decompress_before_damage(codec, compress(codec, content(size)), DEFAULT_LIMITS) == content(size)


@codecs
def test_of_a_stream_that_ends_early_it_is_the_beginning(codec: Codec) -> None:
    data = content(3_000)
    stream = compress(codec, data)
    got = [decompress_before_damage(codec, stream[:cut], DEFAULT_LIMITS) for cut in range(len(stream) + 1)]
    assert all(data.startswith(each) for each in got)
    assert all(len(shorter) <= len(longer) for shorter, longer in pairwise(got))
    if codec is not Codec.ZSTD:  # whose blocks come whole
        assert len(got[len(stream) * 3 // 4]) > len(data) // 2


@codecs
def test_of_a_stream_that_breaks_it_is_what_came_before(codec: Codec) -> None:
    stream = bytearray(compress(codec, LARGE))
    place = len(stream) * 9 // 10
    stream[place : place + 60] = b"\xff" * 60
    got = decompress_before_damage(codec, bytes(stream), DEFAULT_LIMITS)
    pairs = enumerate(zip(got, LARGE, strict=False))
    right = next((number for number, (one, other) in pairs if one != other), len(got))
    block = {Codec.ZSTD: 128 * 1024}.get(codec, 2_000)
    assert right >= len(LARGE) * 9 // 10 - max(block, len(LARGE) // 50)


@codecs
@pytest.mark.parametrize("most", [0, 1, 1000, 65_537])
def test_never_more_than_is_allowed_comes_out(codec: Codec, most: int) -> None:
    limits = replace(DEFAULT_LIMITS, decompressed_batch_bytes=most)
    for stream in (compress(codec, LARGE), compress(codec, bytes(3_000_000)), compress(codec, LARGE)[:-9]):
        assert len(decompress_before_damage(codec, stream, limits)) <= most


@codecs
@pytest.mark.parametrize("seed", range(40))
def test_no_bytes_are_too_odd(codec: Codec, seed: int) -> None:
    chance = random.Random(seed)
    stream = bytearray(compress(codec, content(chance.randrange(4_000), seed)))
    for _ in range(chance.randrange(1, 8)):
        if stream:
            stream[chance.randrange(len(stream))] = chance.randrange(256)
    limits = replace(DEFAULT_LIMITS, decompressed_batch_bytes=1 << 20)
    assert len(decompress_before_damage(codec, bytes(stream), limits)) <= 1 << 20
    assert decompress_before_damage(codec, chance.randbytes(seed), limits) is not None


@pytest.mark.parametrize("seed", range(60))
def test_own_decoders_of_blocks_agree_with_the_libraries(seed: int) -> None:
    chance = random.Random(seed)
    data = content(chance.randrange(1, 30_000), seed) + bytes(chance.randrange(3) * 500)
    most = len(data)
    assert decode_lz4_block(lz4.compress(data, store_size=False), most) == data
    assert decode_lz4_block(lz4.compress(data, mode="high_compression", store_size=False), most) == data
    block = framed(data[:32_768])[20:]
    assert snappy.decode_block(block, most) == data[:32_768]
