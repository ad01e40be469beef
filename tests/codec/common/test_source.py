"""Sources that know of holes give what the bytes give, without reading the holes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkalog.codec.common.source import BufferSource, next_data, used_end, zeros_end
from kafkalog.codec.files.index_files import ABORTED_TRANSACTION, OFFSET_ENTRY, each_slot
from kafkalog.log.storage.content import Content, ContentSource, Literal, Slice, Zeros, join, same_bytes

RUNS = st.lists(st.tuples(st.booleans(), st.integers(1, 90)), max_size=8)


class Holey:
    """Bytes of which whole stretches are holes; reading one of them is a mistake only `strict` sources notice."""

    def __init__(self, runs: list[tuple[bool, int]], value: int = 7) -> None:
        self.data = b"".join(bytes(size) if hole else bytes([value, 0][number % 2] for number in range(size))
                             for hole, size in runs)  # fmt: skip
        self._holes: list[tuple[int, int]] = []
        position = 0
        for hole, size in runs:
            if hole:
                self._holes.append((position, position + size))
            position += size

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, position: int, length: int) -> bytes:
        return self.data[position : position + length]

    def next_data(self, position: int, end: int) -> int:
        for low, high in self._holes:
            if low <= position < high:
                position = high
        return min(position, end)


@given(RUNS, st.integers(0, 400), st.integers(0, 400))
def test_zeros_end_where_the_bytes_say(runs: list[tuple[bool, int]], start: int, end: int) -> None:
    source = Holey(runs)
    start, end = min(start, source.size), min(end, source.size)
    plain = BufferSource(source.data)
    assert zeros_end(source, start, end) == zeros_end(plain, start, end)
    if start <= end:
        found = zeros_end(source, start, end)
        assert not any(source.data[start:found])
        assert found == end or source.data[found]
    assert used_end(source, source.size) == used_end(plain, source.size) == len(source.data.rstrip(b"\0"))


def test_little_of_a_hole_is_read_behind_the_page_in_which_entries_end() -> None:
    """A system zeroes and keeps as much memory as is read of a hole."""
    source = Holey([(False, 4096), (True, 10 << 20)], value=0)
    lengths: list[int] = []

    class Counting(Holey):
        def read(self, position: int, length: int) -> bytes:
            lengths.append(length)
            return source.read(position, length)

    counting = Counting([(False, 4096), (True, 10 << 20)], value=0)
    assert zeros_end(counting, 1200, counting.size) == counting.size
    assert used_end(counting, counting.size) == 0
    assert sum(lengths) <= 2 * 16 * 1024


@given(RUNS)
def test_slots_are_those_of_the_bytes(runs: list[tuple[bool, int]]) -> None:
    source = Holey(runs)
    for layout in (OFFSET_ENTRY, ABORTED_TRANSACTION):
        whole = source.data[: len(source.data) // layout.size * layout.size]
        expected = list(enumerate(layout.struct.iter_unpack(whole)))
        assert list(each_slot(source, layout)) == expected
        passed = list(each_slot(source, layout, pass_holes=True))
        assert [each for each in expected if any(each[1])] == [each for each in passed if any(each[1])]
        assert {fields for _, fields in passed} == {fields for _, fields in expected}


PARTS = st.lists(
    st.one_of(
        st.builds(Literal, st.binary(max_size=12) | st.integers(0, 12).map(bytes)),
        st.builds(Zeros, st.integers(0, 40)),
        st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.integers(0, 60)),
    ),
    max_size=5,
)
ORIGINS = {"a": Holey([(False, 20), (True, 60), (False, 40)]), "b": Holey([(True, 30), (False, 20), (True, 70)])}


def content_of(parts: list[object]) -> Content:
    return join(Slice(*part) if isinstance(part, tuple) else part for part in parts)  # type: ignore[misc]


def bytes_of(content: Content) -> bytes:
    source = ContentSource(content, ORIGINS.__getitem__)
    return bytes(source.read(0, source.size))


@given(PARTS, PARTS, st.integers(0, 200), st.integers(0, 200))
def test_contents_are_the_same_if_their_bytes_are(one: list[object], other: list[object], low: int, high: int) -> None:
    first, second = content_of(one), content_of(other)
    assert same_bytes(first, second, ORIGINS.__getitem__) == (bytes_of(first) == bytes_of(second))
    literal = join([Literal(bytes_of(first))])
    assert same_bytes(first, literal, ORIGINS.__getitem__)
    assert same_bytes(literal, first, ORIGINS.__getitem__)
    source = ContentSource(first, ORIGINS.__getitem__)
    low, high = min(low, source.size), min(high, source.size)
    found = next_data(source, low, high)
    assert low <= found <= max(low, high)
    assert not any(bytes_of(first)[low:found])


def test_what_comes_from_the_same_place_is_not_read() -> None:
    def refuse(_path: str) -> Holey:
        raise AssertionError("read")

    whole = join([Slice("a", 0, 1 << 40)])
    assert same_bytes(whole, whole, refuse)
    assert same_bytes(join([Slice("a", 0, 50), Literal(b"x")]), join([Slice("a", 0, 50), Literal(b"x")]), refuse)
    assert not same_bytes(join([Slice("a", 0, 50), Literal(b"x")]), join([Slice("a", 0, 50), Literal(b"y")]), refuse)


def test_nothing_is_read_behind_the_end_of_a_file_that_became_shorter() -> None:
    content = join([Slice("a", 0, 6), Literal(b"new"), Slice("b", 0, 2)])
    source = ContentSource(content, {"a": BufferSource(b"1234"), "b": BufferSource(b"xy")}.__getitem__)
    target = bytearray(11)
    assert source.read(0, 11) == source.read(0, 8) == b"1234"
    assert source.read_into(0, memoryview(target)) == 4
    assert source.read(6, 5) == b"newxy"
