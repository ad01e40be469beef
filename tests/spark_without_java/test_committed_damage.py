"""Damage under read_committed: reported as under read_uncommitted, and what is after it judged by its markers."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.common.errors import FormatError
from kafkalog.spark.options import parse_options
from kafkalog.spark.reader import LogReader
from kafkalog.spark.schema import Layout

SMALL = kafkalog.LogConfig(segment_bytes=1000, retention_ms=-1)
LEVELS = ["read_uncommitted", "read_committed"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Sixty batches of a record, with damage in the middle; after it an aborted, a committed, an open transaction."""
    with kafkalog.Log.open(tmp_path / "t-0", SMALL) as log:
        for number in range(60):
            log.append([b"%d" % number * 20])
        victim = log.partition().segments[2]
        for producer_id, commit in ((1, False), (2, True)):
            log.append(
                [b"x", b"y"],
                producer=kafkalog.ProducerState(
                    producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
                ),
            )
            log.end_transaction(producer_id, 0, commit=commit)
        log.append(
            [b"open"],
            producer=kafkalog.ProducerState(producer_id=3, producer_epoch=0, base_sequence=0, is_transactional=True),
        )
        log.append([b"last"])
    batch = list(victim.batches())[3]
    content = bytearray(Path(victim.path).read_bytes())
    content[batch.position + batch.size - 1] ^= 1
    Path(victim.path).write_bytes(content)
    return tmp_path


def read(path: Path, level: str, mode: str, **given: str) -> list[int]:
    options = parse_options({"path": str(path), "kafka.isolation.level": level, "mode": mode, **given})
    reader = LogReader(options, Layout(names=("offset",), corrupt=None))
    return [n for task in reader.partitions() for batch in reader.read(task) for n in batch["offset"].to_pylist()]


