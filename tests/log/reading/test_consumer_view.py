"""What a consumer is given, where two ways of reading could part."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import AbortedTransaction
from kafkalog.codec.native.handed_back import HandedBack
from kafkalog.log import open_partition
from kafkalog.log.reading.consumer_view import ConsumerView
from kafkalog.log.walk.batch_filter import batch_filter
from testkit.judging.executions import choose_execution
from testkit.made.batches import batch, record


def some(offset: int, count: int = 2, content: bytes = b"") -> bytes:
    records = content or b"".join(record(number, b"k", b"v") for number in range(count))
    return batch(records, count, base_offset=offset, last_offset_delta=count - 1)


def hand_all_back(run: BatchRun, low: Any, high: int) -> Iterator[HandedBack]:
    yield HandedBack(len(run))


@pytest.mark.parametrize("enough", [0, 2**62])
def test_a_batch_that_stands_there_twice_stops_the_reader_only_if_it_is_broken(
    enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_execution(monkeypatch, enough)
    found = {}
    for name, again in {"sound": some(0), "broken": some(0, content=b"\xff" * 9)}.items():
        directory = tmp_path / name / "t-0"
        directory.mkdir(parents=True)
        (directory / f"{0:020}.log").write_bytes(some(0) + some(2) + again + some(4))
        for way in ("by_batch", "by_run"):
            reader = open_partition(directory).records(on_damage="stop")
            pieces = reader.by_batch() if way == "by_batch" else reader.by_run(hand_all_back)
            offsets = [each.offset for _, records in pieces for each in records]
            found[name, way] = offsets, [each.code for each in reader.findings if each.code not in _TOLD]
    assert found["sound", "by_batch"] == found["sound", "by_run"] == (list(range(6)), [])
    assert found["broken", "by_batch"] == found["broken", "by_run"]
    assert found["broken", "by_batch"][0] == list(range(4))
    assert len(found["broken", "by_batch"][1]) == 1


@pytest.mark.parametrize("is_aborted", [False, True])
@pytest.mark.parametrize("enough", [0, 2**62])
def test_what_is_appended_after_transactions_were_looked_for_is_not_read_as_committed(
    enough: int, is_aborted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_execution(monkeypatch, enough)
    with kafkalog.Log.open(tmp_path / "t-0", kafkalog.LogConfig(segment_bytes=500)) as log:
        for number in range(20):
            log.append([b"%d" % number * 30])
        partition = open_partition(tmp_path / "t-0")
        readers = [
            partition.records(isolation_level="read_committed", on_damage=on_damage)
            for on_damage in ("raise", "raise", "skip")
        ]
        producer = kafkalog.ProducerState(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        log.append([b"undecided"], producer=producer)
        if is_aborted:
            log.end_transaction(7, 0, commit=False)
        log.append([b"after it"])
    by_one, by_run, skipping = readers
    assert [each.offset for each in by_one] == [each.offset for each in skipping] == list(range(20))
    pieces = by_run.by_run(hand_all_back)
    assert [each.offset for _, records in pieces for each in records] == list(range(20))
    assert not by_one.findings


def test_a_partition_object_reads_what_was_appended_since_it_was_opened(tmp_path: Path) -> None:
    producer = kafkalog.ProducerState(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    committed = "read_committed"

    def offsets(isolation_level: str = "read_uncommitted") -> list[int]:
        filter = kafkalog.RecordFilter(isolation_level=isolation_level)
        read = [each.offset for each in partition.records(filter)]
        assert partition.to_arrow(["offset"], filter).read_all()["offset"].to_pylist() == read
        return read

    with kafkalog.Log.open(tmp_path / "t-0") as log:
        log.append([b"first"])
        log.append([b"open", b"open"], producer=producer)
        partition = open_partition(tmp_path / "t-0")
        hour_ago = partition.segments[-1].modified_ns / 10**9 - 3600
        os.utime(partition.segments[-1].path, (hour_ago, hour_ago))
        assert offsets(committed) == [0]
        log.end_transaction(7, 0, commit=False)
        log.append([b"after it"])
        assert (offsets(committed), offsets()) == ([0, 4], [0, 1, 2, 4])
        assert partition.last_stable_offset() == partition.log_end_offset() == 5
        log.truncate_to(1)
        log.append([b"rewritten"] * 9)
        assert offsets(committed) == offsets() == list(range(10))


_TOLD = (FindingCode.OFFSET_NOT_INCREASING, FindingCode.OFFSET_GAP)
"""what both logs have"""


def test_a_committed_view_ends_where_the_first_undecided_transaction_begins() -> None:
    aborted = [AbortedTransaction(0, 7, 3, 5, 6)]
    view = ConsumerView(start_offset=2, end_offset=50, batches=batch_filter(codecs="zstd"))
    assert view.committed(aborted, [30, 20]) == ConsumerView(
        start_offset=2, end_offset=20, aborted=tuple(aborted), batches=view.batches
    )
    assert view.committed(aborted, [60]).end_offset == 50
    assert view.committed((), ()) == view
