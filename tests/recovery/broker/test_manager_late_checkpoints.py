"""Checkpoints that a broker reads only when it leads or cleans: it goes offline then, so recovery looks before that."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog import Mode, Recovery, plan, recover, undo, verify
from testkit.judging.trees import first_difference, stamps
from testkit.recorded.broker_dirs import brokers, own_copy

LATE = ("replication-offset-checkpoint", "cleaner-offset-checkpoint")
BROKEN = {"zeros": bytes(64), "words": b"these are words\n", "a count that is too high": b"0\n7\nt 0 5\n",
          "a version to come": b"9\n0\n"}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")


@pytest.mark.parametrize("name", LATE)
@pytest.mark.parametrize("held", BROKEN)
@pytest.mark.parametrize("mode", [Mode.SAFE, Mode.SALVAGE])
def test_one_that_cannot_be_read_is_put_aside(root: Path, name: str, held: str, mode: Mode) -> None:
    (root / name).write_bytes(BROKEN[held])
    before = dict(stamps(root))
    result = recover(Recovery(mode=mode), root)[0]
    assert not (root / name).exists()
    assert [each.file for each in result.plan.findings if "cannot be read takes" in each.detail] == [name]
    assert verify(root).is_clean
    assert not plan(Recovery(mode=mode), root)[0].changes
    undo(root)
    assert first_difference(dict(stamps(root)), before) == ""


@pytest.mark.parametrize("name", LATE)
def test_a_directory_in_its_place_is_put_aside(root: Path, name: str) -> None:
    (root / name).unlink(missing_ok=True)
    (root / name).mkdir()
    (root / name / "something").write_bytes(b"kept")
    recover(root)
    assert not (root / name).exists()
    assert not plan(root)[0].changes
    undo(root)
    assert (root / name / "something").read_bytes() == b"kept"


@pytest.mark.parametrize("name", LATE)
def test_an_empty_one_is_as_good_as_none(root: Path, name: str) -> None:
    (root / name).write_bytes(b"")
    recover(root)
    assert (root / name).read_bytes() == b""


@pytest.mark.parametrize("name", LATE)
def test_mode_kafka_leaves_it_as_the_start_does(root: Path, name: str) -> None:
    (root / name).write_bytes(bytes(64))
    recover(Recovery(mode=Mode.KAFKA), root)
    assert (root / name).read_bytes() == bytes(64)
