"""Undo compares everything that it relies on before it changes anything; where something does not fit, nothing changes.

The class: any one thing that is otherwise than the run left it (in the log directory, in the quarantine, in the order
of runs) makes `undo` decline, and then every byte and every time is as it was, in both places.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from kafkalog import KafkaLogError, RecoveryRefused, UsageError
from kafkalog.recovery import Recovery, Undo, recover, undo
from kafkalog.recovery.act import quarantine
from kafkalog.recovery.act.journal import MANIFEST, UNDONE, Journal
from testkit.judging.trees import contents, copy_tree, first_difference, stamps
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import RecoveryCase, recovery_cases, recovery_families
from testkit.recorded.recovery_settings import given

CASES = [
    next(case for case in recovery_cases([family]) if case.outcome == "loaded" and case.case["result"]["changed"])
    for family in ("torn_tail", "bit_flip", "overflow", "segment_set", "swap_files", "log_dir")
]


def refused(root: Path, run_id: str | None = None) -> str:
    """Why undo declines; nothing was changed, in the directory or in the quarantine."""
    parent = root.parent
    before = stamps(parent)
    with pytest.raises(RecoveryRefused) as caught:
        undo(Undo(run_ids=() if run_id is None else [run_id]), root)
    assert first_difference(dict(stamps(parent)), dict(before)) == ""
    assert not (root / ".lock").exists()
    return str(caught.value)


def flipped(path: Path, position: int) -> None:
    """Another byte, and the file's time as before: only the content tells."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"appended")


def made(path: Path) -> None:
    path.mkdir()


def gone(path: Path) -> None:
    path.unlink()


def new(path: Path) -> None:
    path.touch()


