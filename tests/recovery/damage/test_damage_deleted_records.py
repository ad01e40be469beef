"""Records below the log start are deleted: no command counts them, and no copy is better for still having them."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog.copies.copy_walk as copy_walk
from kafkalog import Merge, Recovery, compare, merge_directories, plan, verify
from kafkalog.log.directories.selection import Selection
from kafkalog.recovery.modes.table import Mode
from testkit.made.batches import record, records_batch
from testkit.recorded.fixture_data import broker_case

NAME = "invoices-25-0"
START, END = 97, 120


@pytest.fixture(params=[pytest.param("columns", marks=pytest.mark.compiled), "batches"], autouse=True)
def execution(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of reading give the same."""
    monkeypatch.setattr(copy_walk, "is_there", lambda: request.param == "columns")
    return str(request.param)


@pytest.fixture
def volumes(tmp_path: Path) -> list[Path]:
    """A broker's directory in which records were deleted up to the middle of a batch, and another broker's copy."""
    found = [broker_case("4.1.1", "segments").unpack(tmp_path / name) / "broker-12" for name in ("one", "two")]
    meta = found[1] / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=12", "node.id=13"))
    return found


def test_all_commands_count_the_same_records(volumes: list[Path], tmp_path: Path) -> None:
    partition = ["invoices-25"]
    (compared,) = compare(*volumes, select=Selection.of(topics=partition)).partitions
    assert [(each.log_start_offset, each.log_end_offset) for each in compared.copies] == [(START, END)] * 2
    (merged,) = merge_directories(
        Merge(select=Selection.of(topics=partition)), *volumes, target=tmp_path / "merged"
    ).partitions
    (verified,) = (
        report for each in verify(volumes[0]).directories for report in each.partitions if report.path.endswith(NAME)
    )
    log = max((volumes[0] / NAME).glob("*.log"))
    log.write_bytes(log.read_bytes()[:-1])
    made = plan(Recovery(copies=[str(volumes[1])]), volumes[0])[0]
    kept = {each.measured.records_kept for each in made.choice.by_partition[NAME] if each.way == Mode.MERGE}
    counted = {copy.records for copy in compared.copies} | {merged.records_kept, verified.records} | kept
    assert counted == {END - START}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_copy_that_has_lost_its_log_start_is_not_better(volumes: list[Path], order: tuple[int, int]) -> None:
    (volumes[0] / "log-start-offset-checkpoint").write_bytes(b"")
    (found,) = compare(*(volumes[number] for number in order), select=Selection.of(topics=["invoices-25"])).partitions
    assert found.best is not None
    assert found.best.path == str(volumes[1] / NAME)
    assert found.why == "no copy is longer, and it begins after what was deleted"
    lost = found.copies[order.index(0)]
    assert (lost.log_start_offset, lost.records) == (84, END - 84)


def test_a_copy_that_begins_first_is_better_where_nothing_was_deleted(tmp_path: Path) -> None:
    """Retention takes whole segments, and on each broker at another time."""
    batches = [each.to_bytes(8, "big") + records_batch(record(0, value=b"%d" % each))[8:] for each in range(4)]
    for name, first in (("later", 2), ("earlier", 0)):
        directory = tmp_path / name / "t-0"
        directory.mkdir(parents=True)
        for base in range(first, 4, 2):
            (directory / f"{base:020}.log").write_bytes(b"".join(batches[base : base + 2]))
    (found,) = compare(tmp_path / "later", tmp_path / "earlier").partitions
    assert found.best is not None
    assert found.best.path == str(tmp_path / "earlier" / "t-0")
    assert "it holds the most records" in found.why
