"""A run belongs to one directory: a copy of it, or a backup that was put in its place, neither spends nor blocks what
the run has kept, and what was cut short is completed only where it was begun, with the consent that it needs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kafkalog import RecoveryRefused, UsageError
from kafkalog.log.disk.pointer import POINTER
from kafkalog.recovery import Purge, Recovery, Undo, purge, recover, runs, undo
from kafkalog.recovery.act.history import RunState
from kafkalog.recovery.act.journal import JOURNAL
from testkit.judging.every_byte import Originals
from testkit.judging.trees import copy_tree, first_difference, stamps
from testkit.made.compactable import compactable, compacted
from testkit.recorded.fixture_data import recovery_case, recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.command import kafkalog
from testkit.running.elsewhere import PLACES, quarantine_at
from testkit.running.stopping import Stopped, cut_short, failing_at

CASE = recovery_cases(["torn_tail"])[0]
SETTINGS = ("--config", "segment.index.bytes=1536", "--config", "index.interval.bytes=256", "--at", "1700000100000")
LOSSY = recovery_case("bit_flip/length")


def half_done(root: Path, kept: Path | None, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> str:
    """Stop a recovery once it has made its first change; the run's name."""
    cut_short(lambda: recover(Recovery(quarantine=kept, **settings), root)[0], monkeypatch)
    (journal,) = (kept or root.with_name(root.name + ".recovery")).glob(f"*/{JOURNAL}")
    return journal.parent.name


