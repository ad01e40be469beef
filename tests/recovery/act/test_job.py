"""Every job keeps the same promises in every accident: a refusal changes nothing, and what was begun can be undone."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from kafkalog import (
    IndexRebuild,
    KafkaLogError,
    Purge,
    RecoveryRefused,
    RemoteLogs,
    StorageError,
    Undo,
    UsageError,
    open_tier,
    purge,
    rebuild_indexes,
    recover,
    runs,
    undo,
)
from kafkalog.jobs.compact.request import Compaction
from kafkalog.jobs.compact.run import compact, plan_compaction
from kafkalog.jobs.quorum.request import QuorumRecovery, QuorumWay
from kafkalog.jobs.quorum.run import plan_quorum, recover_quorum
from kafkalog.jobs.undelete.request import Undelete
from kafkalog.jobs.undelete.undeletion import plan_undelete, undelete
from kafkalog.recovery import Recovery, plan
from kafkalog.recovery.act import permissions, preparing, quarantine, runner
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.unfinished_business import standing
from testkit.judging.trees import copy_tree, first_difference, stamps
from testkit.made.compactable import CONFIG, T0, compactable
from testkit.recorded.fixture_data import unpack_tiered
from testkit.recorded.quorums import copied, lean, tear
from testkit.running.lock_holder import held
from testkit.running.stopping import CHANGING, Failure, cut_short, failing_at, take_back_all

AT = T0 + 5
DELETED = ".0123456789abcdef0123456789abcdef-delete"

Roots = Sequence[Path]


@dataclass(frozen=True)
class JobCase:
    """A job on log directories that give it something to do."""

    make: Callable[[Path, int], Path]
    """makes log directory number 1 or 2 in a folder"""
    work: Callable[[Roots, Any], object]
    """does the job; the second argument is a plan from `agree`, or None"""
    agree: Callable[[Roots], Any] | None = None
    """makes a plan that `work` takes"""
    agree_to_other: Callable[[Roots], Any] | None = None
    """makes a plan for another request, which `work` does not take"""
    begins_run: bool = True
    """what it does is a run of its own"""
    waits_for_others: bool = True
    """refuses where another job was cut short"""
    several: bool = True
    """takes more than one log directory"""

    def roots(self, folder: Path) -> list[Path]:
        return [self.make(folder, number) for number in ((1, 2) if self.several else (1,))]


def _damaged(folder: Path, number: int) -> Path:
    root = compactable(folder / f"logs-{number}", f"t-{number}")
    return _crashed(root)


def _crashed(root: Path) -> Path:
    """Damage the end of the last log, of which nothing says that it was written out."""
    log = max(root.glob("t-*/*.log"))
    data = bytearray(log.read_bytes())
    data[-3] ^= 1
    log.write_bytes(data)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (root / name).unlink(missing_ok=True)
    return root


def _with_copy(folder: Path, number: int) -> Path:
    root = _compactable(folder, number)
    copy_tree(root, folder / "copy" / f"{number}")
    return _crashed(root)


def _without_index(folder: Path, number: int) -> Path:
    root = compactable(folder / f"logs-{number}", f"t-{number}")
    for index in (root / f"t-{number}").glob("*.index"):
        index.unlink()
    return root


def _compactable(folder: Path, number: int) -> Path:
    return compactable(folder / f"logs-{number}", f"t-{number}")


def _deleted(folder: Path, number: int) -> Path:
    root = compactable(folder / f"logs-{number}", f"t-{number}")
    (root / f"t-{number}").rename(root / f"t-{number}{DELETED}")
    return root


def _tiered(folder: Path, number: int) -> Path:
    """A broker that has lost a tiered log, of which the tier beside it has a part; number 2 is of another one."""
    if number == 2:
        return _damaged(folder, number)
    root = unpack_tiered("stopped", folder)
    shutil.rmtree(root / "tiered-1")
    return root


def _controller(folder: Path, number: int) -> Path:
    root = lean(copied("dynamic", folder, number)[number])
    tear(root)
    return root


def _recovered(folder: Path, number: int) -> Path:
    root = _damaged(folder, number)
    recover(Recovery(accept_loss=True, at=AT, full=True), root)
    return root


def _merge(roots: Roots, **more: Any) -> Recovery:
    copies = sorted(map(str, roots[0].parent.glob("copy/*")))
    return Recovery(mode="merge", at=AT, full=True, accept_loss=True, copies=copies, **more)


@cache
def _remote(folder: Path) -> RemoteLogs:
    return RemoteLogs(open_tier(str(folder / "remote")))


def _restore(roots: Roots, **more: Any) -> Recovery:
    return Recovery(remote_logs=_remote(roots[0].parent), mode="remote", at=AT, accept_loss=True, **more)


def _recovery(roots: Roots, agreed: Any, **rules: Any) -> object:
    return recover(Recovery(at=AT, full=True, accept_loss=True, **rules), *roots, expected=agreed)


def _quorum() -> QuorumRecovery:
    return QuorumRecovery(
        way=QuorumWay.STANDALONE,
        others_are_gone=True,
        accept_loss=True,
        at=AT,
        stamp=AT,
        directory_id="AAAAAAAAAAMAAAAAAAAABA",
    )


def _latest(roots: Roots) -> list[str]:
    return [runs(root)[-1].run_id for root in roots]


def _purge(roots: Roots, _agreed: object) -> object:
    return purge(Purge(run_ids=_latest(roots)), *roots)


JOBS: dict[str, JobCase] = {
    "recover": JobCase(
        _damaged,
        _recovery,
        lambda roots: plan(Recovery(at=AT, full=True), *roots),
        lambda roots: plan(Recovery(at=AT, full=True, mode="salvage"), *roots),
        waits_for_others=False,
    ),
    "recover in mode kafka": JobCase(
        _damaged,
        lambda roots, agreed: _recovery(roots, agreed, mode="kafka"),
        lambda roots: plan(Recovery(mode="kafka", at=AT, full=True), *roots),
        lambda roots: plan(Recovery(at=AT, full=True), *roots),
        waits_for_others=False,
    ),
    "merge in place": JobCase(
        _with_copy,
        lambda roots, agreed: recover(_merge(roots), *roots, expected=agreed),
        lambda roots: plan(_merge(roots), *roots),
        lambda roots: plan(_merge(roots, cluster_metadata=True), *roots),
        waits_for_others=False,
    ),
    "restore": JobCase(
        _tiered,
        lambda roots, agreed: recover(_restore(roots), *roots, expected=agreed),
        lambda roots: plan(_restore(roots), *roots),
        lambda roots: plan(_restore(roots, full=True), *roots),
        waits_for_others=False,
    ),
    "rebuild indexes": JobCase(_without_index, lambda roots, _agreed: rebuild_indexes(IndexRebuild(at=AT), *roots)),
    "compact": JobCase(
        _compactable,
        lambda roots, agreed: compact(Compaction(config=CONFIG, at=AT), *roots, expected=agreed),
        lambda roots: plan_compaction(Compaction(config=CONFIG, at=AT), *roots),
        lambda roots: plan_compaction(Compaction(config=CONFIG, at=AT + 1), *roots),
    ),
    "undelete": JobCase(
        _deleted,
        lambda roots, agreed: undelete(Undelete(topic="t", at=AT), *roots, expected=agreed),
        lambda roots: plan_undelete(Undelete(topic="t", at=AT), *roots),
        lambda roots: plan_undelete(Undelete(topic="t", at=AT, hold=True), *roots),
    ),
    "recover a quorum": JobCase(
        _controller,
        lambda roots, agreed: recover_quorum(_quorum(), *roots, expected=agreed),
        lambda roots: plan_quorum(_quorum(), *roots),
        lambda roots: plan_quorum(structs.replace(_quorum(), stamp=AT + 1), *roots),
        several=False,
    ),
    "undo": JobCase(
        _recovered,
        lambda roots, _agreed: undo(Undo(run_ids=_latest(roots) if len(roots) > 1 else ()), *roots),
        begins_run=False,
        waits_for_others=False,
    ),
    "purge": JobCase(_recovered, _purge, begins_run=False, waits_for_others=False),
}  # fmt: skip
NEW_RUNS = [name for name, job in JOBS.items() if job.begins_run]
WITH_PLAN = [name for name, job in JOBS.items() if job.agree is not None]
TOGETHER = [name for name, job in JOBS.items() if job.several]
WAITING = [name for name, job in JOBS.items() if job.waits_for_others]
COMPLETING = [name for name in JOBS if name not in (*WAITING, "purge")]
"""Their next call completes an execution that was cut short, or undoes it."""
ACCIDENTS = {
    "locked": [*JOBS],
    "cut short": [*WAITING, *COMPLETING, "purge"],
    "of another machine": [*JOBS],
    "changed since the plan": [*WITH_PLAN, "undo"],
    "read-only": [*JOBS],
    "full disk": [*NEW_RUNS, "undo"],
    "the second of two refuses": TOGETHER,
    "interrupt at each step": [*NEW_RUNS, "undo", "purge"],
}
"""Accident -> the jobs that meet it in the tests below."""
NOT_POSSIBLE = {
    ("changed since the plan", "rebuild indexes"): "it takes no plan",
    ("changed since the plan", "purge"): "it takes no plan, and looks at no log",
    ("full disk", "purge"): "it only removes",
    ("the second of two refuses", "recover a quorum"): "one plan is made for all of its directories, or none",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


def refused(job: JobCase, roots: Roots, agreed: object = None) -> RecoveryRefused:
    """Do a job that must refuse, and compare everything in the folder, quarantines too, with what was there."""
    folder = roots[0].parent
    before = stamps(folder)
    with pytest.raises(RecoveryRefused) as raised:
        job.work(roots, agreed)
    difference = first_difference(dict(stamps(folder)), dict(before))
    assert difference == "", f"{raised.value}: {difference}"
    return raised.value


def test_each_job_meets_each_accident(measured: Callable[[str, int], None]) -> None:
    pairs = {(accident, name) for accident, names in ACCIDENTS.items() for name in names}
    assert pairs | set(NOT_POSSIBLE) == {(accident, name) for accident in ACCIDENTS for name in JOBS}
    assert pairs & set(NOT_POSSIBLE) == set()
    measured("pairs of a job and an accident", len(pairs))


@pytest.mark.parametrize("name", JOBS)
def test_each_has_something_to_do(name: str, folder: Path) -> None:
    root = JOBS[name].make(folder, 1)
    before = stamps(folder)
    JOBS[name].work([root], None)
    assert stamps(folder) != before


@pytest.mark.parametrize("name", ACCIDENTS["locked"])
def test_a_directory_in_use(name: str, folder: Path) -> None:
    root = JOBS[name].make(folder, 1)
    with held(root / ".lock"):
        assert refused(JOBS[name], [root]).reason == "locked"


@pytest.mark.parametrize("name", ACCIDENTS["the second of two refuses"])
def test_the_second_directory_is_in_use(name: str, folder: Path) -> None:
    roots = JOBS[name].roots(folder)
    with held(roots[1] / ".lock"):
        error = refused(JOBS[name], roots)
    assert error.reason == "locked"
    assert str(roots[1]) in str(error)


def _cut_short(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery is killed in the middle; damage is added first, so that there is something to recover."""
    recovery_point = root / "recovery-point-offset-checkpoint"
    recovery_point.write_text("nonsense")
    cut_short(lambda: recover(Recovery(accept_loss=True, at=AT, cluster_metadata=True), root)[0], monkeypatch)
    (root / ".lock").unlink(missing_ok=True)


