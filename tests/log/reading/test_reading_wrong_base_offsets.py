"""Reads with bounds of logs in which one base offset has a flipped bit, which no checksum covers: the rows of the
undamaged log, or an error or a finding; never fewer rows without a word.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkalog import FormatError, Log, LogConfig, NewRecord, Partition, RecordFilter, open_partition
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.plain.scanner import scan

Rows = list[tuple[bytes, int]]
T0 = 1_700_000_000_000


def by_records(partition: Partition, wanted: RecordFilter) -> tuple[Rows, list[Finding]]:
    reader = partition.records(wanted)
    return [(bytes(record.key or b""), record.timestamp) for record in reader], reader.findings


def by_columns(partition: Partition, wanted: RecordFilter) -> tuple[Rows, list[Finding]]:
    findings: list[Finding] = []
    table = partition.to_arrow(["key", "timestamp"], wanted, findings=findings).read_all()
    times = table["timestamp"].cast("int64").to_pylist()
    unit = {"ms": 1, "us": 1000}[table.schema.field("timestamp").type.unit]
    return list(zip(table["key"].to_pylist(), [time // unit for time in times], strict=True)), findings


READERS: dict[str, Callable[[Partition, RecordFilter], tuple[Rows, list[Finding]]]] = {
    "records": by_records, "to_arrow": by_columns,
}  # fmt: skip


def written(directory: Path, chance: random.Random) -> int:
    """A log of small batches, in one or several segments, with times in order or not; the number of its records."""
    count, in_order = 0, chance.random() < 0.7
    config = LogConfig(
        segment_bytes=chance.choice([400, 700, 1500, 1 << 20]), index_interval_bytes=chance.choice([1, 200, 4096])
    )
    with Log.open(directory, config) as log:
        for number in range(chance.randrange(6, 30)):
            time = T0 + 1000 * (number if in_order else chance.randrange(30))
            size = chance.randrange(1, 5)
            log.append([NewRecord(b"v" * 20, b"%d" % (count + place), time + place) for place in range(size)])
            count += size
    return count


def bounds(chance: random.Random, count: int) -> Iterator[RecordFilter]:
    for _ in range(3):
        start, end = sorted([chance.randrange(count), chance.randrange(count)])
        yield RecordFilter(start_offset=start, end_offset=chance.choice([None, end]))
        first, last = sorted([T0 + chance.randrange(30_000), T0 + chance.randrange(30_000)])
        yield RecordFilter(start_timestamp=chance.choice([None, first]), end_timestamp=last)
        yield RecordFilter(start_timestamp=first)


def flip(directory: Path, chance: random.Random) -> None:
    path = chance.choice([path for path in sorted(directory.glob("*.log")) if path.stat().st_size])
    data = bytearray(path.read_bytes())
    position = chance.choice([batch.position for batch in scan(bytes(data)).batches])
    bit = chance.randrange(20) if chance.random() < 0.8 else chance.randrange(64)
    data[position + 7 - bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def is_seen(directory: Path) -> bool:
    """Whether a reader without bounds meets the damage: that of a log's last batch cannot be seen."""
    try:
        return bool(by_records(open_partition(directory), RecordFilter())[1])
    except FormatError:
        return True


@pytest.mark.parametrize("seed", range(60))
def test_bounds_leave_out_nothing_without_a_word(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    directory = tmp_path / "t-0"
    wanted = list(bounds(chance, written(directory, chance)))
    expected = {each: by_records(open_partition(directory), each)[0] for each in wanted}
    flip(directory, chance)
    if not is_seen(directory):
        return
    for each in wanted:
        for name, read in READERS.items():
            try:
                rows, findings = read(open_partition(directory), each)
            except FormatError:
                continue
            assert rows == expected[each] or findings, (name, each)


def test_a_search_by_time_finds_where_the_batch_belongs(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    with Log.open(directory, LogConfig(segment_bytes=700)) as log:
        for number in range(20):
            log.append([NewRecord(b"v" * 20, b"k", T0 + number * 1000 + place) for place in range(3)])
    path = directory / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[5] ^= 8  # 0 becomes 524288
    path.write_bytes(data)
    findings: list[Finding] = []
    answer = open_partition(directory).offset_for_timestamp(T0 + 1, through_damage=True, findings=findings)
    assert answer is not None
    assert (answer.offset, answer.timestamp, [finding.offset for finding in findings]) == (1, T0 + 1, [0])
    with pytest.raises(FormatError, match="offset 524288 where 0 should come"):
        list(open_partition(directory).records(RecordFilter(start_timestamp=T0)))
