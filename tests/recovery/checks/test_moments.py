"""A copy of a log directory that was made while its broker ran is told by what the broker had flushed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkalog import plan, verify
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.inspect.health import health
from kafkalog.recovery.checks.beside_running import settled_findings
from kafkalog.recovery.checks.moments import offset_reached
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import broker_cases, recovery_cases
from testkit.running.command import kafkalog

CODE = FindingCode.MOMENTS_DIFFER
CHECKPOINT = "recovery-point-offset-checkpoint"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """What a killed broker left."""
    return own_copy(brokers("4.1.1/crash")[0], tmp_path / "data")


def flushed(data: Path, **points: int) -> None:
    """Let the checkpoint say that partitions 0 of topics were flushed up to these offsets."""
    lines = [f"{topic} 0 {offset}" for topic, offset in points.items()]
    (data / CHECKPOINT).write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def found(data: Path) -> list[Finding]:
    """What is found, by all who look for it."""
    verified = [each for each in verify(data).findings if each.code is CODE]
    seen = [each for one in health(data) for each in one.findings if each.code is CODE]
    assert [(each.file, each.detail) for each in seen] == [(each.file, each.detail) for each in verified]
    planned = [each for each in plan(data)[0].findings if each.code is CODE]
    assert [each.detail for each in planned] == [each.detail for each in verified]
    assert [str(data / (each.file or "")) for each in planned] == [each.file for each in verified]
    return verified


def ends(data: Path) -> dict[str, int]:
    return {each.partition.path: each.log_end_offset or 0 for each in health(data)[0].partitions}


def test_a_log_that_ends_before_what_was_flushed(data: Path) -> None:
    end = ends(data)[str(data / "metrics-22-0")]
    flushed(data, **{"metrics-22": end})
    assert found(data) == []
    flushed(data, **{"metrics-22": end + 1})
    (finding,) = found(data)
    assert finding.severity is Severity.WARNING
    assert finding.file == str(data / CHECKPOINT)
    assert f"metrics-22-0 ends at {end} and was flushed up to {end + 1}" in finding.detail
    assert settled_findings([finding]) == [], "beside a broker the files are of different moments"
    ended = kafkalog("verify", data)
    assert ended.code == 1
    assert str(CODE) in ended.out + ended.err


def test_not_of_a_broker_that_was_stopped_in_order(data: Path) -> None:
    flushed(data, **{"metrics-22": 10**6})
    (data / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    assert [each for each in verify(data).findings if each.code is CODE] == []


def test_not_of_a_log_with_damage_or_without_a_segment(data: Path) -> None:
    partition = data / "metrics-22-0"
    flushed(data, **{"metrics-22": 10**6})
    log = max(partition.glob("*.log"), key=lambda path: int(path.stem))
    with log.open("r+b") as file:
        file.seek(30)
        file.write(b"\xff")
    assert found(data) == []
    for each in partition.glob("0*"):
        each.unlink()
    assert found(data) == []
    shutil.rmtree(partition)
    assert found(data) == []


def test_a_torn_batch_counts_by_its_header(data: Path) -> None:
    partition = data / "metrics-22-0"
    log = max(partition.glob("*.log"), key=lambda path: int(path.stem))
    end = ends(data)[str(partition)]
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 1)
    flushed(data, **{"metrics-22": end})
    assert [each for each in verify(data).findings if each.code is CODE] == []
    flushed(data, **{"metrics-22": end + 1})
    assert [each.code for each in verify(data).findings if each.code is CODE] == [CODE]


def test_the_end_of_a_damaged_log_tells_nothing() -> None:
    assert offset_reached(7, []) == 7
    assert offset_reached(7, [Finding(FindingCode.CRC_MISMATCH, Severity.ERROR)]) is None
    assert offset_reached(7, [Finding(FindingCode.ZERO_TAIL, Severity.WARNING)]) is None


@pytest.mark.parametrize("case", broker_cases(), ids=lambda case: case.id)
def test_never_of_what_a_real_broker_left(case: object, tmp_path: Path) -> None:
    for directory in brokers(case.id):  # type: ignore[attr-defined]
        assert [each for one in health(directory) for each in one.findings if each.code is CODE] == []


def test_never_of_an_undamaged_case(tmp_path: Path) -> None:
    looked = 0
    for case in recovery_cases(["undamaged"]):
        before = case.unpack_before(tmp_path / str(looked))
        assert [each for one in health(before) for each in one.findings if each.code is CODE] == []
        looked += 1
    assert looked > 5
