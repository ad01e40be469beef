"""gzip by ISA-L's decoder: it takes nothing that zlib refuses, and what it takes comes out as zlib gives it.

``KAFKALOG_GZIP_STREAMS`` sets how many streams the long run changes, ``KAFKALOG_GZIP_SEED`` which.
"""

from __future__ import annotations

import gzip
import os
import random
import zlib
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from isal import igzip_lib

from kafkalog.codec.columnar.decompressed import decompress_together
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, KIB, Limits
from kafkalog.codec.compression import compress, native
from kafkalog.codec.compression.gzip import HEADER, TRAILER, decompress
from kafkalog.codec.model import Codec
from testkit.judging.decompressing import mixed, taken_together

pytestmark = pytest.mark.compiled

STREAMS = int(os.environ.get("KAFKALOG_GZIP_STREAMS", "1000000"))
FEW_STREAMS = 4_000
SEED = int(os.environ.get("KAFKALOG_GZIP_SEED", "1"))
STRATEGIES = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE)


def taken(data: bytes, budget: int = 128 * KIB) -> list[bytes]:
    return taken_together(Codec.GZIP, [data], budget)


def member(body: bytes, content: bytes) -> bytes:
    """One with the least header, and the trailer that fits its content."""
    return compress(Codec.GZIP, b"")[: HEADER.size] + body + trailer(content)


def trailer(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "little") + (len(content) & 0xFFFFFFFF).to_bytes(4, "little")


def deflated(content: bytes, level: int, strategy: int, flushed: int = 0) -> bytes:
    encoder = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, strategy)
    body = encoder.compress(content[:flushed]) + (encoder.flush(zlib.Z_FULL_FLUSH) if flushed else b"")
    return body + encoder.compress(content[flushed:]) + encoder.flush()


