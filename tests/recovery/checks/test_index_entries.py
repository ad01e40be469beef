"""Entries of an index by columns are those of a loop over its slots, in whatever steps they are passed."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from construct import Int32sb, Struct

from kafkalog.codec import derive
from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.files.index_files import OFFSET_ENTRY, TIME_ENTRY
from kafkalog.codec.headers import index_columns
from kafkalog.recovery.checks.index_entries import Entries, Order

OFFSETS, TIMES = Order((-1, 0), may_repeat=False), Order((-(2**63), 0), may_repeat=True, never=(0, 0))


def expected(slots: list[tuple[int, int]], order: Order) -> tuple[list[tuple[int, int, int]], int | None]:
    """Entries that increase, each with its slot, and the slot that does not."""
    found: list[tuple[int, int, int]] = []
    last = order.before
    for slot, (first, second) in enumerate(slots):
        is_larger = second >= last[1] if order.may_repeat else second > last[1]
        if first <= last[0] or not is_larger or (first, second) == order.never:
            return found, slot
        last = first, second
        found.append((slot, first, second))
    return found, None


def pieces(
    slots: list[tuple[int, int]], layout: FixedLayout, source: random.Random
) -> Iterator[tuple[int, bytes]]:
    begin = 0
    while begin < len(slots):
        end = begin + source.randint(1, 5)
        yield begin, b"".join(layout.struct.pack(*slot) for slot in slots[begin:end])
        begin = end


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=pytest.mark.compiled), False])
def test_columns_have_the_names_of_the_declared_fields(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_columns, "is_there", lambda: compiled)
    swapped = derive.fixed(Struct("position" / Int32sb, "relative_offset" / Int32sb), ("position", "relative_offset"))
    for layout in (OFFSET_ENTRY, swapped):
        data = b"".join(
            (offset if name == "relative_offset" else position).to_bytes(4, "big")
            for offset, position in ((7, 4096), (9, 9000)) for name in layout.names
        )  # fmt: skip
        columns = index_columns.columns_of_entries(data, layout)
        assert {name: [*values] for name, values in columns.items()} == {
            "relative_offset": [7, 9], "position": [4096, 9000]
        }  # fmt: skip
    assert {name: [*values] for name, values in index_columns.columns_of_entries(b"", TIME_ENTRY).items()} == {
        "timestamp": [], "relative_offset": []
    }  # fmt: skip


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=pytest.mark.compiled), False])
@pytest.mark.parametrize("order", [OFFSETS, TIMES], ids=["offsets", "times"])
def test_entries_are_those_of_a_loop(order: Order, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_columns, "is_there", lambda: compiled)
    layout = TIME_ENTRY if order is TIMES else OFFSET_ENTRY
    source = random.Random(7)
    stopped = 0
    for _ in range(600):
        first, second = (0, 0) if source.random() < 0.2 else (1, 1)
        slots = []
        for _ in range(source.randrange(20)):
            slots.append((first, second))
            first, second = first + source.choice([1, 2, 9, 9, 0]), second + source.choice([1, 3, 0, 7])
        slots += [(0, 0)] * source.choice([0, 0, 3])
        wanted, ends = expected(slots, order)
        told: list[int] = []
        entries = Entries(pieces(slots, layout, source), layout, order, told.append)
        found: list[tuple[int, int, int]] = []
        while (entry := entries.next) is not None:
            if source.random() < 0.4:
                found.append((entry.slot, entry.first, entry.second))
                entries.pass_one()
            elif source.random() < 0.1:
                break
            else:
                and_next = source.random() < 0.5
                passed = entries.pass_up_to(entry.second + source.choice([-1, 0, 2, 50]), and_next=and_next)
                columns = zip(passed.firsts, passed.seconds, strict=True)
                those = [(passed.slot + number, *fields) for number, fields in enumerate(columns)]
                if and_next and entries.next is not None:
                    assert those.pop() == entries.next
                found += those
        else:
            assert found == wanted
        assert found == wanted[: len(found)]
        assert told == ([ends] if ends is not None and len(found) == len(wanted) else [])
        entries.pass_all()
        assert entries.next is None
        assert told == ([] if ends is None else [ends])
        stopped += ends is not None
    assert 50 < stopped < 590
