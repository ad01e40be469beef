"""A disk that is read-only or nearly full is met before anything is changed, by root too; what is let through fits."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalog import RecoveryRefused, StorageError
from kafkalog.recovery import Recovery, recover
from kafkalog.recovery.act import permissions, runner, space
from kafkalog.recovery.act.descriptors import Attributes
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.journal import FileState, Step
from kafkalog.recovery.act.preparing import prepare
from kafkalog.recovery.decide.actions import ActionKind
from testkit.judging.trees import first_difference, stamps
from testkit.recorded.fixture_data import RecoveryCase, recovery_case, recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.elsewhere import PLACES, quarantine_at

CASE = recovery_case("bit_flip/length")
BLOCK = 4096


def test_a_read_only_file_system_is_named_for_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cannot set the time of the file` hid it, of the directory of which nothing had changed."""
    root = CASE.unpack_before(tmp_path / "logs")
    before = stamps(root)

    def read_only(self: FileSystem, path: str, *_: Any) -> None:
        raise StorageError(errno.EROFS, "cannot open the file: Read-only file system", os.path.join(self.root, path))

    monkeypatch.setattr(FileSystem, "open_or_create", read_only)
    monkeypatch.setattr(FileSystem, "set_mtime", read_only)
    with pytest.raises(StorageError) as refused:
        recover(Recovery(accept_loss=True, **given(CASE)), root)
    assert refused.value.filename == str(root / ".lock")
    assert first_difference(dict(stamps(root)), dict(before)) == ""


def without_writing_in(name: str, monkeypatch: pytest.MonkeyPatch, **also: Callable[..., Any]) -> None:
    """Where permissions are asked, no change is permitted in a directory of this name; `also` is what else is said."""
    access = os.access

    def denied(path: str, how: int, **more: Any) -> bool:
        return not (str(path).endswith(name) and how & os.W_OK) and access(path, how, **more)

    monkeypatch.setattr(permissions, "os", SimpleNamespace(**{**vars(os), "access": denied, **also}))


