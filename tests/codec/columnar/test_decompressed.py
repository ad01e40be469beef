"""Decompressing many batches in one call: the bytes of `codec.compression`, or left to it; never outside of buffers."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kafkalog.codec.columnar.decompressed import decompress_batches
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, KIB, MIB, Limits
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.compression import compress, decompress
from kafkalog.codec.headers.run_scanner import RunScanner
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.layout.lz4_frame import LZ4_FLAGS
from kafkalog.codec.model import Codec
from testkit.judging.decompressing import contents, mixed, taken_together
from testkit.made.record_bytes import batch
from testkit.running.examples import examples

pytestmark = pytest.mark.compiled

COMPILED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@pytest.mark.parametrize("codec", COMPILED)
def test_streams_of_producers_are_taken_many_at_a_time(codec: Codec) -> None:
    sizes = [1, 2, 15, 16, 17, 31, 33, 1_000, 16 * KIB, 32 * KIB + 1, 64 * KIB, 64 * KIB + 1, 200_000]
    wanted = [mixed(size, size) for size in sizes]
    wanted += [bytes(size) for size in sizes] + [random.Random(size).randbytes(size) for size in sizes]
    if codec == Codec.GZIP:
        wanted = [content for content in wanted if len(content) <= 16 * KIB]  # others may have more than one code
    assert taken_together(codec, [compress(codec, content) for content in wanted]) == wanted


def test_more_than_the_budget_is_left_for_the_next_call() -> None:
    stream = compress(Codec.LZ4, mixed(1000, 1))
    assert len(taken_together(Codec.LZ4, [stream] * 100, 5_500)) == 6


def test_a_zstd_block_larger_than_its_window_is_left_to_the_readable_way() -> None:
    """`ZSTD_decompressDCtx` takes it in one call; a stream, as a consumer of Kafka reads, refuses it."""
    stream = bytes.fromhex("28b52ffd0038d2f17358010000")
    assert taken_together(Codec.ZSTD, [stream]) == []
    with pytest.raises(FormatError):
        decompress(Codec.ZSTD, stream, DEFAULT_LIMITS)


@pytest.mark.parametrize("others", [0, 200_000])
def test_a_zstd_block_whose_content_is_larger_than_its_window_is_left_to_the_readable_way(others: int) -> None:
    """Also among blocks that fit it, and if all together have no more than their blocks may have."""
    stream = bytearray(compress(Codec.ZSTD, mixed(3000, 3) + bytes(others)))
    stream[5] = 0  # a window of 1,024 bytes
    assert len(stream) < 1024
    assert taken_together(Codec.ZSTD, [bytes(stream)]) == []
    with pytest.raises(FormatError):
        decompress(Codec.ZSTD, bytes(stream), DEFAULT_LIMITS)


def test_blocks_that_producers_do_not_write_are_left_to_others() -> None:
    content = mixed(5000, 5)
    checked = bytearray(compress(Codec.LZ4, content))
    checked[4] |= LZ4_FLAGS.mask("has_block_checksums")
    assert taken_together(Codec.LZ4, [bytes(checked)]) == []
    assert taken_together(Codec.LZ4, [compress(Codec.LZ4, content, magic=0)]) == []
    assert taken_together(Codec.SNAPPY, [b"", compress(Codec.SNAPPY, content)]) == []


@st.composite
def streams(draw: st.DrawFn) -> tuple[Codec, bytes]:
    codec = draw(st.sampled_from(COMPILED))
    content = mixed(draw(st.integers(0, 3000) | st.just(66_000)), draw(st.integers(0, 99)))
    data = bytearray(compress(codec, content, level=draw(st.sampled_from([None, 1]))))
    match draw(st.sampled_from(["whole", "flip", "cut", "more", "twice", "front"])):
        case "flip":
            for _ in range(draw(st.integers(1, 3))):
                data[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
        case "front":
            data[draw(st.integers(0, min(24, len(data) - 1)))] ^= draw(st.integers(1, 255))
        case "cut":
            del data[draw(st.integers(0, len(data) - 1)) :]
        case "more":
            data += draw(st.binary(min_size=1, max_size=20))
        case "twice":
            data += bytes(data)
    return codec, bytes(data)


@examples(300)
@given(streams(), st.sampled_from([DEFAULT_LIMITS, replace(DEFAULT_LIMITS, decompressed_batch_bytes=2000)]))
def test_any_stream_gives_what_the_readable_way_gives(stream: tuple[Codec, bytes], limits: Limits) -> None:
    codec, data = stream
    (run,) = RunScanner(BufferSource(batch(data, 1, attributes=int(codec))))
    assert isinstance(run, BatchRun)
    opened = decompress_batches(run, codec, limits, 4 * MIB)
    try:
        expected = [decompress(codec, data, limits)]
    except FormatError:
        expected = []
    assert contents(opened) == expected


# Each stream ends where a page begins that must not be touched; what comes out gets just the room that it needs, once
# as much as there is, once less.
_GUARDED = """
import ctypes, mmap, sys
import numpy as np
from kafkalog.codec.columnar import decompressed
from kafkalog.codec.common.limits import DEFAULT_LIMITS
PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
class Guarded:
    def __init__(self, pages):
        self.memory = mmap.mmap(-1, (pages + 1) * PAGE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.end = pages * PAGE
        assert libc.mprotect(ctypes.c_void_p(self.address + self.end), PAGE, 0) == 0
    def last(self, size):
        return self.address + self.end - size
source, target = Guarded(40), Guarded(80)
class Block:
    def __init__(self, size):
        self.address = target.last(size)
        self.buffer = memoryview(b"")
decompressed.Block = Block
done = 0
for line in open(sys.argv[1]):
    codec, room, text = line.split()
    data = bytes.fromhex(text)
    source.memory[source.end - len(data):source.end] = data
    for budget in (int(room) // 2, int(room) // 2 + 8):
        found = decompressed.decompress_together(
            int(codec), np.array([source.last(len(data))]), np.array([len(data)]), DEFAULT_LIMITS, budget)
        done += len(found.addresses)
print(done)
"""


def test_nothing_is_read_or_written_outside_of_the_buffers(tmp_path: Path) -> None:
    lines, whole = [], 0
    source = random.Random(8)
    for codec in COMPILED:
        for size in [1, 15, 16, 17, 40, 300, 5000, 70_000]:
            content = mixed(size, size)
            stream = compress(codec, content)
            lines.append(f"{int(codec)} {size + size % 2} {stream.hex()}")
            whole += 1
            for _ in range(30):
                data = bytearray(stream)
                data[source.randrange(len(data))] ^= 1 << source.randrange(8)
                cut = len(data) if source.random() < 0.5 else source.randrange(1, len(data))
                lines.append(f"{int(codec)} {source.randrange(2, size + 40)} {bytes(data[:cut]).hex()}")
    path = tmp_path / "streams"
    path.write_text("\n".join(lines), encoding="ascii")
    command = [sys.executable, "-c", _GUARDED, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, (result.returncode, result.stderr)
    assert int(result.stdout) > whole
