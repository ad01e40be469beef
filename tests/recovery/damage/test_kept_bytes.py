"""Which bytes of the original logs are kept: the same as asking of every byte."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kafkalog.log.storage.content import Content, Literal, Slice
from kafkalog.recovery.damage.kept_bytes import KeptBytes

LOG = "t-0/00000000000000000000.log"
SIZE = 30
SLICES = st.lists(st.builds(Slice, st.just(LOG), st.integers(0, SIZE), st.integers(1, SIZE)), max_size=6)


@given(SLICES, st.integers(0, SIZE), st.integers(0, SIZE))
def test_every_byte_is_kept_or_missing(slices: list[Slice], start: int, end: int) -> None:
    """Slices in any order, over each other too."""
    kept = KeptBytes([Content((each,)) for each in slices])
    held = {position for each in slices for position in range(each.start, each.start + each.length)}
    assert [kept.holds(LOG, position) for position in range(SIZE)] == [each in held for each in range(SIZE)]
    missing = list(kept.missing(LOG, start, end))
    assert [position for low, high in missing for position in range(low, high)] == [
        position for position in range(start, end) if position not in held
    ]
    assert all(one[1] < other[0] for one, other in pairwise(missing)), "as few as can be"
    assert kept.size == sum(each.length for each in slices)


def test_only_bytes_of_logs_count() -> None:
    kept = KeptBytes([Content((Literal(b"new"), Slice("t-0/00000000000000000000.index", 0, 8), Slice(LOG, 4, 2)))])
    assert kept.size == 2
    assert list(kept.missing("t-1/00000000000000000000.log", 0, 3)) == [(0, 3)]
    assert list(kept.missing(LOG, 0, 8)) == [(0, 4), (6, 8)]
