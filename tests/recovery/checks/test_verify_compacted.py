"""What compaction leaves is in order to `verify` too: a transaction index keeps offsets that are gone from the log."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from testkit.judging.executions import choose_execution
from testkit.made.compactable import CONFIG as COMPACTED
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import broker_cases

FIRST = struct.Struct(">q")
FIRST_AT = 10
"""where an entry of a transaction index has the first offset"""
TRANSACTIONS = [case.id for case in broker_cases() if case.name == "txn"]


def wrong(root: Path) -> list[Finding]:
    """All findings but information, of a walk over the records and of one over headers."""
    found = [kafkalog.verify(root, deep=deep).findings for deep in (True, False)]
    shown = [[each for each in findings if each.severity is not Severity.INFO] for findings in found]
    assert [each.code for each in shown[0]] == [each.code for each in shown[1]]
    return shown[0]


@pytest.fixture(params=["batch by batch", "by runs"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by runs":
        choose_execution(monkeypatch, 0)


def aborted_across_segments(root: Path, passes: int) -> Path:
    """A transaction that began at 5, in the part that was then cleaned, and was aborted at 8; its index."""
    config = kafkalog.LogConfig(min_cleanable_dirty_ratio=0.0, retention_ms=-1, file_delete_delay_ms=0)
    with kafkalog.Log.open(root / "t-0", config) as log:
        for key in (b"a", b"b", b"b"):
            log.append([(key, b"before")])

        def write(key: bytes, sequence: int) -> None:
            log.append(
                [(key, b"in a transaction")],
                producer=kafkalog.ProducerState(
                    producer_id=5, producer_epoch=0, base_sequence=sequence, is_transactional=True
                ),
            )

        write(b"k", 0)
        log.end_transaction(5, 0, commit=True)
        write(b"x", 1)
        write(b"y", 2)
        log.roll()
        write(b"z", 3)
        log.end_transaction(5, 0, commit=False)
        log.append([(b"c", b"after")])
        for _ in range(passes):
            assert log.compact().records_dropped > 0
            log.append([(b"c", b"and more")])
            log.roll()
    return next(path for path in sorted((root / "t-0").glob("*.txnindex")) if path.stat().st_size)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("passes", [1, 2])
def test_a_transaction_may_have_begun_where_nothing_is_left(passes: int, tmp_path: Path) -> None:
    index = aborted_across_segments(tmp_path, passes)
    alone = tmp_path / "alone" / "t-0"
    alone.mkdir(parents=True)
    for log in (tmp_path / "t-0").glob("*.log"):
        shutil.copy(log, alone)
    (derived,) = kafkalog.open_partition(alone).aborted_transactions()
    shutil.rmtree(alone.parent)
    assert FIRST.unpack_from(index.read_bytes(), FIRST_AT) == (5,)
    assert (derived.first_offset > 5, derived.last_offset) == (True, 8)
    assert wrong(tmp_path) == []


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize(
    ("first", "why"),
    [
        (0, "the offset of another record"),
        (1, "a record that is gone, but its producer's earlier transaction ended after it"),
        (3, "its producer's earlier transaction"),
        (4, "the marker of that"),
        (8, "after all of it"),
    ],
)
def test_elsewhere_it_cannot_have_begun(first: int, why: str, tmp_path: Path) -> None:
    index = aborted_across_segments(tmp_path, 1)
    assert {batch.last_offset for batch in kafkalog.open_partition(tmp_path / "t-0").batches()} >= {0, 2, 3, 4}
    data = bytearray(index.read_bytes())
    FIRST.pack_into(data, FIRST_AT, first)
    index.write_bytes(data)
    (found,) = wrong(tmp_path)
    assert (found.code, found.file) == (FindingCode.TXN_INDEX_MISMATCH, str(index)), why
    assert "1 aborted transactions are not listed" in found.detail


@pytest.mark.usefixtures("both_ways")
def test_beside_the_right_entry_an_earlier_one_is_not_there(tmp_path: Path) -> None:
    """A transaction is listed once."""
    root = tmp_path
    with kafkalog.Log.open(root / "t-0", kafkalog.LogConfig(retention_ms=-1)) as log:
        log.append([(b"a", b"1")])
        log.append(
            [(b"k", b"1")],
            producer=kafkalog.ProducerState(producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True),
        )
        log.end_transaction(5, 0, commit=False)
    index = next((root / "t-0").glob("*.txnindex"))
    earlier = bytearray(index.read_bytes())
    FIRST.pack_into(earlier, FIRST_AT, 0)
    for data in (index.read_bytes() + earlier, earlier + index.read_bytes()):
        index.write_bytes(data)
        (found,) = wrong(root)
        assert found.detail == "0 aborted transactions are not listed, 1 are listed but do not exist"


def test_a_transaction_may_have_begun_in_a_segment_that_was_deleted(tmp_path: Path) -> None:
    with kafkalog.Log.open(tmp_path / "t-0", kafkalog.LogConfig(retention_ms=-1)) as log:
        for sequence in range(2):
            log.append(
                [(b"k", b"1")],
                producer=kafkalog.ProducerState(
                    producer_id=5, producer_epoch=0, base_sequence=sequence, is_transactional=True
                ),
            )
            log.roll()
        log.end_transaction(5, 0, commit=False)
    for path in (tmp_path / "t-0").glob(f"{0:020d}.*"):
        path.unlink()
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 1\n")  # as retention leaves it
    assert wrong(tmp_path) == []


@pytest.mark.parametrize("case", TRANSACTIONS)
def test_what_recorded_brokers_wrote_is_in_order_once_it_is_compacted(case: str, tmp_path: Path) -> None:
    config = {**COMPACTED, "index.interval.bytes": "4096"}
    cleaned = 0
    for number, source in enumerate(brokers(case)):
        root = own_copy(source, tmp_path / str(number))
        result = kafkalog.compact(kafkalog.Compaction(config=config), root)[0]
        cleaned += sum(each.is_cleaned for each in result.done.partitions)
        assert wrong(root) == []
    assert cleaned > 0