@pytest.mark.parametrize("name", WAITING)
@pytest.mark.parametrize("which", [0, -1])
def test_a_run_was_cut_short(name: str, which: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roots = JOBS[name].roots(folder)
    _cut_short(roots[which], monkeypatch)
    error = refused(JOBS[name], roots)
    assert error.reason == "unfinished"
    assert len(roots) == 1 or str(roots[which]) in str(error)


@pytest.mark.parametrize("name", COMPLETING)
def test_a_run_that_was_cut_short_is_completed_or_undone(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = JOBS[name].make(folder, 1)
    before = _of_files(root)
    _cut_short(root, monkeypatch)
    assert standing(root).unfinished
    JOBS[name].work([root], None)
    assert not standing(root).unfinished
    if name != "undo":
        undo(root)
    point = "recovery-point-offset-checkpoint"  # which was damaged before the execution that was cut short
    assert (root / point).read_text() == "nonsense"
    assert first_difference(_of_files(root), {**before, point: stamps(root)[point]}) == ""


def test_what_a_run_that_was_cut_short_keeps_is_not_purged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = JOBS["purge"].make(folder, 1)
    _cut_short(root, monkeypatch)
    assert refused(JOBS["purge"], [root]).reason == "purge"


@pytest.mark.parametrize("name", ACCIDENTS["of another machine"])
def test_a_run_of_another_machine(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = JOBS[name].make(folder, 1)
    _cut_short(root, monkeypatch)
    monkeypatch.setattr(quarantine, "machine_id", lambda: "0123")
    assert refused(JOBS[name], [root]).reason == ("purge" if name == "purge" else "foreign")


@pytest.mark.parametrize("name", ACCIDENTS["changed since the plan"])
@pytest.mark.parametrize("which", [0, -1])
def test_a_directory_changed_since_the_plan(name: str, which: int, folder: Path) -> None:
    """Undo has no plan: the directory changed since the execution that it reverses."""
    roots = JOBS[name].roots(folder)
    agree = JOBS[name].agree
    agreed = None if agree is None else agree(roots)
    log = max(roots[which].glob("*/*.log"), key=lambda path: path.stat().st_size)
    with log.open("ab") as file:
        file.write(b"\0")
    assert refused(JOBS[name], roots, agreed).reason == "changed"


@pytest.mark.parametrize("name", WITH_PLAN)
def test_a_plan_for_another_request(name: str, folder: Path) -> None:
    job = JOBS[name]
    roots = job.roots(folder)
    assert job.agree_to_other is not None
    error = refused(job, roots, job.agree_to_other(roots))
    assert error.reason == "changed"
    assert "for another request" in str(error)


@pytest.mark.parametrize("name", sorted({*WITH_PLAN} & {*TOGETHER}))
def test_plans_for_other_directories(name: str, folder: Path) -> None:
    job = JOBS[name]
    roots = job.roots(folder)
    assert job.agree is not None
    agreed, before = job.agree(roots), stamps(folder)
    for plans, directories in ((agreed, roots[:1]), (agreed[:1], roots)):
        with pytest.raises((UsageError, RecoveryRefused)) as raised:
            job.work(directories, plans)
        assert isinstance(raised.value, UsageError) or name == "undelete"
        number = "expected has 2 plans for 1 log directory", "expected has 1 plan for 2 log directories"
        assert str(roots[1]) in str(raised.value) or str(raised.value).startswith(number)
    assert stamps(folder) == before
    if name != "undelete":  # whose plans are in no order
        error = refused(job, roots, agreed[::-1])
        assert (error.reason, f"is for {roots[1]}, not for {roots[0]}" in str(error)) == ("changed", True)


@pytest.mark.parametrize(
    ("make", "work"),
    [
        (_damaged, lambda root, agreed: recover(Recovery(accept_loss=True, at=AT), root, expected=agreed)),
        (_compactable, lambda root, agreed: compact(Compaction(config=CONFIG, at=AT), root, expected=agreed)),
    ],
)
def test_a_plan_for_some_of_the_partitions(
    make: Callable[[Path, int], Path], work: Callable[[Path, Any], object], folder: Path
) -> None:
    root = make(folder, 1)
    copy_tree(root / "t-1", root / "t-2")
    (root / "t-2" / "partition.metadata").unlink(missing_ok=True)
    before = stamps(folder)
    agreed = (plan_compaction(Compaction(config=CONFIG, at=AT), root / "t-1") if make is _compactable
              else plan(Recovery(at=AT), root / "t-1"))  # fmt: skip
    with pytest.raises(RecoveryRefused, match=r"made for other partitions: 1 partition \(t-2\) not in both"):
        work(root, agreed)
    assert stamps(folder) == before


@pytest.mark.parametrize("name", sorted({*NEW_RUNS} & {*TOGETHER}))
def test_the_quarantine_of_the_second_cannot_be_written(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = JOBS[name].roots(folder)
    kept = roots[1].with_name(roots[1].name + ".recovery")
    kept.mkdir()
    before = [stamps(path) for path in (*roots, kept)]
    make = FileSystem.make_directory

    def read_only(self: FileSystem, path: str, *more: Any) -> None:
        if self.root == str(kept):
            raise StorageError(errno.EROFS, os.strerror(errno.EROFS), os.path.join(self.root, path))
        make(self, path, *more)

    monkeypatch.setattr(FileSystem, "make_directory", read_only)
    with pytest.raises(StorageError) as raised:
        JOBS[name].work(roots, None)
    assert (raised.value.errno, raised.value.directories) == (errno.EROFS, (str(roots[1]),))
    assert [stamps(path) for path in (*roots, kept)] == before
    assert not roots[0].with_name(roots[0].name + ".recovery").exists()


@pytest.mark.parametrize("name", sorted({*NEW_RUNS} & {*TOGETHER}))
@pytest.mark.parametrize("kind", [StorageError, RecoveryRefused])
def test_the_second_directory_fails_after_the_first_was_changed(
    name: str, kind: type[KafkaLogError], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = JOBS[name].roots(folder)
    prepare = preparing.prepare

    def failing(disks: Any, *more: Any) -> Any:
        if disks.root.root == str(roots[1]):
            raise StorageError(errno.EIO, "no") if kind is StorageError else RecoveryRefused("no", reason="changed")
        return prepare(disks, *more)

    monkeypatch.setattr(runner, "prepare", failing)
    with pytest.raises(kind) as raised:
        JOBS[name].work(roots, None)
    (run,) = runs(roots[0])
    assert f"{roots[0]} was changed before that, by run {run.run_id}" in str(raised.value)
    assert str(roots[1]) not in str(raised.value) or kind is RecoveryRefused
    assert raised.value.directories == (str(roots[1]), str(roots[0]))
    assert not runs(roots[1])


@pytest.mark.parametrize("name", [name for name in WITH_PLAN if JOBS[name].waits_for_others])
def test_what_plans_refuses_an_interrupted_run_too(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = JOBS[name]
    roots = job.roots(folder)
    _cut_short(roots[-1], monkeypatch)
    before = stamps(folder)
    assert job.agree is not None
    with pytest.raises(RecoveryRefused) as raised:
        job.agree(roots)
    assert raised.value.reason == "unfinished"
    assert len(roots) == 1 or str(roots[-1]) in str(raised.value)
    assert stamps(folder) == before


@pytest.mark.parametrize("name", NEW_RUNS)
@pytest.mark.parametrize("which", [0, -1])
def test_a_directory_that_may_not_be_written(
    name: str, which: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = JOBS[name].roots(folder)
    access = os.access

    def denied(path: str, how: int, **more: Any) -> bool:
        return not (str(path).startswith(str(roots[which]) + "/") and how & os.W_OK) and access(path, how, **more)

    monkeypatch.setattr(permissions, "os", SimpleNamespace(**{**vars(os), "access": denied}))
    assert refused(JOBS[name], roots).reason == "permission"


def _of_files(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Without the times of directories, which the file of a lock changes."""
    return {path: each if each[2] != "directory" else (0, *each[1:]) for path, each in stamps(folder).items()}


@pytest.mark.parametrize("name", ACCIDENTS["read-only"])
def test_a_read_only_file_system(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = JOBS[name].make(folder, 1)
    before = _of_files(folder)

    def read_only(*_given: Any, **_more: Any) -> None:
        raise StorageError(errno.EROFS, os.strerror(errno.EROFS))

    for operation in CHANGING:
        monkeypatch.setattr(FileSystem, operation, read_only)
    with pytest.raises(StorageError) as raised:
        JOBS[name].work([root], None)
    assert raised.value.errno == errno.EROFS
    assert _of_files(folder) == before


@pytest.mark.parametrize("name", NEW_RUNS)
def test_a_full_disk(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roots = JOBS[name].roots(folder)
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=1, f_frsize=4096))
    assert refused(JOBS[name], roots).reason == "space"


@pytest.mark.parametrize("name", NEW_RUNS)
def test_a_file_where_the_second_keeps_what_it_removes(name: str, folder: Path) -> None:
    roots = JOBS[name].roots(folder)
    roots[-1].with_name(roots[-1].name + ".recovery").write_text("mine")
    error = refused(JOBS[name], roots)
    assert error.reason == "quarantine"


@pytest.mark.parametrize("name", NEW_RUNS)
def test_an_interrupt_at_each_step(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    """What it had done is taken back at once, or by undo; completed, it is what it would have been."""
    (folder / "made").mkdir()
    made = JOBS[name].make(folder / "made", 1)
    for number in range(1, 1000, 3):
        place = folder / str(number)
        copy_tree(folder / "made", place)
        root = place / made.name
        before = stamps(root)
        with failing_at(number, KeyboardInterrupt, monkeypatch) as count, suppress(KeyboardInterrupt):
            JOBS[name].work([root], None)
        if count[0] < number:
            break
        if standing(root).unfinished and number % 2:
            assert recover(Recovery(accept_loss=True, at=AT), root)[0].completed
        take_back_all(root, before, f"{name}, interrupted before change {number}", None)
        shutil.rmtree(place)
    assert number > 5
    measured(f"interrupts of {name} after which everything came back", number // 3)


def test_an_interrupted_purge_is_done_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 60):
        place = folder / str(number)
        place.mkdir()
        root = JOBS["purge"].make(place, 1)
        before = stamps(root)
        with failing_at(number, KeyboardInterrupt, monkeypatch) as count, suppress(KeyboardInterrupt):
            JOBS["purge"].work([root], None)
        if runs(root):
            JOBS["purge"].work([root], None)
        assert not runs(root)
        assert stamps(root) == before
        if count[0] < number:
            break
    assert number > 5


def _full() -> StorageError:
    return StorageError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("failure", [KeyboardInterrupt, _full], ids=["interrupt", "full disk"])
def test_an_interrupted_undo_is_done_again(failure: Failure, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = _damaged(folder, 1)
    before = stamps(root)
    recover(Recovery(accept_loss=True, at=AT, full=True), root)
    for number in range(1, 40, 3):
        with failing_at(number, failure, monkeypatch) as count, suppress(KeyboardInterrupt, StorageError):
            undo(root)
        if count[0] < number:
            break
        with suppress(RecoveryRefused):  # there is none any more if the undo had come to its end
            undo(root)
        assert first_difference(dict(stamps(root)), dict(before)) == ""
        recover(Recovery(accept_loss=True, at=AT, full=True), root)
