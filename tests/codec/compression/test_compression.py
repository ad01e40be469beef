"""The five compressions: what Kafka's readers accept is read, what they refuse is refused, nothing outgrows its cap."""

from __future__ import annotations

import gzip as _gzip
import random
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

import lz4.frame
import pytest
import snappy as _snappy
import zstandard
from msgspec.structs import replace
from xxhash import xxh32_intdigest

from kafkalog.codec import DEFAULT_LIMITS, FindingCode, FormatError, LimitExceeded, UsageError
from kafkalog.codec.compression import compress, decompress
from kafkalog.codec.compression import lz4 as ours_lz4
from kafkalog.codec.model import Codec
from testkit.made.batches import GZIP, LZ4, SNAPPY, ZSTD

ALL = [GZIP, SNAPPY, LZ4, ZSTD]
TEXT = b"".join(b"%d: some words that come again\n" % number for number in range(20_000))
NOISE = random.Random(7).randbytes(200_000)
CONTENTS = {"one": b"x", "zeros": bytes(300_000), "text": TEXT, "noise": NOISE, "blocks": NOISE[:65536] + TEXT[:65536]}


def refused(codec: int, data: bytes, magic: int = 2) -> str:
    with pytest.raises(FormatError) as caught:
        decompress(codec, data, magic=magic)
    assert caught.value.code == FindingCode.DECOMPRESSION_FAILED
    assert not str(caught.value).rstrip().endswith(":"), "it says why"
    return str(caught.value)


@pytest.mark.parametrize(
    ("codec", "magic"), [(codec, magic) for codec in (0, *ALL) for magic in (0, 1, 2) if codec != ZSTD or magic == 2]
)
@pytest.mark.parametrize("name", CONTENTS)
def test_there_and_back(codec: int, name: str, magic: int) -> None:
    assert decompress(codec, compress(codec, CONTENTS[name], magic=magic), magic=magic) == CONTENTS[name]
    assert (
        decompress(codec, memoryview(compress(codec, memoryview(CONTENTS[name]), magic=magic)), magic=magic)
        == CONTENTS[name]
    )


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_levels(codec: int) -> None:
    sizes = {level: len(compress(codec, TEXT, level=level)) for level in (1, 9, 12 if codec != GZIP else 9)}
    assert len(set(sizes.values())) > 1
    assert all(decompress(codec, compress(codec, TEXT, level=level)) == TEXT for level in sizes)


@pytest.mark.parametrize(("codec", "level"), [(GZIP, 0), (GZIP, 10), (LZ4, 18), (ZSTD, 23), (ZSTD, -(2**17) - 1)])
def test_levels_outside_their_range(codec: int, level: int) -> None:
    with pytest.raises(UsageError, match=f"not {level}"):
        compress(codec, TEXT, level=level)


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_is_not_defined_for_old_messages(magic: int) -> None:
    for call in (compress, decompress):
        with pytest.raises(FormatError) as caught:
            call(ZSTD, b"x", magic=magic)
        assert caught.value.code == FindingCode.CODEC_UNKNOWN


@pytest.mark.parametrize("codec", [-1, 5, 6, 7, 8])
def test_unknown_compressions(codec: int) -> None:
    for call in (compress, decompress):
        with pytest.raises(FormatError) as caught:
            call(codec, b"x")
        assert caught.value.code == FindingCode.CODEC_UNKNOWN


@pytest.mark.parametrize("codec", ALL)
def test_every_cut_is_refused_or_gives_a_beginning(codec: int) -> None:
    content = TEXT[:400] + NOISE[:200]
    data = compress(codec, content)
    for cut in range(len(data)):
        try:
            got = decompress(codec, data[:cut])
        except FormatError:
            continue
        assert codec == SNAPPY  # has no end mark
        assert content.startswith(got)


@pytest.mark.parametrize("codec", ALL)
def test_every_flipped_bit_gives_bytes_or_our_error(codec: int) -> None:
    codes = set()
    data = compress(codec, TEXT[:300])
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            decompress(codec, bytes(changed))
        except FormatError as error:
            codes.add(error.code)
    assert codes <= {FindingCode.DECOMPRESSION_FAILED, FindingCode.LIMIT_EXCEEDED}


