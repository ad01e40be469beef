"""Somebody writes into the directory who does not take the lock: a copy that is going on, a script, a second tool.

At every change that a recovery makes, bytes are appended to the log that it cuts, or a file appears, just before it.
Either the run notices, and then all that it did is taken back and the other's bytes are there; or it was past that
file.  In no case is one byte gone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog import RecoveryRefused, StorageError
from kafkalog.recovery import Recovery, plan, recover
from kafkalog.recovery.act import runner
from testkit.judging.every_byte import Originals
from testkit.judging.trees import copy_tree, stamps
from testkit.recorded.fixture_data import recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.stopping import just_before

CASE = recovery_cases(["torn_tail"])[0]


def last_log(root: Path) -> Path:
    return max(path for path in root.glob("t-0/*.log") if path.stat().st_size)


def appended(root: Path) -> None:
    with last_log(root).open("ab") as file:
        file.write(b"somebody else's")


def created(root: Path) -> None:
    (root / "t-0" / "00000000000000000777.log").write_bytes(b"somebody else's")


def replaced(root: Path) -> None:
    log = last_log(root)
    new = log.with_name("new")
    new.write_bytes(log.read_bytes() + b"somebody else's")
    new.rename(log)


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("other", [appended, created, replaced])
def test_a_writer_at_any_moment(
    other: Callable[[Path], None],
    step: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    measured: Callable[[str, int], None],
) -> None:
    original = CASE.unpack_before(tmp_path / "original")
    originals = Originals(original)
    number, declined = 1, 0
    while True:
        root = copy_tree(original, tmp_path / "logs")
        size = last_log(root).stat().st_size
        with just_before(number, lambda: other(root), monkeypatch) as count:  # noqa: B023
            try:
                recover(Recovery(accept_loss=True, **given(CASE)), root)
            except RecoveryRefused as refused:
                assert refused.reason == "changed"  # noqa: PT017
                declined += 1
                assert not list(root.parent.glob("logs.recovery/*")), f"change {number}"
                other(copy := copy_tree(original, tmp_path / "copy"))
                differences = {
                    path
                    for path in {*stamps(root), *stamps(copy)}
                    if stamps(root).get(path, (0, 0, ""))[1:] != stamps(copy).get(path, (0, 0, ""))[1:]
                }
                assert differences == set(), f"change {number}"
                assert originals.missing(root, original if other is not created else None) == []
                shutil.rmtree(copy)
            except StorageError as error:  # after the cut: the run says that the file is not as it left it
                assert "another process wrote" in str(error)  # noqa: PT017
                recover(Recovery(accept_loss=True, **given(CASE)), root)
        if count[0] < number:
            break
        everything = b"".join(path.read_bytes() for path in tmp_path.glob("logs*/**/*") if path.is_file())
        assert b"somebody else's" in everything, f"change {number}"
        assert size
        shutil.rmtree(root)
        shutil.rmtree(tmp_path / "logs.recovery", ignore_errors=True)
        number += step
    assert declined > 3
    measured("recoveries that declined because another process wrote, with everything taken back", declined)


def test_a_log_that_grew_after_the_plan_was_shown(tmp_path: Path) -> None:
    root = CASE.unpack_before(tmp_path / "logs")
    made = plan(Recovery(**given(CASE)), root)[0]
    appended(root)
    before = stamps(tmp_path)
    with pytest.raises(RecoveryRefused, match="changed since the plan was made"):
        recover(Recovery(accept_loss=True, **given(CASE)), root, expected=[made])
    assert stamps(tmp_path) == before


@pytest.mark.parametrize("name", [".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "t-0/new", "u-0"])
def test_anything_that_came_after_the_plan(name: str, tmp_path: Path) -> None:
    root = CASE.unpack_before(tmp_path / "logs")
    (root / name).unlink(missing_ok=True)
    made = plan(Recovery(**given(CASE)), root)[0]
    if name == "u-0":
        (root / name).mkdir()
    else:
        (root / name).write_text("0\n0\n")
    before = stamps(tmp_path)
    with pytest.raises(RecoveryRefused, match="changed since the plan was made"):
        recover(Recovery(accept_loss=True, **given(CASE)), root, expected=[made])
    assert stamps(tmp_path) == before


def test_between_looking_and_cutting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a plan that was shown before, as with --yes."""
    root = CASE.unpack_before(tmp_path / "logs")
    act = runner.act

    def slow(*args: Any, **kwargs: Any) -> Any:
        appended(root)
        return act(*args, **kwargs)

    monkeypatch.setattr("kafkalog.recovery.act.transaction.act", slow)
    size = last_log(root).stat().st_size
    with pytest.raises(RecoveryRefused, match="changed since the plan was made"):
        recover(Recovery(accept_loss=True, **given(CASE)), root)
    assert last_log(root).stat().st_size == size + len(b"somebody else's")
    assert not (tmp_path / "logs.recovery").exists()
