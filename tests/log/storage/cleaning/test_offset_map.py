"""The map of latest offsets is a dictionary with Kafka's limit."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from kafkalog.log.storage.cleaning.offset_map import SLOT_BYTES, OffsetMap


@given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2**63 - 1)), max_size=200), st.integers(1, 300))
def test_it_says_what_a_dictionary_says(puts: list[tuple[bytes, int]], limit: int) -> None:
    offsets, expected = OffsetMap(max(limit, 4), limit), dict[bytes, int]()
    last = -1
    for key, offset in puts:
        if offsets.is_full:
            break
        offsets.put(key, offset)
        expected[key] = last = offset
        assert offsets.latest_offset == last
    assert len(offsets) == len(expected) <= limit
    assert offsets.is_full is (len(expected) == limit)
    assert all(offsets.get(key) == expected.get(key, -1) for key, _ in puts)
    assert offsets.get(b"never") == -1


def test_every_slot_may_be_used() -> None:
    offsets = OffsetMap(50, 50)
    for number in range(50):
        offsets.put(b"%d" % number, number)
    assert offsets.is_full
    assert [offsets.get(b"%d" % number) for number in range(51)] == [*range(50), -1]


def test_its_memory_is_that_of_its_slots_and_grows_with_the_keys() -> None:
    tracemalloc.start()
    try:
        OffsetMap(5_000_000, 4_500_000).put(b"key", 1)
        assert tracemalloc.get_traced_memory()[1] < 200_000
        tracemalloc.reset_peak()
        offsets = OffsetMap(20_000, 18_000)
        for number in range(18_000):
            offsets.put(b"%d" % number, number)
        assert tracemalloc.get_traced_memory()[1] < 3 * 18_000 * SLOT_BYTES
    finally:
        tracemalloc.stop()