@pytest.mark.parametrize("codec", ALL)
def test_random_bytes_give_bytes_or_our_error(codec: int) -> None:
    codes = set()
    choose = random.Random(codec)
    starts = [b"", compress(codec, TEXT[:100])[:7], compress(codec, TEXT[:100])[:17]]
    for _ in range(3000):
        data = choose.choice(starts) + choose.randbytes(choose.randrange(60))
        try:
            decompress(codec, data, replace(DEFAULT_LIMITS, decompressed_batch_bytes=1 << 20))
        except FormatError as error:
            codes.add(error.code)
    assert codes <= {FindingCode.DECOMPRESSION_FAILED, FindingCode.LIMIT_EXCEEDED}


BOMBS = {
    "gzip": (GZIP, _gzip.compress(bytes(64 << 20))),
    "gzip members": (GZIP, _gzip.compress(bytes(1 << 20)) * 64),
    "snappy raw": (SNAPPY, bytes(_snappy.compress(bytes(64 << 20)))),
    "snappy framed": (SNAPPY, compress(SNAPPY, bytes(64 << 20))),
    "lz4": (LZ4, compress(LZ4, bytes(64 << 20))),
    "zstd": (ZSTD, compress(ZSTD, bytes(64 << 20))),
    "zstd with its size": (ZSTD, zstandard.ZstdCompressor().compress(bytes(64 << 20))),
    "zstd frames": (ZSTD, compress(ZSTD, bytes(1 << 20)) * 64),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_stop_at_the_cap(name: str) -> None:
    codec, data = BOMBS[name]
    with pytest.raises(LimitExceeded) as caught:
        decompress(codec, data, replace(DEFAULT_LIMITS, decompressed_batch_bytes=(64 << 20) - 1))
    assert (caught.value.limit, caught.value.code) == ("decompressed_batch_bytes", FindingCode.LIMIT_EXCEEDED)
    assert len(decompress(codec, data)) == 64 << 20


# --- gzip ------------------------------------------------------------------------------------------------------------


def test_gzip_is_written_without_name_and_time() -> None:
    assert compress(GZIP, b"abc")[:10] == bytes.fromhex("1f8b0800000000000 0ff".replace(" ", ""))
    assert _gzip.decompress(compress(GZIP, TEXT)) == TEXT


def test_gzip_members_and_what_follows_them() -> None:
    first, second = _gzip.compress(b"abc"), _gzip.compress(b"def")
    assert decompress(GZIP, first + second) == b"abcdef"
    assert decompress(GZIP, first + b"something else") == b"abc"
    assert decompress(GZIP, first + second[:18]) == b"abc", "no member is that short"
    refused(GZIP, first + second[:19])


def test_gzip_with_name_comment_and_extra_field() -> None:
    body = zlib.compressobj(wbits=-15)
    deflated = body.compress(b"abc") + body.flush()
    head = b"\x1f\x8b\x08\x1c" + bytes(4) + b"\x00\x03" + struct.pack("<H", 2) + b"xx" + b"name\x00" + b"comment\x00"
    trailer = struct.pack("<II", zlib.crc32(b"abc"), 3)
    assert decompress(GZIP, head + deflated + trailer) == b"abc"


def test_gzip_refusals() -> None:
    good = _gzip.compress(b"abc")
    refused(GZIP, b"")
    refused(GZIP, zlib.compress(b"abc"))
    refused(GZIP, good[:-8] + bytes(4) + good[-4:])
    refused(GZIP, good[:-1])


# --- snappy ----------------------------------------------------------------------------------------------------------

XERIAL = bytes.fromhex("82534e4150505900 00000001 00000001")


def block(data: bytes) -> bytes:
    packed = bytes(_snappy.compress(data))
    return struct.pack(">i", len(packed)) + packed


def test_snappy_is_written_in_blocks_of_32_kib() -> None:
    data = compress(SNAPPY, NOISE[:40_000])
    assert data == XERIAL + block(NOISE[:32768]) + block(NOISE[32768:40_000])


def test_snappy_streams() -> None:
    assert decompress(SNAPPY, XERIAL) == b""
    assert decompress(SNAPPY, XERIAL + block(b"abc") + block(b"def")) == b"abcdef"
    assert decompress(SNAPPY, XERIAL + block(b"abc") + XERIAL[:5] + b"xx" + XERIAL[7:]) == b"abc"
    assert decompress(SNAPPY, XERIAL + block(b"abc") + XERIAL + block(b"def")) == b"abcdef"
    for left in range(1, 4):
        assert decompress(SNAPPY, XERIAL + block(b"abc") + bytes(left)) == b"abc"


def test_snappy_without_framing_is_one_block() -> None:
    assert decompress(SNAPPY, bytes(_snappy.compress(TEXT))) == TEXT
    assert decompress(SNAPPY, bytes(_snappy.compress(b""))) == b""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        XERIAL[:15],
        XERIAL + struct.pack(">i", -5) + b"abcde",
        XERIAL + struct.pack(">i", 600 << 20) + b"abcde",
        XERIAL + block(b"abc")[:-1],
        XERIAL + struct.pack(">i", 0),
        XERIAL + block(b"abc") + XERIAL[:12],
        XERIAL + struct.pack(">i", 5) + b"\xff\xff\xff\xff\xff",
        b"\xff\x06\x00\x00sNaPpY" + bytes(20),
        b"\x80\x80\x80\x80\x80\x01",
        b"\x05\x00",
    ],
    ids=["empty", "header cut", "negative", "too long", "short", "zero", "second header cut",
         "bad block", "standard framing", "endless size", "short raw block"],
)  # fmt: skip
def test_snappy_refusals(data: bytes) -> None:
    refused(SNAPPY, data)


