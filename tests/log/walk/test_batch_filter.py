"""Filters on headers: what they leave out is not opened, and every way of reading leaves out the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafkalog import RecordFilter
from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.compression import compress
from kafkalog.codec.model import AnyHeader, Codec
from kafkalog.log import Partition, open_all, open_partition
from kafkalog.log.walk.batch_filter import batch_filter
from testkit.judging.executions import choose_execution
from testkit.made.batches import CONTROL, GZIP, LOG_APPEND_TIME, LZ4, SNAPPY, TRANSACTIONAL, message
from testkit.made.record_bytes import batch, payload
from testkit.recorded.broker_dirs import STOPPED, brokers
from testkit.recorded.fixture_data import BrokerCase

CONDITIONS: list[dict[str, Any]] = [
    {"producer_ids": 1},
    {"producer_ids": [0, 2, 10**9]},
    {"codecs": "none"},
    {"codecs": ["zstd", Codec.LZ4, 1]},
    {"transactional": True},
    {"transactional": False, "codecs": ["none", "snappy"]},
    {"producer_ids": range(1000), "transactional": True},
]


def wanted(header: AnyHeader, conditions: dict[str, Any]) -> bool:
    """The same said once more, from the fields alone."""
    ids, codecs = conditions.get("producer_ids"), conditions.get("codecs")
    if ids is not None and (header.magic < 2 or header.producer_id not in ([ids] if isinstance(ids, int) else ids)):
        return False
    names = [codecs] if isinstance(codecs, str) else codecs
    if names is not None and not any(header.attributes & 7 in (each, _NUMBERS.get(each)) for each in names):
        return False
    is_transactional = header.magic == 2 and bool(header.attributes & 16)
    return conditions.get("transactional") in (None, is_transactional)


_NUMBERS: dict[object, int] = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def offsets(partition: Partition, **conditions: Any) -> list[int]:
    found: list[int] = partition.to_arrow(["offset"], RecordFilter(**conditions)).read_all()["offset"].to_pylist()
    return found


@pytest.fixture(params=["plain", "kernel"])
def execution(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_execution(monkeypatch, 0 if request.param == "kernel" else 1 << 60)


OFTEN = ("0.10.2.2/codecs", "2.8.2/txn", "4.3.0/codecs", "4.1.1/txn")
CASES = [case for case in STOPPED if case.id.endswith(("/txn", "/codecs"))]


@pytest.mark.usefixtures("execution")
@pytest.mark.parametrize(
    "case", [pytest.param(each, marks=[] if each.id in OFTEN else [pytest.mark.sweep], id=each.id) for each in CASES]
)
def test_every_way_of_reading_leaves_out_the_same(case: BrokerCase) -> None:
    left_out = kept = 0
    for partition in open_all(*brokers(case.id)).readable(replica="longest"):
        for level in ("read_uncommitted", "read_committed"):
            whole = list(partition.records(RecordFilter(isolation_level=level), on_damage="stop").by_batch())
            everything = [record.offset for _, records in whole for record in records]
            for conditions in CONDITIONS:
                expected = [
                    record.offset for found, records in whole if wanted(found.header, conditions) for record in records
                ]
                assert offsets(partition, isolation_level=level, **conditions) == expected
                read = partition.records(RecordFilter(isolation_level=level, **conditions), on_damage="stop")
                assert [record.offset for record in read] == expected
                left_out += len(everything) - len(expected)
                kept += len(expected)
        for conditions in [*CONDITIONS, {"control": True}, {"control": False, "codecs": "none"}]:
            expected_batches = [
                found
                for found in partition.batches()
                if wanted(found.header, conditions) and conditions.get("control") in (None, found.header.is_control)
            ]
            assert list(partition.batches(**conditions)) == expected_batches
            flat = [batch for run in partition.batches(**conditions).by_run() for batch in run]
            assert flat == expected_batches
    assert left_out > 0
    assert kept > 0


def partition_of(tmp_path: Path, *parts: bytes) -> Partition:
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(b"".join(parts))
    return open_partition(directory)


@pytest.mark.usefixtures("execution")
def test_what_is_left_out_is_not_opened(tmp_path: Path) -> None:
    content = payload([(0, 0, 0, b"k", b"v", [])])
    partition = partition_of(
        tmp_path,
        batch(content, 1, base_offset=0, producer_id=5),
        batch(b"\xff" * 20, 1, base_offset=1, producer_id=6),
        batch(b"\xff" * 20, 1, base_offset=2, producer_id=5, attributes=Codec.ZSTD),
        batch(content, 1, base_offset=3, producer_id=5, attributes=TRANSACTIONAL),
        batch(b"\xff" * 20, 1, base_offset=4, producer_id=5),
        message(5, None, b"\xff" * 20, attributes=GZIP),
        message(6),
        batch(content, 1, base_offset=7, producer_id=5),
    )
    for conditions in ({"producer_ids": 5, "codecs": "none", "transactional": True}, {"transactional": True}):
        assert offsets(partition, **conditions) == [3]
        reader = partition.records(RecordFilter(**conditions), on_damage="stop")
        assert [record.offset for record in reader] == [3]
        assert reader.findings == []
    with pytest.raises(FormatError):
        offsets(partition)
    with pytest.raises(FormatError):
        offsets(partition, codecs=["zstd"])


@pytest.mark.usefixtures("execution")
def test_old_entries_have_a_codec_and_no_producer(tmp_path: Path) -> None:
    inner = message(0) + message(1)
    partition = partition_of(
        tmp_path,
        message(0, attributes=TRANSACTIONAL | CONTROL),
        message(2, None, compress(LZ4, inner), attributes=LZ4),
        message(4, None, compress(SNAPPY, inner), attributes=SNAPPY | LOG_APPEND_TIME),
        message(5, magic=0),
    )
    assert offsets(partition, codecs="none") == [0, 5]
    assert offsets(partition, codecs=["lz4", "gzip"]) == [1, 2]
    assert offsets(partition, codecs=Codec.SNAPPY, transactional=False) == [3, 4]
    assert offsets(partition, transactional=True) == []
    assert offsets(partition, producer_ids=range(100)) == []
    assert offsets(partition, transactional=False) == [0, 1, 2, 3, 4, 5]
    assert [found.last_offset for found in partition.batches(control=True)] == []


def test_conditions_that_no_batch_can_meet_are_refused(tmp_path: Path) -> None:
    partition = partition_of(tmp_path, message(0))
    calls: list[Callable[[], object]] = [
        lambda: partition.to_arrow(filter=RecordFilter(producer_ids=[3, -1])),
        lambda: partition.records(RecordFilter(producer_ids=2**63), on_damage="stop"),
        lambda: partition.batches(codecs="zip"),
        lambda: partition.to_arrow(filter=RecordFilter(codecs=[9])),
    ]
    for call in calls:
        with pytest.raises(UsageError):
            call()
    assert offsets(partition, producer_ids=[]) == []


def test_with_threads_it_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_execution(monkeypatch, 0)
    source = random.Random(9)
    content = payload([(0, 0, 0, None, source.randbytes(20_000), [])])
    parts = [batch(content, 1, base_offset=number, producer_id=number % 3) for number in range(500)]
    partition = partition_of(tmp_path, *parts)
    expected = [number for number in range(500) if number % 3 != 1]
    for threads in (1, 2):
        reader = partition.to_arrow(["offset"], RecordFilter(producer_ids=[0, 2]), threads=threads)
        assert reader.read_all()["offset"].to_pylist() == expected


def test_integers_of_numpy_are_producer_ids() -> None:
    """A numpy array, or what was taken out of one; its only element may stand for itself, as any integer does."""
    ids = np.array([1, 2**62])
    assert batch_filter(ids) == batch_filter(list(ids)) == batch_filter([1, 2**62])
    assert batch_filter(ids[1]) == batch_filter(2**62)
    for wrong in (np.array([-1]), np.array([1.5]), [None], ["1"]):
        with pytest.raises(UsageError, match="is not a producer id"):
            batch_filter(wrong)  # type: ignore[arg-type]
