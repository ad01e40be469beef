"""Reading damaged logs: what lies before the damage is read, the finding says where, nothing is invented."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.codec.common.findings import Finding, FindingCode, Severity, StopReason
from kafkalog.codec.model import BatchHeader, RecordBatch
from kafkalog.log import Partition, Segment, open_partition
from testkit.recorded.broker_dirs import brokers, expected_records, own_copy
from testkit.recorded.fixture_data import broker_case

CASE = broker_case("4.1.1", "segments")
TOPIC, NUMBER = "orders-23", 0


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    broker = own_copy(brokers(CASE.id)[0], tmp_path / "broker")
    return broker / f"{TOPIC}-{NUMBER}"


@pytest.fixture(scope="module")
def offsets() -> list[int]:
    return sorted(key[2] for key in expected_records(CASE, "read_uncommitted") if key[:2] == (TOPIC, NUMBER))


def damage(segment: Segment, position: int, data: bytes) -> None:
    with Path(segment.path).open("r+b") as file:
        file.seek(position)
        file.write(data)


def batch_of(segment: Segment, number: int) -> RecordBatch:
    return list(segment.batches())[number]


def base_of(batch: RecordBatch) -> int:
    assert isinstance(batch.header, BatchHeader)
    return batch.header.base_offset


def read(
    partition: Partition, *, all: bool = False
) -> tuple[list[int], list[tuple[FindingCode, Severity]], StopReason]:
    reader = partition.records(all=all, on_damage="stop")
    got = [record.offset for record in reader]
    assert reader.stop is not None
    return got, [(found.code, found.severity) for found in reader.findings], reader.stop


def test_a_flipped_bit_in_an_older_segment_stops_the_reader(directory: Path, offsets: list[int]) -> None:
    partition = open_partition(directory)
    assert len(partition.segments) >= 3
    segment = partition.segments[1]
    batch = batch_of(segment, 2)
    damage(segment, batch.position + batch.size - 1, bytes([batch.data[-1] ^ 1]))
    reader = partition.records(on_damage="stop")
    assert [record.offset for record in reader] == [offset for offset in offsets if offset < base_of(batch)]
    (finding,) = reader.findings
    assert (finding.code, finding.severity) == (FindingCode.CRC_MISMATCH, Severity.ERROR)
    assert (finding.file, finding.position) == (segment.path, batch.position)
    behind = sum(each.size for each in partition.segments[2:])
    assert f"{segment.size - batch.position} bytes here" in finding.detail
    assert f"({behind} bytes) after were not read" in finding.detail


def test_everything_goes_on_behind_damage_with_the_next_batch(directory: Path, offsets: list[int]) -> None:
    partition = open_partition(directory)
    segment = partition.segments[1]
    batch = batch_of(segment, 2)
    damage(segment, batch.position + batch.size - 1, bytes([batch.data[-1] ^ 1]))
    got, found, _ = read(partition, all=True)
    hole = range(base_of(batch), batch.last_offset + 1)
    assert got == [offset for offset in offsets if offset not in hole]
    assert found == [(FindingCode.CRC_MISMATCH, Severity.ERROR)]


def of_columns(partition: Partition) -> list[tuple[FindingCode, Severity]]:
    """The findings of a read into columns, which is not an error."""
    findings: list[Finding] = []
    partition.to_arrow(["offset"], findings=findings).read_all()
    return [(finding.code, finding.severity) for finding in findings]


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_torn_tail_is_the_end_of_the_log(directory: Path, offsets: list[int], cut: int) -> None:
    segment = open_partition(directory).segments[-1]
    batch = batch_of(segment, -1)
    with Path(segment.path).open("r+b") as file:
        file.truncate(batch.position + batch.size - cut)
    partition = open_partition(directory)
    got, found, stop = read(partition)
    assert got == [offset for offset in offsets if offset < base_of(batch)]
    assert found == of_columns(partition) == [(FindingCode.TORN_TAIL, Severity.WARNING)]
    assert stop is StopReason.TORN_TAIL
    assert partition.log_end_offset() == base_of(batch)


def test_zeros_behind_the_last_batch_are_the_end_of_the_log(directory: Path, offsets: list[int]) -> None:
    segment = open_partition(directory).segments[-1]
    with Path(segment.path).open("r+b") as file:
        file.truncate(segment.size + 70_000)
    got, found, stop = read(open_partition(directory))
    assert got == offsets
    assert found == of_columns(open_partition(directory)) == [(FindingCode.ZERO_TAIL, Severity.WARNING)]
    assert stop is StopReason.ZERO_TAIL


def test_a_torn_tail_in_an_older_segment_is_a_hole(directory: Path, offsets: list[int]) -> None:
    segment = open_partition(directory).segments[0]
    batch = batch_of(segment, -1)
    with Path(segment.path).open("r+b") as file:
        file.truncate(batch.position + batch.size - 3)
    got, found, stop = read(open_partition(directory))
    assert got == [offset for offset in offsets if offset < base_of(batch)]
    assert found == [(FindingCode.BATCH_SIZE_INVALID, Severity.ERROR)]
    assert stop is StopReason.CORRUPT


def test_a_batch_moved_beyond_the_segments_range_stops_the_reader(directory: Path, offsets: list[int]) -> None:
    segment = open_partition(directory).segments[0]
    batch = batch_of(segment, 3)
    damage(segment, batch.position, (2**62).to_bytes(8, "big"))  # the base offset lies outside the checksum
    got, found, stop = read(open_partition(directory))
    assert got == [offset for offset in offsets if offset < base_of(batch)]
    assert (FindingCode.OFFSET_ABOVE_SEGMENT, Severity.ERROR) in found
    assert stop is StopReason.CORRUPT


def test_a_batch_that_is_there_twice_is_read_once(directory: Path, offsets: list[int]) -> None:
    segment = open_partition(directory).segments[-1]
    batch = batch_of(segment, -1)
    data = Path(segment.path).read_bytes()
    Path(segment.path).write_bytes(data + bytes(batch.data))
    partition = open_partition(directory)
    got, found, _ = read(partition)
    assert got == offsets
    assert found == [(FindingCode.OFFSET_NOT_INCREASING, Severity.INFO)]
    assert [record.offset for record in partition.records(all=True)] == [
        *offsets,
        *range(base_of(batch), offsets[-1] + 1),
    ]


def test_a_log_start_offset_beyond_the_end_hides_everything_and_says_so(directory: Path, offsets: list[int]) -> None:
    checkpoint = directory.parent / "log-start-offset-checkpoint"
    checkpoint.write_text(f"0\n1\n{TOPIC} {NUMBER} {offsets[-1] + 1000}\n")
    reader = open_partition(directory).records(on_damage="stop")
    assert list(reader) == []
    assert [found.code for found in reader.findings] == [FindingCode.LOG_END_BELOW_LOG_START]
    assert [record.offset for record in open_partition(directory).records(all=True)] == offsets


def test_a_file_that_shrinks_while_it_is_read_ends_quietly(directory: Path, offsets: list[int]) -> None:
    segment = open_partition(directory).segments[-1]
    batch = batch_of(segment, -1)
    with segment.scanner() as scanner:
        with Path(segment.path).open("r+b") as file:
            file.truncate(batch.position + 20)
        got = [batch.last_offset for batch in scanner]
        assert got[-1] == base_of(batch) - 1
        assert scanner.stop is StopReason.TORN_TAIL