def test_snappy_sizes_are_checked_before_they_are_believed() -> None:
    with pytest.raises(LimitExceeded):
        decompress(SNAPPY, bytes.fromhex("ffffffff0f") + b"x")
    with pytest.raises(LimitExceeded):
        decompress(SNAPPY, XERIAL + struct.pack(">i", 6) + bytes.fromhex("ffffffff0f") + b"x")


# --- lz4 -------------------------------------------------------------------------------------------------------------


def frame(flg: int, bd: int, *blocks: bytes, extra: bytes = b"", end: bytes = bytes(4)) -> bytes:
    descriptor = bytes([flg, bd]) + extra
    return ours_lz4.MAGIC + descriptor + bytes([xxh32_intdigest(descriptor) >> 8 & 0xFF]) + b"".join(blocks) + end


def stored(data: bytes) -> bytes:
    return struct.pack("<I", len(data) | 0x80000000) + data


def test_lz4_frames_are_those_of_the_standard_library_too() -> None:
    assert lz4.frame.decompress(compress(LZ4, TEXT)) == TEXT
    written = lz4.frame.compress(TEXT, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX1MB, content_checksum=True,
                                 block_checksum=True, store_size=True)  # fmt: skip
    assert decompress(LZ4, written) == TEXT
    with pytest.raises(RuntimeError):
        lz4.frame.decompress(compress(LZ4, TEXT, magic=0))


def test_lz4_tolerances() -> None:
    assert decompress(LZ4, frame(0x60, 0x40)) == b""
    for bd in (0x40, 0x50, 0x60, 0x70):
        assert decompress(LZ4, frame(0x60, bd, stored(b"abc"))) == b"abc"
    assert decompress(LZ4, frame(0x68, 0x40, stored(b"abc"), extra=bytes(8))) == b"abc"
    checked = stored(b"abc") + struct.pack("<I", xxh32_intdigest(b"abc"))
    assert decompress(LZ4, frame(0x70, 0x40, checked)) == b"abc"
    assert decompress(LZ4, frame(0x64, 0x40, stored(b"abc"), end=bytes(4) + b"\xde\xad\xbe\xef")) == b"abc"
    assert decompress(LZ4, frame(0x60, 0x40, stored(b"abc")) + b"ignored") == b"abc"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        ours_lz4.MAGIC,
        b"\x03" + frame(0x60, 0x40, stored(b"abc"))[1:],
        frame(0x40, 0x40, stored(b"abc")),
        frame(0x61, 0x40, stored(b"abc")),
        frame(0x62, 0x40, stored(b"abc")),
        frame(0xA0, 0x40, stored(b"abc")),
        frame(0x60, 0x30, stored(b"abc")),
        frame(0x60, 0x41, stored(b"abc")),
        frame(0x60, 0xC0, stored(b"abc")),
        frame(0x60, 0x40, stored(b"abc"), end=b""),
        frame(0x60, 0x40, stored(b"abc")[:-1], end=b""),
        frame(0x60, 0x40, stored(bytes(65537))),
        frame(0x60, 0x40, struct.pack("<I", 5) + b"\xff" * 5),
        frame(0x70, 0x40, stored(b"abc") + bytes(4)),
        frame(0x70, 0x40, stored(b"abc"), end=b""),
        frame(0x68, 0x40, extra=bytes(3), end=b"")[:9],
    ],
    ids=["empty", "magic only", "magic", "dependent blocks", "dictionary", "reserved flag", "version", "block size",
         "reserved low", "reserved high", "no end mark", "short block", "large block", "bad block", "block checksum",
         "no block checksum", "header cut"],
)  # fmt: skip
def test_lz4_refusals(data: bytes) -> None:
    refused(LZ4, data)
    if b"\x60" in data[4:5]:
        refused(LZ4, data, magic=0)


