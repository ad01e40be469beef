"""The compiled walk from header to header gives the spans of the readable one, whatever the bytes are."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.codec import Codec
from kafkalog.codec.encode import build_batch
from kafkalog.codec.model import BATCH, Record, TimestampType
from kafkalog.log.disk.files import FileSource
from kafkalog.log.walk import header_walk
from kafkalog.log.walk.header_walk import Span, joined_spans

pytestmark = pytest.mark.compiled

CREATE = TimestampType.CREATE_TIME


def batch(first: int, values: list[bytes], codec: Codec = Codec.NONE) -> bytes:
    records = [Record(first + number, 1, CREATE, None, value, ()) for number, value in enumerate(values)]
    return build_batch(records, codec=codec, partition_leader_epoch=0)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Batches of all sizes, then changed bytes, a cut, or something else in between."""
    sizes = draw(st.lists(st.sampled_from([0, 10, 90, 4_000, 5_000, 70_000]), min_size=1, max_size=12))
    content, offset = b"", draw(st.sampled_from([0, 7, 2**62 - 3, 2**63 - 20]))
    for size in sizes:
        content += batch(offset, [bytes(size)] * draw(st.integers(1, 3)))
        offset = min(offset + 3, 2**63 - 4)
    changed = bytearray(content)
    for position in draw(st.lists(st.integers(0, len(content) - 1), max_size=3)):
        changed[position] = draw(st.integers(0, 255))
    for _ in range(draw(st.integers(0, 1))):
        at = draw(st.integers(0, len(changed)))
        changed[at:at] = draw(st.binary(max_size=80))
    return bytes(changed[: draw(st.integers(0, len(changed)))]) if draw(st.booleans()) else bytes(changed)


@given(files(), st.sampled_from([1, 100, 6_000, 100_000, 1 << 30]), st.sampled_from([0, 1, 40, 61, 5_000]))
def test_the_kernel_gives_what_the_readable_walk_gives(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, step: int, left_out: int
) -> None:
    path = tmp_path_factory.mktemp("walk") / "00000000000000000005.log"
    path.write_bytes(content)
    end = max(len(content) - left_out, 0)  # the file may have grown since it was listed
    with pytest.MonkeyPatch.context() as patch, FileSource(path) as source:
        patch.setattr(header_walk, "is_there", lambda: False)
        expected = list(joined_spans(source, 5, end, step))
        patch.setattr(header_walk, "is_there", lambda: True)
        called: list[tuple[Any, ...]] = []
        by_compiled_code = header_walk._by_compiled_code

        def noted(*given: Any) -> Iterator[tuple[Span, int]]:
            called.append(given)
            return by_compiled_code(*given)

        patch.setattr(header_walk, "_by_compiled_code", noted)
        assert list(joined_spans(source, 5, end, step)) == expected
        assert called
    assert [span.start for span in expected] == [0, *(span.end for span in expected[:-1])][: len(expected)]


def test_a_wrapper_that_the_next_header_contradicts_is_not_believed_by_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One byte more in a header: what follows is read as an entry of magic 0 that says it is compressed."""
    some = batch(0, [b""])
    path = tmp_path / "00000000000000000005.log"
    path.write_bytes(some[:12] + b"\0" + some[12:] + batch(3, [b""]))
    found = []
    for is_worth_it in (False, True):
        monkeypatch.setattr(header_walk, "is_there", lambda is_worth_it=is_worth_it: is_worth_it)
        with FileSource(path) as source:
            found.append(list(joined_spans(source, 5, source.size, 1)))
    assert found == [[Span(0, path.stat().st_size, 5, 5, 5, is_followed=False)]] * 2


@pytest.mark.parametrize("is_worth_it", [False, True])
def test_a_count_of_offsets_that_the_next_header_contradicts_is_not_believed(
    is_worth_it: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch begins where it should; the one behind it has all offsets that should come in a span with it."""
    monkeypatch.setattr(header_walk, "is_there", lambda: is_worth_it)
    batches = [bytearray(batch(number, [b"x"])) for number in range(4)]
    struct.pack_into(">i", batches[1], BATCH.position("last_offset_delta"), 10**6)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(batches))
    size = len(batches[0])
    with FileSource(path) as source:
        found = list(joined_spans(source, 0, source.size, 1))
    assert found == [Span(0, size, 0, 1, 0), Span(size, 3 * size, 1, 3, 1), Span(3 * size, 4 * size, 3, 4, 3)]


