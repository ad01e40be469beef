"""The compiled walk and decoder against the readable ones: same batches, rows, findings and positions on any bytes."""

from __future__ import annotations

import random
from pathlib import Path

import crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.codec.columnar.assembler import NO_END, Bounds
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.compression import compress
from kafkalog.codec.headers.continuity import sound_prefix
from kafkalog.codec.headers.run_scanner import RunScanner
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import Codec
from kafkalog.codec.native.functions import crc_of
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.batches import Continuity
from testkit.judging.read_both_ways import each_column_by_itself, read, walked
from testkit.made.record_bytes import batch, damaged, payload, record
from testkit.running.examples import examples

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 61, 287, 288, 295, 576, 1151, 1152, 1161, 4607, 4608, 6057, 100_003])
def test_every_way_to_a_checksum_gives_that_of_the_package(size: int) -> None:
    data = random.Random(size).randbytes(size + 3)
    for start in range(3):
        address = np.frombuffer(data, np.uint8).ctypes.data + start
        expected = crc32c.crc32c(data[start : start + size])
        assert crc_of(address, size, by_tables=True) == expected
        assert crc_of(address, size) == expected


@st.composite
def segments(draw: st.DrawFn) -> bytes:
    """Batches of any codec, records sound or damaged, then some damage to the bytes of the whole."""
    parts = []
    offset = 0
    for _ in range(draw(st.integers(0, 6))):
        content, count = draw(damaged())
        codec = draw(st.sampled_from(list(Codec)))
        flags = draw(st.sampled_from([0, 8, 16, 32, 48]))
        fields: dict[str, int] = draw(
            st.fixed_dictionaries(
                {"attributes": st.just(flags | codec)},
                optional={
                    "magic": st.sampled_from([2, 2, 2, 3]),
                    "last_offset_delta": st.integers(-1, 9),
                    "base_timestamp": st.integers(-(2**63), 2**63 - 1),
                    "producer_id": st.integers(-1, 9),
                },
            )
        )
        if codec != Codec.NONE and content:
            content = compress(codec, content)
        offset = max(offset + draw(st.integers(-2, 9)), 0)
        parts.append(batch(content, count, base_offset=offset, **fields))
    data = bytearray(b"".join(parts))
    for _ in range(draw(st.integers(0, 2))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] ^= draw(st.integers(1, 255))
    if draw(st.booleans()):
        data += bytes(draw(st.integers(0, 90)))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 3)) == 0 else data)


@examples(150)
@given(segments(), st.booleans())
def test_the_compiled_walk_is_the_readable_one(data: bytes, check_crc: bool) -> None:
    one = Scanner(BufferSource(data), check_crc=check_crc)
    assert walked(data, check_crc=check_crc, message_runs=False) == (
        list(one),
        [one.valid_bytes, one.stop, one.findings],
    )


@examples(150)
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
    path = tmp_path_factory.getbasetemp() / "one.log"
    path.write_bytes(data)
    plain = read(path, kernel=False, tolerant=tolerant, low=low, high=high, bounds=bounds)
    assert read(path, kernel=True, tolerant=tolerant, low=low, high=high, bounds=bounds) == plain


@pytest.mark.parametrize("count", [-1, -(2**31), 3, 2**31 - 1])
@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_count_that_no_batch_can_have_is_told_alike(tmp_path: Path, count: int, place: int) -> None:
    content = payload([(0, 0, number, b"k", b"v", []) for number in range(2)])
    parts = [
        batch(content, count if number == place else 2, base_offset=2 * number, last_offset_delta=1)
        for number in range(5)
    ]
    path = tmp_path / "one.log"
    path.write_bytes(b"".join(parts))
    plain = read(path, kernel=False, tolerant=True)
    assert sum(each.code == FindingCode.RECORDS_COUNT_INVALID for _, each in plain[1]) >= 1
    assert read(path, kernel=True, tolerant=True) == plain


def test_many_windows_and_batches_larger_than_a_window(tmp_path: Path) -> None:
    source = random.Random(3)
    parts, offset = [], 0
    for size in (10, 3_000_000, 100, 900_000, 5_000_000, 70, 2_097_152, 40):
        content = payload([(0, 0, 0, b"k", source.randbytes(size), [(b"h", None)])])
        small = record((0, 1, 0, None, b"v", []))
        parts += [batch(content, 1, base_offset=offset), batch(small, 1, base_offset=offset + 1)]
        offset += 2
    data = b"".join(parts)
    assert walked(data)[0] == list(Scanner(BufferSource(data)))
    path = tmp_path / "many.log"
    path.write_bytes(data)
    bounds = Bounds(rows=100, bytes=1 << 20)
    assert read(path, kernel=True, bounds=bounds) == read(path, kernel=False, bounds=bounds)


def test_projection_gives_the_same_columns(tmp_path: Path) -> None:
    content = payload([(0, n, n, b"k%d" % n, None if n % 3 else b"v", [(b"a", b"b")] * (n % 2)) for n in range(20)])
    path = tmp_path / "some.log"
    path.write_bytes(batch(content, 20, last_offset_delta=19))
    assert set(each_column_by_itself(path, 3, 17)) == {14}


def test_the_header_fields_of_a_run_are_signed_as_declared() -> None:
    data = batch(payload([]) or b"", 0, base_offset=7, partition_leader_epoch=-1, producer_id=-1, base_sequence=-5)
    (run,) = RunScanner(BufferSource(data), limits=DEFAULT_LIMITS)
    assert isinstance(run, BatchRun)
    assert [run.batch(0)] == list(Scanner(BufferSource(data)))


def test_behind_the_largest_offset_no_batch_is_in_order() -> None:
    (run,) = RunScanner(BufferSource(batch(payload([]), 0, base_offset=2**63 - 1)))
    assert isinstance(run, BatchRun)
    continuity = Continuity()
    assert sound_prefix(continuity, run, gaps=True) == 1
    assert continuity.expected == 2**63
    assert sound_prefix(continuity, run, gaps=True) == 0
    assert {finding.code for finding in continuity.check(run.batch(0))} == {FindingCode.OFFSET_NOT_INCREASING}
