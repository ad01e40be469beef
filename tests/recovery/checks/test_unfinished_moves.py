"""A move of a replica between log directories that was cut short is found, and a broker that still moves is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.recovery.checks.beside_running import settled_findings
from kafkalog.recovery.checks.verify import verify
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

FUTURE = "0123456789abcdef0123456789abcdef-future"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")


def moves(*paths: Path) -> list[tuple[str | None, str | None]]:
    found = [each for each in verify(*paths).findings if each.code is FindingCode.MOVE_UNFINISHED]
    assert all(each.severity is Severity.WARNING for each in found)
    return [(each.file, each.detail) for each in found]


def test_a_move_inside_one_directory(data: Path) -> None:
    assert moves(data) == []
    future = data / f"stock-41-0.{FUTURE}"
    shutil.copytree(data / "stock-41-0", future)
    ((file, detail),) = moves(data)
    assert file == str(future)
    assert detail is not None
    assert "never finished" in detail
    assert "same directory" in detail
    ended = kafkalog("verify", data)
    assert ended.code == 1
    assert "move_unfinished" in ended.out + ended.err


def test_the_log_that_it_was_to_replace_is_named_or_said_to_be_missing(data: Path) -> None:
    (data / "stock-41-0").rename(data / f"stock-41-0.{FUTURE}")
    ((_, detail),) = moves(data)
    assert "in none of the directories" in (detail or "")


def test_beside_a_broker_that_runs_it_is_no_finding(data: Path) -> None:
    shutil.copytree(data / "stock-41-0", data / f"stock-41-0.{FUTURE}")
    found = verify(data).findings
    assert FindingCode.MOVE_UNFINISHED not in {each.code for each in settled_findings(found)}
