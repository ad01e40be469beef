"""Only what a process has made itself is removed, and what others are at is asked for when the lock is held."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.common.errors import KafkaLogError, RecoveryRefused, StorageError, UsageError
from kafkalog.log.disk import fs, lock
from kafkalog.log.disk.holders import held_by_us
from kafkalog.recovery.act import operations, preparing
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.journal import JOURNAL, PREPARING
from kafkalog.recovery.act.purging import purge
from kafkalog.recovery.act.working_copy import copy_for, new_tree
from kafkalog.recovery.facts.run_requests import Purge
from testkit.made.batches import simple
from testkit.running.command import kafkalog as command

DAMAGED = bytearray(simple(base_offset=1))
DAMAGED[-1] ^= 1


class Killed(BaseException):
    """In place of a kill."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    for name, content in (("t-0", simple() + bytes(DAMAGED) + simple(base_offset=2)), ("u-0", simple())):
        (root / name).mkdir(parents=True)
        (root / name / f"{0:020d}.log").write_bytes(content)
        (root / name / "partition.metadata").write_text("version: 0\ntopic_id: EY8sFxa5y9ipvMtiaRixAA")
    (root / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    return root


@pytest.fixture
def half_done(data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recovery was killed when it had cut the log."""
    do = operations.CutOff.do

    def killed(self: operations.CutOff, disks: operations.Disks) -> None:
        do(self, disks)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(operations.CutOff, "do", killed)
        with pytest.raises(Killed):
            kafkalog.recover(kafkalog.Recovery(accept_loss=True), data)
    (data / ".lock").unlink(missing_ok=True)
    return data


# --- what is removed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RecoveryRefused("no"), StorageError(errno.EIO, "I/O error"), KeyboardInterrupt()])
@pytest.mark.parametrize("there", [True, False])
def test_of_a_copy_that_came_to_nothing_only_that_goes(
    error: BaseException, there: bool, data: Path, tmp_path: Path
) -> None:
    target = tmp_path / "below" / "copy"
    if there:
        target.mkdir(parents=True)

    def work(_root: str, _lacking: object) -> None:
        (target / "theirs.txt").write_text("somebody else's")
        (target / "t-0" / "theirs.log").write_text("somebody else's")
        (target / "u-0" / "theirs").write_text("somebody else's, under the name of ours")
        (target / "u-0" / "theirs").rename(target / "u-0" / f"{0:020d}.log")
        raise error

    with pytest.raises(type(error)):
        copy_for(data, target, work)
    left = sorted(str(each.relative_to(target)) for each in target.rglob("*") if each.is_file())
    assert left == ["t-0/theirs.log", "theirs.txt", f"u-0/{0:020d}.log"]


def test_of_a_copy_to_which_nobody_came_nothing_is_left(data: Path, tmp_path: Path) -> None:
    with pytest.raises(RecoveryRefused):
        copy_for(data, tmp_path / "below" / "copy", lambda *_: (_ for _ in ()).throw(RecoveryRefused("no")))
    assert not (tmp_path / "below").exists()


def _fill(target: str, *names: str) -> None:
    with new_tree(target) as made:
        for name in names:
            made.make_directory(name)


def test_who_comes_second_into_a_new_directory_leaves_the_first_ones_work(data: Path, tmp_path: Path) -> None:
    with new_tree(str(tmp_path / "new")) as first:
        first.make_directory("t-0")
        with pytest.raises(StorageError):
            _fill(str(tmp_path / "new"), "a-0", "t-0")
        assert [each.name for each in (tmp_path / "new").iterdir()] == ["t-0"]
    assert (tmp_path / "new" / "t-0").is_dir()


def test_what_a_run_needs_that_was_cut_short_stays(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = FileSystem.truncate

    def failing(self: FileSystem, path: str, *rest: object) -> None:
        if path.endswith(".log"):
            raise StorageError(errno.EIO, "Input/output error", path)
        cut(self, path, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(FileSystem, "truncate", failing)
        finished = command("recover", "--yes", "--accept-loss", "--into", tmp_path / "copy", data)
    assert finished.code == 4
    assert "has begun and is not finished" in finished.err
    assert command("recover", "--yes", "--accept-loss", tmp_path / "copy").code == 2


def test_a_directory_is_removed_itself_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "home")
    with pytest.raises(StorageError, match="a link or a file"):
        fs.remove_tree(str(tmp_path / "link"))
    (tmp_path / "ours" / "below").mkdir(parents=True)
    (tmp_path / "ours" / "below" / "link").symlink_to(tmp_path / "home")
    with pytest.raises(StorageError, match="another directory"):
        fs.remove_tree(str(tmp_path / "ours"), inode=(tmp_path / "home").stat().st_ino)
    assert (tmp_path / "ours" / "below" / "link").is_symlink()
    fs.remove_tree(str(tmp_path / "ours"), inode=(tmp_path / "ours").stat().st_ino)
    fs.remove_tree(str(tmp_path / "ours"))
    assert not (tmp_path / "ours").exists()
    assert (tmp_path / "home" / "file").exists()


def test_a_run_that_another_process_prepares_is_not_nobodys(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a quarantine of several directories; it looks like one that was stopped before it began."""
    kept = tmp_path / "kept"
    with monkeypatch.context() as patch:
        patch.setattr(preparing._Preparation, "journal", lambda *_: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            kafkalog.recover(kafkalog.Recovery(quarantine=kept, accept_loss=True), data)
    (other,) = kept.iterdir()
    assert [each.name for each in other.iterdir()] == [PREPARING]
    held = os.open(other, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)  # as who prepares a run does, in another process
    try:
        run = kafkalog.recover(kafkalog.Recovery(quarantine=kept, accept_loss=True), data)[0].run_id
        assert run is not None
        assert (other / PREPARING).exists()
        assert other.name in purge(Purge(run_ids=[other.name], quarantine=kept), data)[0].left
        assert (other / PREPARING).exists()
    finally:
        os.close(held)
    purge(Purge(run_ids=[other.name], quarantine=kept), data)
    assert [each.name for each in kept.iterdir()] == [run]


# --- what is asked under the lock -----------------------------------------------------------------------------------


def append(root: Path) -> None:
    with kafkalog.Log.open(root / "u-0") as log:
        log.append([b"new"])


def produce(root: Path) -> None:
    with kafkalog.Producer(root) as producer:
        producer.send("u", b"new")


def commit(root: Path) -> None:
    kafkalog.commit_offsets(root, "group", {("u", 0): 1})


def build(root: Path) -> None:
    lines = root.parent / "lines.jsonl"
    lines.write_text('{"value": "new"}\n')
    if command("build", "--append", "--topic", "u", "--into", root, lines).code == 3:
        raise RecoveryRefused("build")


WRITERS: dict[str, Callable[[Path], None]] = {"log": append, "producer": produce, "offsets": commit, "build": build}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_writer_asks_once_it_has_the_lock(writer: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    ask = lock.refuse_half_done

    def noted(path: str) -> None:
        asked.append((os.path.exists(os.path.join(path, ".lock")), held_by_us(path)))
        ask(path)

    monkeypatch.setattr(lock, "refuse_half_done", noted)
    WRITERS[writer](data)
    assert asked
    assert all(each == (True, True) for each in asked), asked


@pytest.mark.parametrize("writer", WRITERS)
def test_no_writer_writes_into_what_is_half_done(writer: str, half_done: Path) -> None:
    names = sorted(each.name for each in half_done.rglob("*"))
    with pytest.raises(RecoveryRefused):
        WRITERS[writer](half_done)
    assert sorted(each.name for each in half_done.rglob("*")) == names
    assert kafkalog.recover(kafkalog.Recovery(accept_loss=True), half_done)[0].earlier.completed


@pytest.mark.parametrize("version", [1, 2, 4])
@pytest.mark.parametrize("document", [JOURNAL, "undoing.json", "closing.json"])
def test_a_run_of_another_version_that_was_cut_short_is_met_by_all(version: int, document: str, data: Path) -> None:
    """Earlier versions did not name their runs in the directory; what a later one does nobody knows."""
    run = data.parent / "data.recovery" / "20250101T000000.000000Z-0123abcd"
    run.mkdir(parents=True)
    body = json.dumps({"mode": "safe", "version": version})
    (run / document).write_text(f'{{"crc32c": "00000000", "journal": {body}}}\n')
    for writer in WRITERS.values():
        with pytest.raises(KafkaLogError):
            writer(data)
    for words in (("verify",), ("ls",), ("dump", "--json")):
        finished = command(*words, data)
        assert "another version" in finished.out + finished.err, words
        assert finished.code == 1, words
    shutil.rmtree(run)
    append(data)


READERS = [
    ("ls",), ("verify",), ("dump", "--json"), ("find", "--time", "latest"), ("find", "--offset", "0", "--json"),
    ("top",), ("top", "--by", "key", "--json"), ("retention",), ("transactions",), ("plan",),
]  # fmt: skip


def test_a_comparison_says_that_a_directory_is_half_done(half_done: Path, tmp_path: Path) -> None:
    shutil.copytree(half_done, tmp_path / "other" / "data")
    finished = command("compare", half_done, tmp_path / "other" / "data")
    assert "was cut short" in finished.err
    assert finished.code == 1


def test_every_reader_says_that_a_directory_is_half_done(half_done: Path, tmp_path: Path) -> None:
    for words in READERS:
        finished = command(*words, half_done)
        assert "was cut short" in finished.out + finished.err, words
        assert finished.code == 1, words
    finished = command("export", half_done, "--format", "parquet", "--to", tmp_path / "table", "--values", "bytes")
    assert finished.code == 3
    assert "was cut short" in finished.err
    assert not (tmp_path / "table").exists()
    partition = kafkalog.open_partition(half_done / "t-0")
    assert any("was cut short" in str(each.detail) for each in partition.findings)


# --- what is told ---------------------------------------------------------------------------------------------------


def test_an_error_in_the_middle_is_told_with_what_the_run_has_done(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = FileSystem.truncate

    def failing(self: FileSystem, path: str, *rest: object) -> None:
        if path.endswith(".log"):
            raise StorageError(errno.EIO, "cannot cut the file: Input/output error", path)
        cut(self, path, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(FileSystem, "truncate", failing)
        finished = command("recover", "--yes", "--accept-loss", "--json", data)
    assert finished.code == 4
    (report,) = finished.objects
    assert report["changed"] is True
    assert Path(report["quarantine"]).name == report["run_id"]
    assert f"run {report['run_id']} on {data} has begun and is not finished: kafkalog recover" in finished.err
    assert kafkalog.recover(kafkalog.Recovery(accept_loss=True), data)[0].earlier.completed == (report["run_id"],)


def test_an_error_before_the_run_is_told_as_nothing(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        FileSystem, "save", lambda *_, **__: (_ for _ in ()).throw(StorageError(errno.EIO, "I/O error", "x"))
    )
    finished = command("recover", "--yes", "--accept-loss", "--json", data)
    (report,) = finished.objects
    assert (report["changed"], report["run_id"]) == (False, None)
    assert "has begun" not in finished.err


def test_a_file_that_may_only_grow_is_met_before_the_run_begins(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `chattr +a` makes it; not every file system that tests run on has such attributes."""
    log = data / "t-0" / f"{0:020d}.log"
    inode = log.stat().st_ino

    def flags(descriptor: int, request: int, argument: bytearray) -> int:
        assert request == 0x80086601  # FS_IOC_GETFLAGS
        argument[:4] = (0x20 if os.fstat(descriptor).st_ino == inode else 0).to_bytes(4, "little")
        return 0

    before = {each: each.stat().st_mtime_ns for each in data.rglob("*")}
    monkeypatch.setattr("kafkalog.recovery.act.permissions.fcntl.ioctl", flags)
    with pytest.raises(RecoveryRefused, match="append-only"):
        kafkalog.recover(kafkalog.Recovery(accept_loss=True), data)
    assert {each: each.stat().st_mtime_ns for each in data.rglob("*")} == before


def test_a_rename_across_layers_is_told_as_that(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data / "foreign").mkdir()
    rename = os.rename

    def across(path: str, target: str, **where: int) -> None:
        if path == "foreign":
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(path, target, **where)

    monkeypatch.setattr(os, "rename", across)
    finished = command("recover", "--yes", "--accept-loss", data)
    assert finished.code == 4
    assert "an overlay" in finished.err
    assert "has begun and is not finished" in finished.err


def test_a_lock_is_given_up_where_a_writer_is_refused(half_done: Path) -> None:
    for _ in range(2):
        with pytest.raises(RecoveryRefused, match="half done"):
            append(half_done)
        assert not (half_done / ".lock").exists()
    with pytest.raises(UsageError):
        kafkalog.Log.open(half_done / "no partition")