def unchanged_by(work: Callable[[], object], *places: Path, reason: str) -> None:
    before = [stamps(each) for each in places]
    with pytest.raises(RecoveryRefused) as refused:
        work()
    assert refused.value.reason == reason, refused.value
    for each, held in zip(places, before, strict=True):
        assert first_difference(dict(stamps(each)), dict(held)) == ""


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_copy_does_not_spend_what_the_original_has_kept(
    is_finished: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = CASE.unpack_before(tmp_path / "logs")
    before, originals = stamps(root), Originals(root)
    kept = tmp_path / "kept"
    if is_finished:
        run_id = str(recover(Recovery(quarantine=kept, **given(CASE)), root)[0].run_id)
    else:
        run_id = half_done(root, kept, monkeypatch, **given(CASE))
    copy = copy_tree(root, tmp_path / "copy")
    for work in (
        lambda: undo(copy),
        lambda: undo(Undo(run_ids=[run_id], quarantine=kept), copy),
        lambda: undo(Undo(moved=True), copy),
        lambda: recover(Recovery(accept_loss=True, **given(CASE)), copy)[0],
    ):
        unchanged_by(work, copy, kept, root, reason="copy")
    unchanged_by(lambda: purge(Purge(run_ids=[run_id]), copy), copy, kept, reason="copy" if is_finished else "purge")
    assert "is a copy of" in kafkalog("undo", "--yes", copy).err
    assert ("--into" in kafkalog("recover", "--yes", copy).err) is is_finished
    into = kafkalog("recover", "--yes", "--into", tmp_path / "into", *SETTINGS, copy)
    if is_finished:
        assert into.code == 0, into
        assert not (tmp_path / "into" / POINTER).exists()
    else:
        assert (into.code, "half done" in into.err) == (3, True), into
        assert not (tmp_path / "into").exists()
    assert originals.missing(root, kept) == []
    undo(root)
    assert first_difference(dict(stamps(root)), dict(before)) == ""


def test_a_copy_of_what_is_half_done_beside_which_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = CASE.unpack_before(tmp_path / "logs")
    half_done(root, None, monkeypatch, **given(CASE))
    copy = copy_tree(root, tmp_path / "copy")
    unchanged_by(lambda: recover(Recovery(accept_loss=True, **given(CASE)), copy)[0], copy, root, reason="run_missing")
    unchanged_by(
        lambda: recover(Recovery(accept_loss=True, quarantine=tmp_path / "logs.recovery", **given(CASE)), copy)[0],
        copy, root, tmp_path / "logs.recovery", reason="copy",
    )  # fmt: skip
    (copy / POINTER).unlink()
    assert recover(Recovery(accept_loss=True, **given(CASE)), copy)[0].run_id is not None
    assert recover(Recovery(**given(CASE)), root)[0].completed


def test_a_directory_that_was_moved_keeps_its_runs_and_that_is_said(tmp_path: Path) -> None:
    root = CASE.unpack_before(tmp_path / "logs")
    before = stamps(root)
    run_id = recover(Recovery(quarantine=tmp_path / "kept", **given(CASE)), root)[0].run_id
    moved = root.rename(tmp_path / "elsewhere")
    finished = kafkalog("undo", "--yes", moved)
    assert (finished.code, f"run {run_id} found this directory at {root}" in finished.out) == (2, True)
    assert first_difference(dict(stamps(moved)), dict(before)) == ""


def test_where_the_original_cannot_be_seen_somebody_has_to_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = CASE.unpack_before(tmp_path / "logs")
    before = stamps(root)
    monkeypatch.setattr("kafkalog.recovery.act.runner.mount_of", lambda root: str(tmp_path / "volume"))
    recover(Recovery(quarantine=tmp_path / "kept", **given(CASE)), root)
    moved = root.rename(tmp_path / "elsewhere")
    unchanged_by(lambda: undo(moved), moved, tmp_path / "kept", reason="moved")
    assert "--moved" in kafkalog("undo", "--yes", moved).err
    assert kafkalog("undo", "--yes", "--moved", moved).code == 2
    assert first_difference(dict(stamps(moved)), dict(before)) == ""


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("place", PLACES)
def test_a_backup_in_the_place_of_a_directory_is_not_what_the_run_had_half_done(
    place: str, stride: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    """Stopped before every n-th change; then the backup from before is put at the old path, and the original aside."""
    backup = LOSSY.unpack_before(tmp_path / "backup")
    before, number, told = stamps(backup), 1 - stride, 0
    went_on = True
    while went_on:
        number += stride
        root = copy_tree(backup, tmp_path / "logs")
        originals = Originals(root)
        with quarantine_at(place, tmp_path) as kept:
            with failing_at(number, Stopped, monkeypatch) as count, suppress(Stopped):
                recover(Recovery(quarantine=kept, accept_loss=True, **given(LOSSY)), root)
            went_on = count[0] >= number
            where = kept or root.with_name("logs.recovery")
            began = [path.parent.name for path in where.glob(f"*/{JOURNAL}")]
            aside = root.rename(tmp_path / "aside")
            copy_tree(backup, root)
            with pytest.raises(RecoveryRefused) as refused:
                recover(Recovery(quarantine=kept, **given(LOSSY)), root)
            assert refused.value.reason == "loss"
            assert first_difference(dict(stamps(root)), dict(before)) == "", number
            result = recover(Recovery(mode="salvage", quarantine=kept, **given(LOSSY)), root)[0]
            assert result.completed == ()
            assert result.run_id is not None
            assert [any(run in note for note in result.notes) for run in began] == [True] * len(began)
            told += len(began)
            undo(Undo(run_ids=[result.run_id], quarantine=kept), root)
            assert first_difference(dict(stamps(root)), dict(before)) == "", number
            assert originals.missing(aside, where) == [], number
            shutil.rmtree(root)
            aside.rename(root)
            with suppress(RecoveryRefused):
                undo(Undo(quarantine=kept), root)
            assert first_difference(dict(stamps(root)), dict(before)) == "", number
        shutil.rmtree(root)
        shutil.rmtree(tmp_path / "logs.recovery", ignore_errors=True)
    assert told
    measured(f"runs cut short, quarantine {place}, that a backup put in their place was not taken for", told)


@pytest.mark.parametrize("stride", [29, pytest.param(1, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("place", PLACES)
def test_a_copy_made_at_any_moment_spends_nothing(
    place: str, stride: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    """Stopped before every n-th change, copied with all times, and the copy is undone, purged and recovered."""
    original = LOSSY.unpack_before(tmp_path / "original")
    before, number, declined = stamps(original), 1 - stride, 0
    went_on = True
    while went_on:
        number += stride
        root = copy_tree(original, tmp_path / "logs")
        with quarantine_at(place, tmp_path) as kept:
            with failing_at(number, Stopped, monkeypatch) as count, suppress(Stopped):
                recover(Recovery(quarantine=kept, accept_loss=True, **given(LOSSY)), root)
            went_on = count[0] >= number
            where = kept or root.with_name("logs.recovery")
            began = [path.parent.name for path in where.glob("*/*.json")]
            copy = copy_tree(root, tmp_path / "copy")
            held, saved = stamps(root), stamps(where)
            for quarantine in {kept, where, None}:
                for work in (
                    lambda to=quarantine: undo(Undo(quarantine=to), copy),  # noqa: B023
                    lambda to=quarantine: undo(Undo(quarantine=to, moved=True), copy),  # noqa: B023
                    lambda to=quarantine: purge(Purge(run_ids=began, quarantine=to), copy),  # noqa: B023
                    lambda to=quarantine: recover(Recovery(mode="salvage", quarantine=to, **given(LOSSY)), copy),  # noqa: B023
                ):
                    now = stamps(copy)
                    try:
                        work()
                    except (RecoveryRefused, UsageError):
                        declined += 1
                        assert first_difference(dict(stamps(copy)), dict(now)) == "", number
                    assert first_difference(dict(stamps(root)), dict(held)) == "", number
                    assert saved.items() - {(".", saved.get("."))} <= stamps(where).items(), number
            with suppress(RecoveryRefused):
                undo(Undo(quarantine=kept), root)
            assert first_difference(dict(stamps(root)), dict(before)) == "", number
        for each in ("logs", "copy", "logs.recovery", "copy.recovery"):
            shutil.rmtree(tmp_path / each, ignore_errors=True)
    measured(f"calls on a copy of a directory, quarantine {place}, that were declined and spent nothing", declined)


def test_a_quarantine_to_which_a_link_leads_belongs_to_one_directory_too(tmp_path: Path) -> None:
    """An operator put it on another disk; a copy of the directory and of the link leads to the same place."""
    root, place = LOSSY.unpack_before(tmp_path / "logs"), tmp_path / "big"
    before = stamps(root)
    place.mkdir()
    (tmp_path / "logs.recovery").symlink_to(place)
    run_id = recover(Recovery(accept_loss=True, **given(LOSSY)), root)[0].run_id
    assert run_id is not None
    copy = copy_tree(root, tmp_path / "copy")
    (tmp_path / "copy.recovery").symlink_to(place)
    for work in (
        lambda: undo(copy), lambda: undo(Undo(moved=True), copy),
        lambda: purge(Purge(run_ids=[run_id]), copy), lambda: recover(copy)[0],
    ):  # fmt: skip
        unchanged_by(work, copy, place, reason="copy")
    assert undo(root)[0].run_id == run_id
    assert first_difference(dict(stamps(root)), dict(before)) == ""


def test_what_was_cut_short_asks_again_for_the_consent_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = LOSSY.unpack_before(tmp_path / "logs")
    run_id = half_done(root, None, monkeypatch, accept_loss=True, **given(LOSSY))
    place = tmp_path / "logs.recovery"
    for mode in ("salvage", "safe", "kafka"):
        unchanged_by(lambda: recover(Recovery(mode=mode, **given(LOSSY)), root)[0], root, place, reason="loss")  # noqa: B023
    assert run_id in kafkalog("recover", "--yes", "--mode", "salvage", root).err
    told = kafkalog("plan", root)
    assert told.code == 1
    assert "first end the run that was cut short" in told.out
    assert f"kafkalog recover {root} -" not in told.out, "a command of a way would complete that run instead"
    result = kafkalog("recover", "--yes", "--accept-loss", root)
    assert (result.code, f"run {run_id}, which had been cut short, was completed" in result.out) == (2, True)
    (info,) = runs(root)
    assert (info.state, info.undoable) == (RunState.FINISHED, True)


def test_only_recover_completes_what_was_cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = compactable(tmp_path / "logs")
    number = 0
    while not list(tmp_path.glob(f"logs.recovery/*/{JOURNAL}")):
        number += 1
        with failing_at(number, Stopped, monkeypatch), suppress(Stopped):
            compacted(root)
    unchanged_by(lambda: compacted(root), root, tmp_path / "logs.recovery", reason="unfinished")
    assert recover(root)[0].completed
    compacted(root)


def test_a_run_that_the_directory_names_is_found_before_its_journal_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in between, with a quarantine elsewhere: nothing that begins later can be completed out of order."""
    root = CASE.unpack_before(tmp_path / "logs")
    kept = tmp_path / "kept"
    number = 0
    while not list(kept.glob(f"*/{JOURNAL}")):
        number += 1
        with failing_at(number, Stopped, monkeypatch), pytest.raises(Stopped):
            recover(Recovery(quarantine=kept, **given(CASE)), root)
        named = (root / POINTER).exists()
        assert named or not list(kept.glob(f"*/{JOURNAL}"))
    (journal,) = kept.glob(f"*/{JOURNAL}")
    assert journal.parent.name in (root / POINTER).read_text()
    assert recover(Recovery(**given(CASE)), root)[0].completed == (journal.parent.name,)
    assert os.listdir(tmp_path / "logs.recovery") if (tmp_path / "logs.recovery").exists() else True
