"""Compaction by compiled code: digests are MD5, the map is a dictionary, records are written as elsewhere."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafkalog.codec.encode.records import write_records
from kafkalog.codec.native import functions as clean
from kafkalog.codec.native.tables import (
    ROW_BYTES,
    HeaderColumn,
    KeptBatch,
    KeyMap,
    RetainedBatch,
    empty_table,
)
from kafkalog.codec.rules.execution import RawRecord
from testkit.made.record_bytes import Fields, payload
from testkit.running.in_a_process import number_printed

pytestmark = pytest.mark.compiled

SLOTS, SLOT = 64, 24


class Batches:
    """Batches of some records each in memory, and a map."""

    def __init__(self, *batches: list[Fields], slots: int = SLOTS) -> None:
        self.data = [np.frombuffer(payload(each), np.uint8) for each in batches]
        self.addresses = np.array([each.ctypes.data for each in self.data], np.int64)
        self.sizes = np.array([len(each) for each in self.data], np.int64)
        self.headers = np.zeros((len(HeaderColumn), len(batches)), np.int64)
        self.headers[HeaderColumn.RECORDS_COUNT] = [len(each) for each in batches]
        self.headers[HeaderColumn.LAST_OFFSET_DELTA] = [max(fields[2] for fields in each) for each in batches]
        self.headers[HeaderColumn.BASE_OFFSET] = np.cumsum([0, *map(len, batches[:-1])])
        self.rows = np.empty(ROW_BYTES * max(map(len, batches)), np.uint8)
        self.slots = slots
        self.map = np.zeros(SLOT * slots, np.uint8)

    def put(self, *, low: int = 0, limit: int = 10**6) -> tuple[int, list[int]]:
        state = np.zeros(len(KeyMap), np.int64)
        state[KeyMap.LIMIT] = limit
        taken = clean.put_keys(
            self.addresses, self.sizes, self.headers, 0, low, 10, self.map.ctypes.data, self.slots,
            self.rows.ctypes.data, state,
        )  # fmt: skip
        return taken, state.tolist()

    def choose(self, latest: int, *, keeps_deletes: bool = True) -> tuple[Any, Any]:
        chosen = empty_table(RetainedBatch, len(self.data))
        flags = np.zeros(int(self.headers[HeaderColumn.RECORDS_COUNT].sum()), np.uint8)
        keeps = np.full(len(self.data), keeps_deletes, np.int64)
        taken = clean.choose_records(
            self.addresses, self.sizes, self.headers, 0, latest, 10, self.map.ctypes.data, self.slots,
            self.rows.ctypes.data, keeps, flags.ctypes.data, chosen,
        )  # fmt: skip
        assert taken == len(self.data)
        return chosen, flags

    def entries(self) -> dict[bytes, int]:
        found = self.map.reshape(-1, SLOT)
        return {bytes(each[:16]): int(each[16:].view(np.int64)[0]) for each in found if each.any()}


def digest(key: bytes) -> bytes:
    return hashlib.md5(key, usedforsecurity=False).digest()


def keyed(*keys: bytes | None) -> list[Fields]:
    return [(0, 0, number, key, b"v", []) for number, key in enumerate(keys)]


def test_a_key_is_known_by_its_md5() -> None:
    keys = [random.Random(size).randbytes(size) for size in [*range(1, 200), 1000, 5000]]
    some = Batches(keyed(*keys), slots=400)
    assert some.put()[0] == 1
    assert some.entries() == {digest(key): number for number, key in enumerate(keys)}


def test_the_latest_offset_of_each_key_is_there_and_moves_with_it_into_a_larger_map() -> None:
    source = random.Random(1)
    batches = [keyed(*(b"%d" % source.randrange(40) for _ in range(9))) for _ in range(8)]
    some = Batches(*batches)
    assert some.put(low=5)[0] == 8
    keys = [fields[3] for batch in batches for fields in batch]
    expected = {digest(key): number for number, key in enumerate(keys) if number >= 5 and key is not None}
    assert some.entries() == expected
    larger = np.zeros(SLOT * 200, np.uint8)
    clean.move_keys(some.map.ctypes.data, SLOTS, larger.ctypes.data, 200)
    some.map, some.slots = larger, 200
    assert some.entries() == expected
    _chosen, flags = some.choose(len(keys))
    assert flags.tolist() == [number >= expected.get(digest(key or b""), -1) for number, key in enumerate(keys)]


@pytest.mark.parametrize(("limit", "taken", "last"), [(2, 0, 1), (3, 1, -1), (4, 1, 4), (6, 2, -1)])
def test_a_full_map_takes_no_key_not_even_a_known_one(limit: int, taken: int, last: int) -> None:
    some = Batches(keyed(b"a", b"b", b"c", None), keyed(b"d", b"e", b"f"))
    found, state = some.put(limit=limit)
    assert (found, state[KeyMap.LAST_PUT]) == (taken, last)
    assert state[KeyMap.IS_FULL] == (taken < 2)
    assert state[KeyMap.USED] == len(some.entries()) == min(limit, 6)


def test_tombstones_and_records_without_a_key_go_by_their_rules() -> None:
    some = Batches(
        [(0, 0, 0, b"a", None, []), (0, 0, 1, None, b"v", []), (0, 0, 2, b"b", b"v", []), (0, 0, 3, None, None, [])]
    )
    some.put()
    for keeps, latest, flags, counts in [
        (True, 9, [1, 0, 1, 0], (2, 1, 2)), (False, 9, [0, 0, 1, 0], (1, 0, 2)),
        (False, 0, [0, 1, 1, 1], (3, 1, 0)),
    ]:  # fmt: skip
        chosen, found = some.choose(latest, keeps_deletes=keeps)
        assert found.tolist() == flags
        assert tuple(chosen[row, 0] for row in (1, 2, 3)) == counts


def test_what_stays_is_written_as_elsewhere() -> None:
    source = random.Random(5)
    for horizon in (-1, 5, 10**12):
        records: list[Fields] = [
            (7, source.choice([0, 3, -4, 2**40]), 3 * number, source.choice([None, b"k" * number]),
             source.choice([None, b"", b"v" * 50 * number]), [(b"h" * number, None), (b"", b"x")] * (number % 3))
            for number in range(30)
        ]  # fmt: skip
        some = Batches(records)
        some.headers[HeaderColumn.BASE_TIMESTAMP] = 1000
        chosen, flags = some.choose(-1)
        flags[:] = [source.randrange(2) for _ in flags]
        target = np.empty(int(some.sizes.sum()) + 13 * len(records) + 61, np.uint8)
        written = empty_table(KeptBatch, 1)
        done = clean.kept_records(
            some.addresses, some.sizes, some.headers, 0, np.zeros(1, np.int64), np.array([horizon]), chosen,
            target.ctypes.data, written,
        )  # fmt: skip
        assert done == 1
        kept = [fields for fields, stays in zip(records, flags, strict=True) if stays]
        times = [1000 + fields[1] for fields in kept]
        base = horizon if horizon >= 0 else times[0]
        expected = write_records(
            RawRecord(0, time - base, fields[2], fields[3], fields[4], tuple(fields[5]))
            for time, fields in zip(times, kept, strict=True)
        )
        start, size, found_base, largest = written[:, 0].tolist()
        assert start == target.ctypes.data + 61
        assert bytes(target[61 : 61 + size]) == expected
        assert (found_base, largest) == (base, max(times))


@pytest.mark.parametrize("delta", [0, 1])
def test_what_cannot_be_written_is_left(delta: int) -> None:
    some = Batches([(0, 0, 0, b"a", b"v", []), (0, -1001 if delta == 1 else 0, delta, b"b", b"v", [])])
    some.headers[HeaderColumn.BASE_TIMESTAMP] = 999
    chosen, _flags = some.choose(-9)
    target = np.empty(200, np.uint8)
    assert not clean.kept_records(
        some.addresses, some.sizes, some.headers, 0, np.zeros(1, np.int64), np.array([-1]), chosen,
        target.ctypes.data, empty_table(KeptBatch, 1),
    )  # fmt: skip


_GUARDED = """
import ctypes, mmap, sys
import numpy as np
from kafkalog.codec.native import functions as clean
from kafkalog.codec.native.tables import *
PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
def guarded():
    memory = mmap.mmap(-1, 6 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for guard in (0, 5 * PAGE):
        assert libc.mprotect(ctypes.c_void_p(address + guard), PAGE, 0) == 0
    return memory, address
source, at = guarded()
rows, row_at = guarded()
flag_memory, flags_at = guarded()
target, target_at = guarded()
table = np.zeros(24 * 64, np.uint8)
records = 0
for line in open(sys.argv[1]):
    count, data = line.split()
    count, data = int(count), bytes.fromhex(data)
    room = min(count, len(data) // 7 + 1)
    for start in (PAGE, 5 * PAGE - len(data)):
        source[start:start + len(data)] = data
        addresses, sizes = np.array([at + start]), np.array([len(data)])
        headers = np.zeros((len(HeaderColumn), 1), np.int64)
        headers[HeaderColumn.RECORDS_COUNT] = count
        headers[HeaderColumn.LAST_OFFSET_DELTA] = 2**31 - 1
        headers[HeaderColumn.BASE_TIMESTAMP] = 10
        noted = row_at + 5 * PAGE - ROW_BYTES * room
        state = np.array([0, 50, 0, 0])
        table[:] = 0
        clean.put_keys(addresses, sizes, headers, 0, 0, 10, table.ctypes.data, 64, noted, state)
        chosen = empty_table(RetainedBatch, 1)
        flags = flags_at + 5 * PAGE - room
        if clean.choose_records(
            addresses, sizes, headers, 0, 5, 10, table.ctypes.data, 64, noted, np.ones(1, np.int64), flags, chosen
        ) and chosen[RetainedBatch.KEPT, 0]:
            size = 61 + len(data) + 13 * int(chosen[RetainedBatch.KEPT, 0])
            records += clean.kept_records(
                addresses, sizes, headers, 0, np.zeros(1, np.int64), np.array([2**62]), chosen,
                target_at + 5 * PAGE - size,
                empty_table(KeptBatch, 1),
            )
print(records)
"""


def test_the_kernels_never_leave_their_memory(tmp_path: Path) -> None:
    whole = payload([(0, -3, number, b"k" * number, b"v" * 9, [(b"k", None)]) for number in range(9)])
    lines = [f"9 {whole[:size].hex()}" for size in range(1, len(whole) + 1)]
    for position in range(len(whole)):
        for change in (0x81, 0x7F, 0x40):
            flipped = bytearray(whole)
            flipped[position] ^= change
            lines += [f"{count} {flipped.hex()}" for count in (9, 2**31 - 1)]
    assert number_printed(_GUARDED, lines, tmp_path) > 100
