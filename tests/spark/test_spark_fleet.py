"""Many log directories checked and recovered by a Spark job: what each task reports is what the command would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kafkalog
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import FindingJson
from kafkalog.codec.common.shapes import shaped
from kafkalog.spark import recover_many, verify_many
from testkit.judging.trees import contents
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import broker_case
from testkit.running.command import in_json

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


@pytest.fixture
def fleet(tmp_path: Path) -> list[Path]:
    """Two directories of killed brokers, a sound one, and one that is none."""
    found = []
    for number, name in enumerate(("torn", "crash")):
        root = broker_case("4.1.1", name).unpack(tmp_path / f"{number}")
        found += [path for path in root.iterdir() if path.name.startswith("broker-")]
    (sound,) = brokers("4.1.1/segments")
    return [*found, own_copy(sound, tmp_path / "sound"), tmp_path / "missing"]


def given(row: Row) -> dict[str, object]:
    """A finding as its JSON has it, which leaves out bounds that there are not."""
    found = row.asDict(recursive=True)
    bounds = ("last_offset", "unread", "batch")
    return {name: value for name, value in found.items() if value is not None or name not in bounds}


def test_verify_many_says_of_each_what_verify_says(spark: SparkSession, fleet: list[Path]) -> None:
    before = [contents(path) for path in fleet[:3]]
    rows = verify_many(spark, fleet).collect()
    assert [Path(row.path) for row in rows] == fleet
    assert [row.outcome for row in rows] == ["findings", "clean", "clean", "failed"]
    assert rows[3].message == f"{fleet[3]} does not exist"
    for path, row in zip(fleet[:3], rows, strict=False):
        report = kafkalog.verify(path)
        assert [json.loads(row.report)] == in_json(report.as_dicts())
        assert [given(found) for found in row.findings] == in_json(shaped(report.findings, list[FindingJson]))
        severities = [str(found.severity) for found in report.findings]
        assert (row.errors, row.warnings) == (severities.count("error"), severities.count("warning"))
    assert [contents(path) for path in fleet[:3]] == before


def test_recover_many_recovers_each_and_every_run_can_be_undone(spark: SparkSession, fleet: list[Path]) -> None:
    before = [contents(path) for path in fleet[:2]]
    reports = recover_many(spark, [fleet[0], [fleet[1]], fleet[3]], accept_loss=True)
    assert reports.count() == 3
    rows = reports.collect()
    assert [row.outcome for row in rows] == ["recovered", "recovered", "failed"], "and using it again does nothing"
    for path in fleet[:2]:
        assert not [found for found in kafkalog.verify(path).findings if found.severity is kafkalog.Severity.ERROR]
    again = recover_many(spark, fleet[:2]).collect()
    assert [(row.outcome, row.run_id) for row in again] == [("unchanged", None)] * 2
    for path, row, content in zip(fleet, rows, before, strict=False):
        assert Path(row.quarantine).is_dir()
        assert json.loads(row.report)["run_id"] == row.run_id
        kafkalog.undo(kafkalog.Undo(run_ids=[row.run_id]), path)
        assert contents(path) == content


def test_what_may_not_be_done_is_reported_for_that_directory(spark: SparkSession, fleet: list[Path]) -> None:
    torn = fleet[0]
    with kafkalog.Log.open(torn / "mine-0"):
        (row,) = recover_many(spark, [torn], mode="strict").collect()
    assert row.outcome == "refused"
    assert "lock" in row.message


def test_a_directory_that_is_named_twice_is_refused(spark: SparkSession, fleet: list[Path]) -> None:
    with pytest.raises(UsageError, match="is named twice"):
        recover_many(spark, [fleet[0], [fleet[2], fleet[0]]])
    with pytest.raises(UsageError, match="no path"):
        verify_many(spark, [])
    with pytest.raises(UsageError, match="unknown mode 'bold': there is safe"):
        recover_many(spark, fleet, mode="bold")


def test_every_log_directory_has_a_row_however_it_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """Recovery works on log directories: two partitions are in one, and a parent has two."""
    roots = [tmp_path / "broker" / name for name in ("one", "two")]
    for root, topic in zip(roots, "ab", strict=True):
        root.mkdir(parents=True)
        for number in range(2):
            kafkalog.Log.open(root / f"{topic}-{number}").close()
    partitions = [roots[0] / "a-0", roots[0] / "a-1"]
    for paths, rows in ((partitions, roots[:1]), ([tmp_path / "broker"], roots)):
        done = recover_many(spark, [paths]).collect()
        assert [(row.path, row.outcome) for row in done] == [(str(root), "unchanged") for root in rows]