@pytest.mark.parametrize("magic", [3, 255])
@pytest.mark.parametrize("is_worth_it", [False, True])
def test_a_batch_of_unknown_magic_is_where_its_header_says(
    is_worth_it: bool, magic: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which rules it follows is not known, not even that it lies beyond the next segment."""
    monkeypatch.setattr(header_walk, "is_there", lambda: is_worth_it)
    odd = bytearray(batch(9, [b"x"]))
    odd[BATCH.position("magic")] = magic
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch(0, [b"x"]) + odd)
    size = len(odd)
    with FileSource(path) as source:
        found = list(joined_spans(source, 0, source.size, 1, next_base=5))
    assert found == [Span(0, size, 0, 1, 0), Span(size, 2 * size, 9, 10, 1)]


@pytest.mark.parametrize("is_worth_it", [False, True])
def test_offsets_too_high_for_the_segment_do_not_count(
    is_worth_it: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No consumer reads past such a batch, and what follows it begins at any offset."""
    monkeypatch.setattr(header_walk, "is_there", lambda: is_worth_it)
    offsets = (0, 2**31, 2, 7)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(batch(offset, [b"x"]) for offset in offsets))
    size = path.stat().st_size // len(offsets)
    with FileSource(path) as source:
        found = list(joined_spans(source, 0, source.size, 1, base=0))
    rest = [Span(size, 3 * size, 1, 3, 1), Span(3 * size, 4 * size, 7, 8, 3)]
    assert found == [Span(0, size, 0, 1, 0), *rest]


@pytest.mark.parametrize("is_worth_it", [False, True])
def test_a_batch_behind_which_no_header_is_has_all_the_rest_in_its_span(
    is_worth_it: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size may be wrong, and the next batch begin elsewhere than where it ends."""
    monkeypatch.setattr(header_walk, "is_there", lambda: is_worth_it)
    batches = [batch(number, [b"x"]) for number in range(4)]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join([*batches[:2], bytes(3), *batches[2:]]))
    size = len(batches[0])
    with FileSource(path) as source:
        found = list(joined_spans(source, 0, source.size, 1))
    assert found == [Span(0, size, 0, 1, 0), Span(size, path.stat().st_size, 1, 2, 1, is_followed=False)]


def test_the_kernel_goes_to_the_end_of_what_is_sound(tmp_path: Path) -> None:
    """So it is not the readable walk that was compared with itself."""
    path = tmp_path / "00000000000000000000.log"
    some = [batch(number, [bytes(3_000)]) for number in range(50)]
    path.write_bytes(b"".join(some))
    with FileSource(path) as source:
        found = list(header_walk._by_compiled_code(source, 0, range(source.size), 1, 0, None))
    ends = [len(some[0]) * number for number in range(1, 51)]
    size = len(some[0])
    spans = [Span(end - size, end, number, number + 1, number) for number, end in enumerate(ends)]
    assert found == [(span, span.next_offset) for span in spans]


@pytest.mark.parametrize("is_worth_it", [False, True])
def test_a_walk_from_a_later_batch_is_the_end_of_the_whole_walk(
    is_worth_it: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(header_walk, "is_there", lambda: is_worth_it)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(batch(number, [bytes(300)]) for number in range(50)))
    with FileSource(path) as source:
        whole = list(joined_spans(source, 0, source.size, 1))
        assert len(whole) == 50
        assert list(joined_spans(source, 20, source.size, 1, position=whole[20].start)) == whole[20:]


def test_an_offset_above_all_numbers_of_64_bits_is_expected_by_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a batch whose header reaches above them."""
    path = tmp_path / "0.log"
    path.write_bytes(batch(5, [b"a"]) + batch(6, [b"b"]))
    found = []
    for by_columns in (True, False):
        monkeypatch.setattr(header_walk, "is_there", lambda by_columns=by_columns: by_columns)
        with FileSource(str(path)) as source:
            found.append(list(joined_spans(source, 2**63 + 4, source.size, 1)))
    assert found[0] == found[1] != []
