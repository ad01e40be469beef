"""Sets of offsets as ranges, compared with sets of numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.recovery.damage import offset_ranges
from kafkalog.recovery.damage.offset_ranges import OffsetRanges
from testkit.running.examples import examples

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 6)), max_size=20)


@examples(200)
@given(RANGES, st.integers(0, 70), st.integers(0, 6))
def test_a_set_of_ranges_is_a_set_of_offsets(added: list[tuple[int, int]], first: int, more: int) -> None:
    ranges, offsets = OffsetRanges(), set[int]()
    for start, length in added:
        ranges.add(start, start + length)
        offsets.update(range(start, start + length + 1))
    asked = set(range(first, first + more + 1))
    assert ranges.covers(first, first + more) == (asked <= offsets)
    assert ranges.touches(first, first + more) == bool(asked & offsets)
    absent = {offset for low, high in ranges.absent(first, first + more) for offset in range(low, high + 1)}
    assert absent == asked - offsets


@pytest.mark.parametrize("numbers", [range(40), range(39, -1, -1), [*range(0, 40, 2), *range(1, 40, 2)]])
def test_memory_is_bounded_in_whatever_order_ranges_come(
    numbers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_ranges, "_MOST", 8)
    ranges = OffsetRanges()
    for number in numbers:
        ranges.add(10 * number, 10 * number + 1)
        assert len(ranges._first) <= 8
        assert ranges.covers(10 * number, 10 * number + 1)
