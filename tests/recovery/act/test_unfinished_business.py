"""What an operator should know first: an unfinished run, an undo that is possible, a lock; looking changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog.codec.common.shapes import plain, shaped
from kafkalog.log.disk.pointer import POINTER, Pointer
from kafkalog.recovery import Recovery, recover, undo
from kafkalog.recovery.act import quarantine
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.journal import JOURNAL, MANIFEST, UNDOING
from kafkalog.recovery.act.lock import BrokerLock
from kafkalog.recovery.act.operations import CutOff
from kafkalog.recovery.act.unfinished_business import Standing, StandingJson, standing
from kafkalog.words.advice import in_options
from testkit.judging.trees import first_difference, stamps
from testkit.recorded.fixture_data import recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.command import kafkalog
from testkit.running.lock_holder import held
from testkit.running.stopping import Stopped

CASE = recovery_cases(["torn_tail"])[0]


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    return CASE.unpack_before(tmp_path / "logs")


def in_ls(root: Path) -> tuple[object, str]:
    return json.loads(kafkalog("ls", "--json", root).out)["standing"], kafkalog("ls", root).out


def test_nothing_to_say(torn: Path) -> None:
    before = stamps(torn.parent)
    assert standing(torn) == Standing()
    assert standing(torn).sentences() == []
    told, text = in_ls(torn)
    assert told == {"unfinished_runs": [], "undoable_run": None, "locked": False, "problem": None}
    assert text.splitlines()[1].startswith("topic")
    assert first_difference(dict(stamps(torn.parent)), dict(before)) == ""


def test_an_undo_that_is_possible_and_then_is_not(torn: Path) -> None:
    run_id = recover(Recovery(**given(CASE)), torn)[0].run_id
    assert standing(torn).undoable == run_id
    assert f"--run {run_id}`" in in_ls(torn)[1].splitlines()[1]
    (torn / "meta.properties").touch()
    assert standing(torn) == Standing()
    undo_again = recover(Recovery(**given(CASE)), torn)[0]
    assert not undo_again.changed


def test_after_an_undo_there_is_none(torn: Path) -> None:
    recover(Recovery(**given(CASE)), torn)
    undo(torn)
    assert standing(torn) == Standing()


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("name", [JOURNAL, UNDOING])
def test_an_unfinished_run(name: str, foreign: bool, torn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = recover(Recovery(**given(CASE)), torn)[0].run_id
    directory = torn.with_name("logs.recovery") / str(run_id)
    (directory / MANIFEST).rename(directory / name)
    (torn / POINTER).write_bytes(Pointer("0" * 32, (), (str(run_id),)).encode())
    if foreign:
        monkeypatch.setattr(quarantine, "machine_id", lambda: "0123")
    found = standing(torn)
    (unfinished,) = found.unfinished
    assert (unfinished.run_id, unfinished.is_foreign, unfinished.is_undo) == (run_id, foreign, name == UNDOING)
    (sentence,) = found.sentences(in_options)
    assert ("--complete" in sentence) is foreign
    assert "another machine" in sentence or not foreign
    told, text = in_ls(torn)
    assert told == json.loads(json.dumps(plain(shaped(found, StandingJson))))
    assert sentence in text.splitlines()[1]


def _stop(*_: object) -> None:
    raise Stopped


def test_a_run_that_was_stopped_is_told(torn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(CutOff, "do", _stop)
        with pytest.raises(Stopped):
            recover(Recovery(**given(CASE)), torn)
    (torn / ".lock").unlink(missing_ok=True)
    (unfinished,) = standing(torn).unfinished
    assert list(recover(Recovery(**given(CASE)), torn)[0].completed) == [unfinished.run_id]


def test_a_lock_that_another_process_holds(torn: Path) -> None:
    with held(torn / ".lock"):
        before = stamps(torn)
        assert standing(torn).locked is True
        assert "the broker's lock is held" in in_ls(torn)[1].splitlines()[1]
        assert first_difference(dict(stamps(torn)), dict(before)) == ""
        again = subprocess.run(
            [sys.executable, "-m", "kafkalog", "recover", "--yes", str(torn)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (again.returncode, "locked" in again.stderr) == (3, True)
    assert standing(torn).locked is False  # the file is there still


def test_our_own_lock_is_not_lost_by_looking(torn: Path) -> None:
    with FileSystem(str(torn)) as fs, BrokerLock(fs):
        assert standing(torn).locked is True
        module = "kafkalog.recovery.act.unfinished_business"
        probe = f"import sys; from {module} import standing; print(standing(sys.argv[1]).locked)"
        done = subprocess.run([sys.executable, "-c", probe, str(torn)], capture_output=True, text=True, check=True)
        assert done.stdout == "True\n"
    assert standing(torn).locked is False


def test_a_lock_that_cannot_be_looked_at(torn: Path) -> None:
    (torn / ".lock").symlink_to("/no/such/place")
    found = standing(torn)
    assert found.locked is None
    assert "unknown" in found.sentences()[0]


def test_what_cannot_be_read_is_a_sentence(torn: Path) -> None:
    run_id = str(recover(Recovery(**given(CASE)), torn)[0].run_id)
    document = torn.with_name("logs.recovery") / run_id / MANIFEST
    document.write_text("{}")
    found = standing(torn)
    assert found.problem is not None
    assert run_id in found.problem
    assert "unknown" in in_ls(torn)[1].splitlines()[1]
    document.unlink()
    os.mkfifo(document)
    assert standing(torn).problem is not None
    (torn / ".kafkalog-quarantine").write_text("not ours\n")
    assert ".kafkalog-quarantine" in (standing(torn).problem or "")
    assert kafkalog("ls", torn).code in (0, 1)


def test_a_run_that_waits_to_be_completed_is_something_to_do(torn: Path) -> None:
    """Also where the directory is already as the run would leave it, and only the run's end is not written."""
    (torn / "replication-offset-checkpoint").unlink()  # else the log ends below the high watermark, which is a finding
    run_id = recover(torn)[0].run_id
    assert run_id is not None
    assert kafkalog("plan", torn).code == 0
    directory = Path(f"{torn}.recovery") / run_id
    (directory / MANIFEST).rename(directory / JOURNAL)
    (torn / POINTER).write_bytes(Pointer("0" * 32, (), (run_id,)).encode())
    planned = kafkalog("plan", "--json", torn)
    (line,) = planned.objects
    assert (line["changes"], len(line["standing"]["unfinished_runs"]), planned.code) == (False, 1, 1)
    assert kafkalog("recover", "--yes", torn).code == 2
    assert kafkalog("plan", torn).code == 0
