"""Which segments go: a policy of the caller's, and the one of old, by the time of the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafkalog
from kafkalog.log.storage.retention import DeletableSegment

NOW = 1_700_000_000_000
CONFIG = kafkalog.LogConfig(segment_bytes=200, retention_ms=-1, file_delete_delay_ms=0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[kafkalog.Log]:
    (tmp_path / "data").mkdir()
    with kafkalog.Log.open(tmp_path / "data" / "t-0", CONFIG) as opened:
        for n in range(5):
            opened.append([kafkalog.NewRecord(b"v" * 100, timestamp=NOW - n)])
        assert opened.segments == (0, 1, 2, 3, 4)
        yield opened


def changed(log: kafkalog.Log, *ages_ms: int) -> None:
    """Let the files of the segments have been changed so long ago."""
    for base, age in zip(log.segments, ages_ms, strict=True):
        when = (NOW - age) * 1_000_000
        os.utime(Path(log.path) / f"{base:020d}.log", ns=(when, when))


def test_by_the_time_of_the_file_as_brokers_before_0_10_1(log: kafkalog.Log) -> None:
    changed(log, 50, 1001, 1000, 5000, 0)
    policy = kafkalog.by_file_time(1000, now_ms=NOW)
    assert log.delete_old_segments(policy) == 0, "from the oldest on, and that one is young"
    changed(log, 5000, 1001, 1000, 5000, 0)
    assert log.delete_old_segments(policy) == 2
    assert (log.segments, log.log_start_offset) == ((2, 3, 4), 2)
    assert log.delete_old_segments() == 0, "by their records none of them may go"
    changed(log, 2000, 2000, 2000)
    assert log.delete_old_segments(kafkalog.by_file_time(1000, now_ms=NOW)) == 3
    assert log.segments == (5,), "the last one goes too, and a new one begins"
    assert log.delete_old_segments(lambda _: True) == 0, "one that is empty stays"


def test_a_policy_of_the_callers_is_told_of_one_segment_after_the_other(log: kafkalog.Log) -> None:
    told: list[DeletableSegment] = []

    def keep_two(segment: DeletableSegment) -> bool:
        told.append(segment)
        return segment.base_offset < log.end_offset - 2

    assert log.delete_old_segments(keep_two) == 3
    assert [(each.base_offset, each.largest_timestamp) for each in told] == [(n, NOW - n) for n in range(4)]
    assert {each.size for each in told} == {each.size for each in log.partition().segments}
    assert log.segments == (3, 4)


def test_an_error_of_a_policy_deletes_nothing(log: kafkalog.Log) -> None:
    def wrong(_: DeletableSegment) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        log.delete_old_segments(wrong)
    with pytest.raises(kafkalog.UsageError):
        log.delete_old_segments(5)  # type: ignore[arg-type]
    assert log.append([b"more"]) == 5
    assert len(log.segments) == 5 + 1
