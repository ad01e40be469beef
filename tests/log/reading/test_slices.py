"""Where segments are cut, and how reading goes on after damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.codec.columnar.assembler import ArrowAssembler, Bounds
from kafkalog.codec.columnar.schema import record_schema
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.codec.names import FileKind
from kafkalog.log import open_all, open_partition
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import FileSource
from kafkalog.log.reading.slices import Damage, Slice, SliceReader
from kafkalog.log.walk.header_walk import batch_spans
from kafkalog.log.walk.resync import Expected, Resync
from kafkalog.log.walk.spans import spans
from testkit.recorded.broker_dirs import brokers, own_copy

ANYTHING = Expected(0, 1 << 31)
CASES = ("0.8.2.2/segments", "0.11.0.3/segments", "4.1.1/segments", "4.1.1/compact", "2.8.2/codecs")


def segments_of(case_id: str) -> list[tuple[Partition, int]]:
    found = open_all(*brokers(case_id)).readable(replica="longest")
    return [(each, number) for each in found for number, segment in enumerate(each.segments) if segment.size]


@pytest.mark.parametrize("case_id", CASES)
@pytest.mark.parametrize("every", [300, 5000, 1 << 20])
def test_spans_cover_a_segment_and_begin_where_batches_do(case_id: str, every: int) -> None:
    cut = 0
    for partition, number in segments_of(case_id):
        segment = partition.segments[number]
        batches = list(segment.batches())
        found = spans(segment, every)
        assert (found[0].start, found[-1].end) == (0, segment.size)
        assert [span.end for span in found[:-1]] == [span.start for span in found[1:]]
        assert {span.start for span in found} <= {each.position for each in batches}
        assert found[-1].next_offset == batches[-1].header.next_offset
        assert found[0].first_offset >= segment.base_offset
        cut += len(found) - 1
    assert cut > 0 or every == 1 << 20


def test_what_a_live_broker_reserved_of_an_index_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    class Counted(FileSource):
        def read(self, position: int, length: int) -> bytes:
            read.append(length)
            return super().read(position, length)

    monkeypatch.setattr("kafkalog.log.walk.spans.FileSource", Counted)
    checked = 0
    for original, number in segments_of("4.1.1/segments"):
        target = tmp_path / f"{checked}" / Path(original.path).name
        target.parent.mkdir()
        segment = open_partition(own_copy(Path(original.path), target)).segments[number]
        trimmed = spans(segment, 2000)
        index = Path(segment.files[FileKind.OFFSET_INDEX])
        with index.open("r+b") as file:
            file.truncate(1 << 34)  # a hole, which takes no room on the disk
        read.clear()
        assert spans(segment, 2000) == trimmed
        assert sum(read) < 2 << 20
        checked += bool(read)
    assert checked > 0


def test_spans_by_index_are_those_of_the_headers_and_a_foreign_index_is_not_believed(tmp_path: Path) -> None:
    checked = 0
    for original, number in segments_of("4.1.1/segments"):
        if original.topic is None or original.topic.startswith("__"):
            continue
        target = tmp_path / f"{checked}" / Path(original.path).name
        target.parent.mkdir()
        partition = open_partition(own_copy(Path(original.path), target))
        segment = partition.segments[number]
        starts = {span.start: span.first_offset for span in batch_spans(segment)}
        by_index = spans(segment, 2000)
        assert all(starts[span.start] == span.first_offset for span in by_index)
        index = Path(segment.files[FileKind.OFFSET_INDEX])
        index.write_bytes(bytes([0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 7, 0]))
        by_header = spans(segment, 2000)
        assert all(starts[span.start] == span.first_offset for span in by_header)
        assert by_header[-1].next_offset == by_index[-1].next_offset
        checked += 1
    assert checked > 5


def damaged_segment(tmp_path: Path) -> tuple[Partition, list[int]]:
    (broker,) = brokers("4.1.1/segments")
    original = max(open_all(broker).readable(), key=lambda each: max(len(list(s.batches())) for s in each.segments))
    partition = open_partition(own_copy(Path(original.path), tmp_path / Path(original.path).name))
    segment = max(partition.segments, key=lambda each: len(list(each.batches())))
    starts = [batch.position for batch in segment.batches()]
    assert len(starts) >= 6
    return Partition(partition.path, partition.name, (segment,)), starts


def read(partition: Partition, *, tolerant: bool = False) -> tuple[list[int], list[Damage]]:
    (segment,) = partition.segments
    assembler = ArrowAssembler(record_schema(["offset"]), topic="t", partition=0, bounds=Bounds())
    part = Slice(
        path=segment.path, start=0, end=segment.size, base_offset=segment.base_offset, start_offset=0, is_last=True
    )
    offsets: list[int] = []
    damage: list[Damage] = []
    for piece in SliceReader(part, assembler, tolerant=tolerant):
        if isinstance(piece, Damage):
            damage.append(piece)
        else:
            offsets += piece["offset"].to_pylist()
    return offsets, damage


@pytest.mark.parametrize("field", [30, 8])
def test_reading_goes_on_behind_a_damaged_batch(tmp_path: Path, field: int) -> None:
    partition, starts = damaged_segment(tmp_path)
    whole, none = read(partition)
    assert none == []
    path = Path(partition.segments[0].path)
    content = bytearray(path.read_bytes())
    content[starts[3] + field] ^= 0x41  # after the checksum; or the size field, which then says nothing
    path.write_bytes(content)
    stopped, (first,) = read(partition)
    assert stopped == [record.offset for record in partition.records(on_damage="stop")]
    assert first.start == starts[3]
    offsets, (damage,) = read(partition, tolerant=True)
    assert (damage.start, damage.end) == (starts[3], starts[4])
    assert damage.next_offset == stopped[-1] + 1
    missing = set(whole) - set(offsets)
    assert missing
    assert min(missing) == damage.next_offset
    assert offsets == [offset for offset in whole if offset not in missing]
    assert max(missing) < offsets[len(stopped)]


def test_a_shorter_file_is_missing_data_and_a_torn_tail_only_the_end(tmp_path: Path) -> None:
    partition, starts = damaged_segment(tmp_path)
    path = Path(partition.segments[0].path)
    content = path.read_bytes()
    path.write_bytes(content[: starts[4]])
    _, (damage,) = read(partition)
    assert damage.is_missing
    path.write_bytes(content[: starts[4] + 20] + b"\1" * (len(content) - starts[4] - 20))
    _, (corrupt,) = read(partition)
    assert not corrupt.is_missing
    path.write_bytes(content[: starts[4]] + bytes(len(content) - starts[4]))
    offsets, (tail,) = read(partition)
    assert tail.goes_on
    assert (tail.finding.code, tail.finding.severity) == (FindingCode.ZERO_TAIL, Severity.WARNING)
    assert offsets


def test_the_search_behind_damage_gives_up_on_bytes_that_only_look_like_batches(tmp_path: Path) -> None:
    header = bytes(8) + (3_000_000).to_bytes(4, "big") + bytes(4) + b"\x02" + bytes(44)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(header * 60_000)
    with FileSource(path) as source:
        assert Resync(source).next_batch(0, ANYTHING) is None


def test_a_batch_is_found_behind_random_bytes(tmp_path: Path) -> None:
    partition, starts = damaged_segment(tmp_path)
    content = Path(partition.segments[0].path).read_bytes()
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"\x02\x13" * 700 + content[starts[2] :])
    with FileSource(path) as source:
        assert Resync(source).next_batch(0, ANYTHING) == 1400
        assert Resync(source).next_batch(0, ANYTHING, end=1400) is None