def changes(root: Path) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Everything one can do to what a run touched or saved, one thing each; paths are relative to the parent."""
    kept = root.with_name(root.name + ".recovery")
    (run,) = kept.iterdir()
    journal = Journal.decode((run / MANIFEST).read_bytes(), "manifest")
    renamed = {step.path: step.target for step in journal.steps if step.kind == "rename_directory"}
    for step in journal.steps:
        if step.kind in ("remove", "rename", "remove_directory", "rename_directory"):
            yield f"{root.name}/{step.path}", made
        if step.kind == "rename_directory":
            continue
        directory, _, name = (step.target or step.path).partition("/")
        path = "/".join([renamed.get(directory) or directory, name]) if name else directory
        if not (root / path).is_file():
            continue
        size = (root / path).stat().st_size
        for position in {0, size // 2, size - 1} if size else ():
            yield f"{root.name}/{path}", partial(flipped, position=position)
        yield f"{root.name}/{path}", longer
        yield f"{root.name}/{path}", gone
    touched = {step.path.partition("/")[0] for step in journal.steps if "/" in step.path}
    for folder in sorted({each.parent.name for each in root.glob("*/*")}):
        if {folder, *(old for old, target in renamed.items() if target == folder)} & touched:
            yield f"{root.name}/{folder}/00000000000000099999.log", new
    for each in sorted(kept.rglob("*")):
        if each.is_file() and each.name != MANIFEST:
            inside = str(each.relative_to(root.parent))
            yield inside, gone
            if each.stat().st_size:
                yield inside, partial(flipped, position=0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id.replace("/", ":"))
def test_one_thing_changed_and_undo_changes_nothing(
    case: RecoveryCase, tmp_path: Path, measured: Callable[[str, int], None]
) -> None:
    root = case.unpack_before(tmp_path / "first" / "logs")
    recover(Recovery(accept_loss=True, **given(case)), root)
    count = 0
    for path, change in list(changes(root)):
        again = copy_tree(root.parent, tmp_path / "again") / "logs"
        try:
            change(again.parent / path)
        except FileExistsError:
            shutil.rmtree(again.parent)
            continue
        assert "nothing was changed" in refused(again), (path, change)
        shutil.rmtree(again.parent)
        count += 1
    assert count > 3
    measured("undos declined because of one change since, every byte and time left", count)


def test_all_kinds_of_damage_are_undone(tmp_path: Path) -> None:
    """The counterpart: where nothing was changed, nothing is declined."""
    for number, family in enumerate(recovery_families()):
        for case in [each for each in recovery_cases([family]) if each.outcome == "loaded"][:2]:
            root = case.unpack_before(tmp_path / f"{number}" / "logs")
            before = stamps(root)
            if recover(Recovery(mode="kafka", accept_loss=True, **given(case)), root)[0].changed:
                undo(root)
            assert first_difference(dict(stamps(root)), dict(before)) == "", case.id
            shutil.rmtree(root.parent)


@pytest.fixture
def twice(tmp_path: Path) -> tuple[Path, list[str], list[dict[str, tuple[int, int, str]]]]:
    """A directory that was recovered, damaged again and recovered again: run ids, and how it looked before each."""
    root = recovery_cases(["torn_tail"])[0].unpack_before(tmp_path / "logs")
    runs, looked = [], []
    for _ in range(2):
        looked.append(stamps(root))
        log = max(path for path in root.glob("t-0/*.log") if path.stat().st_size)
        result = recover(Recovery(accept_loss=True, **given(recovery_cases(["torn_tail"])[0])), root)[0]
        assert result.run_id is not None
        runs.append(result.run_id)
        if len(runs) == 1:
            with log.open("ab") as file:
                file.write(b"\x01" * 7)
    return root, runs, looked


def test_an_older_run_under_a_newer_one(twice: tuple[Path, list[str], list[dict[str, tuple[int, int, str]]]]) -> None:
    root, (older, newer), looked = twice
    why = refused(root, older)
    assert newer in why
    assert undo(root)[0].run_id == newer
    assert stamps(root) == looked[1]


def test_the_latest_run_is_the_last_that_was_made_not_the_last_by_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = recovery_cases(["torn_tail"])[0]
    root = case.unpack_before(tmp_path / "logs")
    names = iter(["20300101T000000.000000Z-00000001", "20200101T000000.000000Z-00000002"])
    monkeypatch.setattr("kafkalog.recovery.act.runner.new_run_id", lambda: next(names))
    first = stamps(root)
    recover(Recovery(accept_loss=True, **given(case)), root)
    log = max(path for path in root.glob("t-0/*.log") if path.stat().st_size)
    with log.open("ab") as file:
        file.write(b"\x01" * 7)
    second = stamps(root)
    recover(Recovery(accept_loss=True, **given(case)), root)
    assert undo(root)[0].run_id == "20200101T000000.000000Z-00000002"
    assert stamps(root) == second
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 7)
    undo(root)
    assert first_difference(dict(stamps(root)), dict(first)) == ""


def test_a_directory_that_moved_with_its_quarantine(tmp_path: Path) -> None:
    case = recovery_cases(["segment_set"])[0]
    root = case.unpack_before(tmp_path / "logs")
    before = stamps(root)
    result = recover(Recovery(accept_loss=True, **given(case)), root)[0]
    moved = root.rename(tmp_path / "moved")
    root.with_name("logs.recovery").rename(tmp_path / "moved.recovery")
    assert undo(moved)[0].run_id == result.run_id
    assert stamps(moved) == before
    assert (tmp_path / "moved.recovery" / str(result.run_id) / UNDONE).exists()


def test_a_directory_that_moved_away_from_a_quarantine_elsewhere(tmp_path: Path) -> None:
    case = recovery_cases(["segment_set"])[0]
    root = case.unpack_before(tmp_path / "logs")
    before = stamps(root)
    recover(Recovery(quarantine=tmp_path / "kept", accept_loss=True, **given(case)), root)
    moved = root.rename(tmp_path / "moved")
    undo(moved)
    assert stamps(moved) == before


def test_runs_of_two_directories_in_one_quarantine_are_told_apart(tmp_path: Path) -> None:
    case = recovery_cases(["segment_set"])[0]
    roots = [case.unpack_before(tmp_path / name) for name in ("one", "two")]
    before = [stamps(root) for root in roots]
    runs = [
        recover(Recovery(quarantine=tmp_path / "kept", accept_loss=True, **given(case)), root)[0].run_id
        for root in roots
    ]
    assert [run.run_id for run in quarantine.Runs(str(roots[0])).all()] == runs[:1]
    for root, looked in zip(roots, before, strict=True):
        undo(root)
        assert stamps(root) == looked


@pytest.mark.parametrize("more", ["nope", "the same"])
def test_a_run_that_cannot_be_undone_keeps_the_others_from_it(more: str, tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/torn")[0], tmp_path / "data")
    run_id = recover(Recovery(accept_loss=True), root)[0].run_id or ""
    before = stamps(root)
    with pytest.raises(KafkaLogError, match=f"no run {more}" if more == "nope" else "named twice"):
        undo(Undo(run_ids=[run_id, more if more == "nope" else run_id]), root)
    assert stamps(root) == before


def test_a_partition_that_was_set_aside_is_named_by_its_former_path(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/torn")[0], tmp_path / "data")
    before = contents(root)
    partition = root / "quotes-20-1"
    recover(Recovery(mode="set-aside", accept_loss=True), partition)
    assert not partition.exists()
    (result,) = undo(partition)
    assert contents(root) == before
    assert result.root == str(root)
    (tmp_path / "file").touch()
    for missing in ("t-0", "nothing/t-0", "file/t-0"):
        with pytest.raises(UsageError, match="does not exist"):
            undo(tmp_path / missing)