def words(size: int, seed: int) -> bytes:
    source = random.Random(seed)
    return b" ".join(b"%x" % source.randrange(500) for _ in range(size // 3 + 1))[:size]


# --- what is taken ----------------------------------------------------------------------------------------------------


def test_the_wheel_shows_its_decoder() -> None:
    found = native.gzip()
    assert found is not None
    assert found.is_as_declared()


@pytest.mark.parametrize("level", [-1, 0, 1, 6, 9])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_streams_of_one_code_are_taken(level: int, strategy: int) -> None:
    for size in (0, 1, 2, 100, 3000, 16 * KIB):
        for content in (words(size, size), bytes(size), b"ab" * (size // 2), bytes(range(256)) * (size // 256)):
            data = member(deflated(content, level, strategy), content)
            assert decompress(data) == content
            # what is not compressed is taken at any size, else one block is
            assert taken(data) == ([content] if level == 0 or len(content) < 16 * KIB else taken(data))


def test_producers_batches_are_taken_many_at_a_time() -> None:
    contents = [words(size, size) for size in (0, 1, 100, 5000, 16 * KIB, 30 * KIB)]
    contents += [random.Random(size).randbytes(size) for size in (10, 16 * KIB, 70 * KIB)]
    streams = [compress(Codec.GZIP, content) for content in contents]
    assert taken_together(Codec.GZIP, streams) == contents


# --- what is left -----------------------------------------------------------------------------------------------------

CONTENT = words(2000, 1)
STREAM = compress(Codec.GZIP, CONTENT)
BODY = STREAM[HEADER.size:-TRAILER.size]
UNUSUAL = {
    "a header checksum": STREAM[:3] + b"\x02" + STREAM[4:HEADER.size]
    + (zlib.crc32(STREAM[:3] + b"\x02" + STREAM[4:HEADER.size]) & 0xFFFF).to_bytes(2, "little") + STREAM[HEADER.size:],
    "a name": STREAM[:3] + b"\x08" + STREAM[4:HEADER.size] + b"name\0" + STREAM[HEADER.size:],
    "a reserved flag": STREAM[:3] + b"\x20" + STREAM[4:],
    "text": STREAM[:3] + b"\x01" + STREAM[4:],
    "bytes behind": STREAM + b"more",
    "two members": STREAM + STREAM,
    "an empty member behind": STREAM + compress(Codec.GZIP, b""),
    "two codes": member(deflated(CONTENT, 6, 0, 900), CONTENT),
    "another checksum": STREAM[:-8] + bytes(4) + STREAM[-4:],
    "another size": STREAM[:-4] + bytes(4),
    "no end": STREAM[:-9],
    "bytes between": member(BODY + b"\0", CONTENT),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_is_left_to_zlib(name: str) -> None:
    assert taken(UNUSUAL[name]) == []


class Bits:
    """A deflate stream that is put together bit by bit."""

    def __init__(self) -> None:
        self._bits: list[int] = []

    def number(self, value: int, width: int) -> Bits:
        self._bits += [value >> place & 1 for place in range(width)]
        return self

    def code(self, value: int, width: int) -> Bits:
        self._bits += [value >> place & 1 for place in reversed(range(width))]
        return self

    def body(self) -> bytes:
        return bytes(
            sum(bit << place for place, bit in enumerate(self._bits[at : at + 8]))
            for at in range(0, len(self._bits), 8)
        )


def declared(literals: dict[int, int], distances: dict[int, int], lengths_of_lengths: dict[int, int]) -> Bits:
    """The beginning of a last block with these lengths of codes; `lengths_of_lengths` must be a code for them."""
    order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]
    bits = Bits().number(1, 1).number(2, 2).number(0, 5).number(max(distances, default=0), 5).number(15, 4)
    for symbol in order:
        bits.number(lengths_of_lengths.get(symbol, 0), 3)
    codes: dict[int, tuple[int, int]] = {}
    code = 0
    for length in range(1, 8):
        code <<= 1
        for symbol in sorted(symbol for symbol, its in lengths_of_lengths.items() if its == length):
            codes[symbol] = code, length
            code += 1
    every = [literals.get(symbol, 0) for symbol in range(257)]
    every += [distances.get(symbol, 0) for symbol in range(max(distances, default=0) + 1)]
    for length in every:
        bits.code(*codes[length])
    return bits


LENGTHS = {0: 1, 1: 2, 2: 3, 3: 3}
CODES = {
    # "a", then the end of the block: 97 is coded as 0 and 256 as 10, so that 11 is free for others or for nothing
    "whole": (declared({97: 1, 98: 2, 256: 2}, {}, LENGTHS).code(0, 1).code(3, 2), True),
    "one pattern means nothing": (declared({97: 1, 256: 2}, {}, LENGTHS).code(0, 1).code(2, 2), False),
    "a distance that means half": (declared({97: 1, 98: 2, 256: 2}, {0: 1}, LENGTHS).code(0, 1).code(3, 2), True),
    "a distance that means a quarter": (declared({97: 1, 98: 2, 256: 2}, {0: 2}, LENGTHS).code(0, 1).code(3, 2), False),
    "three quarters": (declared({97: 1, 98: 2, 256: 2}, {0: 1, 1: 2}, LENGTHS).code(0, 1).code(3, 2), False),
    "lengths with a pattern that means nothing": (
        declared({97: 1, 98: 2, 256: 2}, {}, {0: 1, 1: 2, 2: 3}).code(0, 1).code(3, 2), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CODES)
def test_codes_with_patterns_that_mean_nothing_are_left_to_zlib(name: str) -> None:
    bits, sound = CODES[name]
    data = member(bits.body(), b"a")
    assert taken(data) == ([b"a"] if sound else [])
    if sound:
        assert decompress(data) == b"a"
        return
    assert igzip_lib.decompress(bits.body()) == b"a", "ISA-L refuses it too: nothing is tested here"
    with pytest.raises(FormatError):
        decompress(data)


@pytest.mark.parametrize("size", [2000, 1999])
def test_no_more_comes_out_than_is_allowed(size: int) -> None:
    sources = np.array([np.frombuffer(STREAM, np.uint8).ctypes.data], np.int64)
    limits = Limits(decompressed_batch_bytes=size)
    opened = decompress_together(Codec.GZIP, sources, np.array([len(STREAM)], np.int64), limits, 64 * KIB)
    assert opened is not None
    assert opened.sizes.tolist() == ([2000] if size == 2000 else [])
    assert taken(compress(Codec.GZIP, bytes(3000)), 1000) == []


def test_without_the_wheel_zlib_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_functions", lambda: (0,) * 7)
    stream = np.frombuffer(gzip.compress(b"value", 6, mtime=0), np.uint8)
    sources, sizes = np.array([stream.ctypes.data], np.int64), np.array([len(stream)], np.int64)
    assert len(decompress_together(Codec.GZIP, sources, sizes, DEFAULT_LIMITS, KIB).addresses) == 0


# --- changed streams --------------------------------------------------------------------------------------------------


def bodies() -> list[tuple[bytes, bytes]]:
    """Deflate streams and what they hold."""
    found = []
    for number, size in enumerate((0, 1, 7, 40, 150, 400, 1000, 3000)):
        for content in (words(size, number), mixed(size, number), bytes(size), random.Random(number).randbytes(size)):
            for strategy in STRATEGIES:
                for level in (1, 6, 9):
                    found.append((deflated(content, level, strategy), content))
            found += [(deflated(content, 0, 0), content), (deflated(content, 6, 0, size // 3), content)]
    return found


def changed(source: random.Random, body: bytes) -> bytes:
    """Some bits or bytes of it are others; most often of its first, which declare codes."""
    data = bytearray(body)
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        near = min(len(data), source.choice((3, 12, 40, 100)))
        at = source.randrange(near if source.random() < 0.7 else len(data))
        match source.randrange(8):
            case 0:
                data[at] = source.randrange(256)
            case 1:
                data[at : at + 1] = source.randbytes(source.choice((0, 2)))
            case 2:
                del data[source.randrange(len(data)) :]
            case _:
                data[at] ^= 1 << source.randrange(8)
        data = data or bytearray(1)
    return bytes(data)


def of_isal(body: bytes) -> tuple[bytes, bytes] | None:
    """What ISA-L alone makes of a changed stream, and the part of the stream that it takes for that."""
    decoder = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_DEFLATE)
    try:
        content = decoder.decompress(body, 1 << 17)
    except igzip_lib.error:  # type: ignore[misc]  # its stub declares it as an object
        return None
    return (content, body[: len(body) - len(decoder.unused_data)]) if decoder.eof else None


def compare_changed(streams: int, measured: Callable[[str, int], None]) -> None:
    """Half of them get the trailer that fits what ISA-L alone makes of them: no checksum saves us there."""
    source = random.Random(SEED)
    known = bodies()
    count = Counter({"different": 0})
    for _ in range(streams):
        body, content = source.choice(known)
        data = changed(source, body)
        if source.random() < 0.5 and (found := of_isal(data)) is not None:
            content, data = found
            count["streams with a trailer that fits what ISA-L makes of them"] += 1
        whole = bytearray(member(data, content))
        if source.random() < 0.05:
            whole[source.randrange(HEADER.size)] ^= 1 << source.randrange(8)
        stream = bytes(whole)
        try:
            expected = [bytes(decompress(stream))]
        except FormatError:
            expected = []
        ours = taken(stream)
        count["taken"] += len(ours)
        count["refused by zlib"] += not expected
        count["refused by zlib, not by ISA-L"] += not expected and (data, content) == (of_isal(data) or ("", ""))[::-1]
        if ours not in ([], expected):
            count["different"] += 1
    assert count["taken"] > streams // 20
    assert count["different"] == 0, f"seed {SEED}: {count}"
    measured("gzip streams that were changed", streams)
    for name, number in count.items():
        measured(f"gzip streams that were changed: {name}", number)


def test_changed_streams_are_judged_as_zlib_judges_them(measured: Callable[[str, int], None]) -> None:
    compare_changed(FEW_STREAMS, measured)


@pytest.mark.sweep
def test_very_many_changed_streams(measured: Callable[[str, int], None]) -> None:
    compare_changed(STREAMS // 10 if os.environ.get("KAFKALOG_SWEEP") == "ci" else STREAMS, measured)
