"""What recoveries left is listed as it is, whatever is in a quarantine, and examining it changes nothing."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kafkalog import RecoveryRefused, StorageError, UsageError, runs
from kafkalog.cli.shapes.runs_lines import run_line
from kafkalog.recovery import Recovery, recover, undo
from kafkalog.recovery.act import machine_id as machine
from kafkalog.recovery.act import quarantine
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.journal import JOURNAL, MANIFEST, PREPARING, PURGING, SUPERSEDED, UNDOING, UNDONE
from kafkalog.types import RunInfo, RunState
from testkit.judging.trees import copy_tree, first_difference, stamps
from testkit.recorded.fixture_data import recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.command import in_json, kafkalog
from testkit.running.elsewhere import PLACES, quarantine_at
from testkit.running.stopping import Stopped, failing_at

CASE = recovery_cases(["torn_tail"])[0]
STOPS = 400


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    return CASE.unpack_before(tmp_path / "logs")


def only(root: Path, **given_: object) -> RunInfo:
    (found,) = runs(root, **given_)  # type: ignore[arg-type]
    return found


def test_nothing_was_recovered(torn: Path) -> None:
    before = stamps(torn.parent)
    assert runs(torn) == ()
    finished = kafkalog("runs", torn)
    assert (finished.code, "no recovery has left anything" in finished.out) == (0, True)
    assert kafkalog("runs", "--json", torn).objects == [{"path": str(torn), "runs": [], "changed": False}]
    assert first_difference(dict(stamps(torn.parent)), dict(before)) == ""


@pytest.mark.parametrize("place", PLACES)
def test_a_finished_run_then_undone(place: str, torn: Path, tmp_path: Path) -> None:
    with quarantine_at(place, tmp_path) as kept:
        result = recover(Recovery(quarantine=kept, **given(CASE)), torn)[0]
        before = stamps(torn)
        found = only(torn)
        assert result.quarantine == found.directory
        assert found.run_id == result.run_id
        assert (found.state, found.undoable, found.why_not) == (RunState.FINISHED, True, None)
        assert (found.mode, found.is_foreign, found.recorded_root) == ("safe", False, str(torn))
        assert sum(found.steps.values()) == len(result.plan.actions)
        held = [path for path in Path(found.directory).rglob("*") if path.is_file()]
        assert found.files == len([path for path in held if path.parent != Path(found.directory)]) > 0
        assert found.allocated_bytes == sum(path.stat().st_blocks * 512 for path in held)
        cut = [each for each in found.originals if each.start is not None]
        assert [(each.path, each.bytes) for each in cut] == [
            (action.path, result.plan.survey.files[action.path].size - (action.size or 0))
            for action in result.plan.actions
            if action.kind == "truncate"
        ]
        told = json.loads(kafkalog("runs", "--json", torn).out)
        assert told["runs"] == [in_json(run_line(found))]
        assert first_difference(dict(stamps(torn)), dict(before)) == ""
        undo(torn)
        found = only(torn, quarantine=kept)
        assert (found.state, found.undoable, found.files) == (RunState.UNDONE, False, 0)
        assert kafkalog("runs", *(["--quarantine", kept] if kept else []), torn).code == 0


def test_several_directories_are_a_line_each(tmp_path: Path) -> None:
    roots = [CASE.unpack_before(tmp_path / name) for name in ("a", "b")]
    recover(Recovery(**given(CASE)), roots[0])
    told = kafkalog("runs", "--json", *roots).objects
    assert [(each["path"], len(each["runs"])) for each in told] == [(str(roots[0]), 1), (str(roots[1]), 0)]


@pytest.mark.parametrize("what", ["a byte less", "a new file", "a file gone", "another time", "kept bytes gone"])
def test_why_it_cannot_be_undone_any_more(what: str, torn: Path) -> None:
    recover(Recovery(**given(CASE)), torn)
    found = only(torn)
    log = torn / next(each.path for each in found.originals if each.path.endswith(".log"))
    if what == "a byte less":
        os.truncate(log, log.stat().st_size - 1)
    elif what == "a new file":
        (log.parent / "00000000000000999999.log").touch()
    elif what == "a file gone":
        log.unlink()
    elif what == "another time":
        (torn / "meta.properties").touch()
    else:
        next(path for path in Path(found.directory).glob("files/*/*.log.tail@*")).unlink()
    found = only(torn)
    assert not found.undoable
    assert found.why_not is not None
    with pytest.raises(RecoveryRefused):
        undo(torn)
    assert "cannot be undone" in kafkalog("runs", torn).out


def test_every_run_that_a_stop_can_leave_has_a_true_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery, and then its undo, are stopped before each change: what `runs` says is what `recover` then does."""
    seen: set[RunState] = set()
    for act in (lambda root: recover(Recovery(**given(CASE)), root)[0], lambda root: undo(root)):
        for number in range(1, STOPS):
            root = CASE.unpack_before(tmp_path / f"{len(seen)}-{number}" / "logs")
            if seen & {RunState.CUT_SHORT}:
                recover(Recovery(**given(CASE)), root)
            with failing_at(number, Stopped, monkeypatch) as count, suppress(Stopped):
                act(root)
            found = runs(root)
            seen.update(each.state for each in found)
            if count[0] < number:
                break
            (root / ".lock").unlink(missing_ok=True)
            assert len(found) <= 1
            unfinished = [each.run_id for each in found if each.is_unfinished]
            assert list(recover(Recovery(**given(CASE)), root)[0].completed) == unfinished
        else:
            pytest.fail("the stops have no end")
    assert seen == {
        RunState.FINISHED, RunState.CUT_SHORT, RunState.UNDO_CUT_SHORT, RunState.UNDONE, RunState.NOT_BEGUN
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "state", "code"),
    [
        (PREPARING, RunState.NOT_BEGUN, 0),
        (JOURNAL, RunState.CUT_SHORT, 1),
        (UNDOING, RunState.UNDO_CUT_SHORT, 1),
        (UNDONE, RunState.UNDONE, 0),
        (SUPERSEDED, RunState.SUPERSEDED, 0),
        (PURGING, RunState.HALF_PURGED, 0),
    ],
)
def test_states_and_exit_codes(name: str, state: RunState, code: int, torn: Path) -> None:
    recover(Recovery(**given(CASE)), torn)
    directory = Path(only(torn).directory)
    (directory / MANIFEST).rename(directory / name)
    assert only(torn).state is state
    finished = kafkalog("runs", torn)
    assert finished.code == code
    assert str(state) in finished.out
    assert ("reverses it" in finished.out) is (state is RunState.CUT_SHORT), "an undo that is completed is an undo"


