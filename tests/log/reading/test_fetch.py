"""Looking up an offset or a time in a log of many segments: the same answers, without walking over all of them."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.encode import build_batch
from kafkalog.codec.model import Record, TimestampType
from kafkalog.log import Log, LogConfig, NewRecord, open_partition
from kafkalog.log.reading.fetch import OffsetOutOfRangeError
from testkit.judging.counting import bytes_read, calls_of
from testkit.running.examples import examples

LONG_AGO_S = 1_700_000_000


def settle(directory: Path) -> None:
    """As if nothing had been written lately."""
    for file in directory.iterdir():
        os.utime(file, (LONG_AGO_S, LONG_AGO_S))


def write(directory: Path, segments: list[list[int]], *, damaged: int | None = None) -> list[tuple[int, int]]:
    """A segment for each list of timestamps, a batch for each timestamp; (offset, timestamp) of all records."""
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.iterdir():
        old.unlink()
    found: list[tuple[int, int]] = []
    for number, timestamps in enumerate(segments):
        base, content = len(found), bytearray()
        for timestamp in timestamps:
            record = Record(len(found), timestamp, TimestampType.CREATE_TIME, None, b"v")
            content += build_batch([record])
            found.append((len(found), timestamp))
        if number == damaged and content:
            content[-1] ^= 1
        (directory / f"{base:020}.log").write_bytes(content)
    return found


TIMES = st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=5), min_size=1, max_size=8)


@examples(150)
@given(TIMES, st.lists(st.integers(0, 41), min_size=1, max_size=12), st.none() | st.integers(0, 7), st.integers(0, 30))
def test_lookups_that_follow_each_other_answer_as_each_alone(
    tmp_path_factory: pytest.TempPathFactory,
    segments: list[list[int]],
    asked: list[int],
    damaged: int | None,
    start: int,
) -> None:
    root = tmp_path_factory.getbasetemp() / "times"
    directory = root / "t-0"
    records = write(directory, segments, damaged=damaged)
    (root / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
    settle(directory)
    partition = open_partition(directory)
    readable = [record.offset for record in partition.records(on_damage="stop")]
    for timestamp in asked:
        findings: list[Finding] = []
        alone: list[Finding] = []
        found = partition.offset_for_timestamp(timestamp, findings=findings)
        assert found == open_partition(directory).offset_for_timestamp(timestamp, findings=alone)
        assert findings == alone
        with pytest.raises(FormatError) if findings else nullcontext():
            assert partition.offset_for_timestamp(timestamp) == found
        expected = next(((at, time) for at, time in records if at in readable and time >= timestamp), None)
        assert (None if found is None else found[:2]) == expected


def test_only_one_segment_is_read_where_the_others_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "t-0", [[10 * number + each for each in range(5)] for number in range(200)])
    settle(tmp_path / "t-0")
    partition = open_partition(tmp_path / "t-0")
    with bytes_read(monkeypatch) as first:
        assert partition.offset_for_timestamp(1994) == (999, 1994, -1)
    with bytes_read(monkeypatch) as then:
        for timestamp in (1003, 3, 1500, 1984):
            found = partition.offset_for_timestamp(timestamp)
            assert found is not None
            assert found.timestamp == timestamp
    assert sum(first) > 150 * partition.segments[0].size
    assert sum(then) <= 4 * partition.segments[0].size


def test_a_segment_that_was_changed_just_now_is_read_again(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    write(directory, [[1, 2], [3, 4], [5, 6]])
    partition = open_partition(directory)
    assert partition.offset_for_timestamp(6) == (5, 6, -1)
    assert partition.log_end_offset() == 6
    write(directory, [[1, 9], [3, 4], [5, 6]])
    assert partition.offset_for_timestamp(6) == (1, 9, -1)
    last = directory / f"{4:020}.log"
    last.write_bytes(last.read_bytes()[:-1])
    assert partition.log_end_offset() == 5


def test_the_end_is_looked_for_once_in_a_file_that_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "t-0"
    write(directory, [[1, 2, 3]])
    settle(directory)
    partition = open_partition(directory)
    with bytes_read(monkeypatch) as sizes:
        assert partition.log_end_offset() == 3
        once = sum(sizes)
        assert once > 0
        assert partition.log_end_offset() == 3
        assert sum(sizes) == once
    more = build_batch([Record(3, 4, TimestampType.CREATE_TIME, None, b"v")])
    with (directory / f"{0:020}.log").open("ab") as file:
        file.write(more)
    assert partition.log_end_offset() == 4


@pytest.mark.parametrize("kind", ["log", "partition"])
def test_a_read_costs_the_same_however_many_segments_there_are(kind: str, tmp_path: Path) -> None:
    calls = []
    for segments in (20, 320):
        directory = tmp_path / str(segments) / "t-0"
        directory.parent.mkdir()
        with Log.open(directory, LogConfig()) as log:
            for _ in range(segments):
                log.append([b"v"])
                log.roll()
            reader = log if kind == "log" else open_partition(directory)
            assert [record.offset for record in reader.read(segments // 2)] == [segments // 2]
            calls.append(calls_of(lambda reader=reader, at=segments // 2: reader.read(at)))  # type: ignore[misc]
    few, many = calls
    assert many <= few + 10  # the steps of a bisection


def test_a_live_log_is_read_across_its_segments(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with Log.open(tmp_path / "logs" / "t-0", LogConfig(file_delete_delay_ms=0)) as log:
        for value in (b"a", b"b", b"c"):
            log.append([value, value])
            log.roll()
        log.append([b"d"])
        assert [[record.value for record in log.read(offset)] for offset in range(8)] == [
            [b"a", b"a"], [b"a"], [b"b", b"b"], [b"b"], [b"c", b"c"], [b"c"], [b"d"], [],
        ]  # fmt: skip
        log.delete_records_before(3)
        log.delete_old_segments()
        for offset in (2, 8):
            with pytest.raises(OffsetOutOfRangeError, match="the log holds 3 to 7"):
                log.read(offset)
        assert [record.value for record in log.read(3)] == [b"b"]
        assert log.truncate_to(5)
        assert log.append([b"e"]) == 5
        assert [record.value for record in log.read(5)] == [b"e"]
        assert log.read(6).data == b""


def test_a_live_log_forgets_what_it_learned_of_segments_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with Log.open(tmp_path / "logs" / "t-0", LogConfig(file_delete_delay_ms=0, retention_ms=-1)) as log:

        def some(timestamp: int) -> None:
            log.append([NewRecord(b"v", timestamp=timestamp)])
            log.roll()

        for timestamp in (10, 20, 30):
            some(timestamp)
        settle(tmp_path / "logs" / "t-0")
        assert log.offset_for_timestamp(25) == (2, 30, 0)
        assert log.offset_for_timestamp(15) == (1, 20, 0)
        log.truncate_to(1)
        some(50)
        settle(tmp_path / "logs" / "t-0")
        assert log.offset_for_timestamp(25) == (1, 50, 1)  # what is cut off goes on in a new epoch
        some(60)
        log.delete_records_before(2)
        log.delete_old_segments()
        assert log.offset_for_timestamp(5) == (2, 60, 1)
        assert log.offset_for_timestamp(61) is None
