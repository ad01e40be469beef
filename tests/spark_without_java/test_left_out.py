"""What stands where data should be and cannot be read is said, by batch queries and streams, not passed over."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.common.errors import StorageError
from kafkalog.spark.discovery import plan_read
from kafkalog.spark.followed import FollowedLogs
from kafkalog.spark.options import parse_options
from kafkalog.spark.reader import LogReader
from kafkalog.spark.schema import Layout


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for name in ("orders-0", "orders-1", "visits-0"):
        with kafkalog.Log.open(tmp_path / "data" / name) as log:
            log.append([b"x"])
    return tmp_path / "data"


def segment(data: Path, name: str) -> Path:
    return data / name / "00000000000000000000.log"


@pytest.mark.parametrize("what", ["link", "fifo", "directory", "linked partition"])
def test_it_ends_the_query_unless_told_otherwise(data: Path, what: str) -> None:
    path = segment(data, "orders-1")
    if what == "linked partition":
        (data / "orders-1").rename(data.parent / "orders-1")
        (data / "orders-1").symlink_to(data.parent / "orders-1")
        path = data / "orders-1"
    else:
        path.rename(data.parent / "elsewhere")
        if what == "link":
            path.symlink_to(data.parent / "elsewhere")
        elif what == "fifo":
            os.mkfifo(path)
        else:
            path.mkdir()
    strict = parse_options({"path": str(data)})
    queries: list[Callable[[], object]] = [lambda: plan_read(strict), lambda: FollowedLogs(strict).look()]
    for query in queries:
        with pytest.raises(StorageError, match=r"cannot be read: .*DROPMALFORMED") as raised:
            query()
        assert str(raised.value).startswith(str(path))
    lenient = parse_options({"path": str(data), "mode": "DROPMALFORMED"})
    with pytest.warns(RuntimeWarning, match=r"cannot be read: .* it is left out"):
        tasks = plan_read(lenient)
    assert {piece.topic for task in tasks for piece in task} == {"orders", "visits"}
    other = parse_options({"path": str(data), "subscribe": "visits"})
    assert len(plan_read(other)) == len(FollowedLogs(other).look()) == 1


def test_a_segment_that_may_not_be_read_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(segment(data, "orders-1"))
    opening = os.open

    def denied(name: str, flags: int, *more: int) -> int:
        if name == path:
            raise PermissionError(13, "Permission denied", name)
        return opening(name, flags, *more)

    monkeypatch.setattr(os, "open", denied)
    options = parse_options({"path": str(data)})
    queries: list[Callable[[], object]] = [lambda: plan_read(options), lambda: FollowedLogs(options).look()]
    for query in queries:
        with pytest.raises(StorageError, match=f"{path}: cannot open the file: Permission denied"):
            query()


@pytest.mark.parametrize("options", [{}, {"maxRecordsPerPartition": "7"}])
def test_a_segment_that_was_compacted_since_the_query_was_planned_is_refused(
    options: dict[str, str], tmp_path: Path
) -> None:
    """Bytes that were planned do not hold the same offsets any more."""
    config = kafkalog.LogConfig(segment_bytes=4000, min_cleanable_dirty_ratio=0.0)
    with kafkalog.Log.open(tmp_path / "t-0", config) as log:
        for number in range(200):
            log.append([(b"%d" % (number % 30), b"%d" % number)])
        reader = LogReader(parse_options({"path": str(tmp_path), **options}), Layout(names=("offset",), corrupt=None))
        tasks = reader.partitions()
        log.compact()
        for task in tasks[: len(tasks) // 2]:
            with pytest.raises(StorageError, match=r"when the query was planned: it was replaced|no longer does"):
                list(reader.read(task))
