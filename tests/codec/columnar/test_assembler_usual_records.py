"""Records that are like most are decoded with fewer looks at their numbers: the rows are the same, and so is the end.

Between them come records that are not, and damage; what is read and written lies before pages that must not be touched.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkalog.codec.columnar.assembler import NO_END, Bounds
from testkit.judging.read_both_ways import read
from testkit.made.record_bytes import Fields, batch, payload
from testkit.running.in_a_process import number_printed
from testkit.running.shares import EACH

pytestmark = pytest.mark.compiled

SIZES = (0, 1, 3, 4, 5, 11, 12, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 130, 8191, 8192)
"""Of fields: where a view, a move or the length of a length ends."""
DELTAS = (0, 1, 63, 64, 8191, 8192, 2**20 - 1, 2**20, 2**27 - 1, 2**27, 2**34, 2**62)
"""Of timestamps: where a number gets longer."""


def field(source: random.Random) -> bytes | None:
    return None if source.random() < 0.1 else source.randbytes(source.choice(SIZES[: source.choice([5, 18, 21])]))


def records(source: random.Random, count: int) -> list[Fields]:
    """Mostly usual ones, and often none that is not."""
    odd = source.choice([0.0, 0.0, 0.05, 0.5])
    found: list[Fields] = []
    for number in range(count):
        is_odd = source.random() < odd
        delta = source.choice(DELTAS if is_odd else DELTAS[:8]) * source.choice([1, 1, -1])
        headers: list[tuple[bytes, bytes | None]] = [(b"h", field(source))] if is_odd and source.random() < 0.5 else []
        found.append((source.choice([0, 0, -1]), delta, number, field(source), field(source), headers))
    return found


def spoiled(source: random.Random, some: list[Fields]) -> bytes:
    """Their bytes, with a change in one, often in its last byte, or cut."""
    changed, at = bytearray(), source.randrange(2 * len(some))
    for number, each in enumerate(some):
        content = bytearray(payload([each]))
        if number == at:
            place = source.choice([-1, source.randrange(min(12, len(content))), source.randrange(len(content))])
            content[place] = source.choice([0, 1, 2, 0x7F, 0x80, 0xFF, source.randrange(256)])
        changed += content
    return bytes(changed[: len(changed) - source.choice([0, 0, 0, 1, 40])])


@EACH
def test_usual_records_and_others_between_them(each: int, tmp_path: Path) -> None:
    path, rows, faults = tmp_path / "log", 0, 0
    for seed in range(300 // each):
        source = random.Random(seed)
        offset, parts = 0, []
        for _ in range(source.randrange(1, 5)):
            count = source.choice([1, 3, 4, 5, 30, 200])
            content = spoiled(source, records(source, count))
            moment = source.choice([1_700_000_000_000, 0, 2**63 - 1, (2**63 - 1) // 1000 - 2**19, -(2**62)])
            parts.append(
                batch(
                    content, count, base_offset=offset, last_offset_delta=count - 1, base_timestamp=moment,
                    max_timestamp=moment, attributes=source.choice([0, 0, 8]), base_sequence=source.choice([-1, 5]),
                )
            )  # fmt: skip
            offset += count
        path.write_bytes(b"".join(parts))
        low, high = source.choice([(0, NO_END)] * 2 + [(offset // 3, offset // 2 + 1), (offset // 2, offset // 3)])
        bounds = source.choice([Bounds(), Bounds(rows=20, first_rows=5), Bounds(bytes=3000)])
        found = read(path, kernel=True, low=low, high=high, bounds=bounds)
        assert found == read(path, kernel=False, low=low, high=high, bounds=bounds), seed
        rows += len(found[0])
        faults += len(found[1])
    assert rows > 4_000 // each
    assert faults > 60 // each


@pytest.mark.parametrize("low", [1, 63, 64, 65, 128])
def test_what_is_null_in_a_record_that_is_left_out_is_in_no_row(low: int, tmp_path: Path) -> None:
    path = tmp_path / "log"
    fields = [None] * low + [b"value"] * (149 - low) + [None]
    some: list[Fields] = [(0, 0, number, each, each, []) for number, each in enumerate(fields)]
    path.write_bytes(batch(payload(some), 150))
    rows, damage, _ = read(path, kernel=True, low=low)
    assert (rows, damage) == read(path, kernel=False, low=low)[:2]
    assert [row[0] for row in rows if isinstance(row, tuple)] == fields[low:]


# What is read ends where a page begins that must not be touched, and so does everything that is written.
_GUARDED = """
import ctypes, mmap, sys
import numpy as np
from kafkalog.codec.columnar.schema import COLUMNS
from kafkalog.codec.native.functions import decode_batches
from kafkalog.codec.native.tables import ArrowBuffer, Filled, HeaderColumn, empty_table
PAGE, ROOM = mmap.PAGESIZE, 24 * mmap.PAGESIZE
libc, held = ctypes.CDLL(None, use_errno=True), []
def guarded():
    memory = mmap.mmap(-1, ROOM + PAGE)
    held.append(memory)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert libc.mprotect(ctypes.c_void_p(address + ROOM), PAGE, 0) == 0
    return memory, address + ROOM
source, source_end = guarded()
ends = {each: guarded()[1] for each in ArrowBuffer}
DATA = {ArrowBuffer.KEY, ArrowBuffer.VALUE, ArrowBuffer.HEADER_KEY, ArrowBuffer.HEADER_VALUE}
done = 0
for number, line in enumerate(open(sys.argv[1])):
    count, text = line.split()
    count, data = int(count), bytes.fromhex(text)
    source[ROOM - len(data):ROOM] = data
    buffers = np.zeros(len(ArrowBuffer), np.int64)
    for name in ("key", "value", "offset", "timestamp", "sequence", "headers"):
        column = COLUMNS[name]
        for each in column.views if number % 2 and column.views else column.buffers:
            item = 1 if each in DATA or each.name.endswith("VALID") else 16 if each.name.endswith("VIEWS") else 8
            item = 4 if each.name.endswith("ENDS") or each.name == "SEQUENCE" else item
            items = len(data) if each in DATA or each.name.startswith("HEADER_") else count
            items = max(items, count) if each is ArrowBuffer.HEADER_ENDS else items
            buffers[each] = ends[each] - item * (items + (item == 4 and each.name != "SEQUENCE"))
    buffers[ArrowBuffer.VIEWED] = source_end - len(data)
    headers = empty_table(HeaderColumn, 1)
    headers[:] = 0
    headers[HeaderColumn.RECORDS_COUNT] = count
    one = lambda value: np.array([value], np.int64)
    filled = np.zeros(len(Filled), np.int64)
    if decode_batches(one(source_end - len(data)), one(len(data)), headers, 0, one(0), 2**62, 100, buffers, filled,
                      one(0)):
        assert filled[Filled.ROWS] <= count
        done += 1
print(done)
"""


def test_the_kernel_never_leaves_its_buffers(tmp_path: Path) -> None:
    source, lines = random.Random(1), []
    for _ in range(3000):
        count = source.choice([4, 5, 9, 30])
        usual: list[Fields] = [(0, 0, number, field(source), field(source), []) for number in range(count)]
        content = spoiled(source, usual if source.random() < 0.7 else records(source, count))[-4 * 4096 :]
        lines.append(f"{count} {content.hex()}")
    assert number_printed(_GUARDED, lines, tmp_path) > 300
