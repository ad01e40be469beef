"""Whatever offsets damaged headers claim, a query loses the damaged batch and nothing else, and is told of it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkalog.codec.columnar.assembler import ArrowAssembler, Bounds
from kafkalog.codec.columnar.schema import record_schema
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.model import BATCH
from kafkalog.log.reading.slices import Damage, SliceReader
from kafkalog.spark.discovery import plan_read
from kafkalog.spark.options import parse_options
from testkit.made.batches import simple
from testkit.made.damage import put, with_crc


def read(directory: Path, options: dict[str, str], *, tolerant: bool = True) -> tuple[list[int], list[str]]:
    """Offsets, and the codes of what is damaged, of all tasks of a query."""
    offsets: list[int] = []
    damage: list[str] = []
    for task in plan_read(parse_options({"path": str(directory), **options})):
        schema = record_schema(["offset"])
        assembler = ArrowAssembler(schema, topic="t", partition=0, bounds=Bounds(), work_bytes=0)
        for piece in task:
            for found in SliceReader(piece.slice, assembler, aborted=piece.aborted, tolerant=tolerant):
                if not isinstance(found, Damage):
                    offsets += found["offset"].to_pylist()
                elif not found.goes_on:
                    damage.append(str(found.finding.code))
    return offsets, damage


def log_with(tmp_path: Path, claimed: int, at: int, *, broken: bool) -> Path:
    """Two segments of a hundred records; the batch at an offset of the first claims another one."""
    batches = [simple(5, base) for base in range(0, 100, 5)]
    changed = bytearray(simple(5, at))
    changed[0:8] = claimed.to_bytes(8, "big", signed=True)
    changed[-1] ^= broken
    batches[at // 5] = bytes(changed)
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(b"".join(batches))
    (directory / f"{100:020}.log").write_bytes(b"".join(simple(5, base) for base in range(100, 200, 5)))
    return directory


CLAIMED = [3, 60, 102, 10**6, 2**62, 2**63 - 10, -5]
OPTIONS: list[dict[str, str]] = [
    {},
    {"maxPartitionBytes": "300"},
    {"maxRecordsPerPartition": "10"},
    {"maxRecordsPerPartition": "1"},
    {"maxRecordsPerPartition": "7", "maxPartitionBytes": "1000"},
]


@pytest.mark.parametrize("claimed", CLAIMED)
@pytest.mark.parametrize("at", [0, 50, 95])
@pytest.mark.parametrize("options", OPTIONS)
def test_a_broken_batch_is_all_that_is_lost(claimed: int, at: int, options: dict[str, str], tmp_path: Path) -> None:
    directory = log_with(tmp_path, claimed, at, broken=True)
    offsets, damage = read(directory, options)
    assert offsets == [offset for offset in range(200) if not at <= offset < at + 5]
    assert set(damage) == {FindingCode.CRC_MISMATCH}
    ends = {"endingOffsets": '{"t":{"0":150}}'}
    offsets, damage = read(directory, options | ends)
    assert offsets == [offset for offset in range(150) if not at <= offset < at + 5]
    assert set(damage) == {FindingCode.CRC_MISMATCH}


@pytest.mark.parametrize("options", OPTIONS)
def test_an_offset_that_damage_has_raised_does_not_hide_later_segments(options: dict[str, str], tmp_path: Path) -> None:
    """The checksum does not cover it, so the batch is valid."""
    offsets, _ = read(log_with(tmp_path, 10**6, 50, broken=False), options)
    assert [offset for offset in offsets if 100 <= offset < 200] == list(range(100, 200))


@pytest.mark.parametrize("options", OPTIONS)
def test_a_count_of_offsets_that_damage_has_raised_does_not_hide_later_segments(
    options: dict[str, str], tmp_path: Path
) -> None:
    """The batch begins where it should, so that no header contradicts it."""
    directory = log_with(tmp_path, 95, 95, broken=True)
    path = directory / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    struct.pack_into(">i", content, len(content) - len(simple(5, 95)) + BATCH.position("last_offset_delta"), 10**6)
    path.write_bytes(content)
    offsets, damage = read(directory, options)
    assert offsets == [*range(95), *range(100, 200)]
    assert len(damage) == 1
    starts = {"startingOffsets": '{"t":{"0":120}}', "endingOffsets": '{"t":{"0":150}}'}
    assert read(directory, options | starts)[0] == list(range(120, 150))


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {"base_offset": 52, "last_offset_delta": 10**6},
        {"base_offset": 52, "last_offset_delta": 90},
        {"last_offset_delta": 2**31 - 1, "magic": 127},
        {"base_offset": 2**33},
    ],
)
@pytest.mark.parametrize("options", OPTIONS)
def test_offsets_of_a_batch_that_no_reader_takes_hide_no_others(
    changes: dict[str, int], indexed: bool, options: dict[str, str], tmp_path: Path
) -> None:
    """Its checksum is valid, and the headers around it show that its offsets are wrong."""
    directory = log_with(tmp_path, 50, 50, broken=False)
    path = directory / f"{0:020}.log"
    batches = [simple(5, base) for base in range(0, 100, 5)]
    for name, number in changes.items():
        batches[10] = put(batches[10], name, number)
    batches[10] = with_crc(batches[10])
    path.write_bytes(b"".join(batches))
    if indexed:
        size = len(batches[0])
        entries = [(offset, offset // 5 * size) for offset in range(9, 100, 5)]
        path.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *each) for each in entries))
    offsets, damage = read(directory, options)
    assert offsets == [*range(50), *range(55, 200)]
    assert len(damage) == 1


@pytest.mark.parametrize("options", OPTIONS)
def test_a_damaged_header_hides_no_offsets_below_the_base_of_the_next_segment(
    options: dict[str, str], tmp_path: Path
) -> None:
    """The next segment has another name than its first offset; the offset that damage has raised lies between them."""
    directory = log_with(tmp_path, 130, 95, broken=True)
    (directory / f"{100:020}.log").rename(directory / f"{150:020}.log")
    assert read(directory, options)[0] == [*range(95), *range(100, 200)]


@pytest.mark.parametrize("position", [-986412324, -1, 0, 1, 2**31 - 1])
@pytest.mark.parametrize("options", OPTIONS)
def test_an_index_of_junk_ends_no_query(position: int, options: dict[str, str], tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(b"".join(simple(5, base) for base in range(0, 200, 5)))
    entries = [*((offset, offset * 13) for offset in range(4, 200, 43)), (90, position)]
    (directory / f"{0:020}.index").write_bytes(b"".join(struct.pack(">ii", *each) for each in entries))
    assert read(directory, options, tolerant=False) == (list(range(200)), [])


def test_a_segment_that_reaches_into_the_next_one_is_still_believed(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(b"".join(simple(5, base) for base in range(0, 120, 5)))
    (directory / f"{100:020}.log").write_bytes(b"".join(simple(5, base) for base in range(100, 200, 5)))
    assert read(directory, {}, tolerant=False) == (list(range(200)), [])


@pytest.mark.parametrize("claimed", CLAIMED)
@pytest.mark.parametrize("options", OPTIONS)
def test_damage_where_a_query_begins_is_met(claimed: int, options: dict[str, str], tmp_path: Path) -> None:
    directory = log_with(tmp_path, claimed, 50, broken=True)
    starts = {"startingOffsets": '{"t":{"0":50}}', "endingOffsets": '{"t":{"0":54}}'}
    assert read(directory, options | starts) == ([], [FindingCode.CRC_MISMATCH])