def test_lz4_header_checksum_matters_except_for_magic_0() -> None:
    data = bytearray(frame(0x60, 0x40, stored(b"abc")))
    data[6] ^= 1
    assert "checksum" in refused(LZ4, bytes(data))
    refused(LZ4, bytes(data), magic=1)
    assert decompress(LZ4, bytes(data), magic=0) == b"abc"


# --- zstd ------------------------------------------------------------------------------------------------------------


def test_zstd_is_written_without_size_and_checksum() -> None:
    parameters = zstandard.get_frame_parameters(compress(ZSTD, TEXT))
    assert parameters.content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert not parameters.has_checksum
    assert compress(ZSTD, TEXT)[:6] == bytes.fromhex("28b52ffd0058")
    assert compress(ZSTD, TEXT)[-3:] == bytes.fromhex("010000")


def test_zstd_frames() -> None:
    sized = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)
    assert decompress(ZSTD, sized) == TEXT
    assert decompress(ZSTD, compress(ZSTD, b"abc") + sized) == b"abc" + TEXT
    skipped = struct.pack("<II", 0x184D2A53, 5) + b"12345"
    assert decompress(ZSTD, skipped + compress(ZSTD, b"abc") + skipped) == b"abc"
    assert decompress(ZSTD, zstandard.ZstdCompressor().compress(b"")) == b""


def test_zstd_refusals() -> None:
    good = zstandard.ZstdCompressor(write_checksum=True).compress(b"abc" * 10)
    refused(ZSTD, b"")
    refused(ZSTD, good[:-1])
    refused(ZSTD, good[:-1] + bytes([good[-1] ^ 1]))
    refused(ZSTD, good + b"garbage")
    refused(ZSTD, b"\x00" * 20)
    refused(ZSTD, struct.pack("<II", 0x184D2A53, 50) + b"12345")
    refused(ZSTD, bytes.fromhex("28b52ffd 0058 070000"))


def test_an_lz4_end_mark_that_says_stored() -> None:
    good = compress(LZ4, TEXT)
    assert good[-4:] == bytes(4)
    assert decompress(LZ4, good[:-4] + b"\0\0\0\x80", DEFAULT_LIMITS) == TEXT


def test_zstd_windows_have_a_cap() -> None:
    """128 MiB, as level 22 asks for and Kafka reads, and no more; or what the caller says."""
    wide = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters.from_level(3, window_log=27, write_content_size=False)
    ).compressobj()
    data = wide.compress(TEXT) + wide.flush()
    assert decompress(ZSTD, data) == TEXT
    with pytest.raises(LimitExceeded):
        decompress(ZSTD, data, replace(DEFAULT_LIMITS, zstd_window_bytes=(1 << 27) - 1))
    assert data[5] == (27 - 10) << 3
    with pytest.raises(LimitExceeded):
        decompress(ZSTD, data[:5] + bytes([(28 - 10) << 3]) + data[6:])


def test_labels() -> None:
    assert [Codec(codec).label for codec in range(5)] == ["none", "gzip", "snappy", "lz4", "zstd"]


def test_an_encoder_that_is_used_again_writes_what_a_new_one_writes() -> None:
    """In several threads at once, and between batches of other levels and sizes."""
    chance = random.Random(11)
    data = [chance.randbytes(chance.choice([0, 1, 100, 5000])) * chance.choice([1, 40]) for _ in range(40)]

    def fresh(each: bytes) -> bytes:
        made = zstandard.ZstdCompressor(level=3, write_content_size=False, write_checksum=False).compressobj()
        return made.compress(each) + made.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) + made.flush()

    expected = [fresh(each) for each in data]

    def all_of_them(number: int) -> bool:
        order = sorted(range(len(data)), key=lambda each: (each * 7 + number) % len(data))
        return all(
            compress(ZSTD, data[each], level=(None, 3)[each % 2]) == expected[each]
            and compress(ZSTD, data[each], level=1) != b""
            for each in order
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(all_of_them, range(8)))
