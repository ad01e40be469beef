"""Segments that reach into the next ones, in a log with aborted transactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkalog import verify
from kafkalog.codec.files.index_files import ABORTED_TRANSACTION
from kafkalog.log import open_segment
from kafkalog.recovery import Recovery, plan, recover
from kafkalog.recovery.decide import counting
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

TRADES = "trades-41-0"


def listed_by_the_broker(folder: Path) -> list[int]:
    """First offsets of the aborted transactions in the transaction indexes that a broker wrote."""
    size = ABORTED_TRANSACTION.size
    data = [path.read_bytes() for path in sorted(folder.glob("*.txnindex"))]
    first = [part[at : at + size] for part in data for at in range(0, len(part), size)]
    return [int.from_bytes(entry[10:18], "big") for entry in first]


def with_the_next(root: Path, partition: str, count: int) -> tuple[int, int]:
    """Append the content of the next segments to the first; return the offsets where the second and the last end."""
    logs = sorted((root / partition).glob("*.log"))
    with logs[0].open("ab") as file:
        for path in logs[1 : 1 + count]:
            file.write(path.read_bytes())
    return int(logs[1].stem), int(logs[1 + count].stem)


def told(command: str, root: Path) -> list[dict[str, Any]]:
    (line,) = kafkalog(command, "--json", root).objects
    return [each for each in line["findings"] if (each["code"], each["position"]) == ("segment_overlap", None)]


@pytest.mark.parametrize("closed", [True, False], ids=["closed in order", "after a kill"])
@pytest.mark.parametrize("count", [1, 3])
def test_aborted_records_that_readers_of_committed_data_get_are_told(count: int, closed: bool, tmp_path: Path) -> None:
    """A broker gave 78 records of 14 aborted transactions with three segments appended."""
    root = own_copy(brokers("4.1.1/txn")[0], tmp_path / "data")
    aborted = listed_by_the_broker(root / TRADES)
    assert len(aborted) == 16
    if not closed:
        (root / ".kafka_cleanshutdown").unlink()
    low, high = with_the_next(root, TRADES, count)
    expected = sum(low <= offset < high for offset in aborted)
    assert expected == {1: 4, 3: 14}[count]
    sentence = f"get records of {expected} aborted transactions from here"
    for command in ("verify", "plan"):
        (finding,) = told(command, root)
        assert finding["offset"] == low
        assert sentence in finding["detail"]
    screen, _, _ = kafkalog("plan", root).out.partition("no log is cut")
    assert sentence in " ".join(screen.split())
    report = tmp_path / "report.html"
    kafkalog("report", "-o", report, root)
    assert sentence in " ".join(report.read_text().split())


def test_they_are_told_of_logs_that_are_too_large_to_be_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_COUNTED_BYTES", 0)
    root = own_copy(brokers("4.1.1/txn")[0], tmp_path / "data")
    assert told("plan", root) == []
    low, _high = with_the_next(root, TRADES, 1)
    (finding,) = told("plan", root)
    assert finding["offset"] == low
    assert "get records of 4 aborted transactions from here" in finding["detail"]


def test_of_a_log_without_transactions_nothing_is_told(tmp_path: Path) -> None:
    root = own_copy(brokers("4.3.0/segments")[0], tmp_path / "data")
    with_the_next(root, "sensors-0-0", 1)
    (line,) = kafkalog("verify", "--json", root).objects
    assert "segment_overlap" in {each["code"] for each in line["findings"]}
    assert told("verify", root) == told("plan", root) == []


def salvaged(root: Path) -> dict[str, bytes]:
    """Logs of the partition after the way that the plan recommends."""
    (made,) = plan(root)
    best = made.choice.recommended
    assert best is not None
    assert (str(best.way), best.measured.records_lost, best.measured.records_hidden) == ("salvage", 0, 0)
    recover(Recovery(mode="salvage"), root)
    return {path.name: path.read_bytes() for path in (root / TRADES).glob("*.log")}


@pytest.mark.parametrize("closed", [True, False], ids=["closed in order", "after a kill"])
@pytest.mark.parametrize("count", [1, 3, 5])
def test_salvage_leaves_out_what_later_segments_hold(count: int, closed: bool, tmp_path: Path) -> None:
    """The logs are as the broker wrote them, from which Kafka's consumer read 82 committed records."""
    root = own_copy(brokers("4.1.1/txn")[0], tmp_path / "data")
    before = {path.name: path.read_bytes() for path in (root / TRADES).glob("*.log")}
    logs = sorted((root / TRADES).glob("*.log"))
    for number in reversed(range(count)):  # each holds all of the next one, which holds all of the one after it
        logs[number].write_bytes(logs[number].read_bytes() + before[logs[number + 1].name])
    if not closed:
        (root / ".kafka_cleanshutdown").unlink()
    assert salvaged(root) == before
    assert verify(root).is_clean


def test_salvage_keeps_an_end_that_differs_from_later_segments(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/txn")[0], tmp_path / "data")
    with_the_next(root, TRADES, 1)
    first, second, *_ = sorted((root / TRADES).glob("*.log"))
    *_, last = open_segment(second).batches()
    second.write_bytes(second.read_bytes()[: last.position])
    recover(Recovery(mode="salvage", accept_loss=True), root)
    assert last.data in first.read_bytes()