def _link_the_document(directory: Path) -> None:
    (directory / MANIFEST).rename(directory / "elsewhere")
    (directory / MANIFEST).symlink_to(directory / "elsewhere")


def _fifo(directory: Path) -> None:
    (directory / MANIFEST).unlink()
    os.mkfifo(directory / MANIFEST)


def _directory(directory: Path) -> None:
    (directory / MANIFEST).unlink()
    (directory / MANIFEST).mkdir()


def _link_the_run(directory: Path) -> None:
    target = directory.with_name("moved")
    directory.rename(target)
    directory.symlink_to(target)


HOSTILE: dict[str, Callable[[Path], object]] = {
    "flipped": lambda directory: (directory / MANIFEST).write_bytes(b"x" + (directory / MANIFEST).read_bytes()[1:]),
    "empty": lambda directory: (directory / MANIFEST).write_bytes(b""),
    "no document": lambda directory: (directory / MANIFEST).unlink(),
    "a link for a document": _link_the_document,
    "a FIFO for a document": _fifo,
    "a directory for a document": _directory,
    "a link for the run": _link_the_run,
    "another run's name": lambda directory: directory.rename(directory.with_name("20200101T000000.000000Z-00000000")),
    "a month that there is not": lambda directory: directory.rename(
        directory.with_name("20209901T000000.000000Z-00000000")
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_cannot_be_read_is_listed_and_said(what: str, torn: Path) -> None:
    recover(Recovery(**given(CASE)), torn)
    HOSTILE[what](Path(only(torn).directory))
    before = stamps(torn.parent)
    found = only(torn)
    assert (found.state, found.undoable) == (RunState.UNREADABLE, False)
    assert found.why_not
    finished = kafkalog("runs", torn)
    assert finished.code == 1
    assert found.run_id in finished.out
    assert json.loads(kafkalog("runs", "--json", torn).out)["runs"][0]["state"] == "unreadable"
    assert first_difference(dict(stamps(torn.parent)), dict(before)) == ""


def test_a_run_whose_directory_may_not_be_entered_is_not_said_to_be_empty(
    torn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recover(Recovery(**given(CASE)), torn)
    directory = Path(only(torn).directory)
    names, lexists = FileSystem.names, os.path.lexists

    def listed(fs: FileSystem, path: str) -> list[str]:
        if path == directory.name:
            raise StorageError(errno.EACCES, "cannot list the directory", str(directory))
        return names(fs, path)

    monkeypatch.setattr(FileSystem, "names", listed)
    monkeypatch.setattr(os.path, "lexists", lambda path: Path(path).parent != directory and lexists(path))
    found = only(torn)
    assert (found.state, found.why_not) == (RunState.UNREADABLE, f"{directory}: cannot list the directory")


def test_a_name_that_is_no_runs_is_not_looked_at(torn: Path) -> None:
    recover(Recovery(**given(CASE)), torn)
    for name in ("notes.txt", "20200101T000000.000000Z-0000000g", "\udcff"):
        (Path(only(torn).directory).parent / name).write_text("mine")
    assert len(runs(torn)) == 1


def test_another_machines_run(torn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recover(Recovery(**given(CASE)), torn)
    monkeypatch.setattr(quarantine, "machine_id", lambda: "0123")
    found = only(torn)
    assert found.is_foreign
    assert found.machine == machine.machine_id()
    assert "another (" in kafkalog("runs", torn).out


def test_two_runs_are_in_order_and_the_first_waits_for_the_second(torn: Path) -> None:
    first = recover(Recovery(**given(CASE)), torn)[0].run_id
    log = torn / next(each.path for each in only(torn).originals if each.path.endswith(".log"))
    with log.open("ab") as file:
        file.write(b"torn")
    second = recover(Recovery(**given(CASE)), torn)[0].run_id
    found = runs(torn)
    assert [each.run_id for each in found] == [first, second]
    assert [each.undoable for each in found] == [False, True]
    assert str(second) in (found[0].why_not or "")


def test_a_run_before_a_backup_is_not_promised_after_the_next(torn: Path, tmp_path: Path) -> None:
    """Once the second run is undone, the first would be refused all the same: the backup knows nothing of it."""
    backup = copy_tree(torn, tmp_path / "backup")
    recover(Recovery(**given(CASE)), torn)
    for each in (*backup.rglob("*"),):
        os.utime(each, ns=(1, 1))
    shutil.rmtree(torn)
    backup.rename(torn)
    recover(Recovery(**given(CASE)), torn)
    why = runs(torn)[0].why_not or ""
    assert "undo that one first" not in why
    assert "as by a backup" in why or "does not name it" in why


def test_a_partition_means_its_log_directory(torn: Path) -> None:
    recover(Recovery(**given(CASE)), torn)
    partition = next(path for path in torn.iterdir() if path.is_dir())
    assert runs(partition) == runs(torn)


@pytest.mark.parametrize("what", ["missing", "a file", "another directory"])
def test_a_path_that_cannot_be_meant(what: str, tmp_path: Path) -> None:
    path = tmp_path / "path"
    if what == "a file":
        path.write_text("hello")
    elif what == "another directory":
        (path / "inside").mkdir(parents=True)
    with pytest.raises(UsageError):
        runs(path)
    assert kafkalog("runs", path).code == 64


def test_the_runs_of_a_directory_whose_volume_is_empty_by_now(torn: Path) -> None:
    recover(Recovery(**given(CASE)), torn)
    torn.rename(torn.with_name("gone"))
    torn.mkdir()
    found = only(torn)
    assert not found.undoable
