"""Messages of magic 0 and 1 by the compiled walk and decoder and by the readable ones: the same on any bytes."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import RecordFilter
from kafkalog.codec.columnar.assembler import NO_END, Bounds
from kafkalog.codec.columnar.schema import TYPES
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.compression import compress
from kafkalog.codec.headers.message_runs import MessageRun
from kafkalog.codec.headers.run_scanner import RunScanner
from kafkalog.codec.native.functions import crc_of
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log import open_all, open_partition
from testkit.judging.executions import choose_execution
from testkit.judging.read_both_ways import each_column_by_itself, read, walked
from testkit.made.batches import GZIP, LOG_APPEND_TIME, LZ4, SNAPPY, ZSTD, fix_crc, message, simple
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.fixture_data import BrokerCase, broker_cases
from testkit.running.examples import examples
from testkit.running.in_a_process import number_printed

pytestmark = pytest.mark.compiled

OLD = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3")
CODECS = (GZIP, SNAPPY, LZ4)


@pytest.mark.parametrize("size", [0, 1, 3, 7, 8, 11, 15, 16, 31, 33, 64, 127, 128, 129, 191, 192, 255, 1009, 100_003])
def test_every_way_to_a_checksum_gives_that_of_zlib(size: int) -> None:
    data = random.Random(size).randbytes(size + 3)
    for start in range(3):
        address = np.frombuffer(data, np.uint8).ctypes.data + start
        expected = zlib.crc32(data[start : start + size])
        assert crc_of(address, size, ieee=True, by_tables=True) == expected
        assert crc_of(address, size, ieee=True) == expected


_BYTES = st.none() | st.binary(max_size=50)
_TIMES = st.integers(-1, 2**42) | st.integers(-(2**63), 2**63 - 1)
_OFFSETS = st.integers(0, 12) | st.integers(-(2**63), 2**63 - 1)


@st.composite
def plain_messages(draw: st.DrawFn, offset: int) -> bytes:
    """One entry, mostly as it should be."""
    body = draw(st.binary(max_size=20)) if draw(st.integers(0, 9)) == 0 else None
    return message(
        offset,
        draw(_BYTES),
        draw(_BYTES),
        magic=draw(st.sampled_from([0, 1, 1])),
        attributes=draw(st.sampled_from([0, 0, LOG_APPEND_TIME, 16 | 32])),
        timestamp=draw(_TIMES),
        body=body,
    )


@st.composite
def wrappers(draw: st.DrawFn, offset: int) -> bytes:
    """A compressed set, sound or with something odd inside."""
    offsets = draw(st.lists(_OFFSETS, max_size=3)) if draw(st.integers(0, 3)) == 0 else list(range(offset % 4 + 1))
    inner = bytearray(b"".join(draw(plain_messages(each)) for each in offsets))
    magic = draw(st.sampled_from([0, 1, 1]))
    codec = draw(st.sampled_from(CODECS))
    if draw(st.integers(0, 7)) == 0:
        inner += message(9, None, compress(codec, bytes(inner), magic=magic), magic=magic, attributes=codec)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2])) if inner else 0):
        inner[draw(st.integers(0, len(inner) - 1))] ^= draw(st.integers(1, 255))
    if draw(st.integers(0, 4)) == 0:
        del inner[draw(st.integers(0, len(inner))) :]
    value = bytearray(compress(codec, bytes(inner), magic=draw(st.sampled_from([magic, magic, 1 - magic]))))
    if draw(st.integers(0, 9)) == 0:
        value[draw(st.integers(0, len(value) - 1))] ^= draw(st.integers(1, 255))
    return message(
        offset,
        draw(st.none() | st.binary(max_size=4)),
        draw(st.sampled_from([bytes(value)] * 9 + [None])),
        magic=magic,
        attributes=draw(st.sampled_from([codec] * 9 + [4, 7])) | draw(st.sampled_from([0, LOG_APPEND_TIME])),
        timestamp=draw(_TIMES),
    )


@st.composite
def segments(draw: st.DrawFn) -> bytes:
    """Entries and batches of all magics, then some damage to the bytes of the whole."""
    parts = []
    offset = -1
    for _ in range(draw(st.integers(0, 9))):
        offset = max(offset + draw(st.sampled_from([1, 1, 1, 2, 5, 0, -1])), 0)
        match draw(st.sampled_from("mmmmwwwb")):
            case "m":
                parts.append(draw(plain_messages(offset)))
            case "w":
                parts.append(draw(wrappers(offset)))
            case _:
                parts.append(simple(2, offset))
                offset += 1
    if draw(st.integers(0, 9)) == 0:
        parts.append(message(2**31 + 5))
    data = bytearray(b"".join(parts))
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] ^= draw(st.integers(1, 255))
    if draw(st.integers(0, 3)) == 0:
        data += bytes(draw(st.integers(0, 90)))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 4)) == 0 else data)


@examples(200)
@given(segments(), st.booleans())
def test_the_compiled_walk_is_the_readable_one(data: bytes, check_crc: bool) -> None:
    one = Scanner(BufferSource(data), check_crc=check_crc)
    assert walked(data, check_crc=check_crc) == (list(one), [one.valid_bytes, one.stop, one.findings])


@pytest.mark.sweep
@examples(300)
@given(
    segments(),
    st.booleans(),
    st.integers(0, 12),
    st.integers(0, 40) | st.just(NO_END),
    st.sampled_from([Bounds(), Bounds(rows=2, first_rows=1), Bounds(bytes=40)]),
)
def test_columns_of_a_whole_segment_are_those_of_plain_python(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, tolerant: bool, low: int, high: int, bounds: Bounds
) -> None:
    path = tmp_path_factory.getbasetemp() / "old.log"
    path.write_bytes(data)
    plain = read(path, kernel=False, tolerant=tolerant, low=low, high=high, bounds=bounds)
    assert read(path, kernel=True, tolerant=tolerant, low=low, high=high, bounds=bounds) == plain


def some_of_everything() -> bytes:
    """A small sound segment with both magics, every codec, nulls, and a batch of magic 2 between them."""
    inner = message(0, b"a", None, timestamp=7) + message(2, None, b"bc", timestamp=9)
    parts = [message(0, magic=0), message(1, None, b"", timestamp=5)]
    for number, codec in enumerate(CODECS):
        last = 4 + 8 * number
        parts.append(message(last, None, compress(codec, inner), attributes=codec, timestamp=9))
        parts.append(message(last + 3, None, compress(codec, inner), attributes=codec | LOG_APPEND_TIME, timestamp=11))
        old = message(last + 4, magic=0) + message(last + 5, magic=0)
        parts.append(message(last + 5, None, compress(codec, old, magic=0), magic=0, attributes=codec))
    return b"".join([*parts, simple(2, 30), message(40, timestamp=3)])


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.sweep)])
def test_a_segment_cut_at_every_byte(step: int, tmp_path: Path) -> None:
    whole = some_of_everything()
    path = tmp_path / "cut.log"
    rows = -1
    for size in (*range(0, len(whole), step), len(whole)):
        path.write_bytes(whole[:size])
        plain = read(path, kernel=False)
        assert read(path, kernel=True) == plain, size
        assert len(plain[0]) >= rows
        rows = len(plain[0])
    assert rows == 2 + len(CODECS) * 6 + 2 + 1


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.sweep)])
def test_every_byte_of_a_segment_damaged(step: int, tmp_path: Path) -> None:
    whole = some_of_everything()
    path = tmp_path / "damaged.log"
    for position in range(0, len(whole), step):
        data = bytearray(whole)
        data[position] ^= 0x81
        path.write_bytes(data)
        plain = read(path, kernel=False, tolerant=True)
        assert read(path, kernel=True, tolerant=True) == plain, position


def test_damage_behind_a_checksum_that_was_made_right(tmp_path: Path) -> None:
    path = tmp_path / "fixed.log"
    inner = message(0, b"a", b"b") + message(1, b"c", b"d")
    for codec in CODECS:
        wrapper = message(2, None, compress(codec, inner), attributes=codec)
        for entry in (wrapper, message(2)):
            for position in range(17, len(entry)):
                data = bytearray(entry)
                data[position] ^= 0x81
                path.write_bytes(message(0) + fix_crc(bytes(data)) + message(3))
                plain = read(path, kernel=False)
                assert read(path, kernel=True) == plain, (codec, position)


@pytest.mark.parametrize("codec", [*CODECS, ZSTD])
@pytest.mark.parametrize("magic", [0, 1])
def test_many_wrappers_of_one_kind_and_an_odd_one_among_them(codec: int, magic: int, tmp_path: Path) -> None:
    path = tmp_path / "alike.log"
    values = [
        b"".join(message(each + (0 if magic else 3 * n), value=bytes(40 * n), magic=magic) for each in range(3))
        for n in range(12)
    ]
    odd: list[bytes | None] = [
        None,
        b"",
        compress(codec, b""),
        compress(codec, values[0])[:-3],
        compress(codec, message(7)[:-2]),
    ]
    odd.append(compress(SNAPPY if codec == LZ4 else LZ4, values[1], magic=magic))
    made = 2 if codec == ZSTD else magic
    for place in (0, 5, 11):
        for other in odd:
            sets: list[bytes | None] = [compress(codec, value, magic=made) for value in values]
            sets[place] = other
            path.write_bytes(b"".join(message(3 * n + 2, None, value, magic=magic, attributes=codec)
                                      for n, value in enumerate(sets)))  # fmt: skip
            plain = read(path, kernel=False, tolerant=True)
            assert len(plain[0]) == (0 if codec == ZSTD else 33)
            assert read(path, kernel=True, tolerant=True) == plain


def old_logs(case: BrokerCase) -> list[Path]:
    found = open_all(*brokers(case.id)).readable(replica="longest")
    return [Path(segment.path) for partition in found for segment in partition.segments if segment.size]


@pytest.mark.parametrize("case", [each for each in broker_cases() if each.version in OLD], ids=lambda case: case.id)
def test_what_brokers_wrote_is_read_alike(case: BrokerCase) -> None:
    runs = 0
    for path in old_logs(case):
        if path.stat().st_size > 200_000:  # long ones are of magic 2
            continue
        data = path.read_bytes()
        one = Scanner(BufferSource(data))
        assert walked(data) == (list(one), [one.valid_bytes, one.stop, one.findings])
        for bounds in (Bounds(), Bounds(rows=7, first_rows=3)):
            plain = read(path, kernel=False, bounds=bounds)
            assert read(path, kernel=True, bounds=bounds) == plain
        runs += sum(isinstance(each, MessageRun) for each in RunScanner(BufferSource(data)).all_runs())
    assert runs > 0 or case.version == "0.11.0.3"


@pytest.mark.sweep
@pytest.mark.parametrize("version", OLD)
def test_what_brokers_wrote_cut_at_every_byte(version: str, tmp_path: Path) -> None:
    (case,) = [each for each in broker_cases() if each.id == f"{version}/codecs"]
    path = tmp_path / "cut.log"
    for log in old_logs(case)[:3]:
        whole = log.read_bytes()[:400]
        for size in range(len(whole)):
            path.write_bytes(whole[:size])
            assert read(path, kernel=True) == read(path, kernel=False), (log, size)


def test_many_windows_and_messages_larger_than_a_window(tmp_path: Path) -> None:
    source = random.Random(5)
    parts = []
    for offset, size in enumerate((10, 3_000_000, 100, 900_000, 5_000_000, 70, 2_097_152, 40)):
        value = source.randbytes(size)
        if offset % 3 == 2:
            value = compress(SNAPPY, message(0, None, value) + message(1))
            parts.append(message(3 * offset, b"", value, attributes=SNAPPY))
        else:
            parts.append(message(3 * offset, b"", value, magic=offset % 2))
        parts += [message(3 * offset + 1), simple(1, 3 * offset + 2)]
    data = b"".join(parts)
    assert walked(data)[0] == list(Scanner(BufferSource(data)))
    path = tmp_path / "many.log"
    path.write_bytes(data)
    bounds = Bounds(rows=100, bytes=1 << 20)
    assert read(path, kernel=True, bounds=bounds) == read(path, kernel=False, bounds=bounds)


def test_projection_gives_the_same_columns(tmp_path: Path) -> None:
    path = tmp_path / "some.log"
    path.write_bytes(some_of_everything())
    assert all(rows > 8 for rows in each_column_by_itself(path, 3, 17))


def test_threads_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_execution(monkeypatch, 0)
    directory = tmp_path / "t-0"
    directory.mkdir()
    for base in (0, 100, 200):
        entries = [message(base + number, magic=number % 2, value=bytes(number)) for number in range(90)]
        entries.append(message(base + 92, None, compress(LZ4, message(0) + message(2)), attributes=LZ4))
        entries.append(simple(3, base + 95))
        (directory / f"{base:020}.log").write_bytes(b"".join(entries))
    partition = open_partition(directory)
    whole = partition.to_arrow(list(TYPES)).read_all()
    assert whole.num_rows == 3 * (90 + 2 + 3)
    assert partition.to_arrow(list(TYPES), threads=2).read_all().equals(whole)
    expected = [record.offset for record in partition.records(RecordFilter(start_offset=50, end_offset=250))]
    part = partition.to_arrow(["offset"], RecordFilter(start_offset=50, end_offset=250), threads=2).read_all()
    assert part["offset"].to_pylist() == expected


# Each run ends where a page begins that must not be touched, and then begins where such a page ends.
_GUARDED = """
import ctypes, mmap, sys
import numpy as np
from kafkalog.codec.columnar.message_decoder import MessageDecoder
from kafkalog.codec.headers.message_runs import message_run
from kafkalog.codec.columnar.schema import TYPES, record_schema
from kafkalog.codec.common.limits import DEFAULT_LIMITS
PAGE = mmap.PAGESIZE
memory = mmap.mmap(-1, 3 * PAGE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
libc = ctypes.CDLL(None, use_errno=True)
for guard in (0, 2 * PAGE):
    assert libc.mprotect(ctypes.c_void_p(address + guard), PAGE, 0) == 0
filler = MessageDecoder(record_schema(TYPES), "t", 0, DEFAULT_LIMITS, 100, 1 << 20)
done = 0
for line in open(sys.argv[1]):
    data = bytes.fromhex(line)
    for start in (PAGE, 2 * PAGE - len(data)):
        memory[start:start + len(data)] = data
        run = message_run(memoryview(memory)[start:start + len(data)], 0, largest=1 << 20, check=False)
        if run is not None:
            low = np.full(len(run), -2**63, np.int64)
            list(filler.decode_run(run, low, 2**63 - 1))
            if not filler.is_empty:
                filler.build()
        done += 1
print(done)
"""


def test_the_kernel_never_leaves_its_buffer(tmp_path: Path) -> None:
    whole = message(0, bytes(9), bytes(30)) + message(1, None, b"v" * 21, magic=0)
    whole += message(3, None, compress(GZIP, message(0) + message(1)), attributes=GZIP)
    lines = [whole[:size].hex() for size in range(1, len(whole) + 1)]
    for position in range(len(whole)):
        for change in (0x81, 0x7F):
            damaged = bytearray(whole)
            damaged[position] ^= change
            lines.append(bytes(damaged).hex())
    assert number_printed(_GUARDED, lines, tmp_path) == 2 * len(lines)


def test_the_fields_of_a_run_are_signed_as_declared() -> None:
    data = message(2**62, magic=0) + message(-3, timestamp=-9, attributes=-1)
    (run,) = RunScanner(BufferSource(data)).all_runs()
    assert isinstance(run, MessageRun)
    assert [run.batch(0), run.batch(1)] == list(Scanner(BufferSource(data)))