@pytest.mark.parametrize("level", LEVELS)
def test_where_an_open_transaction_ends_committed_data_is_told(
    level: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As information: a broker ends there too."""
    with kafkalog.Log.open(tmp_path / "t-0", SMALL) as log:
        log.append([b"first"])
        log.append(
            [b"open"],
            producer=kafkalog.ProducerState(producer_id=3, producer_epoch=0, base_sequence=0, is_transactional=True),
        )
        log.append([b"last"])
    for end, is_told in ((None, level == "read_committed"), (1, False)):
        partition = kafkalog.open_partition(tmp_path / "t-0")
        records = partition.records(kafkalog.RecordFilter(isolation_level=level, end_offset=end), on_damage="stop")
        assert len(list(records)) == (1 if is_told or end else 3)
        assert records.findings == []
        told = records.open_transaction or ""
        assert ("read_committed ends at offset 1, where a transaction of producer 3 is open" in told) == is_told
    assert read(tmp_path, level, "FAILFAST") == ([0] if level == "read_committed" else [0, 1, 2])
    told = "t-0: read_committed ends at offset 1, where a transaction of producer 3 is open"
    assert (told in caplog.text) == (level == "read_committed")


@pytest.mark.parametrize("level", LEVELS)
def test_damage_is_an_error(path: Path, level: str) -> None:
    with pytest.raises(FormatError, match="crc_mismatch"):
        read(path, level, "FAILFAST")
    with pytest.raises(FormatError, match="checksum"):
        kafkalog.open_partition(path / "t-0").to_arrow(
            ["offset"], kafkalog.RecordFilter(isolation_level=level)
        ).read_all()
    records = kafkalog.open_partition(path / "t-0").records(
        kafkalog.RecordFilter(isolation_level=level), on_damage="stop"
    )
    assert 0 < len(list(records)) < 60
    assert [str(finding.code) for finding in records.findings] == ["crc_mismatch"]


def test_what_is_behind_damage_is_read_by_its_markers(path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="left out 1 unreadable"):
        everything = read(path, "read_uncommitted", "DROPMALFORMED")
    assert len(everything) == 59 + 2 + 2 + 2
    (lost,) = set(range(60)) - set(everything)
    with pytest.warns(RuntimeWarning, match="left out 1 unreadable"):
        committed = read(path, "read_committed", "DROPMALFORMED")
    assert committed == [n for n in range(60) if n != lost] + [63, 64]


def unframed(path: Path, *, rolled: bool) -> None:
    """Ten batches of a record, zeros for another; in that segment or the next an aborted and a committed one."""
    with kafkalog.Log.open(path / "t-0") as log:
        for number in range(11):
            log.append([kafkalog.NewRecord(b"%d" % number * 20, timestamp=0)])
        if rolled:
            log.roll()
        for producer_id, commit in ((1, False), (2, True)):
            log.append(
                [kafkalog.NewRecord(b"x", timestamp=0)],
                producer=kafkalog.ProducerState(
                    producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
                ),
            )
            log.end_transaction(producer_id, 0, commit=commit)
        log.append([kafkalog.NewRecord(b"last", timestamp=0)])
        segments = log.partition().segments
    (batch,) = [each for each in segments[0].batches() if each.header.first_offset == 10]
    content = bytearray(Path(segments[0].path).read_bytes())
    content[batch.position : batch.position + batch.size] = bytes(batch.size)
    Path(segments[0].path).write_bytes(content)


@pytest.mark.parametrize("size", [{"maxPartitionBytes": "200"}, {"maxRecordsPerPartition": "3"}, {}])
def test_an_aborted_transaction_is_left_out_behind_bytes_that_are_no_batch(
    size: dict[str, str], tmp_path: Path
) -> None:
    """A plan does not know which offsets come behind them."""
    unframed(tmp_path, rolled=False)
    committed = [*range(10), 13, 15]
    with pytest.warns(RuntimeWarning, match="left out 1 unreadable"):
        assert read(tmp_path, "read_committed", "DROPMALFORMED", **size) == committed
    records = kafkalog.open_partition(tmp_path / "t-0").records(
        kafkalog.RecordFilter(isolation_level="read_committed"), on_damage="skip"
    )
    assert [each.offset for each in records] == committed


@pytest.mark.parametrize("start", [11, 13])
def test_who_begins_behind_damage_is_given_what_was_committed(start: int, tmp_path: Path) -> None:
    """The markers behind damage decide, though a reader that begins before it ends there."""
    unframed(tmp_path, rolled=True)
    partition = kafkalog.open_partition(tmp_path / "t-0")
    for way in ("stop", "raise", "skip"):
        records = partition.records(
            kafkalog.RecordFilter(start_offset=start, isolation_level="read_committed"), on_damage=way
        )
        rows = partition.to_arrow(
            ["offset"], kafkalog.RecordFilter(start_offset=start, isolation_level="read_committed"), on_damage=way
        )
        assert [each.offset for each in records] == rows.read_all()["offset"].to_pylist() == [13, 15]
        assert records.findings == []


def test_who_begins_behind_damage_ends_where_more_of_it_leaves_a_transaction_undecided(tmp_path: Path) -> None:
    with kafkalog.Log.open(tmp_path / "t-0") as log:
        log.append([b"lost"])
        log.roll()
        log.append([b"first"])
        log.append(
            [b"x"],
            producer=kafkalog.ProducerState(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True),
        )
        log.end_transaction(1, 0, commit=True)
        log.append([b"last"])
    for number, offset in ((0, 0), (1, 3)):
        segment = kafkalog.open_partition(tmp_path / "t-0").segments[number]
        (batch,) = [each for each in segment.batches() if each.header.first_offset == offset]
        content = bytearray(Path(segment.path).read_bytes())
        content[batch.position + batch.size - 1] ^= 1
        Path(segment.path).write_bytes(content)
    partition = kafkalog.open_partition(tmp_path / "t-0")
    records = partition.records(
        kafkalog.RecordFilter(start_offset=1, isolation_level="read_committed"), on_damage="stop"
    )
    assert [each.offset for each in records] == [1]
    assert [(str(each.code), each.offset) for each in records.findings] == [("transaction_undecided", 2)]


@pytest.mark.parametrize("start", [2, 3, 4])
def test_offsets_behind_an_undecided_transaction_are_an_error_also_if_none_of_it_is_asked_for(
    start: int, tmp_path: Path
) -> None:
    with kafkalog.Log.open(tmp_path / "t-0") as log:
        log.append([b"first"])
        producer = kafkalog.ProducerState(producer_id=3, producer_epoch=0, base_sequence=0, is_transactional=True)
        log.append([b"undecided"], producer=producer)
        for _ in range(4):
            log.append([b"of nobody"])
        marker = log.end_transaction(3, 0, commit=True)
        log.append([b"last"])
    partition = kafkalog.open_partition(tmp_path / "t-0")
    victim = next(batch for batch in partition.batches() if batch.last_offset == marker)
    content = bytearray(Path(partition.segments[0].path).read_bytes())
    content[victim.position + victim.size - 1] ^= 1
    Path(partition.segments[0].path).write_bytes(content)
    bounds = {"startingOffsets": f'{{"t": {{"0": {start}}}}}', "endingOffsets": '{"t": {"0": 5}}'}
    committed = kafkalog.RecordFilter(start_offset=start, end_offset=5, isolation_level="read_committed")
    for rows in (lambda: list(partition.records(committed)),
                 lambda: read(tmp_path, "read_committed", "FAILFAST", **bounds)):  # fmt: skip
        with pytest.raises(FormatError, match="whether the transaction of producer 3 from offset 1 on was committed"):
            rows()
    assert read(tmp_path, "read_committed", "DROPMALFORMED", **bounds) == list(range(start, 5))
    assert read(tmp_path, "read_uncommitted", "FAILFAST", **bounds) == list(range(start, 5))