@pytest.mark.parametrize("user", [0, 1000])
def test_a_partition_that_may_not_be_changed_is_met_before_the_run_begins(
    user: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where one partition is mounted read-only: of root nothing was asked, and the run was left half done."""
    root = CASE.unpack_before(tmp_path / "logs")
    before = stamps(root)
    without_writing_in("t-0", monkeypatch, geteuid=lambda: user, lstat=lambda path: SimpleNamespace(st_uid=user))
    with pytest.raises(RecoveryRefused, match=rf"t-0 may not be changed by this user \(number {user}\): ") as refused:
        recover(Recovery(accept_loss=True, **given(CASE)), root)
    assert refused.value.reason == "permission"
    assert ("it is immutable (`lsattr` shows that), its file system is read-only" in str(refused.value)) is (user == 0)
    assert first_difference(dict(stamps(root)), dict(before)) == ""
    assert sorted(each.name for each in tmp_path.iterdir()) == ["logs"]


def test_a_file_that_is_immutable_is_met_before_the_run_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its mode permits everything, and its directory too: renaming it was denied in the middle of the run."""
    root = CASE.unpack_before(tmp_path / "logs")
    before = stamps(root)
    without_writing_in("recovery-point-offset-checkpoint", monkeypatch)
    with pytest.raises(RecoveryRefused, match=r"checkpoint may not be changed by .*: it is immutable") as refused:
        recover(Recovery(accept_loss=True, **given(CASE)), root)
    assert refused.value.reason == "permission"
    assert first_difference(dict(stamps(root)), dict(before)) == ""


def test_a_directory_that_may_not_be_moved_is_met_before_the_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moving a directory to another parent writes in it: the rename was denied, and the run was left unfinished."""
    root = CASE.unpack_before(tmp_path / "logs")
    before = stamps(root)
    without_writing_in("t-0", monkeypatch)
    with pytest.raises(RecoveryRefused, match="t-0 may not be moved by this user") as refused:
        recover(Recovery(mode="set-aside", accept_loss=True, **given(CASE)), root / "t-0")
    assert refused.value.reason == "permission"
    assert first_difference(dict(stamps(root)), dict(before)) == ""
    assert sorted(each.name for each in tmp_path.iterdir()) == ["logs"]


def blocks(place: Path) -> int:
    """What the files and directories below a place take, in bytes of whole blocks; a hole takes none."""
    taken = 0
    for each in place.rglob("*"):
        facts = each.lstat()
        size = min(facts.st_size, facts.st_blocks * 512) if each.is_file() else 1
        taken += -(-size // BLOCK) * BLOCK
    return taken


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("each", [40, pytest.param(1, marks=pytest.mark.sweep)])
def test_what_is_let_through_fits(
    each: int, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    """A file takes whole blocks, and a run has a journal and directories of its own: of 16 KiB 3275 bytes were needed,
    and after seven files there was no room.
    """
    cases: list[RecoveryCase] = [case for case in recovery_cases() if case.outcome == "loaded"][::each]
    asked: dict[str, int] = {}
    taken: dict[str, int] = {}
    real = space.refuse_if_full

    def noted(path: str, sizes: Any, what: str) -> None:
        sizes = list(sizes)
        asked[what] = sum(-(-size // BLOCK) * BLOCK for size in sizes)
        real(path, sizes, what)

    def prepared(*arguments: Any) -> Any:
        journal = prepare(*arguments)
        taken["all"] = blocks(where)
        return journal

    monkeypatch.setattr(space, "refuse_if_full", noted)
    monkeypatch.setattr(runner, "prepare", prepared)
    runs = 0
    for case in cases:
        asked.clear()
        root = case.unpack_before(tmp_path / case.id.replace("/", "-"))
        with quarantine_at(place, tmp_path) as kept:
            where = kept or root.with_name(root.name + ".recovery")
            if recover(Recovery(accept_loss=True, quarantine=kept, **given(case)), root)[0].run_id is None:
                continue
            runs += 1
            assert taken["all"] <= asked["what is removed or replaced, and for new files"], case.id
            assert taken["all"] > 0
    assert runs > 3
    measured(f"runs with a quarantine {place} that took no more room than was asked for", runs)


@pytest.mark.parametrize("place", PLACES)
def test_without_room_nothing_is_changed(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = CASE.unpack_before(tmp_path / "logs")
    before = stamps(root)
    with quarantine_at(place, tmp_path) as kept:
        full = SimpleNamespace(f_bavail=4, f_frsize=BLOCK)
        monkeypatch.setattr(os, "statvfs", lambda path: full)
        with pytest.raises(RecoveryRefused) as refused:
            recover(Recovery(accept_loss=True, quarantine=kept, **given(CASE)), root)
        assert refused.value.reason == "space"
        assert first_difference(dict(stamps(root)), dict(before)) == ""
        assert not (kept or tmp_path / "logs.recovery").exists()


def test_a_disk_that_fills_up_while_it_is_prepared_keeps_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty directory stayed."""
    root = CASE.unpack_before(tmp_path / "logs")
    before = stamps(root)
    save = FileSystem.save

    def full(self: FileSystem, path: str, *more: Any) -> Any:
        if path.endswith("staged/7"):
            raise StorageError(errno.ENOSPC, "No space left on device", path)
        return save(self, path, *more)

    monkeypatch.setattr(FileSystem, "save", full)
    with pytest.raises(StorageError, match="No space left"):
        recover(Recovery(accept_loss=True, **given(CASE)), root)
    assert first_difference(dict(stamps(root)), dict(before)) == ""
    assert sorted(each.name for each in tmp_path.iterdir()) == ["logs"]


def test_undo_by_another_user_is_refused_for_a_file_inside_a_removed_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only root can give it back; its directory belongs to the user."""

    def state(uid: int) -> FileState:
        return FileState(0, "0", Attributes(mtime_ns=0, mode=0o600, uid=uid, gid=0))

    inside = {"a.log": ("file", state(1000)), "b.log": ("file", state(4711))}
    step = Step(kind=ActionKind.REMOVE_DIRECTORY, path="t-0", before=state(1000), entries=inside)
    run: Any = SimpleNamespace(run_id="r", journal=SimpleNamespace(same_mount=False, steps=[step]))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(RecoveryRefused, match=r"t-0/b\.log belonged to user 4711"):
        runner.refuse_others_files(run)
    renamed = Step(kind=ActionKind.RENAME, path="t-0/b.log", target="t-0/c.log", before=state(4711))
    of_renamed: Any = SimpleNamespace(journal=SimpleNamespace(same_mount=False, steps=[renamed]))
    runner.refuse_others_files(of_renamed)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    runner.refuse_others_files(run)
