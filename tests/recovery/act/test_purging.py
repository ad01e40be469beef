"""A purge removes what a run keeps and nothing else, wherever it is stopped; what is left is never taken for a run."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from kafkalog import Purge, RecoveryRefused, StorageError, UsageError, purge, runs
from kafkalog.log.disk.pointer import POINTER
from kafkalog.recovery import Recovery, Undo, recover, undo
from kafkalog.recovery.act.journal import JOURNAL, MANIFEST, SUPERSEDED, UNDOING
from kafkalog.types import RunState
from testkit.judging.trees import first_difference, stamps
from testkit.recorded.fixture_data import recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.command import kafkalog
from testkit.running.elsewhere import PLACES, quarantine_at
from testkit.running.lock_holder import held
from testkit.running.stopping import Stopped, failing_at

CASE = recovery_cases(["torn_tail"])[0]


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    return CASE.unpack_before(tmp_path / "logs")


def recovered(root: Path, kept: Path | None = None) -> str:
    run_id = recover(Recovery(quarantine=kept, **given(CASE)), root)[0].run_id
    assert run_id is not None
    return run_id


def spoil(root: Path) -> None:
    """Tear the log again, so that there is something to recover."""
    log = max(root.rglob("*.log"))
    with log.open("ab") as file:
        file.write(b"torn")


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_left_of_a_purged_run(place: str, torn: Path, tmp_path: Path) -> None:
    with quarantine_at(place, tmp_path) as kept:
        run_id = recovered(torn, kept)
        before = stamps(torn)
        (known,) = runs(torn)
        assert (torn / POINTER).exists() is (kept is not None)
        result = purge(Purge(run_ids=[run_id]), torn)[0]
        assert [each.run_id for each in result.purged] == [run_id]
        assert result.freed_bytes == known.allocated_bytes
        assert not Path(known.directory).parent.exists()
        assert runs(torn) == ()
        after = dict(before)
        after.pop(POINTER, None)
        assert first_difference(dict(stamps(torn)), after) == ""
        with pytest.raises(RecoveryRefused, match="no run"):
            undo(Undo(run_ids=[run_id], quarantine=kept), torn)


def test_one_of_two_runs(torn: Path, tmp_path: Path) -> None:
    with quarantine_at(PLACES[1], tmp_path) as kept:
        first = recovered(torn, kept)
        spoil(torn)
        torn_again = stamps(torn)
        second = recovered(torn)
        purge(Purge(run_ids=[first]), torn)
        assert [each.run_id for each in runs(torn)] == [second]
        assert (torn / POINTER).exists()
        undo(torn)
        left = {**torn_again}
        left.pop(POINTER)
        assert first_difference(dict(stamps(torn)), left) == ""


def test_a_purge_that_is_stopped_anywhere_is_known_and_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in PLACES:
        number = 0
        words: set[RunState] = set()
        while True:
            number += 1
            root = CASE.unpack_before(tmp_path / place / str(number) / "logs")
            with quarantine_at(place, tmp_path / place / str(number)) as kept:
                run_id = recovered(root, kept)
                before = stamps(root)
                with failing_at(number, Stopped, monkeypatch) as count, suppress(Stopped):
                    purge(Purge(run_ids=[run_id], quarantine=kept), root)
                if count[0] < number:
                    break
                (root / ".lock").unlink(missing_ok=True)
                found = runs(root, quarantine=kept)
                words.update(each.state for each in found)
                if [each.state for each in found] == [RunState.FINISHED]:
                    assert found[0].undoable  # nothing was removed yet
                else:
                    with pytest.raises(RecoveryRefused):
                        undo(Undo(quarantine=kept), root)
                    assert not recover(Recovery(quarantine=kept, **given(CASE)), root)[0].changed
                for name in set(before) - {POINTER, "."}:
                    assert stamps(root)[name] == before[name]
                purge(Purge(run_ids=[each.run_id for each in found], quarantine=kept), root)
                assert runs(root, quarantine=kept) == ()
        assert number >= 10
        assert words == {RunState.FINISHED, RunState.HALF_PURGED, RunState.NOT_BEGUN}


@pytest.mark.parametrize("name", [JOURNAL, UNDOING])
def test_a_run_that_was_cut_short_stays(name: str, torn: Path) -> None:
    run_id = recovered(torn)
    (known,) = runs(torn)
    (Path(known.directory) / MANIFEST).rename(Path(known.directory) / name)
    before = stamps(torn.parent)
    with pytest.raises(RecoveryRefused, match="cut short"):
        purge(Purge(run_ids=[run_id]), torn)
    result = purge(Purge(older_than_days=0), torn)[0]
    assert (result.purged, list(result.left)) == ((), [run_id])
    finished = kafkalog("runs", "--purge", run_id, "--yes", torn)
    assert (finished.code, finished.err.count("\n")) == (3, 1)
    assert kafkalog("runs", "--purge-older-than", "0", "--yes", torn).code == 0
    assert first_difference(dict(stamps(torn.parent)), dict(before)) == ""


def test_a_run_that_was_put_aside_may_go(torn: Path) -> None:
    run_id = recovered(torn)
    (known,) = runs(torn)
    (Path(known.directory) / MANIFEST).rename(Path(known.directory) / SUPERSEDED)
    assert [each.run_id for each in purge(Purge(run_ids=[run_id]), torn)[0].purged] == [run_id]


def test_age_decides(torn: Path) -> None:
    run_id = recovered(torn)
    assert purge(Purge(older_than_days=1), torn)[0].purged == ()
    directory = Path(runs(torn)[0].directory)
    assert [each.run_id for each in purge(Purge(older_than_days=0), torn)[0].purged] == [run_id]
    assert not directory.exists()
    with pytest.raises(UsageError):
        purge(Purge(older_than_days=-1), torn)


def test_a_run_that_is_not_there(torn: Path) -> None:
    run_id = recovered(torn)
    before = stamps(torn.parent)
    with pytest.raises(RecoveryRefused, match="no run"):
        purge(Purge(run_ids=[run_id, "../../logs"]), torn)
    assert first_difference(dict(stamps(torn.parent)), dict(before)) == ""


def test_a_lock_that_is_held(torn: Path) -> None:
    run_id = recovered(torn)
    with held(torn / ".lock"), pytest.raises(RecoveryRefused, match="locked"):
        purge(Purge(run_ids=[run_id]), torn)
    assert [each.run_id for each in runs(torn)] == [run_id]


@pytest.mark.parametrize("what", ["file", "link", "fifo", "files is a link", "document is a link", "run is a link"])
def test_what_is_not_the_runs_own_keeps_it(what: str, torn: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "mine").write_text("mine")
    run_id = recovered(torn)
    directory = Path(runs(torn)[0].directory)
    if what == "file":
        (directory / "notes.txt").write_text("mine")
    elif what == "link":
        (directory / "notes").symlink_to(precious)
    elif what == "fifo":
        os.mkfifo(directory / "pipe")
    elif what == "files is a link":
        (directory / "files").rename(directory.parent / "files")
        (directory / "files").symlink_to(precious)
    elif what == "document is a link":
        (directory / SUPERSEDED).symlink_to(precious / "mine")
    else:
        directory.rename(directory.parent / "moved")
        directory.symlink_to(precious)
    before = stamps(tmp_path)
    with pytest.raises(RecoveryRefused):
        purge(Purge(run_ids=[run_id]), torn)
    assert kafkalog("runs", "--purge", run_id, "--yes", torn).code == 3
    assert first_difference(dict(stamps(tmp_path)), dict(before)) == ""


def test_links_and_special_files_among_what_it_kept_are_removed_and_not_followed(torn: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    (precious / "deep").mkdir(parents=True)
    (precious / "deep" / "mine").write_text("mine")
    run_id = recovered(torn)
    directory = Path(runs(torn)[0].directory)
    inside = directory / "files" / "t-9"
    inside.mkdir()
    (inside / "\udcff\n").write_text("a name that is no text")
    (inside / "link").symlink_to(precious)
    (inside / "dangling").symlink_to("/no/such/place")
    os.mkfifo(inside / "pipe")
    os.link(precious / "deep" / "mine", inside / "second name")
    before = stamps(precious)
    purge(Purge(run_ids=[run_id]), torn)
    assert not directory.exists()
    assert first_difference(dict(stamps(precious)), dict(before)) == ""


def test_deeper_than_anything_of_kafkas(torn: Path) -> None:
    run_id = recovered(torn)
    deep = Path(runs(torn)[0].directory) / "files"
    for _ in range(200):
        deep = deep / "d"
    deep.mkdir(parents=True)
    with pytest.raises(RecoveryRefused, match="deep"):
        purge(Purge(run_ids=[run_id]), torn)
    assert len(runs(torn)) == 1


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("document", [MANIFEST, JOURNAL])
def test_a_run_that_cannot_be_read(document: str, where: str, torn: Path, tmp_path: Path) -> None:
    """What is known to be this directory's, and has ended, may go; what may be needed or another's stays."""
    with quarantine_at(where, tmp_path) as kept:
        run_id = recovered(torn, kept)
        directory = Path(runs(torn)[0].directory)
        (directory / MANIFEST).unlink()
        (directory / document).write_text("{}")
        if document == MANIFEST and kept is None:
            assert len(purge(Purge(run_ids=[run_id]), torn)[0].purged) == 1
            assert not directory.exists()
            return
        with pytest.raises(RecoveryRefused, match="yourself"):
            purge(Purge(run_ids=[run_id]), torn)
        assert (directory / document).exists()


def test_another_directorys_runs_in_the_same_quarantine_stay(tmp_path: Path) -> None:
    roots = [CASE.unpack_before(tmp_path / name) for name in ("a", "b")]
    ids = [recovered(root, tmp_path / "kept") for root in roots]
    with pytest.raises(RecoveryRefused, match="no run"):
        purge(Purge(run_ids=[ids[1]]), roots[0])
    assert [each.run_id for each in purge(Purge(older_than_days=0), roots[0])[0].purged] == [ids[0]]
    assert [each.run_id for each in runs(roots[1])] == [ids[1]]
    undo(roots[1])


def test_the_pointer_stays_while_a_run_needs_it(torn: Path, tmp_path: Path) -> None:
    first = recovered(torn, tmp_path / "kept")
    spoil(torn)
    second = recovered(torn)
    (tmp_path / "kept" / second / MANIFEST).rename(tmp_path / "kept" / second / SUPERSEDED)
    purge(Purge(run_ids=[first]), torn)
    assert (torn / POINTER).exists()
    assert [each.run_id for each in runs(torn)] == [second]
    purge(Purge(run_ids=[second]), torn)
    assert not (torn / POINTER).exists()
    assert not (tmp_path / "kept").exists()


def test_consent(torn: Path) -> None:
    run_id = recovered(torn)
    before = stamps(torn.parent)
    finished = kafkalog("runs", "--purge", run_id, torn)
    assert finished.code == 3
    assert "--yes" in finished.err
    assert finished.err.count("\n") == 1
    assert "can then never be undone" in finished.out
    for each in runs(torn)[0].originals:
        assert each.path in finished.out
    assert first_difference(dict(stamps(torn.parent)), dict(before)) == ""
    finished = kafkalog("runs", "--purge", run_id, "--yes", "--json", torn)
    assert finished.code == 2
    (told,) = finished.objects
    assert (told["purged"], told["changed"], told["left"]) == ([run_id], True, {})
    assert kafkalog("runs", "--purge-older-than", "0", "--yes", torn).code == 0


def test_what_cannot_be_removed_is_an_error_of_the_system(torn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = recovered(torn)
    with failing_at(6, lambda: StorageError(5, "Input/output error", "x"), monkeypatch):
        assert kafkalog("runs", "--purge", run_id, "--yes", torn).code == 4
    purge(Purge(run_ids=[run_id]), torn)
    assert runs(torn) == ()


def test_runs_of_several_directories_are_purged_by_one_call(tmp_path: Path) -> None:
    """Each id where it is kept; if one of them cannot be removed, none is."""
    roots = [CASE.unpack_before(tmp_path / name) for name in ("one", "two")]
    ids = [recovered(root) for root in roots]
    before = stamps(tmp_path)
    with pytest.raises(RecoveryRefused) as refused:
        purge(Purge(run_ids=[*ids, "20200101T000000.000000Z-00000002"]), *roots)
    assert (refused.value.reason, stamps(tmp_path)) == ("no_run", before)
    results = purge(Purge(run_ids=ids), *roots)
    assert [(done.root, [run.run_id for run in done.purged]) for done in results] == [
        (str(root), [run_id]) for root, run_id in zip(roots, ids, strict=True)
    ]
    assert [runs(root) for root in roots] == [(), ()]
