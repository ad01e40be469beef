"""Decoding windows: from a window to Arrow's buffers in one pass, never outside of the window or the buffers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkalog.codec.columnar.assembler import NO_END, ArrowAssembler, Bounds, Fault, Piece
from kafkalog.codec.columnar.run_decoder import Order, RunDecoder
from kafkalog.codec.columnar.runs_to_arrow import RunsToArrow
from kafkalog.codec.columnar.schema import TYPES, record_schema
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.compression import compress
from kafkalog.codec.model import Codec
from kafkalog.codec.native.tables import Filled
from kafkalog.codec.rules.batches import MAX_RELATIVE_OFFSET
from testkit.judging.read_both_ways import read
from testkit.made.record_bytes import Fields, batch, payload
from testkit.running.in_a_process import number_printed
from testkit.running.shares import EACH

pytestmark = pytest.mark.compiled

SCHEMA = record_schema(TYPES)
ONE: list[Fields] = [(0, 0, 0, b"k", b"v", [])]


def decoder(rows: int = 10_000, size: int = 1 << 20) -> RunsToArrow:
    return RunsToArrow(SCHEMA, "t", 0, DEFAULT_LIMITS, rows, size)


def some(base: int, count: int = 3, **fields: int) -> bytes:
    records: list[Fields] = [
        (0, 0, number, b"k", b"v" * number, [(b"h", None)] * (number % 2)) for number in range(count)
    ]
    return batch(payload(records), count, base_offset=base, last_offset_delta=count - 1, **fields)


def offsets(of: RunsToArrow) -> list[int]:
    found: list[int] = of.build()["offset"].to_pylist()
    return found


def test_plain_batches_are_taken_one_behind_the_other() -> None:
    window = some(0) + some(3) + some(9) + some(12)
    order, into = Order(next_offset=0, highest=MAX_RELATIVE_OFFSET, end=NO_END, flags=0), decoder()
    assert into.decode_window(window, 0, order) == (len(window), False)
    assert offsets(into) == [0, 1, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14]
    assert order.next_offset == 15


@pytest.mark.parametrize("first", [0, 1, 4, 20])
def test_one_that_begins_elsewhere_is_taken_if_the_next_one_begins_behind_it(first: int) -> None:
    order, into = Order(next_offset=3, highest=MAX_RELATIVE_OFFSET, end=NO_END, flags=0), decoder()
    window = some(first) + some(first + 3)
    assert into.decode_window(window, 0, order) == (len(window) if first >= 3 else 0, False)
    order, into = Order(next_offset=3, highest=MAX_RELATIVE_OFFSET, end=NO_END, flags=0), decoder()
    assert into.decode_window(some(20) + some(6), 0, order) == (0, False)


@pytest.mark.parametrize(
    "odd",
    [
        some(3)[:-2],
        some(3)[:40],
        bytes([*some(3)[:70], some(3)[70] ^ 1, *some(3)[71:]]),
        some(0),
        some(2**40),
        some(3, attributes=0x20),
        some(3, records_count=4),
        some(3, magic=3),
        some(100),
        batch(compress(Codec.GZIP, payload(ONE)) + b"\0", 1, base_offset=3, attributes=Codec.GZIP),
        batch(compress(Codec.LZ4, payload(ONE))[:-1], 1, base_offset=3, attributes=Codec.LZ4),
        batch(compress(Codec.SNAPPY, payload(ONE) + b"\0"), 1, base_offset=3, attributes=Codec.SNAPPY),
        batch(compress(Codec.ZSTD, payload(ONE)), 1, base_offset=3, attributes=Codec.LZ4),
        batch(payload(ONE), 1, base_offset=3, attributes=7),
        batch(payload(ONE) + b"\0", 1, base_offset=3),
    ],
)
def test_it_ends_before_anything_else(odd: bytes) -> None:
    first = some(0)
    order, into = Order(next_offset=0, highest=MAX_RELATIVE_OFFSET, end=100, flags=0x20), decoder()
    assert into.decode_window(first + odd + some(50), 0, order) == (len(first), False)
    assert into.decode_window(first + odd + some(50), len(first), order) == (len(first), False)
    assert offsets(into) == [0, 1, 2]
    assert order.next_offset == 3


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compressed_batches_are_taken_too(codec: Codec) -> None:
    records: list[Fields] = [(0, 0, number, None, b"v" * 50 * number, [(b"h", b"x")]) for number in range(5)]
    packed = compress(codec, payload(records))
    window = b"".join(
        batch(packed, 5, base_offset=base, last_offset_delta=4, attributes=codec) + some(base + 5)
        for base in range(0, 80, 8)
    )
    order, into = Order(next_offset=0, highest=MAX_RELATIVE_OFFSET, end=NO_END, flags=0), decoder()
    assert into.decode_window(window, 0, order) == (len(window), False)
    assert into.record_bytes == 10 * (len(payload(records)) + len(some(0)) - 61)
    found = into.build()
    assert found["offset"].to_pylist() == list(range(80))
    assert found["value"].to_pylist()[:5] == [b"v" * 50 * number for number in range(5)]


def test_what_a_window_holds_is_given_out_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog.codec.columnar.assembler._MOST_HELD", 100_000)
    waiting = []
    add_window = ArrowAssembler.add_window

    def counted(self: ArrowAssembler, window: bytes | memoryview, order: Order) -> tuple[int, bool, list[Piece]]:
        taken, enough, done = add_window(self, window, order)
        waiting.append(sum(1000 * piece.num_rows for piece in done if not isinstance(piece, Fault)))
        return taken, enough, done

    monkeypatch.setattr(ArrowAssembler, "add_window", counted)
    packed = compress(Codec.ZSTD, payload([(0, 0, number, None, bytes(1000), []) for number in range(20)]))
    path = tmp_path / "log"
    path.write_bytes(
        b"".join(batch(packed, 20, base_offset=20 * n, last_offset_delta=19, attributes=4) for n in range(200))
    )
    bounds = Bounds(rows=40, bytes=30_000)
    rows, damage, _ = read(path, kernel=True, bounds=bounds)
    assert (len(rows), damage) == (4000, [])
    assert len(waiting) >= 200 * 20 * 1000 // 140_000
    assert max(waiting) < 200_000


def test_it_says_when_no_more_rows_or_bytes_are_wanted() -> None:
    window = some(0) + some(3) + some(6)
    for into in (decoder(rows=7), decoder(size=2 * (len(some(0)) - 61) + 1)):
        order = Order(next_offset=0, highest=MAX_RELATIVE_OFFSET, end=NO_END, flags=0)
        position, is_full = into.decode_window(window, 0, order)
        assert (position, is_full) == (len(some(0) + some(3)), True)
        assert into.decode_window(window, position, order) == (position, True)
        assert offsets(into) == [0, 1, 2, 3, 4, 5]
        assert into.decode_window(window, position, order) == (len(window), False)
        assert offsets(into) == [6, 7, 8]


def test_a_batch_beyond_all_bounds_is_left_to_others(tmp_path: Path) -> None:
    into = decoder(rows=2)
    order = Order(next_offset=0, highest=MAX_RELATIVE_OFFSET, end=NO_END, flags=0)
    assert into.decode_window(some(0), 0, order) == (0, False)
    path = tmp_path / "log"
    path.write_bytes(some(0) + some(3, 1) + some(4, 40) + some(44, 2))
    bounds = Bounds(rows=2, first_rows=1)
    assert read(path, kernel=True, bounds=bounds) == read(path, kernel=False, bounds=bounds)


def content(source: random.Random, largest: int) -> bytes | None:
    return source.choice([None, source.randbytes(source.randint(0, largest))])


@EACH
def test_buffers_are_never_filled_beyond_their_size(
    each: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []
    fill = RunDecoder._decode_more

    def checked(self: RunDecoder, *arguments: object) -> tuple[int, int, int]:
        capacity = self.builder.buffers.capacity.tolist()
        found = fill(self, *arguments)  # type: ignore[arg-type]
        filled = self.builder.buffers.filled.tolist()
        assert all(filled[one] <= max(capacity[one], 0) for one in Filled), filled
        taken.append(found[0])
        return found

    monkeypatch.setattr(RunDecoder, "_decode_more", checked)
    source = random.Random(7)
    path = tmp_path / "log"
    for _ in range(30 // each):
        parts, offset = [], 0
        for _ in range(source.randrange(1, 40)):
            count = source.randrange(1, 30)
            largest = source.choice([0, 3, 200, 20_000])
            records: list[Fields] = [
                (0, number, number, content(source, largest), content(source, largest),
                 [(source.randbytes(source.randrange(9)), content(source, largest // 9))
                  for _ in range(source.choice([0, 0, 1, 20]))])
                for number in range(count)
            ]  # fmt: skip
            parts.append(batch(payload(records), count, base_offset=offset, last_offset_delta=count - 1))
            offset += count
        path.write_bytes(b"".join(parts))
        bounds = source.choice([Bounds(), Bounds(rows=50, first_rows=5), Bounds(bytes=30_000)])
        assert read(path, kernel=True, bounds=bounds) == read(path, kernel=False, bounds=bounds)
    assert sum(taken) > 200 // each


# Each window ends where a page begins that must not be touched, and then begins where such a page ends.
_GUARDED = """
import ctypes, mmap, sys
from kafkalog.codec.columnar.run_decoder import Order
from kafkalog.codec.columnar.runs_to_arrow import RunsToArrow
from kafkalog.codec.columnar.schema import COPY, TYPES, VIEW, record_schema
from kafkalog.codec.common.limits import DEFAULT_LIMITS
PAGE = mmap.PAGESIZE
memory = mmap.mmap(-1, 4 * PAGE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
libc = ctypes.CDLL(None, use_errno=True)
for guard in (0, 3 * PAGE):
    assert libc.mprotect(ctypes.c_void_p(address + guard), PAGE, 0) == 0
decoders = [RunsToArrow(record_schema(TYPES, each), "t", 0, DEFAULT_LIMITS, 100, 1 << 20) for each in (COPY, VIEW)]
rows = 0
for line in open(sys.argv[1]):
    data = bytes.fromhex(line)
    for start in (PAGE, 3 * PAGE - len(data)):
        memory[start:start + len(data)] = data
        for decoder in decoders:
            order = Order(next_offset=0, highest=2**31, end=2**62, flags=0)
            decoder.decode_window(memoryview(memory)[start:start + len(data)], 0, order)
            if not decoder.is_empty:
                rows += decoder.build().num_rows
print(rows)
"""


def test_the_kernel_never_leaves_its_window(tmp_path: Path) -> None:
    whole = some(0) + batch(payload([(0, 0, 0, bytes(900), bytes(4000), [])]), 1, base_offset=3)
    lines = [whole[:size].hex() for size in [*range(1, 400), *range(len(whole) - 80, len(whole) + 1)]]
    content = bytearray(payload([(0, 5, number, bytes(number), b"v" * 9, [(b"k", b"")]) for number in range(9)]))
    for position in range(len(content)):
        for change in (0x81, 0x7F):
            flipped = bytearray(content)
            flipped[position] ^= change
            lines.append(batch(bytes(flipped), 9, last_offset_delta=8).hex())
    assert number_printed(_GUARDED, lines, tmp_path) > 2 * 2 * 3 * 300
