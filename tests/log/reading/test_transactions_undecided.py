"""A consumer of committed records is told of each transaction that damage leaves undecided, by both ways of reading."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafkalog import RecordFilter, open_log_dir
from kafkalog.codec.common.findings import Finding, FindingCode
from testkit.judging.executions import choose_execution
from testkit.made import batches, damage


@pytest.mark.parametrize("enough_bytes", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
def test_a_wrong_offset_behind_it_does_not_hide_an_undecided_transaction(
    enough_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_execution(monkeypatch, enough_bytes)
    directory = tmp_path / "t-0"
    directory.mkdir()
    transactional = batches.batch(
        batches.record(), 1, base_offset=1, attributes=batches.TRANSACTIONAL, producer_id=1, producer_epoch=0,
        base_sequence=0,
    )  # fmt: skip
    log = batches.simple(1, 0) + transactional + batches.simple(1, 0)  # the last offset is wrong
    (directory / f"{0:020}.log").write_bytes(log + b"\xff" * 80)  # which may hide the end marker
    (directory / f"{9:020}.log").write_bytes(batches.simple(1, 9))
    (partition,) = open_log_dir(tmp_path).partitions
    findings: list[Finding] = []
    committed = RecordFilter(isolation_level="read_committed")
    rows = partition.to_arrow(["offset"], committed, on_damage="skip", findings=findings).read_all()
    assert rows.column("offset").to_pylist() == [0, 9]
    assert FindingCode.TRANSACTION_UNDECIDED in [each.code for each in findings]


@pytest.mark.parametrize("enough_bytes", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
def test_one_that_ends_above_all_offsets_hides_nothing(
    enough_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last offset by its header has no place in 64 bits; the committed transaction before it is read."""
    choose_execution(monkeypatch, enough_bytes)
    first = 2**63 - 12
    directory = tmp_path / "t-0"
    directory.mkdir()
    data = damage.Header(attributes=batches.TRANSACTIONAL, producer_id=8, producer_epoch=0, base_sequence=0)
    undecided = damage.batch(first + 10, [damage.record(0)], replace(data, producer_id=7))
    undecided = damage.with_crc(damage.put(undecided, "last_offset_delta", 5))
    log = damage.batch(first, [damage.record(0)], data) + damage.marker(first + 1, 8, 0, commit=True) + undecided
    (directory / f"{first:020}.log").write_bytes(log + damage.batch(first + 10, [damage.record(0)])[:-1] + b"x")
    findings: list[Finding] = []
    committed = RecordFilter(isolation_level="read_committed")
    (partition,) = open_log_dir(tmp_path).partitions
    rows = partition.to_arrow(["offset"], committed, on_damage="skip", findings=findings).read_all()
    assert rows.column("offset").to_pylist() == [first]
    assert [each.code for each in findings] == [FindingCode.TRANSACTION_UNDECIDED]
