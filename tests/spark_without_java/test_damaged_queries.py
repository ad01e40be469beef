"""Whatever is damaged near the offsets that a query asks for, Spark and `to_arrow` give the same rows and errors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import damaged_queries
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.model import Codec, Record, TimestampType
from kafkalog.log import open_partition
from kafkalog.spark.options import parse_options
from kafkalog.spark.reader import LogReader
from kafkalog.spark.schema import Layout
from testkit.made import damage
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.shares import EACH


@EACH
def test_a_query_near_damage_is_answered_as_by_to_arrow(each: int) -> None:
    wrong: list[str] = []
    counts = damaged_queries.run(range(0, 75, each), wrong.append)
    assert wrong == []
    assert counts["queries"] >= 1_500 // each
    assert counts["errors"] >= 200 // each


@pytest.mark.parametrize("mode", damaged_queries.MODES)
def test_offsets_behind_a_place_where_headers_cannot_be_followed_are_not_lost(mode: str, tmp_path: Path) -> None:
    """Two hundred bytes are gone below the start, inside of the span that has the wanted offsets too."""
    (broker,) = brokers("2.8.2/txn")
    directory = own_copy(broker / "ledger-21-0", tmp_path / "ledger-21-0")
    path = directory / f"{73:020}.log"
    data = path.read_bytes()
    path.write_bytes(data[:578] + data[778:])
    query = damaged_queries.Query(117, 141, "read_uncommitted", mode, {})
    expected = damaged_queries.by_arrow(directory, query)
    sound = damaged_queries.by_arrow(broker / "ledger-21-0", query)
    assert expected == (damaged_queries.Answer(code="crc_mismatch") if mode == "FAILFAST" else sound)
    assert damaged_queries.by_spark(directory, query) == expected


def test_the_end_of_a_log_that_lies_in_damage_is_met(tmp_path: Path) -> None:
    """With failOnDataLoss=false an end behind the readable log is the end of the log, not what is readable of it."""
    (broker,) = brokers("2.8.2/txn")
    directory = own_copy(broker / "trades-42-0", tmp_path / "trades-42-0")
    (path,) = directory.glob("*.log")
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    end = open_partition(broker / "trades-42-0").log_end_offset()
    query = damaged_queries.Query(0, end, "read_uncommitted", "FAILFAST", {})
    assert damaged_queries.by_spark(directory, query) == damaged_queries.Answer(code="crc_mismatch")


def test_nothing_is_planned_for_a_start_at_the_end_of_a_sound_log() -> None:
    (broker,) = brokers("2.8.2/txn")
    directory = broker / "trades-42-0"
    start = json.dumps({"trades-42": {"0": open_partition(directory).log_end_offset()}})
    options = parse_options({"path": str(directory), "startingOffsets": start})
    assert LogReader(options, Layout(names=("offset",), corrupt=None)).partitions() == []


def offsets_of(directory: Path, **given: str) -> list[int]:
    options = parse_options({"path": str(directory), **given})
    reader = LogReader(options, Layout(names=("offset",), corrupt=None))
    return [
        offset for task in reader.partitions() for found in reader.read(task) for offset in found["offset"].to_pylist()
    ]


@pytest.mark.parametrize("is_inside", [True, False])
def test_times_that_damage_may_hide_are_an_error_or_a_warning(is_inside: bool, tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    batches = [
        build_batch([Record(n, 1000 + n, TimestampType.CREATE_TIME, None, b"v" * 50)], codec=Codec.GZIP)
        for n in range(6)
    ]
    batches[2] = batches[2][:61] + b"\xff" * 14 + batches[2][75:]
    if is_inside:
        batches[2] = damage.with_crc(batches[2])
    (directory / f"{0:020}.log").write_bytes(b"".join(batches))
    with pytest.raises(FormatError) as raised:
        offsets_of(directory, startingTimestamp="1002")
    assert raised.value.finding is not None
    assert raised.value.finding.offset == 2
    with pytest.warns(RuntimeWarning) as told:
        assert offsets_of(directory, startingTimestamp="1002", mode="DROPMALFORMED") == [3, 4, 5]
    assert re.search("offset 2.*may be missing", str(told[0].message))
    with pytest.warns(RuntimeWarning, match="left out 1 unreadable"):
        assert offsets_of(directory, endingTimestamp="1004", mode="DROPMALFORMED") == [0, 1, 3]
    with pytest.raises(FormatError, match="offset 2"):
        offsets_of(directory, endingTimestamp="1004")
